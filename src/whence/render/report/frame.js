// The frame: what the model said, what was explained, with what, at what cost, and what to know before believing it.

function drawDecision(entry, run) {
  const { label, probability, probabilities } = entry.prediction;
  const title = byId("decision-title");
  title.replaceChildren(node("bdi", {}, visible(shortened(label, 300))));
  if (probability !== null) title.append(" ", node("span", { class: "chance" }, percent(probability)));
  const { description, scale, value } = run.target;
  byId("target").replaceChildren(
    "Explained here: ",
    node("b", {}, `${scale.replace("_", " ")} of `, node("bdi", {}, visible(shortened(description, 300)))),
    value === null ? "" : ` = ${number(value)}`,
  );
  byId("probabilities").replaceChildren(...chances(probabilities, label));
}

function chances(probabilities, said) {
  if (!probabilities.length) return [];
  const rows = probabilities.slice(0, 4).map(([label, chance]) => {
    const bar = node("span", { class: "bar-of", "aria-hidden": "true" }, node("span"));
    bar.firstChild.style.width = `${100 * (chance ?? 0)}%`;
    return node(
      "li",
      { class: label === said ? "said" : "" },
      node("bdi", { class: "name" }, visible(shortened(label, 80))),
      bar,
      node("span", { class: "figure" }, chance === null ? "–" : percent(chance)),
    );
  });
  const more = probabilities.length - rows.length;
  return [
    node(
      "ul",
      { class: "chances", "aria-label": "Probabilities" },
      ...rows,
      ...(more > 0 ? [node("li", { class: "aside" }, `and ${more} more`)] : []),
    ),
  ];
}

function drawWarnings(text) {
  const several = text.runs.length > 1;
  const found = text.runs.flatMap((run) =>
    run.warnings.map((warning) =>
      node("li", {}, ...(several ? [node("b", {}, `${visible(run.about.label)}: `)] : []), visible(warning)),
    ),
  );
  if (!text.runs.length) found.push(...text.entry.lens.warnings.map((warning) => node("li", {}, visible(warning))));
  byId("warnings").hidden = !found.length;
  byId("warning-list").replaceChildren(...found);
}

const LIMITS = ({ low, high }) => {
  if (low === null && high === null) return "A score can be of any size";
  if (high === null) return `A score is ${low} or more`;
  return low === null ? `A score is ${high} at most` : `A score lies from ${low} to ${high}`;
};

/** What colour means, in words, with the range of scores. */
function drawLegend(run, layer, full, row, pieces, unit) {
  const { meaning } = run;
  const ramp = byId("ramp");
  ramp.classList.toggle("signed", meaning.signed);
  byId("ramp-low").textContent = meaning.signed ? `${number(-full, full, true)} against` : "0";
  byId("ramp-high").textContent = meaning.signed ? `for ${number(full, full, true)}` : number(full, full);
  const sentence = `: ${visible(meaning.sentence)}.`;
  const sign = meaning.signed
    ? "Blue speaks for what is explained, orange (dashed) against it."
    : "The deeper the blue, the more; there is no sign.";
  byId("legend-sentence").replaceChildren(node("b", {}, visible(meaning.name)), `${sentence} ${sign}`);
  const words = row.filter((_, place) => !pieces[place].special);
  const most = Math.max(...words.map(Math.abs));
  const [low, high] = [number(Math.min(...words), most), number(Math.max(...words), most)];
  const whole = unit === "words";
  const sentences = [
    `${LIMITS(meaning)};`,
    `at ${layerPhrase(run.layers[layer])}, those of ${whole ? "words" : "sub-words"} run from ${low} to ${high}.`,
    whole ? `A word has ${meaning.additive ? "the sum" : "the strongest"} of its sub-words' scores.` : "",
    most ? "" : "All scores of words are zero here.",
  ];
  byId("legend-range").textContent = sentences.filter(Boolean).join(" ");
}

