// The words that a reader may not know, all of them in a list; each explains itself where it stands (see shell/terms.js).

function drawGlossary() {
  byId("glossary").replaceChildren(...factList(Object.entries(data.glossary)));
}
