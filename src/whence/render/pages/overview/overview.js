// What a corpus run found, drawn from aggregates: the page is as large for a million texts as for a hundred.

const { counts } = data;
const whole = (count) => count.toLocaleString("en-US");
const show = (id, is) => byId(id).toggleAttribute("hidden", !is);

function drawCounts() {
  byId("counts-title").textContent =
    `${whole(counts.texts)} ${counts.texts === 1 ? "text" : "texts"} of ${data.data}${data.complete ? "" : ", and the run is not complete"}`;
  const told = [[whole(counts.texts - counts.failed), "explained"]];
  if (counts.judged)
    told.push([percent(counts.right / counts.judged), `right of ${whole(counts.judged)} with a label`]);
  told.push([whole(counts.words), "scored words, of all methods"]);
  if (counts.truncated) told.push([whole(counts.truncated), "cut off at the model’s length"]);
  if (counts.failed) told.push([whole(counts.failed), "could not be explained"]);
  byId("counts").replaceChildren(
    ...told.map(([number, words]) => node("li", {}, node("b", {}, number), node("span", {}, words))),
  );
}

/** The texts of a class by the model's probability, as a row of bars. */
function histogram({ name, bins }) {
  const most = Math.max(1, ...data.classes.flatMap((each) => each.bins));
  const told = bins.map((count, at) => `${at * 10} to ${at * 10 + 10} %: ${whole(count)}`).join("; ");
  const picture = shape("svg", {
    viewBox: "0 0 100 30",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `${name}: ${told}`,
  });
  bins.forEach((count, at) => {
    const height = count ? Math.max(0.6, (28 * count) / most) : 0;
    picture.append(shape("rect", { x: at * 10 + 0.5, y: 29 - height, width: 9, height }));
  });
  picture.append(shape("line", { x1: 0, x2: 100, y1: 29.5, y2: 29.5 }));
  return picture;
}

function drawClasses() {
  const explained = Math.max(1, counts.texts - counts.failed);
  byId("classes").replaceChildren(
    ...data.classes.map((each) =>
      node(
        "div",
        { class: "class-row" },
        node("bdi", {}, each.name),
        histogram(each),
        node("span", { class: "count" }, `${whole(each.texts)} · ${percent(each.texts / explained)}`),
      ),
    ),
  );
}

function drawConfusion() {
  show("confusion-part", data.confusion);
  if (!data.confusion) return;
  byId("confusion-title").textContent = `Right and wrong: ${percent(counts.right / counts.judged)} right`;
  const { labels, rows } = data.confusion;
  const cells = (row, gold) =>
    row.map((count, said) => node("td", { class: gold === said ? "good" : null }, whole(count)));
  fillTable(
    byId("confusion"),
    labels.map((label) => node("bdi", {}, label)),
    rows.map((row, gold) => [node("bdi", {}, labels[gold]), ...cells(row, gold)]),
  );
}

/** A text, or a link to its words where there is a page of them. */
const linked = (index, ...children) =>
  data.texts && index !== null && index !== undefined
    ? node("a", { href: `${data.texts}#text-${index}` }, ...children)
    : node("span", {}, ...children);

/** A bar from 0 to the mean, and the interval around it. */
function bar(word, largest) {
  const at = (value) => (100 * Math.max(0, Math.min(largest, value))) / largest;
  const picture = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(shape("rect", { x: 0, y: 2, width: at(word.mean), height: 6 }));
  if (word.low !== null)
    picture.append(shape("line", { class: "interval", x1: at(word.low), x2: at(word.high), y1: 5, y2: 5 }));
  return picture;
}

function wordRow(word, largest) {
  const range = word.low === null ? " (no interval)" : ` (${decimals(word.low, 3)} to ${decimals(word.high, 3)})`;
  const told = `${decimals(word.mean, 3)}${range}, ${plural(word.texts, "text")}`;
  const row = node(
    "li",
    { class: "word" },
    node("bdi", { class: "name" }, word.word),
    bar(word, largest),
    node("span", { class: "number" }, told),
  );
  if (word.example) {
    const [before, itself, after] = word.example;
    row.append(
      node("span", { class: "example" }, linked(word.index, node("bdi", {}, before, node("mark", {}, itself), after))),
    );
  }
  return row;
}

