// The page as a whole: what is chosen, and what is drawn again when a choice changes.

const several = data.texts.length > 1;
const state = {
  index: 0,
  method: data.texts[0].runs[0]?.method, // none where there is only a lens
  layer: null,
  unit: "words",
  normalise: "method",
  specials: false,
  view: "all",
  keys: true,
};
let text = null; // the text shown, opened
let every = []; // its pieces, special ones too
let marks = []; // its marks: [element, places of pieces]
let tables = []; // scores by run, layer and piece
let fulls = []; // full strength by run and layer

const chosenRun = () =>
  Math.max(
    0,
    text.runs.findIndex((run) => run.method === state.method),
  );
const layerNow = (run) => nearestLayer(run, state.layer ?? startOf(run));

/** Where one begins to read: the layer nearest the input; with keep probabilities the last, where all is settled. */
const startOf = (run) => (run.about.keep ? run.layers[run.layers.length - 1] : run.layers[0]);

function showText(index) {
  state.index = index;
  text = openText(index);
  hideTip();
  drawWarnings(text);
  drawLens(text);
  if (!text.runs.length) {
    drawFacts(text, null);
    return;
  }
  byId("method").replaceChildren(
    ...text.runs.map((run) => {
      const option = node("option", { value: run.method });
      option.textContent = visible(shortened(run.about.label, 80));
      return option;
    }),
  );
  byId("method-control").hidden = text.runs.length < 2;
  byId("view-control").hidden = text.runs.length < 2;
  grid.focus = { row: 0, column: 0 };
  grid.scroller.scrollTop = 0;
  showPieces();
  if (several) {
    revealItem(index);
    drawList(index);
  }
}

/** Another text, or the same one cut otherwise. */
function showPieces() {
  every = piecesOf(text, state.unit);
  tables = text.runs.map((run) => tableOf(run, every));
  const special = every.filter((piece) => piece.special).length;
  byId("special-control").hidden = !special;
  byId("specials-label").textContent = `show ${plural(special, "special token")}`;
  marks = drawSources(byId("sources"), text, every, state.specials);
  showScores();
}

/** Another method, scale or view: the map is drawn again. */
function showScores() {
  fulls = text.runs.map((run, at) => fullOf(run, tables[at], every, state.normalise));
  drawMap(shownNow(), every.filter(isShown));
  drawFacts(text, text.runs[chosenRun()]);
  showLayer();
}

const isShown = (piece) => state.specials || !piece.special || every.every((each) => each.special);

/** What the map holds: the methods in sight, their scores of the pieces in sight, and how strong is full. */
function shownNow() {
  const places = every.flatMap((piece, place) => (isShown(piece) ? [place] : []));
  const mine = state.view === "all" ? text.runs.map((_, at) => at) : [chosenRun()];
  const cut = mine.map((at) => tables[at].map((row) => places.map((place) => row[place])));
  const runs = mine.map((at) => text.runs[at]);
  return {
    runs,
    tables: cut,
    full: mine.map((at) => fulls[at]),
    drops: cut.map((table, at) => (runs[at].about.keep ? dropsOf(table, places) : null)),
    now: runs.map(layerNow),
    chosen: mine.indexOf(chosenRun()),
  };
}

/** Another layer (or another method that is in the map already): colours, legend, outline and agreement follow. */
function showLayer() {
  const at = chosenRun();
  const run = text.runs[at];
  const layer = layerNow(run);
  const row = tables[at][layer];
  const full = fullInText(run, row, every);
  for (const [mark, places] of marks) {
    colourMark(
      mark,
      gathered(
        places.map((place) => row[place]),
        run.meaning.additive,
      ),
      full,
      run.meaning.signed,
    );
  }
  drawDecision(text.entry, run);
  drawLegend(run, layer, full, row, every, state.unit);
  drawFolded(run, row, full);
  byId("method").value = String(run.method);
  const slider = byId("layer");
  Object.assign(slider, {
    max: String(run.layers.length - 1),
    value: String(layer),
    disabled: run.layers.length === 1,
  });
  slider.setAttribute("aria-valuetext", layerName(run.layers[layer]));
  byId("layer-name").textContent = layerName(run.layers[layer]);
  byId("reading-title").textContent =
    run.layers.length > 1 ? `The text at ${layerPhrase(run.layers[layer])}` : "The text";
  drawHeading(run);
  const runs = state.view === "all" ? text.runs : [run];
  moveNow(runs.map(layerNow), runs.indexOf(run));
  const words = every.flatMap((piece, place) => (piece.special ? [] : [place]));
  drawMatrix(
    text.runs.map((other, place) => words.map((piece) => tables[place][layerNow(other)][piece])),
    text.runs,
    text.runs.map(layerNow),
  );
}

