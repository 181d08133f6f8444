// Asking the server: JSON there and back, and an error in words.

class Refusal extends Error {}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refusal([said.problem ?? `The server says ${response.status}`, said.advice].filter(Boolean).join(". "));
}

const post = (path, body, signal) =>
  request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });

const postForJson = async (path, body, signal) => (await post(path, body, signal)).json();

/** A token comes in quotes where it has a blank before it; it is read without. */
const unquoted = (label) => (/^".+"$/s.test(label) && label.slice(1, -1).trim() ? label.slice(1, -1).trim() : label);

const saidOf = ({ label, probability }) =>
  probability === null ? label : `${unquoted(label)} (${percent(probability)})`;
