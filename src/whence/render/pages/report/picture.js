// The picture to take away, always on white: the sentence, the text, what colour means, the map with its signs, and how
// far to believe it. Nothing is cut: what is too wide goes on in the next line.

const FOR = "#1f5fb4";
const AGAINST = "#c4570a";
const INK = "#1c1e22";
const MUTED = "#555b65";
const FAMILY = "system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif";
const NARROWEST = 620; // pixels
const MARGIN = 20;
const MOST_WRITTEN = 400; // words of a text that are drawn as text too; all are in the map
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufefc]/; // words placed one by one would stand in the wrong order

const paper = node("canvas").getContext("2d");

function widthOf(words, size, bold = false) {
  paper.font = `${bold ? 700 : 400} ${size}px ${FAMILY}`;
  return paper.measureText(words).width;
}

/** Pieces `{words, …}` in lines no wider than asked; a piece that is too wide by itself is broken. */
function linesOf(pieces, width, size) {
  const lines = [[]];
  let used = 0;
  const put = (piece, words) => {
    const wide = widthOf(words, size, piece.bold);
    if (used + wide > width && used) {
      lines.push([]);
      used = 0;
      if (!words.trim()) return;
    }
    const letters = [...words];
    if (wide > width && letters.length > 1) {
      const half = Math.ceil(letters.length / 2);
      put(piece, letters.slice(0, half).join(""));
      put(piece, letters.slice(half).join(""));
      return;
    }
    lines[lines.length - 1].push({ ...piece, words, x: used, wide });
    used += wide;
  };
  for (const piece of pieces)
    for (const words of piece.whole ? [piece.words] : piece.words.split(/(\s+)/))
      if (words) put(piece, words.replace(/\s/g, " "));
  return lines.filter((line) => line.length);
}

/** Lines of pieces from a height on, over their backgrounds; returns the height below them. */
function writeLines(picture, lines, { x, y, size, gap }) {
  lines.forEach((line, row) => {
    const base = y + row * gap + size;
    for (const piece of line) {
      if (piece.back)
        picture.append(
          shape("rect", {
            x: x + piece.x,
            y: base - size,
            width: piece.wide,
            height: size * 1.35,
            fill: piece.hue,
            "fill-opacity": piece.back,
          }),
        );
      const weight = piece.bold ? { "font-weight": 700 } : {};
      const spot = {
        x: x + piece.x,
        y: base,
        "font-size": size,
        fill: piece.fill ?? INK,
        "xml:space": "preserve",
        ...weight,
      };
      picture.append(shape("text", spot, piece.words));
      if (piece.under)
        picture.append(
          shape("line", {
            x1: x + piece.x,
            x2: x + piece.x + piece.wide,
            y1: base + size * 0.28,
            y2: base + size * 0.28,
            stroke: piece.hue,
            "stroke-width": 2,
            ...(piece.dashed ? { "stroke-dasharray": "4 2" } : {}),
          }),
        );
    }
  });
  return y + lines.length * gap;
}

/** The sentence, in the colours of its words. */
const sentencePieces = (parts) =>
  parts.map(([kind, words]) => {
    const hue = { for: FOR, against: AGAINST, matters: FOR }[kind];
    return { words, bold: kind !== "plain", fill: hue ?? INK, hue, under: Boolean(hue), dashed: kind === "against" };
  });

/** The text as it stands on the page, its words as strong as there. */
function textPieces(signed) {
  return [...byId("sources").querySelectorAll(".source")].flatMap((source) =>
    [...source.childNodes].map((child) => {
      const words = child.textContent;
      if (!child.classList?.contains("mark") || child.classList.contains("faint")) return { words };
      const against = signed && child.classList.contains("against");
      const share = Number(child.style.getPropertyValue("--share"));
      const hue = against ? AGAINST : FOR;
      return { words, whole: words.length < 40, hue, back: (share * 0.5).toFixed(3), under: true, dashed: against };
    }),
  );
}

