// The verdict, the tables and the list of disputed texts.

const SHOWN_REASONS = 3;

function drawVerdict() {
  byId("answer").textContent = data.answer;
  const item = (reason) => node("li", {}, reason);
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
  const rows = inOrder().filter(
    (entry) => entry.randomised.length && (entry.note || entry.randomised.some((value) => value !== null)),
  );
  const said = (entry) => (entry.flagged ? "ignores the model" : entry.note ? "could not be tried" : "");
  fillTable(
    byId("stages"),
    [...data.stages, "so it"],
    rows.map((entry) => [
      entry.name,
      ...entry.randomised.map(tauCell),
      node("td", { class: entry.flagged ? "flag" : "aside" }, said(entry)),
    ]),
  );
}

function drawCorrelations() {
  const order = data.rankings[HEADLINE].map(({ entry }) => entry);
  fillTable(
    byId("correlations"),
    order.map((column) => node("span", {}, data.entries[column].name)),
    order.map((row) => [data.entries[row].name, ...order.map((column) => tauCell(data.correlations[row][column]))]),
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
    return [entry.name + layerOf(entry), ...cells, node("td", {}, memory)];
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

function drawFacts() {
  const facts = [
    ["model", data.model],
    ["texts judged", String(data.nTexts)],
    ["time", `${Math.round(data.seconds)} s in the last run`],
    ...data.settings,
    ...data.entries.filter((entry) => entry.options).map((entry) => [entry.name, entry.options]),
    ...data.entries
      .filter((entry) => entry.chosen)
      .map((entry) => [entry.name, `layer ${entry.layer}, chosen on held-out texts`]),
    ...data.entries.filter((entry) => entry.note).map((entry) => [entry.name, entry.note]),
    ...data.leftOut.map(([name, reason]) => [`${name}, left out`, reason]),
  ];
  byId("facts").append(...factList(facts));
}
