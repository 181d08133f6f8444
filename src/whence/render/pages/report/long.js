// Long texts: a small map of the whole beside the text, the strongest sentences, and a jump to the strongest words.

const MOST_SENTENCES = 5;
const JUMPS = 10; // of the strongest, one after the other, and around

/** Whether the text is read with a map of it. */
const isLong = () => text.entry.sentences !== null;

/** Whether some of it may be out of sight: a long text, or a prompt in few units, such as turns, that is higher than its box. */
const isScrolled = () => isLong() || byId("sources").scrollHeight > byId("sources").clientHeight;

/** The marks, the strongest first; those without a score are left out. */
function strongestMarks() {
  const row = tables[chosenRun()][layerNow(chosenRun())];
  const size = ([, pieces]) => Math.max(...pieces.map((piece) => Math.abs(row[piece])));
  return [...marks].sort((a, b) => size(b) - size(a)).filter((mark) => size(mark) > 0);
}

/** Bring the strongest piece of the text into sight, then the next, and around. */
function jumpToStrongest() {
  const order = strongestMarks();
  if (!order.length) return;
  const before = order.findIndex(([mark]) => mark.classList.contains("here"));
  showMark(order[(before + 1) % Math.min(order.length, JUMPS)][0]);
}

function showMark(mark) {
  for (const [each] of marks) each.classList.remove("here");
  mark.classList.add("here");
  mark.scrollIntoView({ block: "center" });
  tipOfMark(mark);
}

/** A tick for every coloured word, as far down as the word stands in the text; and what of the text is in sight. */
function drawMinimap() {
  const [box, small] = [byId("sources"), byId("minimap")];
  const whole = box.scrollHeight;
  small.hidden = !isLong() || whole <= box.clientHeight;
  byId("jump").hidden = !isScrolled();
  for (const [name, value] of [
    ["tabindex", "0"],
    ["role", "region"],
    ["aria-label", "The text, scrolled by the arrow keys"],
  ]) {
    if (small.hidden) box.removeAttribute(name);
    else box.setAttribute(name, value);
  }
  if (small.hidden) return;
  const ticks = marks
    .filter(([mark]) => !mark.classList.contains("faint"))
    .map(([mark]) => {
      const tick = node("span", { class: mark.classList.contains("against") ? "tick against" : "tick" });
      tick.style.top = `${(100 * mark.offsetTop) / whole}%`;
      tick.style.setProperty("--share", mark.style.getPropertyValue("--share"));
      return tick;
    });
  small.replaceChildren(node("span", { class: "sight" }), ...ticks);
  moveSight();
}

function moveSight() {
  const [box, sight] = [byId("sources"), byId("minimap").firstChild];
  if (!sight) return;
  sight.style.top = `${(100 * box.scrollTop) / box.scrollHeight}%`;
  sight.style.height = `${(100 * box.clientHeight) / box.scrollHeight}%`;
}

/** Each sentence has what its words have: the sum, or the strongest where scores do not add up. */
function drawSentences(run, row) {
  byId("by-sentence").hidden = !isLong() || text.entry.sentences.length < 3;
  if (byId("by-sentence").hidden) return;
  const sums = text.entry.sentences.map(([start, end, segment]) => {
    const mine = every.flatMap((piece, at) =>
      !piece.special && piece.segment === segment && piece.start >= start && piece.start < end ? [at] : [],
    );
    return {
      start,
      end,
      segment,
      first: mine[0],
      score: gatheredBy(
        run,
        mine.map((at) => row[at]),
      ),
    };
  });
  const told = sums.filter(({ first }) => first !== undefined);
  const most = largest(told.map(({ score }) => Math.abs(score)));
  const order = [...told].sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).slice(0, MOST_SENTENCES);
  byId("sentence-list").replaceChildren(
    ...order.map(({ start, end, segment, first, score }) => {
      const words = text.sources[segment].slice(start, end).join("").replace(/\s+/g, " ");
      const figure = node("span", { class: "figure" }, number(score, most, run.meaning.signed));
      const attributes = {
        type: "button",
        class: run.meaning.signed && score < 0 ? "sentence against" : "sentence",
        "data-piece": first,
      };
      return node("li", {}, node("button", attributes, figure, " ", node("bdi", {}, shortened(words, 160))));
    }),
  );
  byId("sentence-note").textContent =
    `Each of the ${told.length} sentences has ${run.meaning.additive ? "the sum" : "the strongest"} of its ${kindNow()}s' scores.`;
}

function listenToLong() {
  byId("jump").addEventListener("click", jumpToStrongest);
  byId("sources").addEventListener("scroll", moveSight);
  byId("minimap").addEventListener("click", (event) => {
    const [box, frame] = [byId("sources"), byId("minimap").getBoundingClientRect()];
    box.scrollTop = ((event.clientY - frame.top) / frame.height) * box.scrollHeight - box.clientHeight / 2;
  });
  byId("sentence-list").addEventListener("click", (event) => {
    const button = event.target.closest(".sentence");
    const found = button && marks.find(([, pieces]) => pieces.includes(Number(button.dataset.piece)));
    if (found) showMark(found[0]);
  });
}
