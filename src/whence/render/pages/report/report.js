// The page as a whole: what is chosen, and what is drawn again when a choice changes.

const PAPER = 680; // pixels across a printed page: a wider map is made smaller, not cut
let several = false; // texts
const state = {
  index: 0,
  method: 0,
  layer: null,
  unit: "words",
  normalise: "method",
  specials: false,
  view: "all",
  keys: true,
};
let text = null; // the text shown, opened
let every = []; // its pieces, special ones too
let marks = []; // its marks: [element, indices of pieces]
let tables = []; // scores by run, layer and piece
let fulls = []; // full strength by run and layer

const chosenRun = () =>
  Math.max(
    0,
    text.runs.findIndex((run) => run.method === state.method),
  );

/** What is shown beside each other: the first step until a layer is chosen; see `_steps` in page.py. */
const stepNow = () =>
  Math.max(
    0,
    text.entry.steps.findIndex(({ layer }) => layer === state.layer),
  );
/** The index of the layer that is shown of the run `at`. */
const layerNow = (at) => text.entry.steps[stepNow()].at[at];

function showText(index) {
  state.index = index;
  text = openText(index);
  hideTip();
  drawWarnings(text);
  drawLens(text);
  drawResponse();
  byId("tag-note").hidden = !text.entry.tags;
  byId("tag-note").textContent =
    text.entry.tags?.length > 1
      ? "Tags that are explained stand behind their words: choose one."
      : "The tag that is explained stands behind its word.";
  const options = text.runs.map((run) => node("option", { value: run.method }, shortened(run.about.label, 80)));
  byId("method").replaceChildren(...options);
  byId("method-control").hidden = text.runs.length < 2;
  byId("layer-control").hidden = text.runs.every((run) => run.layers.length === 1);
  byId("controls").hidden = byId("method-control").hidden && byId("layer-control").hidden;
  byId("view-control").hidden = text.runs.length < 2;
  grid.focus = { row: 0, column: 0 };
  grid.scroller.scrollTop = 0;
  showPieces();
  if (several) {
    revealItem(headOf(index));
    drawList(headOf(index));
  }
}

/** Blanks between the words of a prompt are no pieces of their own. */
const isBlank = ({ start, end, segment, special }) =>
  text.entry.response !== null && !special && !text.sources[segment].slice(start, end).join("").trim();

/** Another text, or the same one cut otherwise. */
function showPieces() {
  every = text.pieces[state.unit].filter((piece) => !piece.written && !isBlank(piece));
  tables = text.runs.map((run) => tableOf(run, every));
  const special = every.filter((piece) => piece.special).length;
  byId("special-control").hidden = !special;
  byId("specials-label").textContent = `show ${plural(special, "special token")}`;
  byId("unit-words-label").textContent = `${text.entry.unit}s`;
  marks = drawSources(byId("sources"), text, every, state.specials);
  showScores();
}

/** Another method, scale or view: the map is drawn again. */
function showScores() {
  fulls = text.runs.map((run, at) => fullOf(run, tables[at], every, state.normalise));
  drawMap(shownNow());
  drawFacts(text, text.runs[chosenRun()]);
  showLayer();
}

const isShown = (piece) => state.specials || !piece.special || every.every((each) => each.special);
/** What one of the pieces in sight is called. */
const kindNow = () => (state.unit === "words" ? text.entry.unit : "sub-word");
/** The runs that the map shows, by index. */
const runsInSight = () => (state.view === "all" ? text.runs.map((_, at) => at) : [chosenRun()]);
/** One method at one layer: a list by score; everything else stands in the order of the text. */
const isByScore = (runs) => runs.length === 1 && runs[0].layers.length === 1;

/** What the map holds: the pieces and methods in sight, their scores, and how strong is full. */
function shownNow() {
  const mine = runsInSight();
  const runs = mine.map((at) => text.runs[at]);
  const rows = every.flatMap((piece, row) => (isShown(piece) ? [row] : []));
  if (isByScore(runs)) {
    const [scores] = tables[mine[0]];
    const place = isLong() ? (row) => Math.abs(scores[row]) : (row) => scores[row]; // few of many are in sight at once
    rows.sort((a, b) => place(b) - place(a));
  }
  return {
    runs,
    pieces: rows.map((row) => every[row]),
    tables: mine.map((at) => tables[at].map((scores) => rows.map((row) => scores[row]))),
    full: mine.map((at) => fulls[at]),
    drops: runs.map(({ drops }) => drops && rows.map((row) => drops[every[row].unit][every[row].at])),
    now: mine.map(layerNow),
    chosen: mine.indexOf(chosenRun()),
  };
}

