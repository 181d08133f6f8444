// What is asked: the fields, and the answers to what stands in them now. An answer to what stood there before is dropped.

const PAUSE = 250; // milliseconds without a key before a text is asked about
const SETTLED = 1500; // and before it goes into the history
const models = new Map(data.served.map((model) => [model.name, model]));
const methods = new Map(data.known.map((method) => [method.name, method]));

const live = {
  turn: 0, // counts what is asked
  asked: null, // the question that is answered on the page
  found: new Map(), // its explanations by method
  stop: new AbortController(),
  pause: 0,
  settled: 0,
};

const modelNow = () => models.get(byId("asked-model").value);
const tags = () => modelNow().task === "token_classification";
const aboutResponse = () => modelNow().writes && byId("asked-about").value === "response";

/** The methods chosen, the main one first; of a response the usual one has no name. */
const methodsNow = () => {
  const more = [...byId("added").children].map((item) => item.dataset.method);
  return [...new Set([byId("asked-method").value, ...more])];
};

/** The question without its method, as the server takes it. */
function questionNow() {
  const model = modelNow();
  const question = { model: model.name, text: byId("asked-text").value, units: byId("asked-units").value };
  if (!byId("pair-field").hidden && byId("asked-pair").value) question.pair = byId("asked-pair").value;
  const layers = byId("asked-layers").value;
  if (layers) question.layers = /^\d+$/.test(layers) ? Number(layers) : layers;
  const target = model.labels ? byId("asked-label").value : byId("asked-word").value;
  const at = tags() ? byId("asked-at").value : "";
  if (at) question.target = { label: target || null, at: Number(at) };
  else if (target) question.target = target;
  if (aboutResponse()) question.response = byId("asked-response").value || null;
  return question;
}

const asksWith = (question, method) => (method ? { ...question, method } : question);
const isAtOnce = (method) => !aboutResponse() && Boolean(methods.get(method)?.few_passes);

function say(words) {
  byId("live-status").textContent = words;
}

function complain(error) {
  if (error?.name === "AbortError") return;
  if (error && !(error instanceof Refusal)) throw error;
  byId("live-problem").textContent = error?.message ?? "";
  byId("live-problem").hidden = !error;
}

/** What is still to be typed before anything can be asked; "" if nothing. */
function textsMissing({ text: first, pair }) {
  const { needs_pair: two, texts } = modelNow();
  if (two && !(first.trim() && pair?.trim())) return `Type or paste both: ${texts.join(" and ").toLowerCase()}.`;
  return first.trim() ? "" : "Type or paste a text.";
}

/** Something was typed or chosen: what is shown is no longer the answer. */
function edited() {
  clearTimeout(live.pause);
  clearTimeout(live.settled);
  live.turn += 1;
  live.stop.abort();
  document.querySelector(".layout").classList.add("outdated");
  live.pause = setTimeout(() => ask(false), PAUSE);
}

/** Ask by the methods that answer at once and, if told so, by the others too. */
async function ask(everything) {
  clearTimeout(live.pause);
  live.turn += 1;
  live.stop.abort();
  live.stop = new AbortController();
  cancelJobs();
  const [turn, question, { signal }] = [live.turn, questionNow(), live.stop];
  complain(null);
  const missing = textsMissing(question);
  if (missing) {
    if (live.asked?.model !== question.model) document.querySelector(".layout").hidden = true;
    say(missing);
    return;
  }
  const chosen = methodsNow();
  const soon = chosen.filter(isAtOnce);
  const later = chosen.filter((method) => !isAtOnce(method));
  say("asking …");
  try {
    const begun = performance.now();
    const found = await Promise.all(
      soon.map((method) => postForJson("/api/explain", asksWith(question, method), signal)),
    );
    if (!soon.length && !aboutResponse()) await sayPrediction(question, signal);
    if (turn !== live.turn) return;
    if (!soon.length && live.asked?.model !== question.model) document.querySelector(".layout").hidden = true;
    for (const id of ["export-page", "export-json"]) byId(id).disabled = !soon.length;
    live.asked = question;
    live.found = new Map(soon.map((method, at) => [method, found[at]]));
    if (soon.length) {
      await draw(turn, signal);
      say(`answered in ${Math.round(performance.now() - begun)} ms`);
    }
    if (everything) for (const method of later) beginJob(turn, question, method);
    else if (later.length) say(`${byId("live-status").textContent}; press Ask for ${later.map(methodName).join(", ")}`);
  } catch (error) {
    if (turn !== live.turn) return;
    say("");
    complain(error);
  }
}

const methodName = (method) => method || "the response";

/** Where no method answers at once, what the model says does. */
async function sayPrediction({ model, text: asked, pair }, signal) {
  const said = await postForJson("/api/predict", { model, text: asked, pair }, signal);
  say(`The model says ${saidOf(said)}`);
}

/** The page of the explanations that are there; what the reader has chosen on it stays. */
async function draw(turn, signal) {
  const explanations = [...live.found.values()];
  const payload = await postForJson("/api/page/data", { explanations }, signal);
  if (turn !== live.turn) return;
  const kept = { layer: state.layer, label: text?.runs[chosenRun()]?.about.label };
  drawPage(payload);
  byId("made-by").textContent = `Live from whence ${payload.version}, on the machine that serves this page.`;
  const run = text.runs.find(({ about }) => about.label === kept.label) ?? text.runs[0];
  if (run.method !== state.method) setMethod(run.method);
  if (kept.layer !== null && run.layers.includes(kept.layer)) setLayer(kept.layer);
  const layout = document.querySelector(".layout");
  layout.hidden = false;
  layout.classList.remove("outdated");
  for (const id of ["export-page", "export-json"]) byId(id).disabled = false;
  listTags();
  forgetChanges();
  drawVersions();
  clearTimeout(live.settled);
  live.settled = setTimeout(remember, SETTLED);
}
