// The line: how likely something is said to be at each layer, and which rank it has there.

const answer = data.answer;
const opened = openLens(data.lens, data.tokens.label.length);

/** What is followed through the layers: the model's answer, or the token that is sought in a state. */
function pathOf(followed) {
  if (followed === "answer")
    return {
      name: answer.label,
      layers: answer.layers,
      chances: answer.probabilities,
      ranks: answer.ranks,
      said: answer.said,
      note: answer.caption,
    };
  const position = Number(followed);
  const squares = opened.layers.map((_, layer) => opened.at(layer, position));
  const follows = opened.nextToken;
  const name = data.tokens.label[follows ? position + 1 : position];
  return {
    name,
    layers: opened.layers,
    chances: squares.map(({ chance }) => chance),
    ranks: squares.map(({ rank }) => rank),
    said: squares.map(({ read }) => read[0].word),
    note: follows
      ? `How likely the head of ${opened.head} finds ${name} as the token after ${data.tokens.label[position]}, in that token’s state at each layer.`
      : `How likely the head of ${opened.head} finds ${name} itself in its own state at each layer.`,
  };
}

const RANKS = [1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1_000_000];

function drawPath(followed) {
  const { name, layers, chances, ranks, said, note } = pathOf(followed);
  const names = layers.map(layerShort);
  const worst = Math.max(...ranks);
  const shown = RANKS.slice(0, Math.max(2, RANKS.findIndex((rank) => rank >= worst) + 1));
  byId("chance-title").replaceChildren("Probability of ", node("bdi", {}, name));
  byId("rank-title").replaceChildren("Its ", term("rank"), "; 1 is the likeliest");
  drawLines(byId("chances"), {
    label: `Probability of ${name} by layer`,
    names,
    axis: "layer →",
    lines: [{ kind: "own", name, values: chances, said: percent }],
    ticks: [0, 0.25, 0.5, 0.75, 1].map((value) => [value, `${100 * value} %`]),
  });
  drawLines(byId("ranks"), {
    label: `Rank of ${name} by layer`,
    names,
    axis: "layer →",
    lines: [{ kind: "own", name, values: ranks, said: String }],
    ticks: shown.map((rank) => [rank, rank.toLocaleString("en")]),
    at: (rank) => -Math.log10(rank),
  });
  byId("path-note").replaceChildren(...explained(note));
  fillTable(
    byId("path-table"),
    ["probability", "rank", "likeliest here"],
    layers.map((layer, index) => [
      layerName(layer),
      node("td", {}, percent(chances[index])),
      node("td", {}, ranks[index].toLocaleString("en")),
      node("td", {}, node("bdi", {}, said[index])),
    ]),
  );
}

/** The choices: the answer first, then every token that is sought somewhere. */
function listPaths() {
  const choices = answer ? [node("option", { value: "answer" }, `the answer: ${answer.label}`)] : [];
  const last = data.tokens.label.length - (opened.nextToken ? 1 : 0);
  for (let position = 0; position < Math.min(last, MOST_LINES); position += 1) {
    const label = data.tokens.label[opened.nextToken ? position + 1 : position];
    choices.push(node("option", { value: position }, `${position + 1}  ${label}`));
  }
  byId("follow").append(...choices);
  if (data.followed !== null && data.followed < MOST_LINES) byId("follow").value = String(data.followed);
  byId("path").hidden = !choices.length;
  if (!choices.length) return;
  byId("follow").addEventListener("change", (event) => drawPath(event.target.value));
  drawnToFit(() => drawPath(byId("follow").value));
}
