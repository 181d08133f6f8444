// The frame: what to know before believing it, what colour means, what was explained, with what, and at what cost.

const valueWords = ({ value }) => (value === null ? "" : ` = ${number(value)}`);

function drawWarnings(text) {
  const from = (run) => (text.runs.length > 1 ? [node("b", {}, `${run.about.label}: `)] : []);
  const found = text.runs.flatMap((run) => run.warnings.map((warning) => node("li", {}, ...from(run), warning)));
  byId("warnings").hidden = !found.length;
  byId("warning-list").replaceChildren(...found);
}

/** What colour means, in words and in the very colours of the text, with the range of scores; `kind` names the pieces. */
function drawLegend(run, layer, full, row, pieces, kind) {
  const { meaning } = run;
  const shares = meaning.signed ? [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1] : [0, 0.25, 0.5, 0.75, 1];
  const swatches = shares.map((share) => {
    const swatch = node("span", { class: "swatch" });
    colourMark(swatch, share, 1, meaning.signed);
    return swatch;
  });
  const words = row.filter((_, at) => !pieces[at].special);
  const most = Math.max(...words.map(Math.abs));
  const more = most > full ? " and more" : "";
  byId("ramp").replaceChildren(...swatches);
  byId("ramp-low").textContent = meaning.signed ? `${number(-full, full, true)}${more} against` : "0";
  byId("ramp-high").textContent = meaning.signed ? `for ${number(full, full, true)}${more}` : number(full, full) + more;
  byId("legend-sentence").replaceChildren(...legendWords(run), ` ${run.scale}`);
  byId("score-meaning").replaceChildren(node("b", {}, meaning.name), `: ${meaning.sentence}.`);
  byId("target").replaceChildren(
    "Explained: ",
    node("b", {}, node("bdi", {}, targetNow(run).words)),
    valueWords(targetNow(run)),
    ".",
  );
  const [low, high] = [number(Math.min(...words), most), number(Math.max(...words), most)];
  const sentences = [
    `${meaning.range};`,
    `at ${layerPhrase(run.layers[layer])}, those of ${kind}s run from ${low} to ${high}.`,
    kind === "sub-word"
      ? ""
      : `A ${kind} has ${meaning.additive ? "the sum" : "the strongest"} of its sub-words' scores.`,
    most ? "" : `All scores of ${kind}s are zero here.`,
  ];
  byId("legend-range").textContent = sentences.filter(Boolean).join(" ");
}

/** What the colours say, in a sentence. */
function legendWords({ meaning }) {
  const words = meaning.signed
    ? "Blue speaks for it, orange (dashed) against it; the deeper, the more."
    : "The deeper the blue, the more; there is no sign.";
  return [`${words} `, term("no colour", "No colour"), ": next to nothing."];
}

/** How far the methods rank the words alike, each at the layer of a step. */
function drawCorrelations(text, step) {
  const { runs } = text;
  byId("correlation").hidden = runs.length < 2 || text.pieces.words.filter((piece) => !piece.special).length < 2;
  if (byId("correlation").hidden) return;
  byId("correlation-title").textContent = `Do the methods rank the ${text.entry.unit}s alike?`;
  const rows = runs.map((run, one) => {
    const at = node("span", { class: "at" }, ` ${layerName(run.layers[text.entry.steps[step].at[one]])}`);
    const name = node("span", {}, `${one + 1}  `, node("bdi", {}, shortened(run.about.label, 60)), at);
    const cells = runs.map((_, other) => tauCell(correlationOf(text, step, one, other)));
    cells[one].classList.add("same");
    return [name, ...cells];
  });
  const heads = runs.map((run, at) => node("span", { title: run.about.label }, String(at + 1)));
  fillTable(byId("matrix"), heads, rows);
}

const layersOf = (layers) =>
  layers.length === 1
    ? layerName(layers[0])
    : `${layerName(layers[0])} … ${layerName(layers[layers.length - 1])} (${layers.length})`;

function completenessOf(run) {
  if (!run.completeness) return "not reported by this method";
  return run.completeness
    .map((error, layer) => `${number(error)}${run.layers.length > 1 ? ` at ${layerName(run.layers[layer])}` : ""}`)
    .join(", ");
}

function tokenWords(tokens) {
  const written = tokens.filter((token) => token.written).length;
  const special = plural(tokens.filter((token) => token.special && !token.written).length, "special one");
  return written
    ? `${tokens.length - written} of the prompt (${special}), ${written} of the response`
    : `${tokens.length}, of which ${tokens.filter((token) => token.special).length} special`;
}

function drawFacts(text, chosen) {
  const model = data.models[text.entry.model];
  const { tokens } = text.pieces;
  const common = factList([
    ["model", model.id],
    ["revision", model.revision ?? "not recorded"],
    ["architecture", `${model.architecture}, ${model.task.replaceAll("_", " ")}`],
    ["tokens", tokenWords(tokens)],
  ]);
  const each = text.runs.map((run) => {
    const name = node("h3", {}, shortened(run.about.label, 120));
    if (run === chosen && text.runs.length > 1) name.append(node("span", { class: "aside" }, "  shown in the text"));
    const facts = factList([
      ["score", `${run.meaning.name}: ${run.meaning.sentence}`],
      ["explains", run.target.words + valueWords(run.target)],
      ["layers", layersOf(run.layers)],
      ["options", run.about.options || "none"],
      ["seed", String(run.about.seed)],
      ["cost", run.cost],
      [term("completeness error"), completenessOf(run)],
      ...run.notes.map((note) => ["note", note]),
    ]);
    return node("div", { class: "card" }, name, node("dl", { class: "pairs" }, ...facts));
  });
  byId("facts").replaceChildren(node("dl", { class: "pairs" }, ...common), node("div", { class: "cards" }, ...each));
}
