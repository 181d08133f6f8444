// The verdict, the tables and the list of disputed texts.

const SHOWN_REASONS = 3;

/** The headline says how strong the evidence is, and what that means stands where it is pointed at, and below. */
function drawVerdict() {
  byId("answer").append(...explained(data.answer));
  const evidence = `${data.strength} evidence`;
  const steps = ["weak", "fair", "strong"].map((each) =>
    node(
      "span",
      { class: each === data.strength ? "step is-it" : "step", "aria-hidden": each !== data.strength },
      each,
    ),
  );
  byId("strength").append(node("span", { class: "steps" }, ...steps), ` Evidence: ${data.glossary[evidence]}.`);
  const item = (reason) => node("li", {}, ...explained(reason));
  byId("reasons").append(...data.reasons.slice(0, SHOWN_REASONS).map(item));
  const rest = data.reasons.slice(SHOWN_REASONS);
  byId("more-reasons").hidden = !rest.length;
  byId("more-reasons").querySelector("summary").textContent = `More evidence (${rest.length})`;
  byId("more-reasons")
    .querySelector("ul")
    .append(...rest.map(item));
  byId("warnings").hidden = !data.warnings.length;
  byId("warnings").append(...data.warnings.map(item));
}

function drawStages() {
  byId("control").hidden = !data.stages.length;
  byId("control-note").append(
    ...explained(
      "How far the order of words stays the same (τ) as the model’s weights are drawn anew from the top down. At the end nothing of the model is left: what is still alike ignores it.",
    ),
  );
  const rows = inOrder().filter(
    (entry) => entry.randomised.length && (entry.note || entry.randomised.some((value) => value !== null)),
  );
  const said = (entry) => (entry.flagged ? "ignores the model" : entry.note ? "could not be tried" : "");
  fillTable(
    byId("stages"),
    [...data.stages, "so it"],
    rows.map((entry) => [
      rowName(entry.name),
      ...entry.randomised.map(tauCell),
      node("td", { class: entry.flagged ? "flag" : "aside" }, said(entry)),
    ]),
  );
}

function drawCorrelations() {
  byId("correlation-note").append(
    ...explained("Mean τ between the orders of words: 1 is the same order, 0 unrelated, −1 the reverse."),
  );
  const order = data.rankings[HEADLINE].map(({ entry }) => entry);
  fillTable(
    byId("correlations"),
    order.map((column) => node("span", {}, data.entries[column].name)),
    order.map((row) => [
      rowName(data.entries[row].name),
      ...order.map((column) => tauCell(data.correlations[row][column])),
    ]),
  );
}

/** As many decimals as the largest of a column asks for. */
function digitsOf(values) {
  const size = Math.floor(Math.log10(Math.max(...values.map(Math.abs)) || 1));
  return size >= 1 ? 0 : size >= -1 ? 2 : Math.min(6, 1 - size);
}

function drawNumbers() {
  const arrow = { higher: " ↑", lower: " ↓" };
  const columns = Object.entries(data.metrics).map(([name, about]) => {
    const digits = digitsOf(data.entries.flatMap((entry) => (entry.means[name] ? [entry.means[name][0]] : [])));
    const head = node("span", { title: about.sentence }, about.title + (arrow[about.better] ?? ""));
    return { name, digits, head };
  });
  const rows = inOrder().map((entry) => {
    const cells = columns.map(({ name, digits }) => {
      if (!entry.means[name]) return node("td", {}, "–");
      const [mean, low, high] = entry.means[name].map((value) => decimals(value, digits));
      return node("td", { title: `95 %: ${low} to ${high}` }, mean);
    });
    const memory = entry.memory === null ? "–" : decimals(entry.memory / 1e6, 0);
    return [rowName(entry.name + layerOf(entry)), ...cells, node("td", {}, memory)];
  });
  fillTable(byId("numbers"), [...columns.map(({ head }) => head), "peak memory, MB"], rows);
}

