// The answer: a sentence, the probabilities beside it, and how far it may be believed. All of it is worked out in Python.

/** The parts of a sentence: plain words, what the model says, and words of the text in the colour of their sign. */
function drawnParts(parts) {
  return parts.flatMap(([kind, words]) => {
    if (kind === "plain") return withTerm(words, "mainly");
    return [node("b", { class: kind === "said" ? "said" : `word ${kind}` }, node("bdi", {}, words))];
  });
}

/** Plain words in which a term can be asked about. */
function withTerm(words, name) {
  const at = words.indexOf(name);
  if (at < 0) return [words];
  return [words.slice(0, at), term(name), words.slice(at + name.length)];
}

/** The sentence of a run, or of the part of the response that is pointed at. */
const sentenceNow = (run) => (partNow() && run.parts?.[pointing.kind][pointing.at ?? pointing.pinned]) || run.sentence;

/** Of a response, or of one tag among many, the probabilities of the whole would be beside the point. */
function drawDecision({ prediction, response, tags }, run) {
  byId("decision-title").replaceChildren(...drawnParts(sentenceNow(run)));
  byId("probabilities").replaceChildren(...(response || tags ? [] : chances(prediction.probabilities)));
}

function chances(probabilities) {
  if (probabilities.length < 2) return [];
  const rows = probabilities.slice(0, 4).map(([label, chance, said]) => {
    const bar = node("span", { class: "bar-of", "aria-hidden": "true" }, node("span"));
    bar.firstChild.style.width = `${100 * (chance ?? 0)}%`;
    const figure = node("span", { class: "figure" }, chance === null ? "–" : percent(chance));
    return node("li", { class: said ? "said" : "" }, node("bdi", { class: "name" }, label), bar, figure);
  });
  const more = probabilities.length - rows.length;
  if (more > 0) rows.push(node("li", { class: "aside" }, `and ${more} more`));
  return [node("ul", { class: "chances", "aria-label": "Probabilities" }, ...rows)];
}

const UNTESTED = "One method alone explains this text, and it has no check of its own. Compare it with others.";

function drawBelief({ belief }) {
  const lines = belief.map(({ about, word, sentence }) =>
    node("li", {}, node("b", { class: `strength ${word}` }, word), " ", term(about), `: ${sentence}.`),
  );
  const none = node("li", {}, node("b", { class: "strength none" }, "not known"), ` ${UNTESTED}`);
  byId("beliefs").replaceChildren(...(lines.length ? lines : [none]));
}
