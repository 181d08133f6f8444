// The audit: the answer, how many pairs of tokens stand in the right order, then τ by layer, by head and by measure.

const kindOf = (measure) => `m${measure % 6}`;
const layerTitle = (layer) => (layer === "pooling" ? "pooling" : `layer ${layer}`);

function drawVerdict() {
  const item = (reason) => node("li", {}, ...explained(reason));
  byId("answer").append(...explained(data.answer));
  byId("reasons").append(...data.reasons.map(item));
  byId("warnings").hidden = !data.warnings.length;
  byId("warnings").append(...data.warnings.map(item));
  byId("pairs").append(
    ...data.pairs.map(([name, value, low, high]) => {
      const track = node("span", { class: "track", "aria-hidden": "true" }, node("span", { class: "fill" }));
      track.firstChild.style.width = `${value}%`;
      track.append(node("span", { class: "half" }));
      if (low !== null) {
        const between = node("span", { class: "between" });
        between.style.left = `${low}%`;
        between.style.width = `${high - low}%`;
        track.append(between);
      }
      return node(
        "div",
        { class: "of-pairs" },
        node("span", {}, name),
        track,
        node("b", {}, `${decimals(value, 0)} of 100`),
      );
    }),
  );
  byId("pairs-note").append(
    ...explained(
      "Of two tokens of a text, how often the one that matters more to the decision, by the measures, is ranked first; ties are taken out.",
    ),
  );
}

/** τ by layer: a line per measure, dotted what ties alone explain, and shaded what the measures reach among themselves. */
function drawLayers() {
  const column = (measure, which) => data.byLayer.map((row) => row[measure][which]);
  const lines = data.measures.flatMap((name, measure) => [
    { kind: `${kindOf(measure)} dotted`, name: `${name}, ties`, values: column(measure, 3) },
    { kind: kindOf(measure), name, values: column(measure, 0), lows: column(measure, 1), highs: column(measure, 2) },
  ]);
  const ends = lines.flatMap(({ values, lows = [], highs = [] }) => [...values, ...lows, ...highs]);
  const known = [...ends, ...(data.among ?? []), 0].filter(Number.isFinite);
  const ticks = ticksOf(Math.min(...known), Math.max(...known), 4);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0.1;
  if (ticks[0] > Math.min(...known)) ticks.unshift(Number((ticks[0] - step).toFixed(10)));
  if (ticks.at(-1) < Math.max(...known)) ticks.push(Number((ticks.at(-1) + step).toFixed(10)));
  drawLines(byId("by-layer"), {
    label: "Rank correlation of attention with each measure by layer; the numbers are in the table below",
    names: data.layers,
    axis: "layer →",
    lines,
    ticks: ticks.map((value) => [value, decimals(value, step < 0.1 ? 2 : 1)]),
    bands: data.among ? [{ low: data.among[1], high: data.among[2] }] : [],
    height: 280,
  });
}

function drawLegend() {
  const key = (kind) => {
    const picture = shape("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
    picture.append(shape("line", { class: `line ${kind}`, x1: 1, x2: 33, y1: 6, y2: 6 }));
    return picture;
  };
  byId("legend").append(
    ...data.measures.map((name, measure) => node("span", { class: "key" }, key(kindOf(measure)), name)),
  );
  if (data.among)
    byId("legend").append(
      node("span", { class: "key" }, node("span", { class: "swatch" }), "measures among themselves"),
    );
  byId("layers-note").append(
    ...explained(
      "How far the attention that tokens receive ranks them as each of the measures does (τ), on average over heads and texts, with its 95 % interval. Dotted: what ties alone explain.",
    ),
  );
}

/** τ with its interval; bold where it is surely more than ties alone explain. */
function tauWithInterval([tau, low, high, ties, undefinedOn, sure]) {
  if (tau === null) return node("td", { class: "aside" }, "–");
  const cell = node("td", {}, decimals(tau), node("small", {}, ` ${decimals(low)} to ${decimals(high)}`));
  cell.classList.toggle("sure", sure);
  const more = [];
  if (ties >= 0.005) more.push(`ties ${decimals(ties)}`);
  if (undefinedOn) more.push(`${plural(undefinedOn, "text")} left out`);
  if (more.length) cell.append(node("br"), node("small", {}, more.join(", ")));
  return cell;
}

function drawTables() {
  fillTable(
    byId("layer-table"),
    [...data.measures, term("entropy"), "zeros"],
    data.layers.map((layer, at) => [
      layerTitle(layer),
      ...data.byLayer[at].map(tauWithInterval),
      node("td", {}, decimals(data.spread[at][0])),
      node("td", {}, data.spread[at][1] === null ? "–" : `${Math.round(100 * data.spread[at][1])} %`),
    ]),
  );
  byId("table-note").textContent =
    "Bold: surely more than ties alone explain. Entropy is that of the attention; zeros is the share of its weights that are exactly zero.";
  byId("between-part").hidden = data.measures.length < 2;
  fillTable(
    byId("between"),
    [...data.measures, term("entropy")],
    data.measures.map((name, one) => [
      name,
      ...data.between[one].map((row) => (row ? tauWithInterval(row) : node("td", { class: "aside" }, "–"))),
      node("td", {}, decimals(data.measureSpread[one])),
    ]),
  );
  byId("between-note").append(
    ...explained(
      "Attention cannot be nearer to all measures than they are to each other: this is what it is held against.",
    ),
  );
}

function drawHeads(measure) {
  const taus = data.heads[measure];
  fillTable(
    byId("heads"),
    taus[0].map((_, head) => String(head + 1)),
    taus.map((row, at) => [layerTitle(data.layers[at]), ...row.map((tau) => tauCell(tau ?? Number.NaN))]),
  );
}

function begin() {
  drawVerdict();
  drawLegend();
  drawnToFit(drawLayers);
  drawTables();
  byId("heads-part").hidden = !data.heads[0][0].length;
  byId("heads-note").append(
    ...explained(
      "τ of every head’s attention with one measure: blue ranks tokens as the measure does, orange the other way round.",
    ),
  );
  byId("measure").append(...data.measures.map((name, at) => node("option", { value: at }, name)));
  byId("measure").addEventListener("change", (event) => drawHeads(Number(event.target.value)));
  if (!byId("heads-part").hidden) drawHeads(0);
  drawMade(data.facts);
}

begin();
