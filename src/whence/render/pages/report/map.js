// The map: pieces down, layers across, methods side by side. Only the rows in sight are in the document.

const TALL = 60; // rows; more scroll inside the map
const SPARE = 12; // rows drawn above and below those in sight
const STRONG = 0.2; // a share from which a square carries its sign
const WIDE = 20; // columns; a map with more, or of several methods, takes the whole width

const grid = {
  element: byId("grid"),
  scroller: byId("scroller"),
  body: null,
  rows: new Map(),
  pieces: [],
  columns: [],
  runs: [],
  focus: { row: 0, column: 0 },
  tall: false,
};

/** Columns: a square for each layer, or a bar where a method has one layer; alone, also a bar for the layer shown. */
function columnsOf(runs) {
  return runs.flatMap(({ layers }, run) => {
    if (layers.length === 1) return [{ run, layer: 0, kind: "bar" }];
    const squares = layers.map((_, layer) => ({ run, layer, kind: "square" }));
    return runs.length > 1 ? squares : [...squares, { run, layer: null, kind: "bar" }];
  });
}

/** Tracks of a row: the label, then the columns of each method with a gap between methods. */
function tracksOf(runs, columns) {
  const several = runs.map((_, run) => {
    const mine = columns.filter((column) => column.run === run);
    const squares = mine.filter((column) => column.kind === "square").length;
    const widest = squares > 16 || runs.length > 1 ? "2.2rem" : "3.2rem";
    const bar = mine.length > squares ? "minmax(var(--bar), 1fr)" : "";
    return `${squares ? `repeat(${squares}, minmax(var(--square), ${widest}))` : ""} ${bar}`;
  });
  return `var(--label) ${several.join(" 1.1rem ")}`;
}

/** The width of the longest label in letters' sizes: an m is three times as wide as an i. */
function widestOf(pieces) {
  const { fontSize, fontFamily } = getComputedStyle(grid.element);
  paper.font = `${fontSize} ${fontFamily}`;
  const widths = pieces.map((piece) => paper.measureText(shortened(piece.label, 60)).width);
  return Math.max(...widths) / parseFloat(fontSize);
}

/** `shown` holds the pieces, and of each method shown its run, table, full strengths and drops; see `report.js`. */
function drawMap(shown) {
  const { runs, pieces } = shown;
  Object.assign(grid, {
    ...shown,
    columns: columnsOf(runs),
    reach: runs.map((run, at) => reachOf(run, shown.tables[at], shown.full[at])),
  });
  grid.element.style.setProperty("--longest", `calc(${widestOf(pieces)}em + 1.1rem)`);
  grid.element.classList.toggle("several", runs.length > 1);
  grid.element.style.setProperty("--tracks", tracksOf(runs, grid.columns));
  grid.element.setAttribute("aria-rowcount", pieces.length + (runs.length > 1 ? 2 : 1));
  grid.element.setAttribute("aria-colcount", grid.columns.length + 1);
  grid.body = node("div", { role: "rowgroup", class: "body" });
  grid.element.replaceChildren(node("div", { role: "rowgroup", class: "head" }, ...headRows()), grid.body);
  grid.rows.clear();
  document.querySelector(".views").classList.toggle("wide", grid.columns.length > WIDE || runs.length > 1);
  grid.tall = pieces.length > TALL;
  grid.scroller.classList.toggle("tall", grid.tall);
  grid.focus = {
    row: Math.min(grid.focus.row, pieces.length - 1),
    column: Math.min(grid.focus.column, grid.columns.length - 1),
  };
  drawRows();
}

