// The page as a whole.

function drawSaid() {
  byId("eyebrow").hidden = !answer && data.wrote === null;
  if (data.wrote !== null) {
    byId("eyebrow").textContent = "The model wrote";
    byId("answer").replaceChildren(node("bdi", {}, data.wrote));
    byId("settled").replaceChildren(...explained(data.said));
  } else if (answer) {
    const chance = node("span", { class: "chance" }, percent(answer.probability));
    byId("answer").replaceChildren(node("bdi", {}, answer.label), " ", chance);
    byId("settled").replaceChildren(...explained(data.said));
  } else byId("answer").textContent = data.said;
  byId("sources").append(...data.sources.map((source) => node("p", { class: "source", dir: "auto" }, source)));
  byId("warnings").hidden = !data.warnings.length;
  byId("warning-list").append(...data.warnings.map((warning) => node("li", {}, warning)));
  drawMade(data.facts);
}

drawSaid();
listPaths();
drawLensSquares(
  data.lens,
  data.tokens.label.map((label, at) => ({ label, special: data.tokens.special[at] === 1 })),
);
listenToSquares();
if (data.followed !== null) showFrom(data.followed); // what was written, not how the prompt begins
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
