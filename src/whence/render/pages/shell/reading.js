// Reading the data: packed numbers, long texts, and how layers are called.

const floats = (base64) => new Float32Array(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer);

const shortened = (text, most) =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…`;

const LAYER_NAMES = { embeddings: "word embeddings", 0: "embedding" };
const layerName = (layer) => LAYER_NAMES[layer] ?? `layer ${layer}`;
const layerShort = (layer) => LAYER_NAMES[layer] ?? String(layer);
const layerPhrase = (layer) => (layer in LAYER_NAMES ? `the ${LAYER_NAMES[layer]}` : `layer ${layer}`);
