// The page as a whole.

function showGamesOf(entry) {
  drawGames(byId("games"), entry);
  byId("games-note").textContent =
    `Mean probability of the model’s decision with ${entry.name}; the other methods in grey.`;
  byId("games-legend").replaceChildren(
    node("span", { class: "key chosen" }, entry.name),
    ...data.entries
      .filter((each) => each.kind === "control")
      .map((each) => node("span", { class: `key ${each.name}` }, each.name)),
  );
}

function begin() {
  drawVerdict();
  drawExample();
  listMetrics();
  drawRanking(HEADLINE);
  const known = data.entries.some((entry) => entry.kind !== "control" && entry.passes);
  byId("cost").hidden = !known;
  if (known) {
    drawnToFit(() => drawPareto(byId("pareto")));
  }
  const best = data.entries[data.rankings[HEADLINE].find(({ ranks }) => ranks[0] > 0).entry];
  showGamesOf(data.entries.find((entry) => entry.name === data.believe[0]) ?? best);
  drawSets();
  drawWays();
  drawStages();
  drawDisputed();
  drawCorrelations();
  drawNumbers();
  drawFacts();
}

begin();
