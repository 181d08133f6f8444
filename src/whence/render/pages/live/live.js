// The live page as a whole: its choices, and what begins when it is opened.

const choice = (value, words = value) => node("option", { value }, words);
const inGroup = (label, names) =>
  names.length ? [node("optgroup", { label }, ...names.map((name) => choice(name)))] : [];

/** The methods of a model in two groups: those that answer while one types, and those that wait in a queue. */
function methodChoices(names) {
  const soon = names.filter((name) => methods.get(name).few_passes);
  const later = names.filter((name) => !methods.get(name).few_passes);
  return [...inGroup("at once", soon), ...inGroup("in the queue", later)];
}

function chooseModel() {
  const model = modelNow();
  const shown = byId("asked-method").value;
  byId("about-setting").hidden = !model.writes;
  byId("two-setting").hidden = model.writes || model.needs_pair;
  byId("asked-two").checked = model.needs_pair;
  choosePair();
  byId("asked-layers").replaceChildren(
    choice("", "as usual"),
    choice("all"),
    ...model.layers.map((layer) => choice(String(layer))),
  );
  byId("label-setting").hidden = !model.labels;
  byId("word-setting").hidden = Boolean(model.labels);
  byId("asked-label").replaceChildren(
    choice("", "what it says"),
    ...(model.labels ?? []).map((label) => choice(label)),
  );
  byId("at-setting").hidden = !tags();
  byId("asked-at").replaceChildren(choice("", "the surest"));
  byId("added").replaceChildren();
  chooseAbout(shown);
}

/** The second text has a field only where there is one. */
function choosePair() {
  byId("pair-field").hidden = !byId("asked-two").checked;
}

/** Of tagging: the words of the text that is answered, one of whose tags can be chosen; at first the surest. */
function listTags() {
  const words = tags() && text ? every.filter(({ special, segment }) => !special && segment === 0) : [];
  const shown = byId("asked-at").value;
  byId("asked-at").replaceChildren(
    choice("", "the surest"),
    ...words.map(({ label, start }) => choice(String(start), shortened(label, 30))),
  );
  byId("asked-at").value = shown;
}

function chooseAbout(shown = byId("asked-method").value) {
  const model = modelNow();
  const responds = aboutResponse();
  byId("asked-text-label").textContent = model.writes ? "Prompt" : byId("asked-two").checked ? model.texts[0] : "Text";
  byId("asked-pair-label").textContent = model.texts[1];
  byId("response-field").hidden = !responds;
  const usual = responds ? [choice("", "the usual one")] : [];
  byId("asked-method").replaceChildren(...usual, ...methodChoices(model.methods));
  byId("asked-method").value = responds ? "" : model.methods.includes(shown) ? shown : model.methods[0];
  byId("added-method").replaceChildren(choice("", "none"), ...methodChoices(model.methods));
}

function addedMethod(method) {
  const remove = node("button", { type: "button", "aria-label": `remove ${method}` }, "×");
  const item = node("li", { "data-method": method }, node("bdi", {}, method), remove);
  remove.addEventListener("click", () => {
    item.remove();
    edited();
  });
  return item;
}

async function savePage() {
  try {
    const made = await post("/api/page", { explanations: [...live.found.values()] });
    download(await made.blob(), "whence.html");
  } catch (error) {
    complain(error);
  }
}

function saveJson() {
  const found = [...live.found.values()];
  const lines = found.map((each) => `${JSON.stringify(each)}\n`);
  download(new Blob(lines, { type: "application/json" }), found.length > 1 ? "whence.jsonl" : "whence.json");
}

function beginLive() {
  const layout = document.querySelector(".layout");
  layout.hidden = true;
  layout.after(document.querySelector("aside.live"));
  byId("reading").after(byId("changes")); // what is struck out there has its answer below it
  byId("asked-model").replaceChildren(...[...models.keys()].map((name) => choice(name)));
  chooseModel();
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("asked-text", "input", () => {
    byId("asked-at").value = ""; // the words are others now
  });
  for (const id of ["asked-text", "asked-pair", "asked-response", "asked-word"]) on(id, "input", edited);
  for (const id of ["asked-method", "asked-layers", "asked-label", "asked-at", "asked-units"]) on(id, "change", edited);
  on("asked-model", "change", () => {
    chooseModel();
    edited();
  });
  on("asked-two", "change", () => {
    choosePair();
    chooseAbout();
    edited();
  });
  on("asked-about", "change", () => {
    chooseAbout();
    edited();
  });
  on("added-method", "change", (event) => {
    const method = event.target.value;
    event.target.value = "";
    if (method && !methodsNow().includes(method)) byId("added").append(addedMethod(method));
    ask(true);
  });
  on("ask", "submit", (event) => {
    event.preventDefault();
    ask(true);
  });
  on("ask", "keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(true);
  });
  on("export-page", "click", savePage);
  on("export-json", "click", saveJson);
  on("versions-close", "click", () => {
    compared = null;
    drawVersions();
  });
  listenToChanges();
  window.addEventListener("pagehide", cancelJobs);
  byId("choices").open = window.matchMedia("(min-width: 40rem)").matches; // on a phone the answer comes first
  byId("asked-text").value = data.example;
  byId("asked-text").focus();
  ask(false);
}

beginLive();
