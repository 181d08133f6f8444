// Methods of many passes: they wait in the server's queue, tell how far they have come, and can be cancelled.

const jobs = new Map(); // by id: { element, events, method }

const progressWords = ({ state: now, ahead, passes, seconds }) =>
  now === "queued"
    ? `waiting, ${ahead} before it`
    : `${plural(passes, "pass")}, ${seconds.toFixed(1)} s`.replace("passs", "passes");

async function beginJob(turn, question, method) {
  let job;
  try {
    job = await postForJson("/api/jobs", asksWith(question, method));
  } catch (error) {
    complain(error);
    return;
  }
  if (turn !== live.turn) {
    stopJob(job.id);
    return;
  }
  const words = node("span", {}, progressWords({ ...job, ahead: 0 }));
  const cancel = node("button", { type: "button" }, "Cancel");
  const bar = node("progress", { "aria-label": `progress of ${methodName(method)}` });
  const element = node("li", {}, node("bdi", {}, methodName(method)), bar, words, cancel);
  byId("jobs").append(element);
  const events = new EventSource(`/api/jobs/${job.id}/events`);
  jobs.set(job.id, { element, events });
  cancel.addEventListener("click", () => {
    stopJob(job.id);
    say(`${methodName(method)} was cancelled`);
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) endJob(job.id);
  });
  events.addEventListener("message", (event) => {
    const record = JSON.parse(event.data);
    words.textContent = progressWords(record);
    if (["queued", "running"].includes(record.state)) return;
    endJob(job.id);
    if (turn !== live.turn) return;
    if (record.state === "done") takeJob(turn, record, method);
    if (record.state === "failed") complain(new Refusal([record.problem, record.advice].join(". ")));
  });
}

async function takeJob(turn, record, method) {
  try {
    const explanation = await (await request(`/api/jobs/${record.id}/explanation`)).json();
    if (turn !== live.turn) return;
    live.found.set(method, explanation);
    if (aboutResponse()) byId("asked-response").value = explanation.pair;
    await draw(turn, live.stop.signal);
    say(`${methodName(method)}: ${record.passes} passes in ${record.seconds.toFixed(1)} s`);
  } catch (error) {
    complain(error);
  }
}

function endJob(id) {
  const { element, events } = jobs.get(id) ?? {};
  events?.close();
  element?.remove();
  jobs.delete(id);
}

function stopJob(id) {
  endJob(id);
  request(`/api/jobs/${id}`, { method: "DELETE" }).catch(() => {}); // it may be over already
}

function cancelJobs() {
  for (const id of [...jobs.keys()]) stopJob(id);
}
