// What can be taken away: the scores as CSV, the map as SVG or PNG, always on white.

const FOR = "#1f5fb4";
const AGAINST = "#c4570a";
const LARGEST = 8192; // pixels of a picture's side

/** A cell of a CSV file. A text that a spreadsheet would take for a formula gets an apostrophe in front. */
function csvCell(value) {
  if (typeof value === "number") return String(value);
  const guarded = /^\s*[=+\-@＝＋－＠\t\r\n]/.test(value) ? `'${value}` : value;
  return `"${guarded.replaceAll('"', '""')}"`;
}

/** The shortest digits that give the same score again. */
function digits(score) {
  for (let count = 6; count < 9; count += 1) {
    const short = Number(score.toPrecision(count));
    if (Math.fround(short) === score) return short;
  }
  return Number(score.toPrecision(9));
}

/** Every score of every method of a text, one per line; sub-words, since words are made of them. */
function csvOf({ entry, pieces, runs }) {
  const lines = [
    ["method", "layer", "position", "token", "start", "end", "segment", "special", "word", "score", "standard_error"],
  ];
  for (const run of runs) {
    run.layers.forEach((name, layer) => {
      for (const token of pieces.tokens) {
        const error = run.error(layer, token);
        lines.push([
          run.about.label,
          name,
          token.at,
          entry.tokens.text[token.at],
          token.start,
          token.end,
          token.segment,
          token.special ? "true" : "false",
          entry.tokens.word[token.at] ?? "",
          digits(run.score(layer, token)),
          error === null ? "" : digits(error),
        ]);
      }
    });
  }
  return lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
}

/** The map as it is shown, all rows, as a picture of its own. */
function svgOf({ runs, pieces, tables, full, drops }, heading) {
  const [row, square, bar, gap, left, margin] = [
    20,
    26,
    150,
    18,
    24 + 7 * Math.min(24, Math.max(5, ...pieces.map((piece) => piece.label.length))),
    16,
  ];
  const top = margin + 20 * heading.length + 96;
  const starts = [];
  let width = left;
  for (const run of runs) {
    starts.push(width);
    width += (run.layers.length > 1 ? square * run.layers.length : bar + 60) + gap;
  }
  width = Math.max(width + margin, margin * 2 + 7.2 * Math.max(...heading.map((line) => line.length)));
  const height = top + row * pieces.length + margin;
  const picture = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    "font-family": "system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
    "font-size": 12,
    fill: "#1c1e22",
  });
  picture.append(shape("rect", { width, height, fill: "#ffffff" }));
  heading.forEach((line, at) => {
    picture.append(shape("text", { x: margin, y: margin + 12 + 20 * at, "font-weight": at ? 400 : 700 }, line));
  });
  pieces.forEach((piece, at) => {
    const fill = piece.special ? "#6b7280" : "#1c1e22";
    const spot = { x: left - 8, y: top + row * at + 14, "text-anchor": "end", fill };
    picture.append(shape("text", spot, shortened(piece.label, 24)));
  });
  runs.forEach((run, at) => {
    const start = starts[at];
    picture.append(
      shape(
        "text",
        { x: start, y: top - 80, "font-weight": 700 },
        shortened(
          run.about.label,
          Math.max(8, Math.floor((run.layers.length * square) / 7)) + (run.layers.length > 1 ? 0 : 22),
        ),
      ),
    );
    if (run.layers.length === 1) drawBars(picture, run, tables[at][0], full[at][0], { start, top, row, bar });
    else drawSquares(picture, run, tables[at], full[at], drops[at], { start, top, row, square });
  });
  return picture;
}

function drawSquares(picture, run, table, full, drops, { start, top, row, square }) {
  run.layers.forEach((layer, column) => {
    const x = start + square * (column + 0.5);
    const name = layerShort(layer);
    const upright =
      name.length > 3
        ? { transform: `rotate(-90 ${x + 4} ${top - 6})`, x: x + 4, y: top - 6 }
        : { x, y: top - 6, "text-anchor": "middle" };
    picture.append(shape("text", { ...upright, "font-size": 11 }, name));
    table[column].forEach((score, at) => {
      const box = { x: start + square * column + 0.5, y: top + row * at + 0.5, width: square - 1, height: row - 1 };
      const fill = run.meaning.signed && score < 0 ? AGAINST : FOR;
      const strength = Math.abs(shareOf(score, full[column])).toFixed(3);
      picture.append(shape("rect", { ...box, fill: "#f1f2f4" }));
      picture.append(shape("rect", { ...box, fill, "fill-opacity": strength }));
    });
  });
  if (!drops) return;
  const line = drops.flatMap((drop, at) => [
    `${start + square * drop},${top + row * at}`,
    `${start + square * drop},${top + row * (at + 1)}`,
  ]);
  picture.append(shape("polyline", { points: line.join(" "), fill: "none", stroke: "#1c1e22", "stroke-width": 2.5 }));
}

function drawBars(picture, run, scores, full, { start, top, row, bar }) {
  const shares = scores.map((score) => shareOf(score, full));
  const low = Math.max(0, -Math.min(0, ...shares));
  const unit = bar / (low + Math.max(0, ...shares) || 1);
  picture.append(shape("text", { x: start, y: top - 6, "font-size": 11 }, layerShort(run.layers[0])));
  shares.forEach((share, at) => {
    picture.append(
      shape(
        "text",
        { x: start + 50, y: top + row * at + 14, "text-anchor": "end" },
        number(scores[at], Math.max(full, Math.abs(scores[at])), run.meaning.signed),
      ),
    );
    picture.append(
      shape("rect", {
        x: start + 60 + unit * (low + Math.min(0, share)),
        y: top + row * at + 4,
        width: Math.max(0.01, unit * Math.abs(share)),
        height: row - 8,
        fill: run.meaning.signed && share < 0 ? AGAINST : FOR,
      }),
    );
  });
  picture.append(
    shape("line", {
      x1: start + 60 + unit * low,
      x2: start + 60 + unit * low,
      y1: top,
      y2: top + row * scores.length,
      stroke: "#6b7280",
      "stroke-width": 0.8,
    }),
  );
}

/** Only characters that XML allows: the rest already stands there as symbols, but a stray one must not spoil a file. */
const svgText = (picture) =>
  new XMLSerializer()
    .serializeToString(picture)
    .replace(/[^\t\n\r -\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd");

async function pngOf(picture) {
  const [width, height] = [picture.viewBox.baseVal.width, picture.viewBox.baseVal.height];
  const scale = Math.min(2, LARGEST / width, LARGEST / height);
  const address = URL.createObjectURL(new Blob([svgText(picture)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = node("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => {
      canvas.toBlob(done, "image/png");
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = node("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const fileName = (index, method, ending) =>
  `whence-${index + 1}-${method.replace(/[^\w-]+/g, "_").slice(0, 40)}.${ending}`;