function drawHeading(run) {
  const what = state.unit === "words" ? "Words" : "Sub-words";
  const many = state.view === "all" && text.runs.length > 1;
  byId("map-title").textContent = many
    ? `${what} by method`
    : run.layers.length > 1
      ? `${what} × layers`
      : `${what} by score`;
  const notes = [];
  if (grid.runs.some((each) => each.layers.length > 1))
    notes.push("Each column is a layer: the embedding output, then the output of each block.");
  notes.push(scaleNote(run, many));
  if (grid.drops.some(Boolean))
    notes.push(
      "The line runs where a keep probability first falls below one half: left of it a piece is kept, right of it dropped.",
    );
  if (grid.runs.some((each) => each.meaning.signed && each.layers.length > 1))
    notes.push("A minus marks scores against.");
  byId("map-note").textContent = notes.join(" ");
  byId("normalise-control").hidden = grid.runs.every((each) => each.layers.length === 1);
}

function scaleNote(run, many) {
  if (state.normalise === "layer") return "Full colour is the largest score of a word at each layer.";
  if (many) return "Full colour is each method's own largest score of a word.";
  const full = fulls[chosenRun()][0];
  return run.about.keep
    ? "Full colour is 1."
    : `Full ${run.layers.length > 1 ? "colour" : "length"} is ${number(full)}, the largest score of a word.`;
}

/** Special tokens are out of sight, not out of mind: the strongest is named where it is stronger than the words. */
function drawFolded(run, row, full) {
  const special = every.map((piece, place) => ({ piece, score: row[place] })).filter(({ piece }) => piece.special);
  const most = special.reduce(
    (found, each) => (!found || Math.abs(each.score) > Math.abs(found.score) ? each : found),
    null,
  );
  const drowned = most && Math.abs(most.score) > full;
  const score = drowned ? number(most.score, undefined, run.meaning.signed) : "";
  const name = drowned ? shortened(most.piece.label, 60) : "";
  byId("folded").textContent = drowned
    ? `The special token ${name} has a stronger score (${score}) than any word; it does not set the scale.`
    : "";
}

// Choices

function setLayer(layer) {
  state.layer = layer;
  showLayer();
}

function walkLayers(step) {
  const run = text.runs[chosenRun()];
  const at = layerNow(run) + step;
  if (at >= 0 && at < run.layers.length) setLayer(run.layers[at]);
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
  const count = list.order.length;
  byId("found").textContent =
    count === data.texts.length ? plural(count, "text") : `${count} of ${plural(data.texts.length, "text")}`;
  if (count && !list.order.includes(state.index)) showText(list.order[0]);
  revealItem(state.index);
  drawList(state.index, true);
  walkable();
}

function walkTexts(step) {
  const at = list.order.indexOf(state.index) + step;
  if (at < 0 || at >= list.order.length) return;
  showText(list.order[at]);
  byId("said").textContent = `Text ${at + 1} of ${list.order.length}: ${visible(text.entry.prediction.label)}`;
  walkable();
}

function walkable() {
  const at = list.order.indexOf(state.index);
  byId("previous").disabled = at <= 0;
  byId("next").disabled = at < 0 || at === list.order.length - 1;
}

// The note beside the pointer

