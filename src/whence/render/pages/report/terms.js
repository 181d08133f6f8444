// Words that a reader may not know: their meaning is shown by pointer, by focus and by tap, and all of them in a list.

/** A term with its meaning at hand; `shown` is how it stands in the sentence. */
const term = (name, shown = name) => node("button", { type: "button", class: "term", "data-term": name }, shown);

function drawGlossary() {
  byId("glossary").replaceChildren(...factList(Object.entries(data.glossary)));
}

/** The term that an event or the focus is on, or null. */
const termAt = (target) => (target instanceof Element ? target.closest(".term") : null);

function showTerm(found) {
  showTip(found, [[found.dataset.term, data.glossary[found.dataset.term]]]);
  found.setAttribute("aria-describedby", "tip");
}

function listenToTerms() {
  for (const event of ["pointerover", "focusin", "click"])
    document.addEventListener(event, ({ target }) => {
      const found = termAt(target);
      if (found) showTerm(found);
    });
  for (const event of ["pointerout", "focusout"])
    document.addEventListener(event, ({ target }) => {
      const found = termAt(target);
      if (!found) return;
      found.removeAttribute("aria-describedby");
      hideTip();
    });
}
