// Tables of squares that are pointed at, or walked by keys.

/** Where a key leads from the square with the focus, or null. */
function stepOf(event, { row, column }, rows, columns) {
  const [lastRow, lastColumn] = [rows - 1, columns - 1];
  switch (event.key) {
    case "ArrowUp":
      return [row - 1, column];
    case "ArrowDown":
      return [row + 1, column];
    case "ArrowLeft":
      return [row, column - 1];
    case "ArrowRight":
      return [row, column + 1];
    case "PageUp":
      return [row - 10, column];
    case "PageDown":
      return [row + 10, column];
    case "Home":
      return event.ctrlKey ? [0, 0] : [row, 0];
    case "End":
      return event.ctrlKey ? [lastRow, lastColumn] : [row, lastColumn];
    default:
      return null;
  }
}

/** The row and column of the square an event came from, or null. */
function cellOf(target) {
  const cell = target instanceof Element ? target.closest('[role="gridcell"][data-column]') : null;
  return cell && { cell, row: Number(cell.parentNode.dataset.row), column: Number(cell.dataset.column) };
}

/** Squares that are pointed at, clicked, or walked by keys: each shows its note; `move` puts the focus on one. */
function listenToCells(table, countColumns, move, showNote) {
  const on = (event, act) =>
    table.element.addEventListener(event, (happened) => {
      const found = cellOf(happened.target);
      if (found) act(found, happened);
    });
  on("focusin", (found) => {
    table.focus = { row: found.row, column: found.column };
    showNote(found);
  });
  on("click", ({ row, column }) => move(row, column));
  on("pointerover", showNote);
  on("keydown", (_, event) => {
    const step = event.altKey || event.metaKey ? null : stepOf(event, table.focus, table.pieces.length, countColumns());
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    move(...step);
  });
  table.element.addEventListener("focusout", hideTip);
  table.element.addEventListener("pointerleave", hideTip);
}
