"""What a notebook shows of a result: a few kilobytes of plain HTML that need no script and no style sheet.

Notebooks are read where they were made, in dark and in light, and on GitHub, which takes out scripts and style sheets
and may take out inline styles too. So colours are see-through tints over whatever is behind, and everything they say
is also said in letters: bold words, signs, numbers, and bars made of characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

from whence.attention.audit_record import AttentionAudit, RankCorrelation
from whence.citing.citations import Citations
from whence.comparison import Comparison
from whence.explanation import Explanation, Word
from whence.lens import Lens
from whence.render.lens_page import said
from whence.render.lens_page import sentence as lens_sentence
from whence.render.rows import blanks_shown, number, token_label
from whence.render.sentence import sentence_of
from whence.render.visible import shortened, visible
from whence.render.wording import model_name
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.verdict import STRENGTHS

MOST_WORDS = 60  # of a text, in running text
MOST_NAMED = 5  # words in a table
MOST_LINES = 8  # of any other table
MOST_RESULTS = 10  # of a list
_FOR, _AGAINST = "31,95,180", "196,87,10"
_BAR = 10  # characters
_LONGEST = 80  # characters of a name or a word
_LONGEST_LINE = 300
_CELL = "text-align:left;padding:0 .6em"


class Paged(Protocol):
    """A result with a page of its own."""

    def to_html(self, path: str | Path | None = None) -> str: ...


def show(result: Paged, path: str | Path | None = None) -> None:
    """Open the whole page of a result.

    With a path the page is written there, and a notebook links to it. Without one a notebook shows it in a frame;
    elsewhere it is opened in a browser from a temporary file.
    """
    if path is not None:
        result.to_html(path)
    if _in_notebook():
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        from whence.render.shell import framed

        whole = HTML(framed(result.to_html()) if path is None else _link(path))  # type: ignore[no-untyped-call, unused-ignore]
        display(whole)  # type: ignore[no-untyped-call, unused-ignore]
        return
    import tempfile
    import webbrowser

    if path is None:
        path = Path(tempfile.mkdtemp(prefix="whence-")) / "page.html"
        result.to_html(path)
    webbrowser.open(Path(path).absolute().as_uri())


def _in_notebook() -> bool:
    """Whether a notebook is there to display something; nothing is imported to find out."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _link(path: str | Path) -> str:
    return f'<p><a href="{escape(str(path))}" target="_blank">Open the whole page: {escape(str(path))}</a></p>'


def compact(result: Any) -> str:
    """A result with a page of its own, at a glance."""
    return _framed(_parts_of(result))


def compact_list(results: Sequence[Any]) -> str:
    """Results one below the other, the first of many."""
    line = '<hr style="border: 0; border-top: 1px solid; opacity: .3">'
    shown = line.join("".join(_parts_of(result)) for result in results[:MOST_RESULTS])
    left = len(results) - MOST_RESULTS
    return _framed([shown, f"<p>… and {left} more</p>" if left > 0 else ""])


def _parts_of(result: Any) -> Iterator[str]:
    draw: Callable[[Any], Iterator[str]] = _DRAWN[type(result)]
    yield from map(_warned, getattr(result, "warnings", ()))
    yield from draw(result)


def _warned(warning: str) -> str:
    return f"<p>⚠ <b>{escape(shortened(warning, _LONGEST_LINE))}</b></p>"


def _framed(parts: Iterable[str]) -> str:
    whole = (
        '<p style="font-size: 85%; opacity: .75"><code>.show()</code> opens the whole page, '
        "<code>.show(&quot;page.html&quot;)</code> writes it to a file and links to it.</p>"
    )
    return f'<div style="max-width: 60em; line-height: 1.5">{"".join(parts)}{whole}</div>'


def _explanation(explanation: Explanation) -> Iterator[str]:
    """The decision, the text with its words tinted, and the strongest words with their scores."""
    parts = sentence_of(explanation).parts
    yield f"<p>{''.join(_part(kind, text) for kind, text in parts)}</p>"
    yield f'<p style="font-size: 85%">By {escape(shortened(explanation.method, _LONGEST))}.</p>'
    yield _running(explanation)
    yield _strongest(explanation)


def _part(kind: str, text: str) -> str:
    """A part of the sentence: what the model says, and words of the text, in bold."""
    return escape(text) if kind == "plain" else f"<b>{escape(text)}</b>"


