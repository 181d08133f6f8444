// Charts in SVG: faithfulness against cost, and the games.

/** Room for a label beside a dot, right or left of it or a little above or below, where nothing stands yet. */
function freeSpot(wide, cx, cy, least, width, taken) {
  for (const by of [0, -11, 11, -22, 22]) {
    for (const left of [cx + 9, cx - 9 - wide]) {
      const spot = { left, right: left + wide, top: cy - 7 + by, bottom: cy + 7 + by };
      const free = taken.every(
        (other) =>
          spot.left >= other.right || other.left >= spot.right || spot.top >= other.bottom || other.top >= spot.bottom,
      );
      if (free && spot.left >= least && spot.right <= width) return spot;
    }
  }
  return null;
}

/** Faithfulness against passes, on a logarithmic axis; the line joins what nothing beats in both. */
function drawPareto(element) {
  const shown = data.entries.filter((entry) => entry.passes && entry.means[HEADLINE]);
  const [width, height] = [unitsAcross(element, 280), 360];
  const [left, right, top, bottom] = [34, 12, 14, 40];
  const costs = shown.map((entry) => Math.log10(entry.passes));
  const values = shown.map((entry) => entry.means[HEADLINE][0]);
  const [least, most] = [Math.min(0, ...values), Math.max(...values)];
  const [cheapest, dearest] = [Math.min(...costs), Math.max(...costs)];
  const x = linear(cheapest - 0.08, dearest + 0.3, left, width - right);
  const y = linear(least - 0.03, most + 0.06, height - bottom, top);
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "cost-title" });
  for (const tick of ticksOf(least, most)) {
    picture.append(
      shape("line", { class: tick === 0 ? "zero" : "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      shape("text", { class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, decimals(tick, 1)),
    );
  }
  for (const tick of [1, 3, 10, 30, 100, 300, 1000, 3000, 10000]) {
    const at = Math.log10(tick);
    if (at < cheapest - 0.08 || at > dearest + 0.3) continue;
    picture.append(
      shape("text", { class: "tick", x: x(at), y: height - bottom + 18, "text-anchor": "middle" }, `${tick}`),
    );
  }
  picture.append(
    shape("text", { class: "tick", x: width - right, y: height - 4, "text-anchor": "end" }, "passes per text →"),
  );
  const points = shown.map((entry, at) => ({ entry, cost: costs[at], value: values[at] }));
  const front = points
    .filter((one) => one.entry.kind !== "control" && !one.entry.flagged)
    .filter(
      (one, _, able) =>
        !able.some(
          (other) =>
            other !== one &&
            other.cost <= one.cost &&
            other.value >= one.value &&
            (other.cost < one.cost || other.value > one.value),
        ),
    )
    .sort((one, other) => one.cost - other.cost);
  picture.append(
    shape("polyline", { class: "front", points: front.map((one) => `${x(one.cost)},${y(one.value)}`).join(" ") }),
  );
  const taken = points.map(({ cost, value }) => ({
    left: x(cost) - 6,
    right: x(cost) + 6,
    top: y(value) - 5,
    bottom: y(value) + 5,
  }));
  const unnamed = [];
  for (const point of points.sort((one, other) => other.value - one.value)) {
    const [cx, cy] = [x(point.cost), y(point.value)];
    const dot = shape("circle", { class: `dot ${classOf(point.entry)}`, cx, cy, r: 5 });
    dot.append(
      shape("title", {}, `${point.entry.name}: ${decimals(point.value)} for ${Math.round(point.entry.passes)} passes`),
    );
    picture.append(dot);
    const spot = freeSpot(point.entry.name.length * 7.6, cx, cy, left, width, taken);
    if (!spot) {
      unnamed.push(`${point.entry.name} (${decimals(point.value)} for ${Math.round(point.entry.passes)})`);
      continue;
    }
    taken.push(spot);
    const anchor = spot.left > cx ? { x: cx + 9, "text-anchor": "start" } : { x: cx - 9, "text-anchor": "end" };
    picture.append(
      shape("text", { class: `label ${classOf(point.entry)}`, y: spot.top + 11, ...anchor }, point.entry.name),
    );
  }
  element.replaceChildren(picture);
  const best =
    front.length > 1
      ? "On the line: nothing is both cheaper and more faithful."
      : front.map(({ entry }) => `${entry.name} is both the cheapest and the most faithful.`).join("");
  byId("cost-note").replaceChildren(
    ...explained(`How many passes through the model a text takes, against faithfulness. ${best} Controls are hollow.`),
  );
  byId("unnamed").textContent = unnamed.length ? `Dots without room for a name: ${unnamed.join(", ")}.` : "";
}

/** The two games: the mean probability of the decision; the chosen entry before the controls, the rest behind. */
function drawGames(element, chosen) {
  const [width, height, left, right, top, bottom] = [270, 220, 34, 10, 24, 36];
  const x = linear(0, 1, left, width - right);
  const y = linear(0, 1, height - bottom, top);
  const pictures = [
    ["hiding_probability", "first words hidden: lower is better", "share hidden"],
    ["revealing_probability", "first words shown: higher is better", "share shown"],
  ].map(([curve, title, axis]) => {
    const picture = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}, ${chosen.name} and the controls`,
    });
    picture.append(shape("text", { class: "tick", x: left, y: 13 }, title));
    for (const tick of [0, 0.5, 1]) {
      picture.append(
        shape("line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
        shape("text", { class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, decimals(tick, 1)),
        shape(
          "text",
          { class: "tick", x: x(tick), y: height - bottom + 16, "text-anchor": ["start", "middle", "end"][tick * 2] },
          `${tick * 100} %`,
        ),
      );
    }
    picture.append(shape("text", { class: "tick", x: width - right, y: height - 3, "text-anchor": "end" }, axis));
    const behind = data.entries.filter((entry) => entry.kind !== "control" && entry !== chosen);
    const controls = data.entries.filter((entry) => entry.kind === "control");
    for (const [entries, kind] of [
      [behind, "behind"],
      [controls, "control"],
      [[chosen], "chosen"],
    ]) {
      for (const entry of entries) {
        const points = entry.curves[curve].map((value, at) => `${x(data.grid[at])},${y(value)}`).join(" ");
        picture.append(shape("polyline", { class: `curve ${kind} ${kind === "control" ? entry.name : ""}`, points }));
      }
    }
    return picture;
  });
  element.replaceChildren(...pictures);
}
