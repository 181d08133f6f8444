// Scores: how strong they are drawn, and how they are written.

/** Scores of pieces by a run: a row per layer. */
const tableOf = (run, pieces) => run.layers.map((_, layer) => pieces.map((piece) => run.score(layer, piece)));

/** What counts as full strength in a row: the largest of a word; special tokens would often drown all others. */
function largestOf(row, pieces) {
  let [words, all] = [0, 0];
  row.forEach((value, at) => {
    all = Math.max(all, Math.abs(value));
    if (!pieces[at].special) words = Math.max(words, Math.abs(value));
  });
  return words || all;
}

/** Full strength at every layer. Keep probabilities are read against 1, everything else against the largest. */
function fullOf(run, table, pieces, normalise) {
  if (normalise === "layer") return table.map((row) => largestOf(row, pieces));
  const strongest = pieces.map((_, at) => Math.max(...table.map((row) => Math.abs(row[at]))));
  return table.map(() => (run.meaning.keepProbability ? 1 : largestOf(strongest, pieces)));
}

/** What counts as full strength in the text, which is read one layer at a time. */
const fullInText = (run, row, pieces) => (run.meaning.keepProbability ? 1 : largestOf(row, pieces));

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
