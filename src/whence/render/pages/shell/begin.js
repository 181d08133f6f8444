"use strict";
// What every page begins with. Its script is joined from files, one idea each, in the order that Python names. Texts,
// labels and options reach the page only through `node` and `textContent`: nothing here ever parses markup.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
let data = JSON.parse(byId("data").textContent);

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** An element with attributes and children; a string child becomes a text node. */
const node = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
/** The same for a part of a picture. */
const shape = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** From now on the page is about this; its title and maker stand at the top and bottom. */
function useData(payload) {
  data = payload;
  document.title = data.title;
  byId("title").textContent = data.title;
  byId("made-by").textContent = `Made by whence ${data.version}. This page holds all it shows and loads nothing.`;
}

useData(data);
byId("theme").addEventListener("change", (event) => {
  document.documentElement.dataset.theme = event.target.value;
});
