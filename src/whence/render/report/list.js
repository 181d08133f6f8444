// Many texts: a list with search and order. Only the items in sight are in the document.

const ITEM = 4.6; // rem

const list = {
  element: byId("list"),
  items: byId("items"),
  order: [],
  drawn: new Map(),
  disagreement: null,
  lower: null,
};

const itemHeight = () => ITEM * parseFloat(getComputedStyle(document.documentElement).fontSize);

/** How far the methods disagree about each text, worked out when first asked for. */
function disagreements() {
  list.disagreement ??= data.texts.map((_, index) => disagreementOf(openText(index)));
  return list.disagreement;
}

/** Places of the texts that hold the words sought, in the order asked for. */
function arrange(sought, sort) {
  list.lower ??= data.texts.map(({ text, pair, prediction }) =>
    `${text}\n${pair ?? ""}\n${prediction.label}`.toLowerCase(),
  );
  const wanted = sought.trim().toLowerCase();
  const found = data.texts.map((_, index) => index).filter((index) => list.lower[index].includes(wanted));
  const by = (key, down) =>
    found.sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === null || right === null) return (left === null) - (right === null) || a - b;
      return (down ? right - left : left - right) || a - b;
    });
  const chance = (index) => data.texts[index].prediction.probability;
  if (sort === "unsure") by(chance, false);
  if (sort === "sure") by(chance, true);
  if (sort === "disagreement") by((index) => disagreements()[index], true);
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
  for (const [place, item] of list.drawn) {
    if (place < first || place > last) {
      item.remove();
      list.drawn.delete(place);
    }
  }
  for (let place = first; place <= last; place += 1) {
    if (!list.drawn.has(place)) {
      const item = drawItem(place);
      list.drawn.set(place, item);
      list.items.append(item);
    }
    const mine = list.order[place] === chosen;
    list.drawn.get(place).setAttribute("aria-selected", String(mine));
  }
  const at = list.drawn.get(list.order.indexOf(chosen));
  if (at) list.element.setAttribute("aria-activedescendant", at.id);
  else list.element.removeAttribute("aria-activedescendant");
}

function drawItem(place) {
  const index = list.order[place];
  const { text, pair, prediction, runs } = data.texts[index];
  const words = node("span", { class: "snippet", dir: "auto" });
  words.textContent = visible(shortened(pair === null ? text : `${text} / ${pair}`, 160));
  const label = node("span", { class: "said" });
  label.textContent = visible(shortened(prediction.label, 40));
  const facts = node("span", { class: "facts" }, label);
  if (prediction.probability !== null) {
    const meter = node("span", { class: "meter", "aria-hidden": "true" }, node("span"));
    meter.firstChild.style.width = `${100 * prediction.probability}%`;
    facts.append(meter, percent(prediction.probability));
  }
  const differ = list.disagreement ? list.disagreement[index] : null;
  if (differ !== null)
    facts.append(
      node(
        "span",
        { class: "differ", title: "disagreement between methods: 0 none, 1 unrelated, 2 opposite" },
        `≠ ${differ.toFixed(2)}`,
      ),
    );
  const warned = runs.reduce((sum, run) => sum + run.warnings.length, 0);
  if (warned) facts.append(node("span", { class: "warned" }, `${warned} warning${warned > 1 ? "s" : ""}`));
  const item = node(
    "div",
    {
      role: "option",
      id: `item-${index}`,
      class: "item",
      "data-index": index,
      "aria-setsize": list.order.length,
      "aria-posinset": place + 1,
    },
    words,
    facts,
  );
  item.style.top = `${place * ITEM}rem`;
  return item;
}

/** Scroll the list, and only the list, until the chosen text is in sight. */
function revealItem(chosen) {
  const [place, height] = [list.order.indexOf(chosen), itemHeight()];
  if (place < 0) return;
  const top = place * height;
  if (top < list.element.scrollTop) list.element.scrollTop = top;
  else if (top + height > list.element.scrollTop + list.element.clientHeight)
    list.element.scrollTop = top + height - list.element.clientHeight;
}