function drawMatrix(rows, runs, layers) {
  const several = rows.length > 1 && rows[0].length > 1;
  byId("agreement").hidden = !several;
  if (!several) return;
  const heads = runs.map((run, place) =>
    node("th", { scope: "col", title: visible(run.about.label) }, String(place + 1)),
  );
  const lines = runs.map((run, place) => {
    const cells = rows.map((row, other) => {
      const value = place === other ? 1 : agreementOf(rows[place], row);
      const cell = node(
        "td",
        { class: value < 0 ? "against" : "" },
        Number.isNaN(value) ? "–" : value.toFixed(2).replace("-", "−"),
      );
      cell.style.setProperty("--share", Number.isNaN(value) || place === other ? 0 : Math.abs(value).toFixed(3));
      if (place === other) cell.classList.add("same");
      return cell;
    });
    const name = node(
      "th",
      { scope: "row" },
      `${place + 1}  `,
      node("bdi", {}, visible(shortened(run.about.label, 60))),
      node("span", { class: "at" }, ` ${layerName(run.layers[layers[place]])}`),
    );
    return node("tr", {}, name, ...cells);
  });
  byId("matrix").replaceChildren(node("thead", {}, node("tr", {}, node("td"), ...heads)), node("tbody", {}, ...lines));
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function costOf({ forwards, backwards, seconds }) {
  const parts = [
    forwards ? plural(forwards, "forward") : "",
    backwards ? plural(backwards, "backward") : "",
    seconds === null ? "" : `${seconds.toFixed(2)} s`,
  ];
  return parts.filter(Boolean).join(", ");
}

const optionsOf = (options) =>
  Object.entries(options)
    .map(([name, value]) => `${visible(name)} = ${visible(shortened(value, 400))}`)
    .join(", ") || "none";

const layersOf = (layers) =>
  layers.length === 1
    ? layerName(layers[0])
    : `${layerName(layers[0])} … ${layerName(layers[layers.length - 1])} (${layers.length})`;

function completenessOf(run) {
  if (!run.completeness) return "not promised by this method";
  return run.completeness
    .map((error, layer) => `${number(error)}${run.layers.length > 1 ? ` at ${layerName(run.layers[layer])}` : ""}`)
    .join(", ");
}

function targetOf({ description, scale, value }) {
  const said = `${scale.replace("_", " ")} of ${visible(shortened(description, 300))}`;
  return value === null ? said : `${said} = ${number(value)}`;
}

function drawFacts(text, chosen) {
  const model = data.models[text.entry.model];
  const fact = (name, value) => [node("dt", {}, name), node("dd", {}, node("bdi", {}, value))];
  const common = node(
    "dl",
    { class: "pairs" },
    ...fact("model", visible(model.id)),
    ...fact("revision", visible(model.revision ?? "not recorded")),
    ...fact("architecture", `${visible(model.architecture)}, ${visible(model.task.replaceAll("_", " "))}`),
    ...fact("tokens", `${text.tokens.length}, of which ${text.tokens.filter((token) => token.special).length} special`),
  );
  const each = text.runs.map((run) => {
    const name = node("h3", {}, visible(shortened(run.about.label, 120)));
    if (run === chosen && text.runs.length > 1) name.append(node("span", { class: "aside" }, "  shown in the text"));
    return node(
      "div",
      { class: "card" },
      name,
      node(
        "dl",
        { class: "pairs" },
        ...fact("score", `${visible(run.meaning.name)}: ${visible(run.meaning.sentence)}`),
        ...fact("explains", targetOf(run.target)),
        ...fact("layers", layersOf(run.layers)),
        ...fact("options", optionsOf(run.about.options)),
        ...fact("seed", String(run.about.seed)),
        ...fact("cost", costOf(run.cost)),
        ...fact("completeness error", completenessOf(run)),
      ),
    );
  });
  byId("facts").replaceChildren(common, node("div", { class: "cards" }, ...each));
}