function headRows() {
  const several = grid.runs.length > 1;
  const rows = [];
  if (several) {
    const names = grid.runs.flatMap(({ about }, run) => {
      const wide = grid.columns.filter((column) => column.run === run).length;
      const attributes = { type: "button", class: "method-name", "data-run": run, tabindex: -1 };
      const button = node("button", attributes, ...breakable(about.label));
      const cell = node("div", { role: "columnheader", "aria-colspan": wide, class: "method-head" }, button);
      cell.style.gridColumn = `span ${wide}`;
      return run ? [node("div", { class: "gap", role: "presentation" }), cell] : [cell];
    });
    rows.push(
      node(
        "div",
        { role: "row", class: "row", "aria-rowindex": 1 },
        node("div", { role: "columnheader", class: "corner" }, "method"),
        ...names,
      ),
    );
  }
  const cells = grid.columns.flatMap((column, at) => {
    const { layers } = grid.runs[column.run];
    const name = column.layer === null ? "" : layerShort(layers[column.layer]);
    const long = typeof name === "string" && !/^\d+$/.test(name);
    const label = node("span", { class: long && column.kind === "square" ? "upright" : "" });
    label.textContent = name;
    const cell = node(
      "div",
      {
        role: "columnheader",
        class: `layer-head ${column.kind}-head`,
        "data-column": at,
        "aria-colindex": at + 2,
      },
      label,
    );
    return gapBefore(at) ? [node("div", { class: "gap", role: "presentation" }), cell] : [cell];
  });
  rows.push(
    node(
      "div",
      { role: "row", class: "row", "aria-rowindex": several ? 2 : 1 },
      node("div", { role: "columnheader", class: "corner" }, "layer"),
      ...cells,
    ),
  );
  return rows;
}

const gapBefore = (at) => at > 0 && grid.columns[at].run !== grid.columns[at - 1].run;

const rowHeight = () => 1.75 * parseFloat(getComputedStyle(document.documentElement).fontSize);

/** Bring the rows in sight into the document and take the others out; the row with the focus stays. */
function drawRows(all = false) {
  if (!grid.body) return;
  const height = rowHeight();
  const count = grid.pieces.length;
  let [first, last] = [0, count - 1];
  if (grid.tall && !all) {
    first = Math.max(0, Math.floor(grid.scroller.scrollTop / height) - SPARE);
    last = Math.min(count - 1, Math.ceil((grid.scroller.scrollTop + grid.scroller.clientHeight) / height) + SPARE);
  }
  grid.body.style.height = `${count * 1.75}rem`;
  for (const [index, row] of grid.rows) {
    if ((index < first || index > last) && !row.contains(document.activeElement)) {
      row.remove();
      grid.rows.delete(index);
    }
  }
  for (let index = first; index <= last; index += 1) {
    if (grid.rows.has(index)) continue;
    const row = drawRow(index);
    const after = [...grid.rows.keys()].filter((other) => other > index);
    grid.body.insertBefore(row, after.length ? grid.rows.get(Math.min(...after)) : null);
    grid.rows.set(index, row);
  }
  const { row, column } = grid.focus;
  const stop = grid.rows.get(row) ?? grid.rows.get(first);
  for (const cell of grid.body.querySelectorAll('[tabindex="0"]')) cell.tabIndex = -1;
  if (stop) stop.querySelector(`[data-column="${column}"]`).tabIndex = 0;
}

function drawRow(index) {
  const piece = grid.pieces[index];
  const label = node("div", {
    role: "rowheader",
    class: piece.special ? "label special" : "label",
    title: piece.label.length > 16 ? shortened(piece.label, 200) : null,
  });
  label.append(node("bdi", {}, shortened(piece.label, 60)));
  const cells = grid.columns.flatMap((column, at) => {
    const cell = node("div", {
      role: "gridcell",
      class: column.kind,
      "data-column": at,
      "aria-colindex": at + 2,
      tabindex: -1,
    });
    if (column.kind === "bar")
      cell.append(node("span", { class: "figure" }), node("span", { class: "track" }, node("span", { class: "fill" })));
    fillCell(cell, index, column);
    return gapBefore(at) ? [node("div", { class: "gap", role: "presentation" }), cell] : [cell];
  });
  const row = node(
    "div",
    { role: "row", class: "row", "data-row": index, "aria-rowindex": index + (grid.runs.length > 1 ? 3 : 2) },
    label,
    ...cells,
  );
  row.style.top = `${index * 1.75}rem`;
  return row;
}

const layerOf = (column) => column.layer ?? grid.now[column.run];

