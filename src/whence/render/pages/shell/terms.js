// Words that a reader may not know: underlined with dots, and explained where they are pointed at or reached by Tab.
// What they mean comes with the data, as `glossary`.

const KNOWN = Object.keys(data.glossary ?? {}).sort((one, other) => other.length - one.length);
const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const ANY_TERM = KNOWN.length
  ? new RegExp(`(?<![\\p{L}\\d_])(${KNOWN.map(escaped).join("|")})(?![\\p{L}\\d_])`, "u")
  : null;

/** A word that explains itself, shown as it is called here; the plain text where there is no explanation of it. */
function term(word, shown = word) {
  if (!data.glossary?.[word]) return document.createTextNode(shown);
  return node("dfn", { class: "term", tabindex: 0, "data-term": word, "aria-describedby": "meaning" }, shown);
}

/** All of them in a list, folded away. */
function wordsUsed() {
  const meanings = node("dl", { id: "glossary", class: "pairs" }, ...factList(Object.entries(data.glossary)));
  return node("details", { id: "words" }, node("summary", {}, node("h2", {}, "Words used here")), meanings);
}

/** A sentence as nodes, in which each known word explains itself the first time it comes. */
function explained(sentence, done = new Set()) {
  const found = ANY_TERM?.exec(sentence);
  if (!found) return [document.createTextNode(sentence)];
  const [word] = found;
  const after = found.index + word.length;
  const first = !done.has(word);
  done.add(word);
  const before = sentence.slice(0, found.index);
  return [before, first ? term(word) : word, ...explained(sentence.slice(after), done)].filter(Boolean);
}

{
  const meaning = node("div", { id: "meaning", class: "tip", role: "tooltip", hidden: true });
  document.body.append(meaning);
  const explain = (element) => {
    const asked = element instanceof Element ? element.closest(".term") : null;
    meaning.hidden = !asked;
    if (!asked) return;
    meaning.replaceChildren(node("b", {}, asked.dataset.term), `: ${data.glossary[asked.dataset.term]}`);
    placeBeside(meaning, asked);
  };
  for (const event of ["pointerover", "focusin", "click"])
    document.addEventListener(event, ({ target }) => explain(target));
  const hide = () => {
    meaning.hidden = true;
  };
  document.addEventListener("focusout", hide);
  // the focus itself makes the page scroll: what is explained goes along
  document.addEventListener("scroll", () => explain(document.activeElement), { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
