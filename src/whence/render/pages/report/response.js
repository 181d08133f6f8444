// A response: point at a word or sentence of it, and the prompt shows what that rests on.

const MOST_COLUMNS = 60; // words of the response beside each other in the table
const FEW_COLUMNS = 12; // that have room for their words written level
const MOST_ROWS = 40; // pieces of the prompt below each other there: the strongest

const pointing = { kind: "words", pinned: null, at: null };

/** The part that is pointed at, or pinned by a click; null: the response as a whole. */
const partNow = () => text.entry.response?.[pointing.kind][pointing.at ?? pointing.pinned] ?? null;

const strongestOf = (scores) => scores.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
const gatheredBy = ({ meaning }, scores) =>
  meaning.additive ? scores.reduce((a, b) => a + b, 0) : strongestOf(scores);

/** The outputs of a run that stand at some positions of the text. */
const outputsAt = (run, positions) =>
  run.outputs ? run.outputs.positions.flatMap((position, at) => (positions.includes(position) ? [at] : [])) : [];

/** A score of some outputs together, for a piece of the prompt at a layer. */
function scoreOfOutputs(run, outputs, layer, { tokens }) {
  const width = text.pieces.tokens.length;
  const table = run.outputs.scores;
  const of = (token) =>
    gatheredBy(
      run,
      outputs.map((output) => table[(output * run.layers.length + layer) * width + token]),
    );
  return gatheredBy(run, tokens.map(of));
}

/** Scores are those of the part pointed at, where a run tells the tokens of the response apart. */
function pointRuns() {
  const part = partNow();
  for (const run of text.runs) {
    const outputs = part ? outputsAt(run, part.tokens) : [];
    run.pointed = outputs.length ? (layer, piece) => scoreOfOutputs(run, outputs, layer, piece) : null;
  }
  tables = text.runs.map((run) => tableOf(run, every));
}

/** What is explained of the response now, and its value. */
function targetNow(run) {
  const part = partNow();
  const outputs = part ? outputsAt(run, part.tokens) : [];
  if (!outputs.length) return run.target;
  const values = outputs.map((output) => run.outputs.values[output]);
  const value =
    run.outputs.scale === "probability" ? values.reduce((a, b) => a * b, 1) : values.reduce((a, b) => a + b, 0);
  const words = text.sources[1].slice(part.start, part.end).join("");
  return { words: `${run.outputs.scale.replace("_", " ")} of ${shortened(words, 80)}`, value };
}

function drawResponse() {
  const { response } = text.entry;
  byId("response").hidden = byId("pairs").hidden = !response;
  Object.assign(pointing, { pinned: null, at: null });
  if (!response) return;
  byId("part-control").hidden = !text.runs.some((run) => run.outputs);
  drawParts();
}

function drawParts() {
  const block = byId("written");
  block.replaceChildren();
  let done = 0;
  text.entry.response[pointing.kind].forEach(({ start, end, tokens }, at) => {
    block.append(...stretch(text, 1, done, start));
    const told = text.runs.some((run) => outputsAt(run, tokens).length);
    const attributes = told
      ? { class: "part", role: "button", tabindex: 0, "data-part": at, "aria-pressed": "false" }
      : {};
    block.append(node("span", attributes, ...stretch(text, 1, start, end)));
    done = end;
  });
  block.append(...stretch(text, 1, done, text.sources[1].length));
  markParts();
}

function markParts() {
  const now = pointing.at ?? pointing.pinned;
  for (const part of byId("written").querySelectorAll(".part")) {
    part.classList.toggle("now", Number(part.dataset.part) === now);
    part.setAttribute("aria-pressed", String(Number(part.dataset.part) === pointing.pinned));
  }
}

/** Scores of what is pointed at now. The sentence above may need another line for them: what is under the pointer stays
 * there all the same. */
function showPointed() {
  const before = byId("written").getBoundingClientRect().top;
  pointRuns();
  showScores();
  scrollBy({ top: byId("written").getBoundingClientRect().top - before, behavior: "instant" });
}

/** Point at a part, or with null at none; a pinned one then shows again. */
function pointAt(at) {
  if (pointing.at === at) return;
  pointing.at = at;
  showPointed();
}