/** The map as it is shown, all rows, with all that is needed to read it. */
function svgOf(shown, run) {
  const { runs, pieces } = shown;
  const labelled = pieces.map((piece) => linesOf([{ words: piece.label }], 260, 12));
  const left =
    MARGIN + 10 + Math.max(40, ...labelled.flat(1).map((line) => line.reduce((sum, { wide }) => sum + wide, 0)));
  const [square, bar, gap] = [24, 150, 22];
  const wide = runs.map(({ layers, about }) => {
    const columns = layers.length > 1 ? square * layers.length : bar + 64;
    return Math.max(columns, Math.min(260, widthOf(about.label, 12, true) + 1));
  });
  const starts = [];
  let width = left;
  for (const each of wide) {
    starts.push(width);
    width += each + gap;
  }
  width = Math.ceil(Math.max(width + MARGIN - gap, NARROWEST));
  const room = width - 2 * MARGIN;
  const picture = shape("svg", { "font-family": FAMILY, "font-size": 12, fill: INK });
  const write = (parts, y, size, line) =>
    writeLines(picture, linesOf(parts, room, size), { x: MARGIN, y, size, gap: line });
  let y = write(sentencePieces(sentenceNow(run)), MARGIN, 17, 26) + 12;
  const written = byId("written").textContent.trim();
  if (text.entry.response && !RIGHT_TO_LEFT.test(written))
    y = write([{ words: "Response: ", fill: MUTED }, { words: written }], y, 14, 22) + 8;
  const source = byId("sources").textContent;
  if (every.length <= MOST_WRITTEN && !RIGHT_TO_LEFT.test(source))
    y = write(textPieces(run.meaning.signed), y, 14, 26) + 8;
  y = drawRamp(picture, y, run);
  y =
    write(
      [{ words: `${byId("legend-sentence").textContent} ${byId("map-note").textContent}`, fill: MUTED }],
      y,
      12,
      17,
    ) + 12;
  y = drawTable(picture, shown, { labelled, left, starts, wide, square, bar, y });
  for (const { about, word, sentence } of run.belief)
    y = write(
      [
        { words: word, bold: true },
        { words: ` · ${about}: ${sentence}.`, fill: MUTED },
      ],
      y + 2,
      12,
      17,
    );
  const model = data.models[text.entry.model].id;
  y = write(
    [{ words: `${runs.length > 1 ? "" : `${run.about.label}, `}${model}, whence ${data.version}`, fill: MUTED }],
    y + 6,
    11,
    15,
  );
  const height = Math.ceil(y + MARGIN);
  picture.prepend(shape("rect", { width, height, fill: "#ffffff" }));
  return filled(picture, { viewBox: `0 0 ${width} ${height}`, width, height }, []);
}

/** The colours of the text from end to end, with what they stand for. */
function drawRamp(picture, y, { meaning }) {
  const low = byId("ramp-low").textContent;
  picture.append(shape("text", { x: MARGIN, y: y + 12 }, low));
  const start = MARGIN + widthOf(low, 12) + 8;
  const shares = meaning.signed ? [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1] : [0, 0.25, 0.5, 0.75, 1];
  shares.forEach((share, at) => {
    const box = { x: start + 20 * at, y, width: 20, height: 15 };
    picture.append(shape("rect", { ...box, fill: share < 0 ? AGAINST : FOR, "fill-opacity": Math.abs(share) * 0.5 }));
  });
  picture.append(shape("text", { x: start + 20 * shares.length + 8, y: y + 12 }, byId("ramp-high").textContent));
  return y + 24;
}

