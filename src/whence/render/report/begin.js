"use strict";
// The page's script, one idea a file, joined in the order that page.py names. Texts, labels and options reach the page
// only through `node` and `textContent`: nothing here ever parses markup.

const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a string child becomes a text node. */
function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const data = JSON.parse(byId("data").textContent);
