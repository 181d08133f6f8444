// What was asked before, in this page alone; two of them side by side.

const MOST_PAST = 50;
const MOST_WORDS = 8;
const past = []; // the latest first: { question, explanations, said }
let compared = null; // the version that stands beside the present one

/** The present answer goes into the history, unless it stands there already. */
function remember() {
  if (!live.found.size) return;
  const explanations = [...live.found.entries()];
  const entry = { question: live.asked, explanations, said: saidOf(explanations[0][1].prediction) };
  const key = JSON.stringify(entry.question);
  const old = past.findIndex(({ question }) => JSON.stringify(question) === key);
  if (old >= 0) past.splice(old, 1);
  past.unshift(entry);
  past.length = Math.min(past.length, MOST_PAST);
  drawPast();
}

function drawPast() {
  const items = past.map((entry) => {
    const again = node("button", { type: "button" }, "Ask again");
    const beside = node("button", { type: "button" }, "Compare");
    again.addEventListener("click", () => restore(entry));
    beside.addEventListener("click", () => {
      compared = entry;
      drawVersions();
    });
    const words = node("bdi", { class: "snippet" }, shortened(entry.question.text, 120));
    return node("li", {}, words, node("bdi", {}, shortened(entry.said, 60)), again, beside);
  });
  byId("past-list").replaceChildren(...items);
}

function restore({ question, explanations }) {
  byId("asked-model").value = question.model;
  chooseModel();
  byId("asked-text").value = question.text;
  byId("asked-pair").value = question.pair ?? "";
  byId("asked-two").checked = modelNow().needs_pair || Boolean(question.pair);
  choosePair();
  byId("asked-units").value = question.units;
  byId("asked-layers").value = String(question.layers ?? "");
  byId(modelNow().labels ? "asked-label" : "asked-word").value = question.target ?? "";
  byId("asked-about").value = "response" in question ? "response" : "next";
  byId("asked-response").value = question.response ?? "";
  chooseAbout();
  const [first, ...more] = explanations.map(([method]) => method);
  byId("asked-method").value = first;
  byId("added").replaceChildren(...more.map(addedMethod));
  ask(true);
}

/** Words (or units) with their scores at the first layer. */
const wordsOf = ({ text: source, pair, units }) =>
  (units?.units ?? []).map(({ start, end, segment }, at) => ({
    word: [...(segment ? pair : source)].slice(start, end).join(""),
    score: units.scores[0][at],
  }));

function drawVersions() {
  byId("versions").hidden = !compared || !live.found.size;
  if (byId("versions").hidden) return;
  const now = { question: live.asked, explanations: [...live.found.entries()] };
  const both = [compared, now].map(({ question, explanations }) => ({ question, shown: explanations[0][1] }));
  const scores = both.map(({ shown }) => wordsOf(shown));
  const strongest = scores.flatMap((words) =>
    [...words].sort((a, b) => Math.abs(b.score) - Math.abs(a.score)).slice(0, MOST_WORDS),
  );
  const cell = (words) => node("td", {}, node("bdi", {}, words));
  const most = largest(strongest.map(({ score }) => Math.abs(score)));
  const scoreOf = (words, word) => {
    const same = words.filter((each) => each.word === word);
    return same.length ? same.map(({ score }) => number(score, most, true)).join(", ") : "–";
  };
  fillTable(
    byId("version-table"),
    ["before", "now"],
    [
      ["text", ...both.map(({ question }) => cell(shortened(question.text, 300)))],
      ["the model says", ...both.map(({ shown }) => cell(saidOf(shown.prediction)))],
      ["method", ...both.map(({ shown }) => cell(shown.method))],
      ...[...new Set(strongest.map(({ word }) => word))].map((word) => [
        node("bdi", {}, shortened(word, 40)),
        ...scores.map((words) => cell(scoreOf(words, word))),
      ]),
    ],
  );
}