function showTip(near, lines) {
  const tip = byId("tip");
  tip.replaceChildren(
    ...lines.map(([name, value]) => node("div", {}, node("span", { class: "tip-name" }, name), node("bdi", {}, value))),
  );
  tip.hidden = false;
  const [place, size] = [near.getBoundingClientRect(), tip.getBoundingClientRect()];
  const room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(room - size.width - 8, place.left + place.width / 2 - size.width / 2))}px`;
  tip.style.top = `${place.top - size.height - 8 > 0 ? place.top - size.height - 8 : place.bottom + 8}px`;
}

const hideTip = () => {
  byId("tip").hidden = true;
};

function tipOf(run, layer, piece, score) {
  const [place] = piece.places;
  const error = piece.places.length === 1 ? run.error(layer, place) : null;
  const lines = [
    [state.unit === "words" && !piece.special ? "word" : "token", shortened(piece.label, 80)],
    ["layer", layerName(run.layers[layer])],
    ["score", number(score, undefined, run.meaning.signed) + (error === null ? "" : ` ± ${number(error)}`)],
  ];
  if (text.runs.length > 1) lines.push(["method", visible(run.about.label)]);
  const inside = piece.places.map((at) => visible(text.tokens[at].text));
  if (inside.length > 1) lines.push(["made of", shortened(inside.join(" "), 80)]);
  return lines;
}

function tipOfCell({ cell, row, column }) {
  const { run: at } = grid.columns[column];
  const layer = layerOf(grid.columns[column]);
  const lines = tipOf(grid.runs[at], layer, grid.pieces[row], grid.tables[at][layer][row]);
  if (grid.drops[at]) {
    const drop = grid.drops[at][row];
    lines.push([
      "dropped",
      drop < grid.runs[at].layers.length ? `at ${layerName(grid.runs[at].layers[drop])}` : "at no layer",
    ]);
  }
  showTip(cell, lines);
}

function tipOfMark(target) {
  const found = marks.find(([mark]) => mark === target);
  if (!found) return;
  const at = chosenRun();
  const layer = layerNow(text.runs[at]);
  const [mark, places] = found;
  showTip(
    mark,
    places.flatMap((place) => tipOf(text.runs[at], layer, every[place], tables[at][layer][place])),
  );
}

// Listening

/** A square was reached: its method and layer become those of the text. */
function chooseCell(column) {
  const { run: at } = grid.columns[column];
  const run = grid.runs[at];
  const layer = run.layers[layerOf(grid.columns[column])];
  const [sameMethod, sameLayer] = [run.method === text.runs[chosenRun()].method, run.layers[layerNow(run)] === layer];
  if (sameMethod && sameLayer) return;
  if (run.layers.length > 1) state.layer = layer;
  if (sameMethod) showLayer();
  else setMethod(run.method);
}

function onGridKey(event) {
  const mine = cellOf(event.target) && !event.altKey && !event.metaKey;
  const step = mine ? stepOf(event, grid.focus, grid.pieces.length, grid.columns.length) : null;
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  focusCell(...step);
}

function onListKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || !list.order.length) return;
  event.preventDefault();
  const at = list.order.indexOf(state.index);
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
  if (busy || typing || arrows || !text.runs.length || !state.keys || !Object.hasOwn(SHORTCUTS, event.key)) return;
  event.preventDefault();
  SHORTCUTS[event.key]();
}

function heading() {
  const { prediction } = text.entry;
  const run = text.runs[chosenRun()];
  const sign = run.meaning.signed ? "blue speaks for, orange against" : "the deeper, the more";
  const lines = [
    `predicted: ${prediction.label}${prediction.probability === null ? "" : ` (${percent(prediction.probability)})`}`,
    `explained: ${run.target.scale.replace("_", " ")} of ${run.target.description}`,
    `model: ${data.models[text.entry.model].id}`,
    `colours: ${sign}. ${scaleNote(run, state.view === "all" && text.runs.length > 1)}`,
  ];
  return lines.map((line) => visible(shortened(line, 90)));
}

async function save(ending) {
  const method = state.view === "all" && text.runs.length > 1 ? "methods" : text.runs[chosenRun()].about.name;
  let blob;
  if (ending === "csv") blob = new Blob([csvOf(text)], { type: "text/csv;charset=utf-8" });
  else {
    const picture = svgOf(shownNow(), every.filter(isShown), heading());
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
  on("theme", "change", (event) => {
    document.documentElement.dataset.theme = event.target.value;
  });
  on("open-help", "click", () => byId("help").showModal());
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
  listenToLens();

  on("grid", "keydown", onGridKey);
  on("grid", "focusin", (event) => {
    const found = cellOf(event.target);
    if (!found) return;
    grid.focus = { row: found.row, column: found.column };
    chooseCell(found.column);
    tipOfCell(found);
  });
  on("grid", "focusout", hideTip);
  on("grid", "click", (event) => {
    const found = cellOf(event.target);
    if (found) focusCell(found.row, found.column);
    const head = event.target.closest(".layer-head");
    if (head) chooseCell(Number(head.dataset.column));
    const name = event.target.closest(".method-name");
    if (name) setMethod(grid.runs[Number(name.dataset.run)].method);
  });
  on("grid", "pointerover", (event) => {
    const found = cellOf(event.target);
    if (found) tipOfCell(found);
  });
  on("grid", "pointerleave", hideTip);
  on("sources", "pointerover", (event) => {
    const mark = event.target.closest(".mark");
    if (mark) tipOfMark(mark);
    else hideTip();
  });
  on("sources", "pointerleave", hideTip);
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
  on("list", "scroll", () => drawList(state.index));
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
    if (several) drawList(state.index);
  });
  window.addEventListener("beforeprint", () => drawRows(true));
  window.addEventListener("afterprint", () => drawRows());
}

function begin() {
  document.title = visible(data.title);
  byId("title").textContent = visible(data.title);
  byId("made-by").textContent =
    `Made by whence ${visible(data.version)}. This page holds all it shows and loads nothing.`;
  byId("texts").hidden = !several;
  for (const part of document.querySelectorAll("[data-explains]")) part.hidden = !data.methods.length;
  document.body.classList.toggle("many", several);
  byId("sort").querySelector('[value="disagreement"]').hidden = data.texts.every((entry) => entry.runs.length < 2);
  listen();
  if (several) arrange("", "given");
  const asked = Number(/^#text-(\d+)$/.exec(location.hash)?.[1] ?? 0); // so that other pages can link to a text
  showText(asked < data.texts.length ? asked : 0);
  if (several) findTexts();
}

begin();
