// The game on one text, word by word: what is hidden, and what the model says then.

const bar = (chance, kind) => {
  const track = node("span", { class: `bar ${kind}`, "aria-hidden": "true" }, node("span"));
  track.firstChild.style.width = `${100 * chance}%`;
  return track;
};

/** The text after so many steps: hidden words are struck out, those of this step in bold. */
function textAfter(pieces, gone, before) {
  const line = node("p", { class: "quote", dir: "auto" });
  for (const [piece, place] of pieces) {
    if (place === null || place >= gone) line.append(piece);
    else line.append(node("del", { class: place >= before ? "now" : "" }, piece));
  }
  return line;
}

function drawExample() {
  const found = data.example;
  byId("example").hidden = !found;
  if (!found) return;
  const { method, pieces, says, steps, areas, faithfulness, mean } = found;
  const random = steps.every(([, , other]) => other !== null);
  byId("example-note").append(
    "A real text of this board, on which ",
    node("b", {}, method),
    " is about as good as on the others. Its words are hidden in the order in which that method ranks them, and the model is asked again each time how sure it is of ",
    node("b", {}, node("bdi", {}, says)),
    ". A good order makes it unsure soon.",
  );
  byId("steps").append(
    ...steps.map(([gone, chance, other], at) =>
      node(
        "li",
        {},
        node("span", { class: "gone" }, gone ? `${gone} hidden` : "whole text"),
        textAfter(pieces, gone, at ? steps[at - 1][0] : 0),
        node("span", { class: "sure" }, bar(chance, "own"), node("b", {}, `${Math.round(100 * chance)} %`)),
        random
          ? node(
              "span",
              { class: "sure" },
              bar(other, "chance"),
              node("span", { class: "aside" }, `${Math.round(100 * other)} % in random order`),
            )
          : "",
      ),
    ),
  );
  byId("example-sum").append(
    ...explained(
      `On average over the way the model is ${decimals(areas.hiding)} sure. With the words brought back in the same order it is ${decimals(areas.revealing)} sure. The difference, ${decimals(faithfulness)}, is this text’s faithfulness; the mean over all texts, by which methods are ranked, is ${decimals(mean)}.`,
    ),
  );
}
