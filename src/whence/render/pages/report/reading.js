// Reading the data: a text with its pieces and the scores of every method, ready to draw.

/**
 * A text: its sources as lists of characters (as Python counts them), its pieces by unit, and its runs. What is one
 * token is the same piece in both units.
 */
function openText(index) {
  const entry = data.texts[index];
  const sources = (entry.pair === null ? [entry.text] : [entry.text, entry.pair]).map((source) => [...source]);
  const piecesIn = (unit, columns) =>
    columns.label.map((label, at) => ({
      label,
      start: columns.start[at],
      end: columns.end[at],
      segment: Math.min(columns.segment[at], sources.length - 1),
      written: entry.response !== null && columns.segment[at] === 1,
      special: columns.special?.[at] === 1,
      tokens: columns.tokens?.[at] ?? [at],
      unit,
      at,
    }));
  const tokens = piecesIn("tokens", entry.tokens);
  const gathered = piecesIn("words", entry.words);
  const inside = new Set(entry.words.tokens.flat());
  const words = [...tokens.filter(({ at }) => !inside.has(at)), ...gathered].sort((a, b) => a.tokens[0] - b.tokens[0]);
  const widths = { tokens: tokens.length, words: gathered.length };
  return {
    index,
    entry,
    sources,
    pieces: { tokens, words },
    runs: entry.runs.map((run) => openRun(run, widths)),
    correlations: floats(entry.correlations),
  };
}

function openRun(run, widths) {
  const about = data.methods[run.method];
  const tables = { tokens: floats(run.scores.tokens), words: floats(run.scores.words) };
  const outputs = run.outputs && { ...run.outputs, scores: floats(run.outputs.scores) };
  const errors = { tokens: run.errors && floats(run.errors), words: run.unitErrors && floats(run.unitErrors) };
  const opened = {
    ...run,
    outputs,
    pointed: null, // where a part of the response is pointed at: its scores
    about,
    layers: about.layers,
    meaning: about.meaning,
    score: (layer, piece) =>
      opened.pointed?.(layer, piece) ?? tables[piece.unit][layer * widths[piece.unit] + piece.at],
    error: (layer, { unit, at }) => (opened.pointed ? null : (errors[unit]?.[layer * widths[unit] + at] ?? null)),
  };
  return opened;
}

/** τ between two runs of a text at a step; see `_steps` in page.py. */
function correlationOf({ runs, correlations }, step, one, other) {
  if (one === other) return 1;
  const [first, second, many] = [Math.min(one, other), Math.max(one, other), runs.length];
  const pair = first * many - (first * (first + 1)) / 2 + second - first - 1;
  return correlations[(step * many * (many - 1)) / 2 + pair];
}
