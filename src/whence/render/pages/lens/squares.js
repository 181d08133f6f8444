// The lens: what a language-model head reads off the states. Tokens down, layers across, the likeliest word in a square.

const MOST_LINES = 600; // of a long text; the browser need not hold more squares than anyone reads

const lens = { element: byId("lens-grid"), read: null, pieces: [], focus: { row: 0, column: 0 } };

/** The lens of a text, its numbers unpacked: `at` gives what is read in a square. */
function openLens({ layers, k, words, top, probabilities, sought, ranks, ...facts }, width) {
  const [chances, mine] = [floats(probabilities), floats(sought)];
  const at = (layer, position) => {
    const first = (layer * width + position) * k;
    const read = top
      .slice(first, first + k)
      .map((word, rank) => ({ word: words[word], chance: chances[first + rank] }));
    return { read, chance: mine[layer * width + position], rank: ranks[layer * width + position] };
  };
  return { layers, at, ...facts };
}

/** What each square is compared with: a head that says what follows is right where it says the next token. */
const LENS_WORDS = {
  true: {
    share: (wrote) => (wrote ? "writes it" : "says the next"),
    tip: "the next",
    note: (head, wrote) => [
      "bold where it is the token that follows.",
      `The head is that of ${head}, trained to say the next token, so what it reads is not the token on the left.`,
      wrote
        ? "Above, the share of the response’s tokens that each layer would have written."
        : "Above, the share of tokens that it says before they come; words that fit the text as well count as misses.",
    ],
  },
  false: {
    share: () => "read as itself",
    tip: "itself",
    note: (head) => [
      "bold where it is the token itself.",
      `The head is that of ${head}, trained to fill in hidden tokens.`,
      "Where few tokens are read as themselves, the head does not read the layer, and what is decoded there means little.",
    ],
  },
};

/** Draw a lens (see `lens_data` in lens_page.py) over the tokens of its text. */
function drawLensSquares(packed, tokens) {
  lens.read = openLens(packed, tokens.length);
  lens.pieces = tokens.slice(0, MOST_LINES);
  lens.focus = { row: 0, column: 0 };
  const { layers, shares, head, nextToken, wrote } = lens.read;
  const words = LENS_WORDS[nextToken];
  const longest = Math.max(5, ...lens.pieces.map((piece) => piece.label.length));
  lens.element.style.setProperty("--longest", `${Math.min(18, 1.5 + longest) * 0.58}rem`);
  lens.element.style.setProperty("--layers", layers.length);
  lens.element.setAttribute("aria-rowcount", lens.pieces.length + 2);
  lens.element.setAttribute("aria-colcount", layers.length + 1);
  const named = layers.map((layer) => node("div", { role: "columnheader", class: "lens-head" }, layerShort(layer)));
  const found = (layer) => (shares === null ? "–" : percent(shares[layer]));
  const shared = layers.map((_, layer) => node("div", { role: "gridcell", class: "lens-head" }, found(layer)));
  lens.element.replaceChildren(
    node(
      "div",
      { role: "rowgroup", class: "head" },
      lensLine(1, node("div", { role: "columnheader", class: "corner" }, "layer"), named),
      lensLine(2, node("div", { role: "rowheader", class: "corner" }, words.share(wrote)), shared),
    ),
    node("div", { role: "rowgroup" }, ...lens.pieces.map(lensRow)),
  );
  lens.element.querySelector(".lens-square").tabIndex = 0;
  byId("lens-note").textContent = [
    "Each square holds the token that the head finds likeliest in the state of the token on the left at that layer;",
    "the deeper the blue, the likelier, and",
    ...words.note(head, wrote),
    "Point at a square, or walk there with the arrow keys, to read the next likeliest.",
    tokens.length > lens.pieces.length ? `The first ${lens.pieces.length} of ${tokens.length} tokens are shown.` : "",
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
    const { read, rank } = lens.read.at(column, row);
    const [{ word, chance }] = read;
    const square = node("div", {
      role: "gridcell",
      class: rank === 1 ? "lens-square right" : "lens-square",
      "data-column": column,
      "aria-label": `${shortened(piece.label, 60)}, ${layerName(layer)}: ${word}, ${percent(chance)}`,
      tabindex: -1,
    });
    square.append(node("bdi", {}, word));
    square.style.setProperty("--share", chance.toFixed(3));
    return square;
  });
  const line = lensLine(row + 3, label, squares);
  line.dataset.row = row;
  return line;
}

function tipOfLens({ cell, row, column }) {
  const { read, chance, rank } = lens.read.at(column, row);
  showTip(cell, [
    ["token", shortened(lens.pieces[row].label, 80)],
    ["layer", layerName(lens.read.layers[column])],
    ...read.map((each, at) => [String(at + 1), `${each.word}  ${percent(each.chance)}`]),
    [LENS_WORDS[lens.read.nextToken].tip, rank ? `rank ${rank}, ${percent(chance)}` : "nothing follows"],
  ]);
}

function focusLens(row, column) {
  const within = (at, many) => Math.max(0, Math.min(many - 1, at));
  lens.focus = { row: within(row, lens.pieces.length), column: within(column, lens.read.layers.length) };
  for (const square of lens.element.querySelectorAll('.lens-square[tabindex="0"]')) square.tabIndex = -1;
  const square = lens.element.querySelector(`[data-row="${lens.focus.row}"] [data-column="${lens.focus.column}"]`);
  square.tabIndex = 0;
  square.focus();
}

function listenToSquares() {
  listenToCells(lens, () => lens.read.layers.length, focusLens, tipOfLens);
  byId("lens-scroller").addEventListener("scroll", followFocus);
}

/** Begin at a row: the rows above it are a scroll away. */
function showFrom(row) {
  const line = lens.element.querySelector(`[data-row="${row}"]`);
  if (line) byId("lens-scroller").scrollTop = line.offsetTop - lens.element.querySelector(".label").offsetTop;
}

/** The focus itself makes the page scroll: its note goes along, any other is out of place. */
function followFocus() {
  const found = lens.element.contains(document.activeElement) && cellOf(document.activeElement);
  if (found) tipOfLens(found);
  else hideTip();
}
