// Methods on one text: a row for each word, a mark for each method on one scale, and a flag where signs differ.

const MOST_DOTS = 40; // rows: the strongest words of a long text
const SHAPES = ["●", "■", "▲", "◆", "▼", "★", "✚", "✖"];
const HOLLOW = ["○", "□", "△", "◇", "▽", "☆", "✢", "✕"]; // of scores without a sign

const isRandom = (run) => run.about.name === "random";
const shapeOf = (run, at) => (run.meaning.signed ? SHAPES : HOLLOW)[at % SHAPES.length];

/** What is compared: of each method that is not random its index, and the shares of its largest score, word by word. */
function comparedNow() {
  const words = text.pieces.words.filter((piece) => !piece.special && !piece.written && !isBlank(piece));
  const methods = text.runs.map((run, at) => {
    const scores = words.map((piece) => run.score(layerNow(at), piece));
    const full = largest(scores.map(Math.abs));
    return { run, at, shares: scores.map((score) => shareOf(score, full)), scores };
  });
  return {
    words,
    methods: methods.filter(({ run }) => !isRandom(run)),
    random: methods.find(({ run }) => isRandom(run)),
  };
}

function drawComparison() {
  const { consensus, unit } = text.entry;
  byId("comparison").hidden = !consensus;
  if (!consensus) return;
  const { words, methods, random } = comparedNow();
  const { parts, contradicted } = partNow() ? { parts: [], contradicted: [] } : consensus[stepNow()]; // of the whole
  byId("comparison-title").textContent = `What ${methods.length} methods say of each ${unit}`;
  byId("consensus").replaceChildren(...drawnParts(parts));
  byId("marks").replaceChildren(...methods.map(methodButton), ...(random ? [randomLine()] : []));
  const signed = methods.some(({ run }) => run.meaning.signed);
  const flags = new Set(contradicted.map((at) => text.pieces.words[at]));
  const rows = words
    .map((piece, at) => ({ piece, at, most: largest(methods.map(({ shares }) => Math.abs(shares[at]))) }))
    .sort((a, b) => b.most - a.most)
    .slice(0, MOST_DOTS)
    .sort((a, b) => a.at - b.at);
  const grey = random ? largestMean(random.shares) : null;
  const head = node(
    "span",
    { class: "dot-scale" },
    signed ? "against" : "nothing",
    node("span", {}, signed ? "for" : "most"),
  );
  fillTable(
    byId("dots"),
    [head],
    rows.map(({ piece, at }) => [
      node("bdi", {}, shortened(piece.label, 40)),
      dotCell(methods, at, piece, { signed, grey, flagged: flags.has(piece) }),
    ]),
  );
  const notes = [
    `The scale runs to each method's own largest score${signed ? "; hollow marks have no sign" : ""}.`,
    "The upright line is the middle of the methods.",
    flags.size ? "≠ marks words that one method counts for and another against." : "",
    rows.length < words.length ? `The ${rows.length} strongest of ${words.length} are shown.` : "",
  ];
  byId("comparison-note").textContent = notes.filter(Boolean).join(" ");
}

const largestMean = (shares) => shares.reduce((sum, share) => sum + Math.abs(share), 0) / shares.length;

function methodButton({ run, at }) {
  const shape = node("span", { class: "shape", "aria-hidden": "true" }, shapeOf(run, at));
  const pressed = String(at === chosenRun());
  const attributes = { type: "button", class: "method-mark", "data-method": run.method, "aria-pressed": pressed };
  const layer = run.layers.length > 1 ? node("span", { class: "at" }, ` ${layerName(run.layers[layerNow(at)])}`) : "";
  return node("li", {}, node("button", attributes, shape, " ", node("bdi", {}, shortened(run.about.label, 60)), layer));
}

const randomLine = () =>
  node(
    "li",
    {},
    node("span", { class: "band-mark", "aria-hidden": "true" }),
    " ",
    term("random", "random scores"),
    ", mean size",
  );

/** A row of marks. Where zero lies is the same in every row. */
function dotCell(methods, at, piece, { signed, grey, flagged }) {
  const place = (share) => `${signed ? 50 + 48 * share : 2 + 96 * Math.abs(share)}%`;
  const track = node("span", { class: signed ? "dots signed" : "dots", "aria-hidden": "true" });
  if (grey !== null) {
    const band = node("span", { class: "band" });
    band.style.left = place(signed ? -grey : 0);
    band.style.right = `calc(100% - ${place(grey)})`;
    track.append(band);
  }
  const middle = node("span", { class: "middle" });
  middle.style.left = place(median(methods.map(({ shares }) => shares[at])));
  track.append(middle);
  methods.forEach(({ run, at: index, shares, scores }, row) => {
    const against = run.meaning.signed && scores[at] < 0;
    const side = run.meaning.signed ? (against ? " against" : " for") : "";
    const dot = node(
      "span",
      { class: `dot${side}${run === text.runs[chosenRun()] ? " now" : ""}` },
      shapeOf(run, index),
    );
    dot.style.left = place(shares[at]);
    dot.style.top = `${50 + 36 * ((row + 0.5) / methods.length - 0.5)}%`;
    dot.lines = [
      [text.entry.unit, shortened(piece.label, 80)],
      ["method", run.about.label],
      ["score", number(scores[at], undefined, run.meaning.signed)],
      ["share", `${number(shares[at], 1, run.meaning.signed)} of its largest`],
    ];
    track.append(dot);
  });
  const told = methods.map(({ run, shares }) => `${run.about.label} ${number(shares[at], 1, run.meaning.signed)}`);
  const spoken = node("span", { class: "unseen" }, `${told.join("; ")}${flagged ? "; signs differ" : ""}`);
  const flag = node("span", { class: "conflict", "aria-hidden": "true", title: "signs differ" }, flagged ? "≠" : "");
  return node("td", { class: "dot-cell" }, track, flag, spoken);
}

function median(values) {
  const order = [...values].sort((a, b) => a - b);
  const half = Math.floor(order.length / 2);
  return order.length % 2 ? order[half] : (order[half - 1] + order[half]) / 2;
}

function listenToComparison() {
  byId("dots").addEventListener("pointerover", (event) => {
    const dot = event.target.closest(".dot");
    if (dot) showTip(dot, dot.lines);
    else hideTip();
  });
  byId("dots").addEventListener("pointerleave", hideTip);
  byId("marks").addEventListener("click", (event) => {
    const button = event.target.closest(".method-mark");
    if (!button) return;
    setMethod(Number(button.dataset.method));
    byId("marks").querySelector('[aria-pressed="true"]').focus();
  });
}
