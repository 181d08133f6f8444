"use strict";
// The page's script, one idea a file, joined in the order that scoreboard_page.py names. Names and texts reach the page
// only through `node` and `textContent`: nothing here ever parses markup.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const believed = new Set(data.believe);
const HEADLINE = "faithfulness";

const SVG = "http://www.w3.org/2000/svg";
const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};

/** An element with attributes and children; a string child becomes a text node. */
const node = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const decimals = (value, digits = 2) =>
  value === null || value === undefined ? "–" : value.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
const layerOf = (entry) => (entry.layer === "embeddings" ? "" : ` · layer ${entry.layer}`);
const rankOf = ([first, last]) => (first === 0 ? "" : first === last ? `${first}` : `${first}–${last}`);

/** Forward passes a text, and backward ones twice; null where the cost is not known. */
function passesOf(entry) {
  const forwards = entry.means.forwards?.[0];
  return forwards ? forwards + 2 * (entry.means.backwards?.[0] ?? 0) : null;
}

/** How an entry is drawn: believed, one of the rest, a control, or flagged. */
const classOf = (entry) =>
  entry.kind === "control" ? "is-control" : entry.flagged ? "is-flagged" : believed.has(entry.name) ? "is-believed" : "is-other";