def _running(explanation: Explanation) -> str:
    """The text as it was written, its words tinted by their scores; clear ones in bold, those against in italics."""
    words = explanation.gathered()
    full = max((abs(word.score) for word in words), default=0.0) or 1.0
    parts, ends = [], {0: 0, 1: 0}
    sources = {0: explanation.text, 1: explanation.pair or ""}
    for index, word in enumerate(words[:MOST_WORDS]):
        if index and word.segment != words[index - 1].segment:
            parts.append(" / ")
        before = sources[word.segment][ends[word.segment] : word.start]
        ends[word.segment] = max(ends[word.segment], word.end)
        parts += [escape(shortened(before, _LONGEST)), _tinted(word, full, explanation.meaning.signed)]
    left = len(words) - MOST_WORDS
    more = f" … <i>and {left} more {_kind(explanation)}s</i>" if left > 0 else ""
    return f'<p dir="auto">{"".join(parts)}{more}</p>'


def _tinted(word: Word, full: float, signed: bool) -> str:
    share = abs(word.score) / full
    text = escape(shortened(word.text, _LONGEST))
    if share < 0.05:
        return text
    against = signed and word.score < 0
    if share >= 0.25:
        text = f"<b><i>{text}</i></b>" if against else f"<b>{text}</b>"
    colour = _AGAINST if against else _FOR
    return f'<span style="background:rgba({colour},{0.55 * share:.2f})">{text}</span>'


def _kind(explanation: Explanation) -> str:
    return "word" if explanation.units is None else explanation.units.kind


def _strongest(explanation: Explanation) -> str:
    signed = explanation.meaning.signed
    words = [word for word in explanation.top(MOST_NAMED) if word.score]
    if not words:
        return f"<p>All {_kind(explanation)}s have the score 0.</p>"
    full = abs(words[0].score)
    rows = [
        (
            shortened(word.text, 40),
            number(word.score, full, sign=signed),
            _bar(word.score / full),
            ("against" if word.score < 0 else "for") if signed else "",
        )
        for word in words
    ]
    return _table((), rows)


def _bar(share: float) -> str:
    return "█" * max(1, round(abs(share) * _BAR)) if share else ""


def _comparison(comparison: Comparison) -> Iterator[str]:
    """The strongest words down, the methods across, each against its own largest score."""
    explanations = comparison.explanations
    found = [{(word.segment, word.start): word for word in each.gathered()} for each in explanations]
    fulls = [max((abs(word.score) for word in column.values()), default=0.0) or 1.0 for column in found]
    labels = {key: word.text for column in found for key, word in column.items()}
    shares = {
        key: [column[key].score / full if key in column else 0.0 for column, full in zip(found, fulls, strict=True)]
        for key in labels
    }
    kept = sorted(sorted(labels, key=lambda key: -max(map(abs, shares[key])))[:MOST_LINES])
    signs = [each.meaning.signed for each in explanations]
    rows = [
        (
            shortened(labels[key], 40),
            *(number(share, 1.0, sign=sign) for share, sign in zip(shares[key], signs, strict=True)),
        )
        for key in kept
    ]
    yield from (_warned(f"{each.method}: {warning}") for each in explanations for warning in each.warnings)
    label = escape(shortened(explanations[0].prediction.label, _LONGEST))
    yield f"<p><b>{label}</b>, by {len(explanations)} methods</p>"
    yield _table(("", *(each.method for each in explanations)), rows)
    left = len(labels) - len(kept)
    more = f"; {left} weaker word{'s are' if left > 1 else ' is'} left out" if left else ""
    yield f'<p style="font-size: 85%">Each method against its own largest score{more}.</p>'


def _lens(lens: Lens) -> Iterator[str]:
    """What the model says, and how likely its own head finds that at each layer; without that what the head reads."""
    answer = lens.answer
    if answer is None:
        layers = _few(len(lens.layers), 4)
        yield f"<p><b>{escape(lens_sentence(lens))}</b></p>"
        rows = [
            (
                shortened(token_label(lens.tokens, position, lens.text, lens.pair), 30),
                *(shortened(blanks_shown(lens.words[layer][position][0]), 30) for layer in layers),
            )
            for position in range(min(MOST_LINES, len(lens.tokens)))
        ]
        yield _table(("token", *(f"layer {lens.layers[layer]}" for layer in layers)), rows)
        return
    label = escape(said(answer.label))
    yield f"<p><b>{label}</b> ({100 * answer.probability:.0f} %). {escape(lens_sentence(lens))}</p>"
    by_layer = [
        (
            f"layer {answer.layers[index]}",
            f"{100 * answer.probabilities[index]:.0f} %",
            _bar(float(answer.probabilities[index])),
            f"rank {answer.ranks[index]:,}",
            said(answer.said[index]),
        )
        for index in _few(len(answer.layers), MOST_LINES)
    ]
    yield _table(("", "probability", "", "", "likeliest here"), by_layer)


