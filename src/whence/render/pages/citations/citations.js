// The answer, and of the sentence that is pointed at what it rests on: a ranking, and the documents coloured by it.

const FIRST = 5; // sources listed before one asks for more
let pinned = null;
let shown = 0;
let everything = false;

byId("question").textContent = data.question;
byId("rule").replaceChildren(...explained(data.rule));
drawMade(data.facts);
byId("warnings").hidden = !data.warnings.length;
byId("warnings").replaceChildren(...data.warnings.map((warning) => node("li", {}, warning)));

const buttons = data.sentences.map((sentence) => {
  const alone = sentence.cited !== null && !sentence.cited.length;
  return node("button", { type: "button", class: alone ? "alone" : null, "aria-pressed": "false" });
});

byId("answer").replaceChildren(
  ...data.answer.flatMap(([text, number]) => {
    if (number === null) return [text];
    const sources = data.sentences[number].shown.map((source) => source + 1);
    buttons[number].append(node("bdi", {}, text));
    return [buttons[number], node("sup", {}, sources.length ? sources.join(", ") : "none")];
  }),
);

const spans = data.sources.map((source) => node("span", {}, node("bdi", {}, source.text)));
byId("documents").replaceChildren(
  ...data.documents.map((name, number) => {
    const own = spans.filter((_, source) => data.sources[source].document === number);
    const spaced = own.flatMap((span, place) => (place ? [" ", span] : [span]));
    return node("article", {}, node("h3", { class: "name" }, node("bdi", {}, name)), node("p", {}, ...spaced));
  }),
);

/** A bar from zero to the score, a line for its interval, and a mark where sources begin to be cited. */
function scale(score, low, high, ends, marked) {
  const [least, most] = ends;
  const place = (value) => `${(100 * (Math.min(Math.max(value, least), most) - least)) / (most - least || 1)}%`;
  const width = (from, to) => `${(100 * (Math.min(to, most) - Math.max(from, least))) / (most - least || 1)}%`;
  const bar = node("i", { class: score < 0 ? "against" : null });
  bar.style.insetInlineStart = place(Math.min(score, 0));
  bar.style.width = width(Math.min(score, 0), Math.max(score, 0));
  const drawn = node("div", { class: "scale", "aria-hidden": "true" }, bar);
  if (low !== null && high !== null && high > low) {
    const line = node("b");
    line.style.insetInlineStart = place(low);
    line.style.width = width(low, high);
    drawn.append(line);
  }
  if (marked) {
    const mark = node("u");
    mark.style.insetInlineStart = place(data.least);
    drawn.append(mark);
  }
  return drawn;
}

function line([source, score, low, high], sentence, ends) {
  const told = sentence.cited !== null;
  const cited = sentence.shown.includes(source);
  const between = low === high ? "exact" : `${decimals(low)} to ${decimals(high)}`;
  const range = low === null || high === null ? "" : ` (${between})`;
  return node(
    "li",
    { class: cited ? null : "rest" },
    node("span", { class: "number" }, String(source + 1)),
    node("div", { class: "score" }, `${decimals(score)}${range}`, scale(score, low, high, ends, told)),
    node(
      "span",
      { class: "source" },
      node("bdi", {}, data.sources[source].text),
      node("span", { class: "name" }, ` ${data.documents[data.sources[source].document]}`),
    ),
  );
}

function show(number) {
  shown = number;
  const sentence = data.sentences[number];
  for (const [each, button] of buttons.entries()) button.setAttribute("aria-pressed", String(each === number));
  const told = sentence.cited !== null;
  const numbers = sentence.ranked.flatMap((row) => row.slice(1).filter((value) => value !== null));
  const ends = [Math.min(0, ...numbers), Math.max(0, ...numbers, told ? data.least : 0)];
  const count = everything ? sentence.ranked.length : Math.max(FIRST, sentence.shown.length);
  byId("rests-title").textContent = `Sentence ${number + 1}${told ? " rests on" : ": the strongest sources"}`;
  byId("none").hidden = !told || sentence.cited.length > 0;
  byId("none").textContent = "None of them. The strongest are listed all the same.";
  byId("ranking").replaceChildren(...sentence.ranked.slice(0, count).map((row) => line(row, sentence, ends)));
  byId("more").hidden = sentence.ranked.length <= Math.max(FIRST, sentence.shown.length);
  byId("more").textContent = everything ? "Fewer" : `All ${plural(sentence.ranked.length, "source")}`;
  const largest = Math.max(...sentence.ranked.map((row) => Math.abs(row[1])), 1e-9);
  for (const [source, score] of sentence.ranked) {
    const share = Math.abs(score) / largest;
    spans[source].style.setProperty("--share", share < FAINT ? "0" : share.toFixed(3));
    spans[source].style.setProperty("--hue", score < 0 ? "var(--against)" : "var(--for)");
    spans[source].classList.toggle("cited", told && sentence.cited.includes(source));
  }
}

buttons.forEach((button, number) => {
  button.addEventListener("pointerenter", () => pinned === null && show(number));
  button.addEventListener("focus", () => pinned === null && show(number));
  button.addEventListener("click", () => {
    pinned = pinned === number ? null : number;
    show(number);
  });
});
byId("more").addEventListener("click", () => {
  everything = !everything;
  show(shown);
});
show(0);
