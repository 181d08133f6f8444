// Scores: of pieces, their strength, and whether methods rank the words alike.

/** The sum (scores that add up) or the strongest. */
const gathered = (values, additive) =>
  additive
    ? values.reduce((sum, value) => sum + value, 0)
    : values.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most));

/** Scores of pieces by a run: a row a layer. */
const tableOf = (run, pieces) =>
  run.layers.map((_, layer) =>
    pieces.map((piece) =>
      gathered(
        piece.places.map((place) => run.score(layer, place)),
        run.meaning.additive,
      ),
    ),
  );

/** What counts as full strength in a row: the largest of a word; special tokens would often drown all others. */
function largestOf(row, pieces) {
  let [words, all] = [0, 0];
  row.forEach((value, place) => {
    all = Math.max(all, Math.abs(value));
    if (!pieces[place].special) words = Math.max(words, Math.abs(value));
  });
  return words || all;
}

/** Full strength at every layer. Keep probabilities are read against 1, everything else against the largest. */
function fullOf(run, table, pieces, normalise) {
  if (normalise === "layer") return table.map((row) => largestOf(row, pieces));
  const strongest = pieces.map((_, place) => Math.max(...table.map((row) => Math.abs(row[place]))));
  return table.map(() => (run.about.keep ? 1 : largestOf(strongest, pieces)));
}

/** What counts as full strength in the text, which is read one layer at a time. */
const fullInText = (run, row, pieces) => (run.about.keep ? 1 : largestOf(row, pieces));

/** How far bars reach below and above zero in a whole map, as shares of full strength, so that zero stays in its place. */
function reachOf(run, table, full) {
  let [below, above] = [0, run.about.keep ? 1 : 0];
  table.forEach((row, layer) =>
    row.forEach((score) => {
      const share = shareOf(score, full[layer]);
      below = Math.max(below, -share);
      above = Math.max(above, share);
    }),
  );
  return { below, span: below + above || 1 };
}

const shareOf = (score, full) => (full ? Math.max(-1, Math.min(1, score / full)) : 0);

/** The layer at which each piece is dropped: the first with a keep probability below one half; after the last if none. */
const dropsOf = (table, pieces) =>
  pieces.map((_, place) => {
    const found = table.findIndex((row) => row[place] < 0.5);
    return found < 0 ? table.length : found;
  });

/** The run's layer nearest to the one asked for. */
function nearestLayer(run, layer) {
  const far = run.layers.map((each) => Math.abs(layerHeight(each) - layerHeight(layer)));
  return far.indexOf(Math.min(...far));
}

function ranksOf(values) {
  const order = values.map((_, place) => place).sort((a, b) => values[a] - values[b]);
  const ranks = new Array(values.length);
  for (let first = 0; first < order.length;) {
    let last = first;
    while (last + 1 < order.length && values[order[last + 1]] === values[order[first]]) last += 1;
    for (let place = first; place <= last; place += 1) ranks[order[place]] = (first + last) / 2 + 1;
    first = last + 1;
  }
  return ranks;
}

/** Spearman's correlation of the sizes of two lists of scores, ties sharing their mean rank; NaN where all are equal. */
function agreementOf(one, other) {
  const [left, right] = [one, other].map((values) => {
    const ranks = ranksOf(values.map(Math.abs));
    const mean = ranks.reduce((sum, rank) => sum + rank, 0) / ranks.length;
    return ranks.map((rank) => rank - mean);
  });
  const dot = (a, b) => a.reduce((sum, value, place) => sum + value * b[place], 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}

/** One minus the mean agreement of all pairs of methods about the words, each at its layer nearest the input. */
function disagreementOf(text) {
  if (text.runs.length < 2) return null;
  const words = piecesOf(text, "words").filter((piece) => !piece.special);
  if (words.length < 2) return null;
  const rows = text.runs.map((run) =>
    words.map((piece) =>
      gathered(
        piece.places.map((place) => run.score(0, place)),
        run.meaning.additive,
      ),
    ),
  );
  const found = rows
    .flatMap((row, place) => rows.slice(place + 1).map((other) => agreementOf(row, other)))
    .filter((value) => !Number.isNaN(value));
  return found.length ? 1 - found.reduce((sum, value) => sum + value, 0) / found.length : null;
}

/** A score with three significant digits of the largest beside it. */
function number(value, largest = Math.abs(value), sign = false) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0 || largest === 0) return "0";
  const decimals = Math.max(2, 2 - Math.floor(Math.log10(largest)));
  const tidy = (text) => (sign && value > 0 ? `+${text}` : text.replace("-", "−"));
  if (largest >= 1e6 || decimals > 7) return tidy(value.toExponential(2).replace("e-", "e−"));
  const shown = value.toFixed(decimals);
  return Number(shown) === 0 ? "0" : tidy(shown);
}

const percent = (chance) => `${(100 * chance).toFixed(1)} %`;