def _few(count: int, most: int) -> list[int]:
    """Some of so many places, the first and the last among them."""
    return sorted({round(step * (count - 1) / (min(count, most) - 1 or 1)) for step in range(min(count, most))})


def _board(board: Scoreboard) -> Iterator[str]:
    """The verdict with the strength of its evidence, and the first entries."""
    verdict = board.verdict
    rows = []
    for place in board.ranking().standings[:MOST_LINES]:
        first, last = place.ranks
        rank = "–" if first == 0 else str(first) if first == last else f"{first}–{last}"
        mean = f"{place.mean.mean:.2f} [{place.mean.low:.2f}, {place.mean.high:.2f}]"
        rows.append((rank, place.name, mean, _bar(max(0.0, place.mean.mean))))
    yield f"<p><b>{escape(visible(verdict.answer))}</b></p>"
    yield f"<p>{verdict.strength.capitalize()} evidence: {STRENGTHS[verdict.strength]}.</p>"
    yield _table(("rank", "method", "faithfulness, 95 %", ""), rows)
    left = len(board.entries) - len(rows)
    yield f"<p>… and {left} more</p>" if left > 0 else ""


def _audit(audit: AttentionAudit) -> Iterator[str]:
    """The verdict with its first reason, and τ with attention by layer and measure."""
    verdict = audit.verdict
    layers = [audit.layers[index] for index in _few(len(audit.layers), MOST_LINES)]
    rows = [(f"layer {layer}", *map(_with_interval, audit.of_layer(layer))) for layer in layers]
    yield f"<p><b>{escape(visible(verdict.answer))}</b></p>"
    yield from (f"<p>{escape(visible(reason))}</p>" for reason in verdict.reasons[:1])
    yield _table(("", *audit.measures), rows)
    texts = f"{audit.n_texts} text{'s' if audit.n_texts != 1 else ''}"
    about = f"{model_name(audit.model.id)}, {texts}: Kendall's τ-b with attention"
    yield f'<p style="font-size: 85%">{escape(visible(about))}.</p>'


def _with_interval(row: RankCorrelation) -> str:
    return "–" if math.isnan(row.tau) else f"{row.tau:.2f} [{row.low:.2f}, {row.high:.2f}]"


def _citations(citations: Citations) -> Iterator[str]:
    """The answer sentence by sentence, each with the sources that it rests on."""
    yield f"<p>{escape(shortened(citations.question, _LONGEST_LINE))}</p>"
    for sentence in citations.sentences[:MOST_LINES]:
        sources = [shortened(citations.sources[each.source].text, 120) for each in sentence.shown]
        items = "".join(f"<li>{escape(source)}</li>" for source in sources)
        yield f"<p><b>{escape(shortened(citations.text_of(sentence), _LONGEST_LINE))}</b></p>"
        yield f"<ul>{items or '<li><i>rests on none of the sources</i></li>'}</ul>"
    left = len(citations.sentences) - MOST_LINES
    yield f"<p>… and {left} more sentences</p>" if left > 0 else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the rows."""
    head = "".join(f'<th style="{_CELL}">{escape(shortened(each, _LONGEST))}</th>' for each in heads)
    lines = [f"<tr>{head}</tr>"] if heads else []
    for name, *cells in rows:
        tail = "".join(f'<td style="{_CELL}">{escape(visible(cell))}</td>' for cell in cells)
        lines.append(f'<tr><th dir="auto" style="{_CELL}">{escape(visible(name))}</th>{tail}</tr>')
    return f"<table>{''.join(lines)}</table>"


_DRAWN: dict[type, Callable[[Any], Iterator[str]]] = {
    Explanation: _explanation,
    Comparison: _comparison,
    Lens: _lens,
    Scoreboard: _board,
    AttentionAudit: _audit,
    Citations: _citations,
}
