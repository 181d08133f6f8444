// The lens: what a language-model head reads off the states. Tokens down, layers across, the likeliest word in each square.

const MOST_LINES = 600; // of a long text; the browser need not hold more squares than anyone reads

const lens = { element: byId("lens-grid"), read: null, pieces: [], focus: { row: 0, column: 0 } };

/** The lens of a text, its numbers unpacked: `at` gives what is read in a square. */
function openLens({ layers, k, words, top, probabilities, own, ranks, ...facts }, width) {
  const [chances, mine] = [floats(probabilities), floats(own)];
  const at = (layer, place) => {
    const first = (layer * width + place) * k;
    const read = top.slice(first, first + k).map((word, rank) => ({ word: words[word], chance: chances[first + rank] }));
    return { read, chance: mine[layer * width + place], rank: ranks[layer * width + place] };
  };
  return { layers, at, ...facts };
}

/** A token of the vocabulary; blanks around it are left out, a token of blanks is not. */
const wordLabel = (word) => visible(shortened(word.trim(), 60)) || "␣".repeat(Math.min(8, word.length));

function drawLens(text) {
  const packed = text.entry.lens;
  byId("lens").hidden = !packed;
  if (!packed) return;
  lens.read = openLens(packed, text.tokens.length);
  const all = piecesOf(text, "tokens");
  lens.pieces = all.slice(0, MOST_LINES);
  lens.focus = { row: 0, column: 0 };
  const { layers, readBack, head, nextToken } = lens.read;
  const longest = Math.max(14, ...lens.pieces.map((piece) => piece.label.length));
  lens.element.style.setProperty("--label", `${Math.min(18, 1.5 + longest) * 0.58}rem`);
  lens.element.style.setProperty("--layers", layers.length);
  lens.element.setAttribute("aria-rowcount", lens.pieces.length + 2);
  lens.element.setAttribute("aria-colcount", layers.length + 1);
  const named = layers.map((layer) => node("div", { role: "columnheader", class: "lens-head" }, layerShort(layer)));
  const shares = readBack.map((share) => node("div", { role: "gridcell", class: "lens-head" }, percent(share)));
  lens.element.replaceChildren(
    node(
      "div",
      { role: "rowgroup", class: "head" },
      lensLine(1, node("div", { role: "columnheader", class: "corner" }, "layer"), named),
      lensLine(2, node("div", { role: "rowheader", class: "corner" }, "read as itself"), shares),
    ),
    node("div", { role: "rowgroup" }, ...lens.pieces.map(lensRow)),
  );
  lens.element.querySelector(".lens-square").tabIndex = 0;
  byId("lens-note").textContent = [
    "Each square holds the token that the head finds likeliest in the state of the token on the left at that layer;",
    "the deeper the blue, the likelier, and bold where it is the token itself.",
    `The head is that of ${visible(head)}, trained to ${nextToken ? "say the next token" : "fill in hidden tokens"}.`,
    "Point at a square, or walk there with the arrow keys, to read the next likeliest.",
    "Where few tokens are read as themselves, the head does not read the layer, and what is decoded there means little.",
    all.length > lens.pieces.length ? `The first ${lens.pieces.length} of ${all.length} tokens are shown.` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

const lensLine = (index, label, squares) =>
  node("div", { role: "row", class: "lens-row", "aria-rowindex": index }, label, ...squares);

function lensRow(piece, row) {
  const label = node("div", { role: "rowheader", class: piece.special ? "label special" : "label" });
  label.append(node("bdi", {}, shortened(piece.label, 60)));
  const squares = lens.read.layers.map((layer, column) => {
    const { read, rank } = lens.read.at(column, piece.places[0]);
    const [{ word, chance }] = read;
    const square = node("div", {
      role: "gridcell",
      class: rank === 1 ? "lens-square own" : "lens-square",
      "data-column": column,
      "aria-label": `${shortened(piece.label, 60)}, ${layerName(layer)}: ${wordLabel(word)}, ${percent(chance)}`,
      tabindex: -1,
    });
    square.append(node("bdi", {}, wordLabel(word)));
    square.style.setProperty("--share", chance.toFixed(3));
    return square;
  });
  const line = lensLine(row + 3, label, squares);
  line.dataset.row = row;
  return line;
}

function lensSquareOf(target) {
  const square = target instanceof Element ? target.closest(".lens-square") : null;
  return square && { square, row: Number(square.parentNode.dataset.row), column: Number(square.dataset.column) };
}

function tipOfLens({ square, row, column }) {
  const piece = lens.pieces[row];
  const { read, chance, rank } = lens.read.at(column, piece.places[0]);
  showTip(square, [
    ["token", shortened(piece.label, 80)],
    ["layer", layerName(lens.read.layers[column])],
    ...read.map((each, place) => [String(place + 1), `${wordLabel(each.word)}  ${percent(each.chance)}`]),
    ["itself", `rank ${rank}, ${percent(chance)}`],
  ]);
}

function focusLens(row, column) {
  const found = (at, many) => Math.max(0, Math.min(many - 1, at));
  lens.focus = { row: found(row, lens.pieces.length), column: found(column, lens.read.layers.length) };
  for (const square of lens.element.querySelectorAll('.lens-square[tabindex="0"]')) square.tabIndex = -1;
  const square = lens.element.querySelector(
    `[data-row="${lens.focus.row}"] [data-column="${lens.focus.column}"]`,
  );
  square.tabIndex = 0;
  square.focus();
}

function listenToLens() {
  const on = (event, act) => lens.element.addEventListener(event, act);
  on("keydown", (event) => {
    if (!lensSquareOf(event.target)) return;
    const step = stepOf(event, lens.focus, lens.pieces.length, lens.read.layers.length);
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    focusLens(...step);
  });
  on("focusin", (event) => {
    const found = lensSquareOf(event.target);
    if (!found) return;
    lens.focus = { row: found.row, column: found.column };
    tipOfLens(found);
  });
  on("focusout", hideTip);
  on("click", (event) => {
    const found = lensSquareOf(event.target);
    if (found) focusLens(found.row, found.column);
  });
  on("pointerover", (event) => {
    const found = lensSquareOf(event.target);
    if (found) tipOfLens(found);
  });
  on("pointerleave", hideTip);
  byId("lens-scroller").addEventListener("scroll", followFocus);
}

/** The focus itself makes the page scroll: its note goes along, any other is out of place. */
function followFocus() {
  const found = lensSquareOf(document.activeElement);
  if (found) tipOfLens(found);
  else hideTip();
}