/** Another layer (or another method that is in the map already): colours, legend, outline and correlations follow. */
function showLayer() {
  const at = chosenRun();
  const run = text.runs[at];
  const layer = layerNow(at);
  const row = tables[at][layer];
  const full = fullInText(run, row, every);
  for (const [mark, pieces] of marks) {
    const strongest = pieces.map((piece) => row[piece]).reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
    colourMark(mark, strongest, full, run.meaning.signed);
  }
  if (text.entry.response) markParts();
  drawDecision(text.entry, run);
  drawBelief(run);
  drawComparison();
  drawPairs(run, layer);
  drawMinimap();
  drawSentences(run, row);
  drawLegend(run, layer, full, row, every, kindNow());
  drawFolded(run, row, full);
  byId("method").value = String(run.method);
  const slider = byId("layer");
  slider.max = String(run.layers.length - 1);
  slider.value = String(layer);
  slider.disabled = run.layers.length === 1;
  slider.setAttribute("aria-valuetext", layerName(run.layers[layer]));
  byId("layer-name").textContent = layerName(run.layers[layer]);
  const what = text.entry.response ? "The prompt" : "The text";
  byId("reading-title").textContent = stepNow() ? `${what} at ${layerPhrase(run.layers[layer])}` : what;
  drawHeading(run);
  const mine = runsInSight();
  moveNow(mine.map(layerNow), mine.indexOf(at));
  drawCorrelations(text, stepNow());
}

function drawHeading(run) {
  const kind = kindNow();
  const what = `${kind[0].toUpperCase()}${kind.slice(1)}s`;
  const many = grid.runs.length > 1;
  byId("map-title").textContent = many
    ? `${what} by method`
    : `${what} ${isByScore(grid.runs) ? "by score" : "× layers"}`;
  const notes = [];
  if (grid.runs.some((each) => each.layers.length > 1))
    notes.push("Each column is a layer: the embeddings, then the output of each block.");
  notes.push(scaleNote(run, many));
  if (grid.drops.some(Boolean))
    notes.push(
      "The line stands where a piece is dropped: from there on no layer keeps it with more than one half. " +
        "A state may be dropped at a layer below and kept again; only the last time counts.",
    );
  if (grid.runs.some((each) => each.meaning.signed && each.layers.length > 1))
    notes.push("A minus marks scores against.");
  byId("map-note").textContent = notes.join(" ");
  byId("normalise-control").hidden = grid.runs.every((each) => each.layers.length === 1);
}

function scaleNote(run, many) {
  if (state.normalise === "layer") return `Full colour is the largest score of a ${kindNow()} at each layer.`;
  if (many) return `Full colour is each method's own largest score of a ${kindNow()}.`;
  const full = fulls[chosenRun()][0];
  if (colourSize(run) === fullSize && !run.meaning.keepProbability)
    return `Full colour is ${number(full)}: few are stronger, and they have it too.`;
  return run.meaning.keepProbability
    ? "Full colour is 1."
    : `Full ${run.layers.length > 1 ? "colour" : "length"} is ${number(full)}, the largest score of a ${kindNow()}.`;
}

/** Special tokens are out of sight, not out of mind: the strongest is named where it is stronger than the words. */
function drawFolded(run, row, full) {
  const special = every.map((piece, at) => ({ piece, score: row[at] })).filter(({ piece }) => piece.special);
  const most = special.reduce(
    (found, each) => (!found || Math.abs(each.score) > Math.abs(found.score) ? each : found),
    null,
  );
  const drowned = most && Math.abs(most.score) > full;
  const score = drowned ? number(most.score, undefined, run.meaning.signed) : "";
  byId("folded").textContent = drowned
    ? `The special token ${shortened(most.piece.label, 60)} has a stronger score (${score}) than any ${kindNow()}; it does not set the scale.`
    : "";
}

// Choices

function setLayer(layer) {
  state.layer = layer;
  showLayer();
}

function walkLayers(step) {
  const { layers } = text.runs[chosenRun()];
  const layer = layerNow(chosenRun()) + step;
  if (layer >= 0 && layer < layers.length) setLayer(layers[layer]);
}

function setMethod(method) {
  state.method = method;
  if (state.view === "one") showScores();
  else {
    drawFacts(text, text.runs[chosenRun()]);
    showLayer();
  }
}

function setUnit(unit) {
  state.unit = unit;
  byId(`unit-${unit}`).checked = true;
  showPieces();
}

function setSpecials(specials) {
  state.specials = specials;
  byId("specials").checked = specials;
  showPieces();
}

function setNormalise(normalise) {
  state.normalise = normalise;
  byId(`normalise-${normalise}`).checked = true;
  showScores();
}

