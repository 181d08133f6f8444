// Numbers and tables that look the same on every page.

const decimals = (value, digits = 2) =>
  Number.isFinite(value)
    ? value
        .toFixed(digits)
        .replace(/^-(?=[0.]*$)/, "")
        .replace("-", "−")
    : "–";
const percent = (chance) => `${(100 * chance).toFixed(1)} %`;
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** The name of a method, which may go on in the next line after an underscore. */
const breakable = (name) => name.split(/(?<=_)/).flatMap((part, at) => (at ? [node("wbr"), part] : [part]));

const FAINT = 0.1; // of full colour: what is less is next to nothing, and has none

/** A cell coloured by a rank correlation between −1 and 1. */
function tauCell(value) {
  const cell = node("td", { class: "tau" }, decimals(value));
  if (Math.abs(value) >= FAINT) {
    cell.style.setProperty("--share", Math.min(1, Math.abs(value)).toFixed(3));
    cell.classList.toggle("against", value < 0);
  }
  return cell;
}

/** A head of columns and rows that begin with a name; both hold nodes or strings. */
function fillTable(table, heads, rows) {
  const head = node("tr", {}, node("td"), ...heads.map((each) => node("th", { scope: "col" }, each)));
  const body = rows.map(([name, ...cells]) => node("tr", {}, node("th", { scope: "row" }, name), ...cells));
  table.replaceChildren(node("thead", {}, head), node("tbody", {}, ...body));
}

/** Facts as a list of names and values. */
const factList = (facts) =>
  facts.flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, node("bdi", {}, value))]);

/** The last section of a page, folded away: how it was made, and its words; what else is said there stays in sight. */
function drawMade(facts, ...below) {
  const title = node("summary", {}, node("h2", { id: "made-title" }, "How this was made"));
  const fold = node("details", {}, title, node("dl", { id: "facts", class: "pairs" }, ...factList(facts)));
  const words = data.glossary ? [wordsUsed()] : [];
  const about = { class: "specialists", "aria-labelledby": "made-title" };
  byId("main").append(node("section", about, fold, ...words, ...below));
}
