// The text as the user wrote it, its pieces coloured by their scores at one layer.

/** Text for a stretch of a source; what cannot be seen stands as symbols, set apart from letters. */
function* stretch(text, segment, start, end) {
  const source = text.sources[segment];
  let [done, symbols] = [start, ""];
  const spoken = () => {
    const mark = node("span", { class: "symbol" });
    mark.textContent = symbols;
    symbols = "";
    return mark;
  };
  for (const place of text.unseen[segment]) {
    if (place.start >= end) break;
    if (place.start < done) continue;
    if (place.start > done) {
      if (symbols) yield spoken();
      yield source.slice(done, place.start);
    }
    symbols += place.symbol;
    done = place.end;
  }
  if (symbols) yield spoken();
  if (done < end) yield source.slice(done, end);
}

/** Pieces of one source that share characters (bytes of an emoji) are marked together. */
function marksOf(pieces, segment) {
  const marks = [];
  pieces.forEach((piece, place) => {
    if (piece.special || piece.segment !== segment || piece.start >= piece.end) return;
    marks.push({ start: piece.start, end: piece.end, pieces: [place] });
  });
  marks.sort((a, b) => a.start - b.start || a.end - b.end);
  const apart = [];
  for (const mark of marks) {
    const last = apart[apart.length - 1];
    if (last && mark.start < last.end) {
      last.end = Math.max(last.end, mark.end);
      last.pieces.push(...mark.pieces);
    } else apart.push(mark);
  }
  return apart;
}

/** Draw the sources, not yet coloured; returns a pair for every mark: the element and the places of its pieces. */
function drawSources(place, text, pieces, specials) {
  const drawn = [];
  const blocks = text.sources.map((source, segment) => {
    const block = node("p", { class: "source", dir: "auto" });
    let done = 0;
    const chips = pieces
      .map((piece, at) => ({ piece, at }))
      .filter(({ piece }) => specials && piece.special && piece.segment === segment);
    const chip = ({ piece, at }) => {
      const made = node("span", { class: "mark chip" });
      made.textContent = shortened(piece.label, 60);
      drawn.push([made, [at]]);
      return made;
    };
    for (const mark of marksOf(pieces, segment)) {
      while (chips.length && chips[0].piece.start <= mark.start && chips[0].at < mark.pieces[0])
        block.append(chip(chips.shift()));
      block.append(...stretch(text, segment, done, mark.start));
      const made = node("span", { class: "mark" });
      made.append(...stretch(text, segment, mark.start, mark.end));
      drawn.push([made, mark.pieces]);
      block.append(made);
      done = mark.end;
    }
    const read = text.tokens.reduce(
      (last, token) => (token.segment === segment && !token.special ? Math.max(last, token.end) : last),
      0,
    );
    block.append(...stretch(text, segment, done, Math.max(read, done)), ...chips.map(chip));
    const rest = node("span", { class: source.slice(Math.max(read, done)).trim() ? "unread" : "" });
    rest.append(...stretch(text, segment, Math.max(read, done), source.length));
    block.append(rest);
    return text.sources.length === 1 ? [block] : [node("h3", {}, segment ? "Second text" : "First text"), block];
  });
  place.replaceChildren(...blocks.flat());
  return drawn;
}

function colourMark(mark, score, full, signed) {
  const share = shareOf(score, full);
  mark.style.setProperty("--share", Math.abs(share).toFixed(3));
  mark.classList.toggle("against", signed && score < 0);
  mark.classList.toggle("faint", Math.abs(share) < 0.03);
}