function drawWords(id, classes) {
  const largest = Math.max(1e-9, ...classes.flatMap(({ words }) => words.map((word) => word.high ?? word.mean)));
  byId(id).replaceChildren(
    ...classes.map(({ name, words }) =>
      node(
        "div",
        {},
        node("h3", {}, node("bdi", {}, name)),
        node("ol", {}, ...words.map((word) => wordRow(word, largest))),
      ),
    ),
  );
}

function chooseWords() {
  const which = byId("which").value;
  drawWords("driving-words", data[which]);
  const note =
    (which === "decisive"
      ? `${data.decisive.length ? "Words" : "There are no words"} of at least ${data.leastTexts} texts whose mean score is surely above zero, by the lower end of their interval.`
      : "Words whose scores add up to most over all texts: often there, if not always strong.") +
    ` Mean score over texts at ${layerPhrase(data.layer)}, with its 95 % interval. A score is ${data.meaning}. Below, the text in which it is highest.`;
  byId("words-note").replaceChildren(...explained(note));
}

function textItem(each, more) {
  const said = each.prediction === null ? [] : [`model: ${each.prediction} (${percent(each.probability ?? 0)})`];
  if (each.label !== null) said.push(`label: ${each.label}`);
  if (more) said.push(more);
  if (each.note) said.push(each.note);
  return node(
    "li",
    {},
    linked(each.index, node("bdi", {}, each.text || "(no text)")),
    node("span", { class: "aside" }, node("bdi", {}, `${each.id} · ${said.join(" · ")}`)),
  );
}

function drawTexts(id, texts, more = () => "") {
  byId(id).replaceChildren(...texts.map((each) => textItem(each, more(each))));
}

function chooseFacet() {
  const facet = data.facets[Number(byId("facet").value) || 0];
  const rows = facet.values.map((each) => [
    node("bdi", {}, each.value),
    node("td", {}, whole(each.texts)),
    node("td", {}, each.right === null ? "–" : percent(each.right)),
    node("td", {}, percent(each.sure)),
    node(
      "td",
      {},
      node("bdi", {}, each.predictions.map(([name, count]) => `${name} ${percent(count / each.texts)}`).join(", ")),
    ),
  ]);
  fillTable(byId("facets"), ["texts", "right", "mean probability", "the model says"], rows);
}

function drawTrouble() {
  show("trouble-part", data.errors.length || data.warnings.length);
  const rows = [
    ...data.errors.map(([reason, count]) => [
      node("bdi", {}, reason),
      node("td", {}, "error"),
      node("td", {}, whole(count)),
    ]),
    ...data.warnings.map(([reason, count]) => [
      node("bdi", {}, reason),
      node("td", {}, "warning"),
      node("td", {}, whole(count)),
    ]),
  ];
  fillTable(byId("reasons"), ["kind", "texts"], rows);
  for (const [name, words] of [
    ["failed", "could not be explained"],
    ["truncated", "were cut off"],
  ]) {
    show(`${name}-part`, data[name].length);
    byId(`${name}-part`).querySelector("summary").textContent =
      `The first ${plural(data[name].length, "text")} that ${words}`;
    drawTexts(name, data[name]);
  }
}

drawCounts();
drawClasses();
drawConfusion();
byId("which").addEventListener("change", chooseWords);
chooseWords();
show("wrong-part", data.wrong.length);
drawWords("wrong", data.wrong);
show("mistakes-part", data.mistakes.length);
drawTexts("mistakes", data.mistakes);
show("disagreeing-part", data.disagreeing.length);
drawTexts("disagreeing", data.disagreeing, (each) => `τ ${decimals(each.value)}`);
show("facets-part", data.facets.length);
if (data.facets.length) {
  byId("facet").replaceChildren(...data.facets.map(({ name }, at) => node("option", { value: at }, name)));
  byId("facet").addEventListener("change", chooseFacet);
  chooseFacet();
}
drawTrouble();
for (const note of document.querySelectorAll("p.aside.explains")) note.replaceChildren(...explained(note.textContent));
const leftOut = data.texts
  ? "Texts that are named here are linked to a page that shows their words; all others are in the tables of the run."
  : "Texts are left out of this page but for those named; all are in the tables of the run.";
drawMade(data.facts, node("p", { class: "aside" }, leftOut));
