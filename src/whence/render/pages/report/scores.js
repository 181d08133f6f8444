// Scores: how strong they are drawn, and how they are written.

/** Scores of pieces by a run: a row per layer. */
const tableOf = (run, pieces) => run.layers.map((_, layer) => pieces.map((piece) => run.score(layer, piece)));

/** What counts as full strength in a row: the largest of a word; special tokens would often drown all others. */
function largestOf(row, pieces, size = largest) {
  const words = row.filter((_, at) => !pieces[at].special).map(Math.abs);
  return size(words) || largest(row.map(Math.abs));
}

const largest = (sizes) => sizes.reduce((a, b) => Math.max(a, b), 0);

/** Full strength where one outlier must not wash out all others: 19 of 20 are below, but never a tenth of the largest. */
function fullSize(sizes) {
  const order = [...sizes].sort((a, b) => a - b);
  return Math.max(order[Math.ceil(0.95 * order.length) - 1] ?? 0, largest(sizes) / 10);
}

/** Of responses and long texts colours are scaled so that no outlier washes them out. */
const sizeNow = () => (text.entry.response || isLong() ? fullSize : largest);
/** The same in the map, where a bar is always as long as its score. */
const colourSize = (run) => (run.layers.length > 1 ? sizeNow() : largest);

/** Full strength at every layer. Keep probabilities are read against 1, everything else against the largest. */
function fullOf(run, table, pieces, normalise) {
  if (normalise === "layer") return table.map((row) => largestOf(row, pieces, colourSize(run)));
  const strongest = pieces.map((_, at) => Math.max(...table.map((row) => Math.abs(row[at]))));
  return table.map(() => (run.meaning.keepProbability ? 1 : largestOf(strongest, pieces, colourSize(run))));
}

/** What counts as full strength in the text, which is read one layer at a time. */
const fullInText = (run, row, pieces) => (run.meaning.keepProbability ? 1 : largestOf(row, pieces, sizeNow()));

/** How far bars reach below and above zero in a whole map, as shares of full strength, so that zero stands still. */
function reachOf(run, table, full) {
  let [below, above] = [0, run.meaning.keepProbability ? 1 : 0];
  table.forEach((row, layer) => {
    for (const score of row) {
      const share = shareOf(score, full[layer]);
      below = Math.max(below, -share);
      above = Math.max(above, share);
    }
  });
  return { below, span: below + above || 1 };
}

const shareOf = (score, full) => (full ? Math.max(-1, Math.min(1, score / full)) : 0);

/** A score with three significant digits of the largest beside it. */
function number(value, largest = Math.abs(value), sign = false) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0 || largest === 0) return "0";
  const digits = Math.max(2, 2 - Math.floor(Math.log10(largest)));
  const tidy = (text) => (sign && value > 0 ? `+${text}` : text.replace("-", "−"));
  if (largest >= 1e6 || digits > 7) return tidy(value.toExponential(2).replace("e-", "e−"));
  const shown = value.toFixed(digits);
  return Number(shown) === 0 ? "0" : tidy(shown);
}
