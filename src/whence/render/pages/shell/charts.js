// Pictures in SVG that every page draws alike: scales, and lines over layers.

/** Round numbers that span a range, about so many. */
function ticksOf(low, high, about = 5) {
  const rough = (high - low || 1) / about;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step)
    ticks.push(Number(tick.toFixed(10)));
  return ticks;
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

const LETTER = 6.6; // units that a letter of a tick takes at most

/** How many units wide a picture is drawn: a unit is a pixel, or more where the letters of the page are larger. */
function unitsAcross(element, least) {
  const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  return Math.max(least, (element.clientWidth || 560) / unit);
}

/** Where names stand below their places, within the picture: every one, every second …; none touches another. */
function besideEachOther(names, x, least, most) {
  const usual = Math.max(...names.slice(-Math.max(1, names.length - 1)).map((name) => name.length));
  const step = Math.max(1, Math.ceil((names.length * (usual + 1) * LETTER) / (most - least)));
  let taken = -Infinity;
  return names.flatMap((name, index) => {
    if (index % step) return [];
    const wide = name.length * LETTER;
    const from = Math.max(least, Math.min(most - wide, x(index) - wide / 2));
    if (from < taken) return [];
    taken = from + wide + LETTER;
    return [{ name, middle: from + wide / 2 }];
  });
}

/** Draw now, and again whenever the width of the window changes: letters keep their size. */
function drawnToFit(draw) {
  draw();
  window.addEventListener("resize", draw);
}

/**
 * Lines over layers, as wide as there is room. Of each line: `kind` (its class), `values` (null leaves a gap) and, if
 * known, `lows` and `highs`; `at` puts a value on the upright axis, whose `ticks` are pairs of a value and its name;
 * `bands` are stretches of it that are shaded.
 */
function drawLines(element, { label, names, axis, lines, ticks, at = (value) => value, bands = [], height = 210 }) {
  const width = unitsAcross(element, 240);
  const left = 10 + LETTER * Math.max(...ticks.map(([, name]) => name.length));
  const [right, top, bottom] = [14, 10, 40];
  const ends = ticks.map(([value]) => at(value));
  const x = linear(0, Math.max(1, names.length - 1), left + 8, width - right - 8);
  const y = linear(Math.min(...ends), Math.max(...ends), height - bottom, top);
  const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "lines" });
  for (const [value, name] of ticks) {
    const place = { x1: left, x2: width - right, y1: y(at(value)), y2: y(at(value)) };
    picture.append(
      shape("line", { class: value === 0 ? "zero" : "rule", ...place }),
      shape("text", { class: "tick", x: left - 6, y: y(at(value)) + 4, "text-anchor": "end" }, name),
    );
  }
  for (const { low, high } of bands)
    picture.append(
      shape("rect", {
        class: "band",
        x: left,
        width: width - right - left,
        y: y(at(high)),
        height: y(at(low)) - y(at(high)),
      }),
    );
  for (const { name, middle } of besideEachOther(names, x, 0, width))
    picture.append(shape("text", { class: "tick", x: middle, y: height - bottom + 19, "text-anchor": "middle" }, name));
  picture.append(shape("text", { class: "tick", x: width - right, y: height - 4, "text-anchor": "end" }, axis));
  for (const line of lines) picture.append(...drawLine(line, x, (value) => y(at(value)), names));
  element.replaceChildren(picture);
}

function drawLine({ kind, values, lows, highs, name, said = decimals }, x, y, names) {
  const known = values.map((value, index) => ({ value, index })).filter(({ value }) => Number.isFinite(value));
  const drawn = [
    shape("polyline", {
      class: `line ${kind}`,
      points: known.map((each) => `${x(each.index)},${y(each.value)}`).join(" "),
    }),
  ];
  if (kind.includes("dotted")) return drawn;
  for (const { value, index } of known) {
    if (lows)
      drawn.push(
        shape("line", {
          class: `whisker ${kind}`,
          x1: x(index),
          x2: x(index),
          y1: y(lows[index]),
          y2: y(highs[index]),
        }),
      );
    const dot = shape("circle", { class: `point ${kind}`, cx: x(index), cy: y(value), r: 3.5 });
    dot.append(shape("title", {}, `${name}, ${names[index]}: ${said(value)}`));
    drawn.push(dot);
  }
  return drawn;
}
