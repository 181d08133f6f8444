// The text as the user wrote it, its pieces coloured by their scores at one layer.

/** Text for a stretch of a source; what cannot be seen stands as symbols, set apart from letters. */
function* stretch(text, segment, start, end) {
  const source = text.sources[segment];
  const written = (from, to) => source.slice(from, to).join("");
  let [done, symbols] = [start, ""];
  const spoken = () => {
    const mark = node("span", { class: "symbol" }, symbols);
    symbols = "";
    return mark;
  };
  for (const [at, symbol] of text.entry.unseen[segment]) {
    if (at >= end) break;
    if (at < done) continue;
    if (at > done) {
      if (symbols) yield spoken();
      yield written(done, at);
    }
    symbols += symbol;
    done = at + 1;
  }
  if (symbols) yield spoken();
  if (done < end) yield written(done, end);
}

/** Pieces of one source that share characters (bytes of an emoji) are marked together; blanks before them are not. */
function marksOf(pieces, segment, source) {
  const marks = [];
  pieces.forEach((piece, at) => {
    if (piece.special || piece.segment !== segment) return;
    let { start } = piece;
    while (start < piece.end && !source[start].trim()) start += 1;
    if (start >= piece.end) return;
    marks.push({ start, end: piece.end, pieces: [at] });
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

/** Draw the sources, not yet coloured; returns a pair for every mark: the element and the indices of its pieces. */
function drawSources(element, text, pieces, specials) {
  const drawn = [];
  const prompt = text.entry.response !== null; // the response stands by itself
  const blocks = (prompt ? text.sources.slice(0, 1) : text.sources).map((source, segment) => {
    const block = node("p", { class: "source", dir: "auto" });
    let done = 0;
    /** What is no piece: blanks, and of a chat what the template wrote. */
    const between = (start, end) =>
      prompt && source.slice(start, end).join("").trim()
        ? [node("span", { class: "template" }, ...stretch(text, segment, start, end))]
        : stretch(text, segment, start, end);
    const chips = pieces
      .map((piece, at) => ({ piece, at }))
      .filter(({ piece }) => specials && piece.special && piece.segment === segment);
    const chip = ({ piece, at }) => {
      const made = node("span", { class: "mark chip" }, shortened(piece.label, 60));
      drawn.push([made, [at]]);
      return made;
    };
    for (const mark of marksOf(pieces, segment, source)) {
      while (chips.length && chips[0].piece.start <= mark.start && chips[0].at < mark.pieces[0])
        block.append(chip(chips.shift()));
      block.append(...between(done, mark.start));
      const made = node("span", { class: "mark" }, ...stretch(text, segment, mark.start, mark.end));
      markAnswer(made, text, segment, mark);
      markTag(made, text, segment, mark);
      drawn.push([made, mark.pieces]);
      block.append(made);
      done = mark.end;
    }
    if (prompt) {
      block.append(...between(done, source.length), ...chips.map(chip));
      return [block];
    }
    const mine = text.pieces.tokens.filter((token) => token.segment === segment && !token.special);
    const read = mine.reduce((last, token) => Math.max(last, token.end), done);
    block.append(...stretch(text, segment, done, read), ...chips.map(chip));
    const rest = node("span", { class: source.slice(read).join("").trim() ? "unread" : "" });
    rest.append(...stretch(text, segment, read, source.length));
    block.append(rest);
    return text.sources.length === 1 ? [block] : [node("h3", {}, text.entry.names[segment]), block];
  });
  element.replaceChildren(...blocks.flat());
  return drawn;
}

const touches = (place, segment, { start, end }) => place.segment === segment && place.start < end && start < place.end;

/** Of question answering: the words of the answer, the first of which says so. */
function markAnswer(made, { entry: { answer } }, segment, mark) {
  if (!answer || !touches(answer, segment, mark)) return;
  made.classList.add("answer");
  made.classList.toggle("answer-first", mark.start <= answer.start && answer.start < mark.end);
}

/** Of tagging: a word whose tag is explained carries it, and can be chosen. */
function markTag(made, { entry: { tags }, index }, segment, mark) {
  const mine = (tags ?? []).filter((tag) => touches(tag, segment, mark));
  const tag = mine.find(({ entry }) => entry === index) ?? mine[0];
  if (!tag) return;
  made.classList.add("tagged");
  const attributes = { role: "button", tabindex: 0, "data-tag": tag.says, "data-entry": tag.entry };
  filled(made, { ...attributes, "aria-pressed": String(tag.entry === index) }, []);
  made.setAttribute("aria-label", `${made.textContent}, tagged ${tag.says}`);
}

function colourMark(mark, score, full, signed) {
  const share = shareOf(score, full);
  mark.style.setProperty("--share", Math.abs(share).toFixed(3));
  mark.classList.toggle("against", signed && score < 0);
  mark.classList.toggle("faint", Math.abs(share) < FAINT);
}
