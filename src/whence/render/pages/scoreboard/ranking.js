// The ranking: a row per entry, its mean with the interval on one scale for all.

function drawRanking(metric) {
  const about = data.metrics[metric];
  byId("metric-sentence").replaceChildren(...explained(`${about.sentence}; ${about.better} is better.`));
  const rows = data.rankings[metric].map(({ entry, ranks }) => ({ entry: data.entries[entry], ranks }));
  const best = metric === HEADLINE ? data.best : null;
  const ends = rows.flatMap(({ entry }) => entry.means[metric].slice(1)).concat(best ?? []);
  const pad = (Math.max(...ends) - Math.min(...ends)) * 0.04 || 0.5;
  const [low, high] = [Math.min(...ends) - pad, Math.max(...ends) + pad];
  const across = linear(low, high, 0, 100);
  const list = node("ol", { class: "rows" });
  for (const { entry, ranks } of rows) {
    const [mean, from, to] = entry.means[metric];
    const bar = shape("svg", {
      class: "interval",
      viewBox: "0 0 100 10",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    for (const tick of ticksOf(low, high)) {
      bar.append(
        shape("line", { class: tick === 0 ? "zero" : "rule", x1: across(tick), x2: across(tick), y1: 0, y2: 10 }),
      );
    }
    if (best !== null) bar.append(shape("line", { class: "best", x1: across(best), x2: across(best), y1: 0, y2: 10 }));
    bar.append(shape("line", { class: `span ${classOf(entry)}`, x1: across(from), x2: across(to), y1: 5, y2: 5 }));
    bar.append(shape("line", { class: `mean ${classOf(entry)}`, x1: across(mean), x2: across(mean), y1: 1, y2: 9 }));
    const name = node("button", { type: "button", class: "name", title: entry.meaning }, ...breakable(entry.name));
    name.addEventListener("click", () => showGamesOf(entry));
    const sign = entry.signed ? ["±", "the sign of a score says for or against"] : ["+", "scores have sizes only"];
    const marks = [node("span", { class: "aside sign", title: sign[1] }, sign[0])];
    if (entry.kind === "control") marks.push(node("span", { class: "mark" }, "control"));
    if (entry.kind === "outside") marks.push(node("span", { class: "mark" }, "from elsewhere"));
    if (entry.flagged && entry.kind !== "control") marks.push(node("span", { class: "mark bad" }, "ignores the model"));
    if (metric === HEADLINE && believed.has(entry.name)) marks.push(node("span", { class: "mark good" }, "believe"));
    list.append(
      node(
        "li",
        { class: classOf(entry) },
        node("span", { class: "rank" }, rankOf(ranks)),
        node("span", { class: "who" }, name, node("span", { class: "aside layer" }, layerOf(entry)), ...marks),
        bar,
        node(
          "span",
          { class: "value" },
          decimals(mean),
          node("span", { class: "aside" }, ` ${decimals(from)} to ${decimals(to)}`),
        ),
      ),
    );
  }
  const scale = node("div", { class: "scale", "aria-hidden": "true" });
  for (const tick of ticksOf(low, high)) {
    const mark = node("span", {}, decimals(tick, Math.abs(high - low) < 0.5 ? 2 : 1));
    mark.style.left = `${across(tick)}%`;
    scale.append(mark);
  }
  byId("ranking").replaceChildren(
    list,
    node("div", { class: "axis" }, node("span"), node("span"), scale, node("span")),
  );
  const note =
    "A range of ranks is a tie: these texts cannot tell who comes first in it (paired tests on the same texts, corrected after Holm, 5 %). " +
    "Bars are 95 % intervals. ±: the sign of a score says for or against; +: scores have sizes only. " +
    (best === null ? "" : `Dashed: what the best order of each text’s words would get, ${decimals(best)}. `) +
    "Choose a name to see its games below.";
  byId("ranking-note").replaceChildren(...explained(note));
}

function listMetrics() {
  const groups = {};
  for (const name of Object.keys(data.rankings).filter((each) => data.rankings[each].length)) {
    const group = data.metrics[name].group.replaceAll("_", " ");
    groups[group] ??= node("optgroup", { label: group });
    groups[group].append(node("option", { value: name }, data.metrics[name].title));
  }
  byId("metric").append(...Object.values(groups));
  byId("metric").addEventListener("change", (event) => drawRanking(event.target.value));
}