function findTexts() {
  arrange(byId("search").value, byId("sort").value);
  list.element.scrollTop = 0;
  const [count, all] = [list.order.length, heads().length];
  byId("found").textContent = count === all ? plural(count, "text") : `${count} of ${plural(all, "text")}`;
  if (count && !list.order.includes(headOf(state.index))) showText(list.order[0]);
  revealItem(headOf(state.index));
  drawList(headOf(state.index), true);
  walkable();
}

function walkTexts(step) {
  const at = list.order.indexOf(headOf(state.index)) + step;
  if (at < 0 || at >= list.order.length) return;
  showText(list.order[at]);
  byId("said").textContent = `Text ${at + 1} of ${list.order.length}: ${text.entry.prediction.label}`;
  walkable();
}

function walkable() {
  const at = list.order.indexOf(headOf(state.index));
  byId("previous").disabled = at <= 0;
  byId("next").disabled = at < 0 || at === list.order.length - 1;
}

// The notes beside the pointer

function tipOf(run, layer, piece) {
  const error = run.error(layer, piece);
  const score = number(run.score(layer, piece), undefined, run.meaning.signed);
  const lines = [
    [state.unit === "words" && !piece.special ? text.entry.unit : "token", shortened(piece.label, 80)],
    ["layer", layerName(run.layers[layer])],
    ["score", score + (error === null ? "" : ` ± ${number(error)}`)],
  ];
  if (text.runs.length > 1) lines.push(["method", run.about.label]);
  const inside = piece.tokens.map((at) => text.pieces.tokens[at].label);
  if (inside.length > 1) lines.push(["made of", shortened(inside.join(" "), 80)]);
  return lines;
}

function tipOfCell({ cell, row, column }) {
  const { run: at } = grid.columns[column];
  const run = grid.runs[at];
  const lines = tipOf(run, layerOf(grid.columns[column]), grid.pieces[row]);
  if (grid.drops[at]) {
    const layer = run.layers[grid.drops[at][row]];
    lines.push(["dropped", layer === undefined ? "at no layer" : `at ${layerName(layer)}`]);
  }
  showTip(cell, lines);
}

function tipOfMark(target) {
  const [mark, pieces] = marks.find(([element]) => element === target);
  const at = chosenRun();
  showTip(
    mark,
    pieces.flatMap((piece) => tipOf(text.runs[at], layerNow(at), every[piece])),
  );
}

// Listening

/** A square was reached: its method and layer become those of the text. */
function chooseCell(column) {
  const run = grid.runs[grid.columns[column].run];
  const layer = run.layers[layerOf(grid.columns[column])];
  const sameMethod = run === text.runs[chosenRun()];
  if (sameMethod && run.layers[layerNow(chosenRun())] === layer) return;
  if (run.layers.length > 1) state.layer = layer;
  if (sameMethod) showLayer();
  else setMethod(run.method);
}

/** Of tagging: another token's tag. */
function chooseTag(event) {
  const tagged = event.target.closest(".tagged");
  if (!tagged) return;
  event.preventDefault();
  showText(Number(tagged.dataset.entry));
  byId("sources").querySelector('.tagged[aria-pressed="true"]')?.focus();
}

function onListKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || !list.order.length) return;
  event.preventDefault();
  const at = list.order.indexOf(headOf(state.index));
  walkTexts(Math.max(0, Math.min(list.order.length - 1, at + steps[event.key])) - at);
}

const SHORTCUTS = {
  ArrowLeft: () => walkLayers(-1),
  ArrowRight: () => walkLayers(1),
  j: () => walkTexts(1),
  k: () => walkTexts(-1),
  m: () => setMethod(text.runs[(chosenRun() + 1) % text.runs.length].method),
  w: () => setUnit(state.unit === "words" ? "tokens" : "words"),
  s: () => setSpecials(!state.specials),
  n: () => setNormalise(state.normalise === "method" ? "layer" : "method"),
  g: () => isScrolled() && jumpToStrongest(),
  "/": () => several && byId("search").focus(),
  "?": () => byId("help").showModal(),
};

function onKey(event) {
  if (event.key === "Escape") hideTip();
  const busy = event.ctrlKey || event.altKey || event.metaKey || byId("help").open || event.defaultPrevented;
  const typing =
    event.target instanceof Element &&
    event.target.closest("input:not([type=checkbox]):not([type=radio]), select, textarea");
  const arrows =
    event.key.startsWith("Arrow") && event.target instanceof Element && event.target.closest("input, #list, .scrolls");
  if (busy || typing || arrows || !text || !state.keys || !Object.hasOwn(SHORTCUTS, event.key)) return;
  event.preventDefault();
  SHORTCUTS[event.key]();
}