function pin(at) {
  pointing.pinned = pointing.pinned === at ? null : at;
  pointing.at = null;
  showPointed();
}

function setPartKind(kind) {
  Object.assign(pointing, { kind, pinned: null, at: null });
  byId(`part-${kind}`).checked = true;
  pointRuns();
  drawParts();
  showScores();
}

/** Prompt × response at the layer shown: the strongest pieces of the prompt, and the words of the response. */
function drawPairs(run, layer) {
  const { response } = text.entry;
  byId("pairs").hidden = !response || !run.outputs;
  if (byId("pairs").hidden) return;
  const parts = response.words.filter(({ tokens }) => outputsAt(run, tokens).length).slice(0, MOST_COLUMNS);
  const columns = parts.map(({ tokens }) => outputsAt(run, tokens));
  const rows = every
    .filter((piece) => !piece.special)
    .map((piece) => ({ piece, scores: columns.map((outputs) => scoreOfOutputs(run, outputs, layer, piece)) }))
    .map((row) => ({ ...row, most: Math.abs(strongestOf(row.scores)) }));
  const kept = [...rows].sort((a, b) => b.most - a.most).slice(0, MOST_ROWS);
  const shown = rows.filter((row) => kept.includes(row));
  const full = fullSize(shown.flatMap(({ scores }) => scores.map(Math.abs)));
  const heads = parts.map(({ start, end }) => {
    const word = text.sources[1].slice(start, end).join("");
    return node("bdi", { class: "upright" }, shortened(word, 20));
  });
  const body = shown.map(({ piece, scores }) => [
    node("bdi", {}, shortened(piece.label, 40)),
    ...scores.map((score, at) => pairCell(run, piece, parts[at], score, full)),
  ]);
  fillTable(byId("pair-table"), heads, body);
  byId("pair-table").style.setProperty("--parts", parts.length);
  byId("pair-table").classList.toggle("few", parts.length <= FEW_COLUMNS);
  const less = rows.length - shown.length;
  byId("pairs-note").textContent = [
    `A row for each ${kindNow()} of the prompt, a column for each word of the response, at ${layerPhrase(run.layers[layer])}.`,
    `Full colour is ${number(full)}; what is stronger has it too.`,
    less ? `The ${shown.length} strongest of ${rows.length} rows are shown.` : "",
  ].join(" ");
}

function pairCell(run, piece, { start, end }, score, full) {
  const word = text.sources[1].slice(start, end).join("");
  const shown = number(score, undefined, run.meaning.signed);
  const cell = node("td", {
    class: "pair",
    "aria-label": `${shortened(word, 40)}, ${shortened(piece.label, 40)}: ${shown}`,
  });
  cell.style.setProperty("--share", Math.abs(shareOf(score, full)).toFixed(3));
  cell.classList.toggle("against", run.meaning.signed && score < 0);
  cell.classList.toggle("faint", Math.abs(shareOf(score, full)) < FAINT);
  cell.lines = [
    ["response", shortened(word, 80)],
    ["prompt", shortened(piece.label, 80)],
    ["score", shown],
  ];
  return cell;
}

function listenToResponse() {
  const written = byId("written");
  const partOf = (target) => {
    const part = target instanceof Element ? target.closest(".part") : null;
    return part ? Number(part.dataset.part) : null;
  };
  written.addEventListener("pointerover", (event) => pointAt(partOf(event.target)));
  written.addEventListener("pointerleave", () => pointAt(null));
  written.addEventListener("focusin", (event) => pointAt(partOf(event.target)));
  written.addEventListener("focusout", () => pointAt(null));
  written.addEventListener("click", (event) => {
    const at = partOf(event.target);
    if (at !== null) pin(at);
  });
  written.addEventListener("keydown", (event) => {
    const at = partOf(event.target);
    if (at === null || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    pin(at);
  });
  for (const kind of ["words", "sentences"]) byId(`part-${kind}`).addEventListener("change", () => setPartKind(kind));
  byId("pair-table").addEventListener("pointerover", (event) => {
    const cell = event.target.closest(".pair");
    if (cell) showTip(cell, cell.lines);
    else hideTip();
  });
  byId("pair-table").addEventListener("pointerleave", hideTip);
}
