// Reading the data: what cannot be seen becomes a symbol, characters find their places, pieces become words.

// Scripts in which the two joiners (U+200C, U+200D) belong to the spelling.
const JOINING = [
  "Arabic",
  "Syriac",
  "Nko",
  "Mongolian",
  "Devanagari",
  "Bengali",
  "Gurmukhi",
  "Gujarati",
  "Oriya",
  "Tamil",
  "Telugu",
  "Kannada",
  "Malayalam",
  "Sinhala",
]
  .map((name) => `\\p{Script=${name}}`)
  .join("");
const EMOJI = "\\p{Extended_Pictographic}[\\uFE0F\\u{1F3FB}-\\u{1F3FF}]?";

// What looks invisible but is part of what is seen comes first and stays; see render/visible.py, which this repeats.
const UNSEEN = new RegExp(
  `((?<=${EMOJI})\\u200D(?=\\p{Extended_Pictographic})|(?<=[${JOINING}])[\\u200C\\u200D](?=[${JOINING}])` +
    "|\\u{1F3F4}[\\u{E0020}-\\u{E007E}]+\\u{E007F}" +
    "|[\\u0600-\\u0605\\u06DD\\u070F\\u0890\\u0891\\u08E2\\u{110BD}\\u{110CD}]|\\p{M})" +
    "|[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]",
  "gu",
);

function symbolOf(found) {
  const code = found.codePointAt(0);
  if (found === "\n") return "␤";
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "␡" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** `text` with every control, line break, direction mark and zero-width character as one symbol. */
const visible = (text) => text.replace(UNSEEN, (found, kept) => (kept === undefined ? symbolOf(found) : found));

/** The places of a text that need a symbol, in order; line breaks and tabs stay as they are in running text. */
function unseenIn(source) {
  const places = [];
  for (const match of source.matchAll(UNSEEN)) {
    const [found, kept] = match;
    const running = found === "\n" || found === "\t" || (found === "\r" && source[match.index + 1] === "\n");
    if (kept === undefined && !running)
      places.push({ start: match.index, end: match.index + found.length, symbol: symbolOf(found) });
  }
  return places;
}

const shortened = (text, most) =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…`;

/** From characters as Python counts them to places of a JavaScript string, where rare characters count twice. */
function placesOf(source) {
  if (!/[\ud800-\udfff]/.test(source)) return (character) => Math.min(character, source.length);
  const places = [];
  for (let place = 0; place < source.length; place += source.codePointAt(place) > 0xffff ? 2 : 1) places.push(place);
  return (character) => (character < places.length ? places[character] : source.length);
}

const floats = (base64) => new Float32Array(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer);

const LAYER_NAMES = { words: "word embeddings", 0: "embedding" };
const layerName = (layer) => LAYER_NAMES[layer] ?? `layer ${layer}`;
const layerShort = (layer) => LAYER_NAMES[layer] ?? String(layer);
const layerPhrase = (layer) => (layer in LAYER_NAMES ? `the ${LAYER_NAMES[layer]}` : `layer ${layer}`);
const layerHeight = (layer) => (layer === "embeddings" ? -1 : layer);

/** A text with its tokens and the scores of every method, ready to draw. */
function openText(index) {
  const entry = data.texts[index];
  const sources = entry.pair === null ? [entry.text] : [entry.text, entry.pair];
  const places = sources.map(placesOf);
  const columns = entry.tokens;
  const tokens = columns.text.map((text, place) => {
    const segment = Math.min(columns.segment[place], sources.length - 1);
    const [first, last] = [columns.start[place], columns.end[place]];
    return {
      text,
      first,
      last,
      segment,
      start: places[segment](first),
      end: places[segment](last),
      special: columns.special[place] === 1,
      word: columns.word[place],
      place,
    };
  });
  return {
    index,
    entry,
    sources,
    tokens,
    unseen: sources.map(unseenIn),
    runs: entry.runs.map((run) => openRun(run, tokens.length)),
  };
}

function openRun(run, width) {
  const method = data.methods[run.method];
  const scores = floats(run.scores);
  const errors = run.errors === null ? null : floats(run.errors);
  return {
    ...run,
    about: method,
    layers: method.layers,
    meaning: method.meaning,
    score: (layer, place) => scores[layer * width + place],
    error: (layer, place) => (errors ? errors[layer * width + place] : null),
  };
}

const UNKNOWN = ["[UNK]", "<unk>", "<|unk|>"];

/** The lines of the map in the order of the text: words (with the tokens they are made of) or tokens. */
function piecesOf(text, unit) {
  const members = new Map();
  for (const token of text.tokens) {
    const alone = unit === "tokens" || token.special || token.word === null;
    const key = alone ? `token ${token.place}` : `${token.segment} ${token.word}`;
    if (!members.has(key)) members.set(key, []);
    members.get(key).push(token);
  }
  return [...members.values()].map((tokens) => pieceOf(text, tokens, unit));
}

function pieceOf(text, tokens, unit) {
  const [token] = tokens;
  const source = text.sources[token.segment];
  let start = Math.min(...tokens.map((each) => each.start));
  const end = Math.max(...tokens.map((each) => each.end));
  while (start < end && /\s/.test(source[start])) start += 1;
  const before = text.tokens[token.place - 1];
  const goesOn =
    unit === "tokens" &&
    before &&
    token.word !== null &&
    before.word === token.word &&
    before.segment === token.segment;
  const written = visible(shortened(source.slice(start, end), 400));
  const blank = "␣".repeat(Math.min(8, token.end - token.start));
  const unknown = tokens.find((each) => !each.special && UNKNOWN.includes(each.text));
  const label =
    token.special || (token.start === token.end && !written)
      ? visible(shortened(token.text, 400))
      : (goesOn ? "…" : "") + (written || blank) + (unknown ? ` ${unknown.text}` : "");
  return {
    label,
    start,
    end,
    segment: token.segment,
    special: token.special,
    places: tokens.map((each) => each.place),
  };
}
