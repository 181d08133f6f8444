// Many texts: a list with search and order. Only the items in sight are in the document.

const ITEM = 4.6; // rem

const list = {
  element: byId("list"),
  items: byId("items"),
  order: [],
  drawn: new Map(),
  lower: null,
};

const itemHeight = () => ITEM * parseFloat(getComputedStyle(document.documentElement).fontSize);

/** The entry that stands for a text in the list: of a text with several tags explained, the first. */
const headOf = (index) => data.texts[index].tags?.[0].entry ?? index;
const heads = () => data.texts.flatMap((_, index) => (headOf(index) === index ? [index] : []));

/** Indices of the texts that hold the words sought, in the order asked for. */
function arrange(sought, sort) {
  list.lower ??= data.texts.map(({ text, pair, prediction }) =>
    `${text}\n${pair ?? ""}\n${prediction.label}`.toLowerCase(),
  );
  const wanted = sought.trim().toLowerCase();
  const found = heads().filter((index) => list.lower[index].includes(wanted));
  const by = (key, down) =>
    found.sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === null || right === null) return (left === null) - (right === null) || a - b;
      return (down ? right - left : left - right) || a - b;
    });
  const chance = (index) => data.texts[index].prediction.probability;
  if (sort === "unsure") by(chance, false);
  if (sort === "sure") by(chance, true);
  if (sort === "disagreement") by((index) => data.texts[index].disagreement, true);
  list.order = found;
}

function drawList(chosen, afresh = false) {
  const height = itemHeight();
  if (afresh) {
    list.items.replaceChildren();
    list.drawn.clear();
  }
  list.items.style.height = `${list.order.length * ITEM}rem`;
  const first = Math.max(0, Math.floor(list.element.scrollTop / height) - 4);
  const last = Math.min(
    list.order.length - 1,
    Math.ceil((list.element.scrollTop + list.element.clientHeight) / height) + 4,
  );
  for (const [row, item] of list.drawn) {
    if (row < first || row > last) {
      item.remove();
      list.drawn.delete(row);
    }
  }
  for (let row = first; row <= last; row += 1) {
    if (!list.drawn.has(row)) {
      const item = drawItem(row);
      list.drawn.set(row, item);
      list.items.append(item);
    }
    const mine = list.order[row] === chosen;
    list.drawn.get(row).setAttribute("aria-selected", String(mine));
  }
  const at = list.drawn.get(list.order.indexOf(chosen));
  if (at) list.element.setAttribute("aria-activedescendant", at.id);
  else list.element.removeAttribute("aria-activedescendant");
}

function drawItem(row) {
  const index = list.order[row];
  const { snippet, prediction, runs, disagreement } = data.texts[index];
  const words = node("span", { class: "snippet", dir: "auto" }, snippet);
  const facts = node("span", { class: "facts" }, node("span", { class: "said" }, shortened(prediction.label, 40)));
  if (prediction.probability !== null) {
    const meter = node("span", { class: "meter", "aria-hidden": "true" }, node("span"));
    meter.firstChild.style.width = `${100 * prediction.probability}%`;
    facts.append(meter, percent(prediction.probability));
  }
  if (disagreement !== null) {
    const title = "disagreement between methods: 0 none, 1 unrelated, 2 opposite";
    facts.append(node("span", { class: "differ", title }, `≠ ${disagreement.toFixed(2)}`));
  }
  const warned = runs.reduce((sum, run) => sum + run.warnings.length, 0);
  if (warned) facts.append(node("span", { class: "warned" }, plural(warned, "warning")));
  const item = node(
    "div",
    {
      role: "option",
      id: `item-${index}`,
      class: "item",
      "data-index": index,
      "aria-setsize": list.order.length,
      "aria-posinset": row + 1,
    },
    words,
    facts,
  );
  item.style.top = `${row * ITEM}rem`;
  return item;
}

/** Scroll the list, and only the list, until the chosen text is in sight. */
function revealItem(chosen) {
  const [row, height] = [list.order.indexOf(chosen), itemHeight()];
  if (row < 0) return;
  const top = row * height;
  if (top < list.element.scrollTop) list.element.scrollTop = top;
  else if (top + height > list.element.scrollTop + list.element.clientHeight)
    list.element.scrollTop = top + height - list.element.clientHeight;
}