function fillCell(cell, index, column) {
  const layer = layerOf(column);
  const run = grid.runs[column.run];
  const score = grid.tables[column.run][layer][index];
  const share = shareOf(score, grid.full[column.run][layer]);
  cell.style.setProperty("--share", Math.abs(share).toFixed(3));
  cell.classList.toggle("against", run.meaning.signed && score < 0);
  cell.classList.toggle("random", isRandom(run));
  cell.classList.toggle("strong", Math.abs(share) >= STRONG);
  cell.classList.toggle("faint", Math.abs(share) < FAINT);
  cell.classList.toggle(
    "now",
    column.kind === "square" && layer === grid.now[column.run] && column.run === grid.chosen,
  );
  const names = [shortened(grid.pieces[index].label, 60), layerName(run.layers[layer])];
  if (grid.runs.length > 1) names.push(run.about.label);
  cell.setAttribute("aria-label", `${names.join(", ")}: ${number(score, undefined, run.meaning.signed)}`);
  if (column.kind === "square") markDrop(cell, index, column);
  else fillBar(cell, score, share, column.run, layer);
}

/** A bar from zero, to the left for scores below it; where zero lies is the same in the whole column. */
function fillBar(cell, score, share, at, layer) {
  const full = grid.full[at][layer];
  const { below, span } = grid.reach[at];
  const [figure, track] = cell.children;
  figure.textContent = number(score, Math.max(Math.abs(score), full), grid.runs[at].meaning.signed);
  const fill = track.firstChild;
  fill.style.left = `${(100 * (below + Math.min(0, share))) / span}%`;
  fill.style.width = `${(100 * Math.abs(share)) / span}%`;
  track.style.setProperty("--zero", `${(100 * below) / span}%`);
}

/** The line that says where pieces are dropped: upright in a row, level where the next row differs. */
function markDrop(cell, index, column) {
  const drops = grid.drops[column.run];
  if (!drops) return;
  const [mine, above] = [drops[index], drops[index && index - 1]];
  cell.classList.toggle("drop-left", column.layer === mine);
  cell.classList.toggle("drop-right", mine === grid.runs[column.run].layers.length && column.layer === mine - 1);
  cell.classList.toggle("drop-top", column.layer >= Math.min(mine, above) && column.layer < Math.max(mine, above));
}

/** The layer shown has changed: only the outline and the bars follow. */
function moveNow(now, chosen) {
  Object.assign(grid, { now, chosen });
  for (const [index, row] of grid.rows) {
    for (const cell of row.querySelectorAll('[role="gridcell"]')) {
      const column = grid.columns[Number(cell.dataset.column)];
      if (column.kind === "square")
        cell.classList.toggle("now", layerOf(column) === now[column.run] && column.run === chosen);
      else if (column.layer === null) fillCell(cell, index, column);
    }
  }
  for (const head of grid.element.querySelectorAll(".layer-head")) {
    const column = grid.columns[Number(head.dataset.column)];
    if (column.layer === null)
      head.firstChild.textContent = `at ${layerPhrase(grid.runs[column.run].layers[now[column.run]])}`;
    head.classList.toggle("now", column.kind === "square" && column.layer === now[column.run] && column.run === chosen);
  }
  for (const head of grid.element.querySelectorAll(".method-name"))
    head.setAttribute("aria-pressed", String(Number(head.dataset.run) === chosen));
}

/** Put the focus on a square, bringing its row into sight first. */
function focusCell(row, column) {
  grid.focus = {
    row: Math.max(0, Math.min(grid.pieces.length - 1, row)),
    column: Math.max(0, Math.min(grid.columns.length - 1, column)),
  };
  if (grid.tall) {
    const [height, head] = [rowHeight(), grid.element.firstChild.offsetHeight];
    const top = grid.focus.row * height;
    const room = grid.scroller.clientHeight - head;
    if (top < grid.scroller.scrollTop) grid.scroller.scrollTop = top;
    else if (top + height > grid.scroller.scrollTop + room) grid.scroller.scrollTop = top + height - room;
  }
  drawRows();
  grid.rows.get(grid.focus.row).querySelector(`[data-column="${grid.focus.column}"]`).focus();
}