async function save(ending) {
  const method = state.view === "all" && text.runs.length > 1 ? "methods" : text.runs[chosenRun()].about.name;
  let blob;
  if (ending === "csv") blob = new Blob([csvOf(text)], { type: "text/csv;charset=utf-8" });
  else {
    const picture = svgOf(shownNow(), text.runs[chosenRun()]);
    blob = ending === "svg" ? new Blob([svgText(picture)], { type: "image/svg+xml" }) : await pngOf(picture);
  }
  download(
    blob,
    fileName(state.index, ending === "csv" ? (text.runs.length > 1 ? "methods" : method) : method, ending),
  );
  byId("said").textContent = `The ${ending.toUpperCase()} file is saved.`;
}

function listen() {
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("shortcuts", "change", (event) => {
    state.keys = event.target.checked;
  });
  on("method", "change", (event) => setMethod(Number(event.target.value)));
  on("layer", "input", (event) => setLayer(text.runs[chosenRun()].layers[Number(event.target.value)]));
  on("specials", "change", (event) => setSpecials(event.target.checked));
  for (const unit of ["words", "tokens"]) on(`unit-${unit}`, "change", () => setUnit(unit));
  for (const way of ["method", "layer"]) on(`normalise-${way}`, "change", () => setNormalise(way));
  for (const view of ["all", "one"])
    on(`view-${view}`, "change", () => {
      state.view = view;
      showScores();
    });
  for (const ending of ["png", "svg", "csv"]) on(`save-${ending}`, "click", () => save(ending));
  document.addEventListener("keydown", onKey);
  listenToSquares();
  listenToResponse();
  listenToComparison();
  listenToLong();

  listenToCells(
    grid,
    () => grid.columns.length,
    focusCell,
    (found) => tipOfCell(found),
  );
  on("grid", "focusin", (event) => {
    const found = cellOf(event.target);
    if (found) chooseCell(found.column);
  });
  on("grid", "click", (event) => {
    const head = event.target.closest(".layer-head");
    if (head) chooseCell(Number(head.dataset.column));
    const name = event.target.closest(".method-name");
    if (name) setMethod(grid.runs[Number(name.dataset.run)].method);
  });
  on("sources", "pointerover", (event) => {
    const mark = event.target.closest(".mark");
    if (mark) tipOfMark(mark);
    else hideTip();
  });
  on("sources", "pointerleave", hideTip);
  on("sources", "click", chooseTag);
  on("sources", "keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") chooseTag(event);
  });
  on("scroller", "scroll", () => {
    hideTip();
    drawRows();
  });
  window.addEventListener("scroll", followFocus, { passive: true });

  on("search", "input", findTexts);
  on("sort", "change", () => {
    findTexts();
    if (list.order.length) showText(list.order[0]);
    walkable();
  });
  on("previous", "click", () => walkTexts(-1));
  on("next", "click", () => walkTexts(1));
  on("list", "scroll", () => drawList(headOf(state.index)));
  on("list", "keydown", onListKey);
  on("list", "click", (event) => {
    const item = event.target.closest(".item");
    if (item) {
      showText(Number(item.dataset.index));
      walkable();
    }
  });
  window.addEventListener("resize", () => {
    drawRows();
    if (text) drawMinimap();
    if (several) drawList(headOf(state.index));
  });
  window.addEventListener("beforeprint", () => {
    drawRows(true);
    grid.element.style.zoom = Math.min(1, PAPER / grid.element.scrollWidth);
  });
  window.addEventListener("afterprint", () => {
    grid.element.style.zoom = 1;
    drawRows();
  });
}

function addHelp() {
  const sign = node("span", { "aria-hidden": "true" }, "?");
  const button = node("button", { id: "open-help", type: "button", "aria-haspopup": "dialog" }, sign, " Keys and help");
  button.addEventListener("click", () => byId("help").showModal());
  document.querySelector(".tools").append(button);
}

/**
 * Draw a page from its data (`page_data` in page.py, with title and version) into the document. It may be called again
 * and again, with other texts, methods or models; what the reader has chosen of units, scale and view stays.
 */
function drawPage(payload) {
  useData(payload);
  several = heads().length > 1;
  if (!byId("words")) document.querySelector(".specialists").append(wordsUsed());
  byId("texts").hidden = !several;
  document.body.classList.toggle("many", several);
  byId("sort").querySelector('[value="disagreement"]').hidden = data.texts.every((entry) => entry.runs.length < 2);
  Object.assign(state, { method: data.texts[0].runs[0].method, layer: null });
  list.lower = null;
  if (several) arrange(byId("search").value, byId("sort").value);
  const asked = Number(/^#text-(\d+)$/.exec(location.hash)?.[1] ?? 0); // so that other pages can link to a text
  showText(asked < data.texts.length ? asked : 0);
  if (several) findTexts();
}

addHelp();
listen();
if (data.texts) drawPage(data); // a page that is still to be asked for holds none
