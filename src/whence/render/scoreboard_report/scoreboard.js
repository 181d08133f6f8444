// The page as a whole.

function showGamesOf(entry) {
  drawGames(byId("games"), entry);
  byId("games-note").textContent = `Mean probability of the model’s decision with ${entry.name}; the other methods in grey.`;
  byId("games-legend").replaceChildren(
    node("span", { class: "key chosen" }, entry.name),
    ...data.entries.filter((each) => each.kind === "control").map((each) => node("span", { class: `key ${each.name}` }, each.name)),
  );
}

function begin() {
  document.title = `${data.title} ${data.model}`;
  byId("title").textContent = `${data.title} ${data.model} on ${data.nTexts} texts`;
  byId("made-by").textContent = `Made by whence ${data.version}. This page holds all it shows and loads nothing.`;
  byId("theme").addEventListener("change", (event) => {
    if (event.target.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = event.target.value;
  });
  drawVerdict();
  listMetrics();
  drawRanking(HEADLINE);
  const known = data.entries.some((entry) => entry.kind !== "control" && passesOf(entry));
  byId("cost").hidden = !known;
  if (known) {
    drawPareto(byId("pareto"));
    window.addEventListener("resize", () => drawPareto(byId("pareto")));
  }
  showGamesOf(data.entries[data.rankings[HEADLINE].find(({ ranks }) => ranks[0] > 0).entry]);
  drawStages();
  drawDisputed();
  drawAgreement();
  drawNumbers();
  drawFacts();
}

begin();