function drawTable(picture, { runs, pieces, tables, full, drops }, { labelled, left, starts, wide, square, bar, y }) {
  const named = runs.map((run, at) => linesOf([{ words: run.about.label, bold: true }], wide[at], 12));
  const many = Math.max(...named.map((lines) => lines.length));
  const upright = Math.max(
    14,
    ...runs.flatMap(({ layers }) =>
      layers.map((layer) => (layers.length > 1 && layerShort(layer).length > 3 ? widthOf(layerShort(layer), 11) : 0)),
    ),
  );
  const top = y + 16 * many + upright + 10;
  const tops = [];
  let below = top;
  labelled.forEach((lines, at) => {
    tops.push(below);
    const fill = pieces[at].special ? MUTED : INK;
    lines.forEach((line, row) => {
      const words = line.map((piece) => piece.words).join("");
      picture.append(shape("text", { x: left - 8, y: below + 14 + 15 * row, "text-anchor": "end", fill }, words));
    });
    below += 5 + 15 * Math.max(1, lines.length);
  });
  tops.push(below);
  runs.forEach((run, at) => {
    const start = starts[at];
    writeLines(picture, named[at], { x: start, y, size: 12, gap: 16 });
    if (run.layers.length === 1) drawBars(picture, run, tables[at][0], full[at][0], { start, top, tops, bar });
    else drawSquares(picture, run, tables[at], full[at], drops[at], { start, top, tops, square });
  });
  return below + 10;
}

function drawSquares(picture, run, table, full, drops, { start, top, tops, square }) {
  run.layers.forEach((layer, column) => {
    const x = start + square * (column + 0.5);
    const name = layerShort(layer);
    const spot =
      name.length > 3
        ? { transform: `rotate(-90 ${x + 4} ${top - 6})`, x: x + 4, y: top - 6 }
        : { x, y: top - 6, "text-anchor": "middle" };
    picture.append(shape("text", { ...spot, "font-size": 11 }, name));
    table[column].forEach((score, at) => {
      const tall = tops[at + 1] - tops[at] - 1;
      const box = { x: start + square * column + 0.5, y: tops[at] + 0.5, width: square - 1, height: tall };
      const against = run.meaning.signed && score < 0;
      const share = Math.abs(shareOf(score, full[column]));
      picture.append(shape("rect", { ...box, fill: "#f1f2f4", class: "square" }));
      if (share < FAINT) return;
      picture.append(
        shape("rect", { ...box, fill: against ? AGAINST : FOR, "fill-opacity": share.toFixed(3), class: "score" }),
      );
      if (!run.meaning.signed || share < STRONG) return;
      const fill = share > 0.55 ? "#ffffff" : INK;
      const middle = { x, y: tops[at] + tall / 2 + 4.5, "text-anchor": "middle", "font-weight": 700, fill };
      picture.append(shape("text", middle, against ? "−" : "+"));
    });
  });
  if (!drops) return;
  const line = drops.flatMap((drop, at) => [
    `${start + square * drop},${tops[at]}`,
    `${start + square * drop},${tops[at + 1]}`,
  ]);
  picture.append(shape("polyline", { points: line.join(" "), fill: "none", stroke: INK, "stroke-width": 2.5 }));
}

function drawBars(picture, run, scores, full, { start, top, tops, bar }) {
  const shares = scores.map((score) => shareOf(score, full));
  const low = Math.max(0, -Math.min(0, ...shares));
  const unit = bar / (low + Math.max(0, ...shares) || 1);
  picture.append(shape("text", { x: start, y: top - 6, "font-size": 11 }, layerShort(run.layers[0])));
  shares.forEach((share, at) => {
    const written = number(scores[at], Math.max(full, Math.abs(scores[at])), run.meaning.signed);
    picture.append(shape("text", { x: start + 54, y: tops[at] + 14, "text-anchor": "end" }, written));
    picture.append(
      shape("rect", {
        x: start + 64 + unit * (low + Math.min(0, share)),
        y: tops[at] + 4,
        width: Math.max(0.01, unit * Math.abs(share)),
        height: 12,
        fill: isRandom(run) ? "#8a8f98" : run.meaning.signed && share < 0 ? AGAINST : FOR,
        class: "bar",
      }),
    );
  });
  const zero = start + 64 + unit * low;
  picture.append(
    shape("line", { x1: zero, x2: zero, y1: top, y2: tops[tops.length - 1], stroke: "#6b7280", "stroke-width": 0.8 }),
  );
}
