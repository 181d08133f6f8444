// What the parts of this page share: who is believed, and how an entry is named and drawn.

const HEADLINE = "faithfulness";
const believed = new Set(data.believe);
const layerOf = (entry) => (entry.layer === "embeddings" ? "" : ` · layer ${entry.layer}`);
const rankOf = ([first, last]) => (first === 0 ? "–" : first === last ? `${first}` : `${first}–${last}`);
const inOrder = () => data.rankings[HEADLINE].map(({ entry }) => data.entries[entry]);
/** A name that is broken behind an underscore, where it must be. */
const rowName = (name) => node("span", {}, ...breakable(name));

/** How an entry is drawn: believed, one of the rest, a control, or flagged. */
function classOf(entry) {
  if (entry.kind === "control") return "is-control";
  if (entry.flagged) return "is-flagged";
  return believed.has(entry.name) ? "is-believed" : "is-other";
}