function drawDisputed() {
  byId("disputed-note").textContent =
    "Beside each text: how far the methods rank its words alike (mean τ), and the first three words of the most faithful method and of the one that ranks them least alike.";
  byId("disputed").append(
    ...data.disputed.map((each) => {
      const text = node("p", { class: "quote", dir: "auto" });
      if (data.texts && each.index !== null)
        text.append(node("a", { href: `${data.texts}#text-${each.index}` }, each.text));
      else text.append(each.text);
      const gold = each.gold === null || each.gold === each.prediction ? "" : `, but it is ${each.gold}`;
      return node(
        "li",
        {},
        text,
        node(
          "p",
          { class: "aside" },
          `τ ${decimals(each.correlation)} · the model says ${each.prediction} (${Math.round(each.probability * 100)} %)${gold}`,
        ),
        node(
          "ul",
          { class: "firsts" },
          ...each.words.map(([name, words]) =>
            node("li", {}, node("b", {}, `${name} `), node("bdi", {}, words.join(" · "))),
          ),
        ),
      );
    }),
  );
}

/** On how many held-out texts a layer was chosen, and how far they settle it; boards of before do not say. */
function chosenOn(entry) {
  if (!entry.chosenOn) return "held-out texts";
  return `${entry.chosenOn} held-out texts, the best or as good in ${Math.round(entry.stability * 100)} % of resamples`;
}

/** A table of the means of some metrics, in the order of one of them; false if the board does not have it. */
function drawMeans(id, metrics, by, heads = {}) {
  const shown = metrics.filter((name) => data.metrics[name]);
  const rows = data.rankings[by]?.map(({ entry }) => data.entries[entry]) ?? [];
  if (!rows.length) return false;
  const cell = (entry, name) => {
    if (!entry.means[name]) return node("td", {}, "–");
    const [mean, low, high] = entry.means[name].map((value) => decimals(value));
    return node("td", { title: `95 %: ${low} to ${high}` }, mean);
  };
  fillTable(
    byId(id),
    shown.map((name) => node("span", { title: data.metrics[name].sentence }, heads[name] ?? data.metrics[name].title)),
    rows.map((entry) => [rowName(entry.name + layerOf(entry)), ...shown.map((name) => cell(entry, name))]),
  );
  return true;
}

function drawSets() {
  byId("sets-part").hidden = !drawMeans(
    "sets",
    ["set_kept", "set_agreement", "set_over_random", "set_of_best"],
    "set_of_best",
  );
}

function drawWays() {
  const [first, second] = data.ways?.metrics ?? [];
  const heads = { [first]: data.ways?.names[0], [second]: data.ways?.names[1] };
  byId("ways-part").hidden = !data.ways || !drawMeans("ways", [first, second], second, heads);
  if (byId("ways-part").hidden) return;
  const [tau, low, high] = data.ways.tau.map((value) => decimals(value));
  byId("ways-note").textContent =
    `Faithfulness with words hidden by ${data.ways.names[0]}, and by ${data.ways.names[1]}. ` +
    `The two rankings of the methods correlate at τ ${tau} (95 %: ${low} to ${high}, over resampled texts).`;
}

function drawFacts() {
  const facts = [
    ["model", data.model],
    ["texts judged", String(data.nTexts)],
    ["time", `${Math.round(data.seconds)} s in the last run`],
    ...data.settings,
    ...data.entries.filter((entry) => entry.options).map((entry) => [entry.name, entry.options]),
    ...data.entries
      .filter((entry) => entry.chosen)
      .map((entry) => [entry.name, `layer ${entry.layer}, chosen on ${chosenOn(entry)}`]),
    ...data.entries.filter((entry) => entry.note).map((entry) => [entry.name, entry.note]),
    ...data.leftOut.map(([name, reason]) => [`${name}, left out`, reason]),
  ];
  drawMade(facts);
}
