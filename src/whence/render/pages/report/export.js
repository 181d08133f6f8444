// What can be taken away: the scores as CSV, the picture as SVG or PNG.

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
