// The verdict, the tables and the list of disputed texts.

const SHOWN_REASONS = 3;

function drawVerdict() {
  byId("answer").textContent = data.answer;
  const item = (reason) => node("li", {}, reason);
  byId("reasons").append(...data.reasons.slice(0, SHOWN_REASONS).map(item));
  const rest = data.reasons.slice(SHOWN_REASONS);
  byId("more-reasons").hidden = !rest.length;
  byId("more-reasons").querySelector("summary").textContent = `More evidence (${rest.length})`;
  byId("more-reasons").querySelector("ul").append(...rest.map(item));
  byId("warnings").hidden = !data.warnings.length;
  byId("warnings").append(...data.warnings.map(item));
}

/** A cell coloured by a τ between −1 and 1. */
function tauCell(value) {
  const cell = node("td", { class: "tau" }, decimals(value));
  if (value !== null) {
    cell.style.setProperty("--strength", Math.min(1, Math.abs(value)).toFixed(3));
    cell.classList.add(value < 0 ? "against" : "for");
  }
  return cell;
}

const inOrder = () => data.rankings[HEADLINE].map(({ entry }) => entry);

function drawStages() {
  byId("control").hidden = !data.stages.length;
  const rows = inOrder()
    .map((at) => data.entries[at])
    .filter((entry) => entry.randomised.length && (entry.note || entry.randomised.some((value) => value !== null)));
  byId("stages").append(
    node("thead", {}, node("tr", {}, node("td"), ...data.stages.map((stage) => node("th", { scope: "col" }, stage)), node("td"))),
    node(
      "tbody",
      {},
      ...rows.map((entry) =>
        node(
          "tr",
          {},
          node("th", { scope: "row" }, entry.name),
          ...entry.randomised.map(tauCell),
          node("td", { class: entry.flagged ? "flag" : "aside" }, entry.flagged ? "ignores the model" : entry.note ? "could not be tried" : ""),
        ),
      ),
    ),
  );
}

function drawAgreement() {
  const order = inOrder();
  byId("agreement").append(
    node("thead", {}, node("tr", {}, node("td"), ...order.map((at) => node("th", { scope: "col" }, node("span", {}, data.entries[at].name))))),
    node(
      "tbody",
      {},
      ...order.map((row) =>
        node("tr", {}, node("th", { scope: "row" }, data.entries[row].name), ...order.map((column) => tauCell(data.agreement[row][column]))),
      ),
    ),
  );
}

function drawNumbers() {
  const names = Object.keys(data.metrics);
  const arrow = { higher: " ↑", lower: " ↓" };
  byId("numbers").append(
    node("thead", {}, node("tr", {}, node("td"), ...names.map((name) => node("th", { scope: "col", title: data.metrics[name].sentence }, data.metrics[name].title + (arrow[data.metrics[name].better] ?? ""))), node("th", { scope: "col" }, "peak memory, MB"))),
    node(
      "tbody",
      {},
      ...inOrder().map((at) => {
        const entry = data.entries[at];
        const cells = names.map((name) => {
          const found = entry.means[name];
          if (!found) return node("td", {}, "–");
          const digits = ["forwards", "backwards"].includes(name) ? 0 : name === "seconds" ? 3 : name === "batch_difference" ? 5 : 2;
          return node("td", { title: `95 %: ${decimals(found[1], digits)} to ${decimals(found[2], digits)}` }, decimals(found[0], digits));
        });
        return node("tr", {}, node("th", { scope: "row" }, entry.name + layerOf(entry)), ...cells, node("td", {}, entry.memory === null ? "–" : decimals(entry.memory / 1e6, 0)));
      }),
    ),
  );
}

function drawDisputed() {
  byId("disputed-note").textContent =
    "Beside each text: how far the methods agree on it (τ), and the first three words of the most faithful method and of the one that agrees with it least there.";
  byId("disputed").append(
    ...data.disputed.map((each) => {
      const text = node("p", { class: "quote", dir: "auto" });
      if (data.texts && each.place !== null) text.append(node("a", { href: `${data.texts}#text-${each.place}` }, each.text));
      else text.append(each.text);
      const gold = each.gold === null || each.gold === each.prediction ? "" : `, but it is ${each.gold}`;
      return node(
        "li",
        {},
        text,
        node("p", { class: "aside" }, `τ ${decimals(each.agreement)} · the model says ${each.prediction} (${Math.round(each.probability * 100)} %)${gold}`),
        node("ul", { class: "firsts" }, ...each.words.map(([name, words]) => node("li", {}, node("b", {}, `${name} `), node("bdi", {}, words.join(" · "))))),
      );
    }),
  );
}

function drawFacts() {
  const facts = [
    ["model", data.model],
    ["texts judged", `${data.nTexts}`],
    ["time", `${Math.round(data.seconds)} s in the last run`],
    ...data.settings,
    ...data.entries.filter((entry) => entry.options).map((entry) => [entry.name, entry.options]),
    ...data.entries.filter((entry) => entry.chosen).map((entry) => [`${entry.name}`, `layer ${entry.layer}, chosen on held-out texts`]),
    ...data.entries.filter((entry) => entry.note).map((entry) => [entry.name, entry.note]),
    ...data.leftOut.map(([name, reason]) => [`${name}, left out`, reason]),
  ];
  byId("facts").append(...facts.flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, value)]));
}
