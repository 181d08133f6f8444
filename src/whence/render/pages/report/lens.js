// The lens below the text it is of, if there is one.

function drawLens(text) {
  const packed = text.entry.lens;
  byId("lens").hidden = !packed;
  if (packed) drawLensSquares(packed, text.pieces.tokens);
}
