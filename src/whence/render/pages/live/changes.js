// What if: words of the text struck out, or others in their place, and what the model says then.

const changes = new Map(); // by place: { segment, start, end, word, instead }
let changeTurn = 0;

const placeOf = ({ segment, start, end }) => `${segment}:${start}:${end}`;

/** The characters that a mark stands for. */
function spanOf(mark) {
  const [, indices] = marks.find(([element]) => element === mark) ?? [];
  const pieces = (indices ?? []).map((at) => every[at]).filter((piece) => !piece.special);
  if (!pieces.length) return null;
  const { segment } = pieces[0];
  const source = text.sources[segment];
  let start = Math.min(...pieces.map((piece) => piece.start));
  const end = Math.max(...pieces.map((piece) => piece.end));
  while (start < end && !source[start].trim()) start += 1;
  return { segment, start, end, word: source.slice(start, end).join("") };
}

/** A source with its changes; a word that goes takes one of the blanks beside it along. */
function changedSource(segment) {
  const source = text.sources[segment] ?? [];
  const mine = [...changes.values()].filter((change) => change.segment === segment).sort((a, b) => a.start - b.start);
  let made = "";
  let done = 0;
  for (const { start, end, instead } of mine) {
    made += source.slice(done, start).join("") + instead;
    done = end;
    const blankBefore = !made || /\s$/.test(made);
    if (!instead && blankBefore && done < source.length && !source[done].trim()) done += 1;
    else if (!instead && done >= source.length) made = made.trimEnd();
  }
  return made + source.slice(done).join("");
}

function forgetChanges() {
  changes.clear();
  for (const [mark] of marks) {
    const strikes = !text.entry.response && spanOf(mark) !== null;
    if (!strikes) continue;
    for (const [name, value] of Object.entries({ role: "button", tabindex: 0, "aria-pressed": "false" }))
      mark.setAttribute(name, value);
  }
  byId("changes").hidden = Boolean(text.entry.response);
  drawChanges();
}

function strike(mark) {
  const span = spanOf(mark);
  if (!span) return;
  const place = placeOf(span);
  if (!changes.delete(place)) changes.set(place, { ...span, instead: "" });
  drawChanges();
  askChanged();
}

function drawChanges() {
  for (const [mark] of marks) {
    const span = mark.getAttribute("role") === "button" ? spanOf(mark) : null;
    const struck = span !== null && changes.has(placeOf(span));
    mark.classList.toggle("struck", struck);
    if (span) mark.setAttribute("aria-pressed", String(struck));
  }
  const items = [...changes.values()].map((change) => {
    const input = node("input", {
      "aria-label": `instead of ${change.word}`,
      placeholder: "nothing",
      autocomplete: "off",
      value: change.instead,
    });
    input.addEventListener("input", () => {
      change.instead = input.value;
      askChanged();
    });
    return node("li", {}, node("s", {}, node("bdi", {}, shortened(change.word, 40))), " → ", input);
  });
  byId("change-list").replaceChildren(...items);
  byId("change-actions").hidden = !changes.size;
  byId("changes-hint").hidden = Boolean(changes.size);
  if (!changes.size) byId("changed-says").textContent = "";
}

async function askChanged() {
  changeTurn += 1;
  const mine = changeTurn;
  if (!changes.size) return;
  const changed = { model: live.asked.model, text: changedSource(0) };
  if (live.asked.pair) changed.pair = changedSource(1);
  try {
    const said = await postForJson("/api/predict", changed);
    if (mine !== changeTurn || !changes.size) return;
    const before = text.entry.prediction;
    const moved = said.label !== before.label;
    const then = node("b", {}, node("bdi", {}, saidOf(said)));
    byId("changed-says").replaceChildren(
      "The model then says ",
      then,
      moved ? " instead of " : "; before: ",
      node("bdi", {}, saidOf(before)),
    );
  } catch (error) {
    if (mine === changeTurn) byId("changed-says").textContent = error.message;
  }
}

/** What is shown becomes what is asked. */
function keepChanges() {
  byId("asked-text").value = changedSource(0);
  if (live.asked.pair) byId("asked-pair").value = changedSource(1);
  ask(false);
  byId("asked-text").focus();
}

function listenToChanges() {
  const sources = byId("sources");
  const markOf = (event) => event.target.closest?.('.mark[role="button"]');
  sources.addEventListener("click", (event) => {
    const mark = markOf(event);
    if (mark) strike(mark);
  });
  sources.addEventListener("keydown", (event) => {
    const mark = markOf(event);
    if (!mark || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    strike(mark);
  });
  byId("changes-keep").addEventListener("click", keepChanges);
  byId("changes-undo").addEventListener("click", () => {
    changes.clear();
    drawChanges();
  });
}
