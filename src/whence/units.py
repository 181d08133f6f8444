"""Words, sentences and paragraphs of the user's own text, whatever the tokenizer does.

Sub-word tokens are gathered into the words they were cut from by their character spans, so that words mean the same
for WordPiece, byte-level BPE and SentencePiece (whose own word indices differ or are missing). Units of every kind
tile what is visible: each character that can be seen is in exactly one. Sentences are found by rules, without a model:
where in doubt, two are taken for one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import regex

from whence.errors import UnknownNameError, UsageError

Span = tuple[int, int]
UnitName = Literal["token", "word", "sentence", "paragraph", "turn"]
Units = UnitName | Sequence[Span] | tuple[Sequence[Span], Sequence[Span]]
"""What is scored and goes as a whole: a kind of unit, or spans of characters of a text, or of both texts of a pair."""
UNITS: tuple[UnitName, ...] = ("token", "word", "sentence", "paragraph", "turn")

# A run of letters, digits and marks (with inner apostrophes and hyphens) is a word; so is each character of scripts
# written without spaces, each grapheme of anything else that can be seen (an emoji family is one), and nothing else.
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
    r"|[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*(?:['’\-][\p{L}\p{M}\p{N}_]+)*"
    r"|(?=\S)\X"
)


# the same of ASCII, where a word is found in a third of the time
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+(?:['\-][A-Za-z0-9_]+)*|[^\t-\r ]")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words of `text`, in order.

    >>> text = "It's not bad, 👍🏽!"
    >>> [text[start:end] for start, end in word_spans(text)]
    ["It's", 'not', 'bad', ',', '👍🏽', '!']
    """
    return [match.span() for match in (_ASCII_WORD if text.isascii() else _WORD).finditer(text)]


def word_of(start: int, end: int, text: str, spans: list[tuple[int, int]]) -> int | None:
    """The index of the word that holds the first visible character of text[start:end], or None."""
    while start < end and text[start].isspace():
        start += 1
    if start >= end:
        return None
    index = bisect_right(spans, (start, len(text))) - 1
    if index >= 0 and start < spans[index][1]:
        return index
    return None


def words_of(pieces: Sequence[Span], text: str) -> list[int | None]:
    """`word_of` each of many pieces of a text.

    >>> words_of([(0, 2), (2, 5), (5, 6)], "unhappy film")
    [0, 0, 0]
    """
    spans = word_spans(text)
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    found: list[int | None] = []
    for start, end in pieces:
        if start >= end:
            found.append(None)
        elif text[start].isspace():
            found.append(word_of(start, end, text, spans))
        else:
            index = bisect_right(starts, start) - 1
            found.append(index if index >= 0 and start < ends[index] else None)
    return found


# What may end a sentence: stops of many scripts, with the quotes, brackets and emoji that close behind them; or a line.
_END = regex.compile(
    r"(?P<stops>[.!?…‽؟۔।॥։።။។᠃。！？｡．⁇⁈⁉]+)"
    r"(?P<closers>(?:[\"'”’)\]}»›」』】》〉）］｝]|“(?=\s|$)|[ \u00a0\u202f]»)*)"
    r"(?P<emoji>(?:[ \t]*(?:\p{Extended_Pictographic}|\p{Regional_Indicator})[\p{M}\u200d\p{Emoji_Modifier}]*)*)"
    r"(?P<break>(?:\s*<br\s?/?>)*)"
    r"|(?P<line>\R(?:\s*\R)?|(?:<br\s?/?>\s*)+)"
)
_BLANK_LINE = regex.compile(r"\R\s*\R|(?:<br\s?/?>\s*){2,}")  # in a page's markup too, as reviews come
_SMALL_START, _LARGE_START = regex.compile(r"[.!?]\s+\p{Ll}"), regex.compile(r"[.!?]\s+\p{Lu}")
_STANDS_ALONE = frozenset("।॥։።။។᠃。！？｡．")  # stops of scripts that need no space behind them
_OPENERS = " \t\u00a0\u3000\"'“‘„«‹(（[{「『【《〈¿¡*_#—–-"
_ITEM = regex.compile(r"[ \t]*(?:[-*•▪◦‣·–—+]|\(?(?:\d{1,3}|\p{L})[.)])[ \t]")
_INITIALS = regex.compile(r"(?:\p{L}{1,2}\.)+\p{L}{1,2}|[a-z]")  # U.S, Ph.D, a.m, J
_BEFORE_ITEM = regex.compile(r"\s*|.*[:;]\s+")
_LONG_LINE = 50  # characters: a line as long as this may have been wrapped, and its sentence may go on in the next
_LONGEST_ABBREVIATION = 12


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations after which a sentence goes on; those before a number; months, before which a number with a full stop is
# a day; and abbreviations that may also end a sentence.
_NEVER_END = _words("""
    dr mr mrs ms prof st mt ft gen rep sen gov capt cpt lt col sgt maj cmdr rev hon messrs mme mlle sra srta dra fr hr
    vs cf al viz approx ca resp bzw incl excl est dept univ e.g i.e z.b d.h u.a p.ex p.ej m.a.w
""")
_BEFORE_NUMBERS = _words("""
    no nos nr nº num fig figs eq eqs sec sect ch chap art vol p pp pg para ver v jan feb mar apr jun jul aug sep sept
    oct nov dec
""")
_MONTHS = _words("januar jänner februar märz april mai juni juli august september oktober november dezember")
_MAY_END = _words("inc ltd co corp llc bros jr sr etc usw esq ave blvd rd")
_BEGINS_A_SENTENCE = _words("""
    a after all also although an and as at because before but by each every finally first for from he her here his how
    however i if in it its let maybe meanwhile most my next no nobody not nothing now on once one only or other our
    perhaps she since so some sometimes still suddenly that the their then there these they this those though thus to
    today tomorrow unfortunately until was we well were what when where which while who why with yes yesterday yet you
    your
""")


def sentence_spans(text: str) -> list[Span]:
    """Character spans of the sentences of `text`, in order.

    >>> text = 'Dr. Lee paid $3.50, i.e. too much. "Why?" he asked… Nobody knew!'
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['Dr. Lee paid $3.50, i.e. too much.', '"Why?" he asked…', 'Nobody knew!']
    """
    cased = _is_cased(text)
    ends, line, begin = [], 0, 0
    for match in _END.finditer(text):
        if match["line"] is not None:
            ended = _line_ends(text, line, match)
            line = match.end()
        else:
            ended = _stop_ends(text, begin, match, cased)
        if ended:
            begin = match.end()
            ends.append(begin)
    return _visible(text, ends)


def paragraph_spans(text: str) -> list[Span]:
    """Character spans of the paragraphs of `text`, which blank lines set apart."""
    return _visible(text, [match.end() for match in _BLANK_LINE.finditer(text)])


def _visible(text: str, ends: Iterable[int]) -> list[Span]:
    """The pieces of a text up to each end, without the spaces around them; those of nothing but spaces are none."""
    spans, begin = [], 0
    for end in (*ends, len(text)):
        piece = text[begin:end]
        start = begin + len(piece) - len(piece.lstrip())
        if start < end and piece.strip():
            spans.append((start, begin + len(piece.rstrip())))
        begin = end
    return spans


def _is_cased(text: str) -> bool:
    """Whether sentences begin with capital letters, as far as one can see."""
    first = next(filter(str.isalpha, text), "A")
    return not first.islower() or len(_LARGE_START.findall(text)) >= len(_SMALL_START.findall(text))


def _line_ends(text: str, line: int, match: regex.Match[str]) -> bool:
    """Whether a sentence ends with its line: before a blank line or an item of a list, or if the line is short."""
    sure = match["line"].startswith("<") or len(match["line"].splitlines()) > 1
    return sure or match.start() - line < _LONG_LINE or _ITEM.match(text, match.end()) is not None


def _stop_ends(text: str, begin: int, match: regex.Match[str], cased: bool) -> bool:
    """Whether a sentence that began at `begin` ends with these stops."""
    stops, closers, end = match["stops"], match["closers"], match.end()
    following = text[end : end + 1]
    if match["break"]:
        return True
    if following and not following.isspace():
        return stops[-1] in _STANDS_ALONE and (not closers or following in _OPENERS)
    begins, word = _next_word(text, end)
    if not begins:
        return True
    if begins in ".!?…":
        return False
    if begins.islower() and (cased or _is_ellipsis(stops)) and (closers or not set(stops) & set("!?؟")):
        return False
    if stops != "." or closers:
        return True
    return not _abbreviates(text, begin, match.start(), begins, word)


def _is_ellipsis(stops: str) -> bool:
    return stops != "." and not stops.strip(".…")


def _next_word(text: str, end: int) -> tuple[str, str]:
    """The first character that tells whether a sentence begins, and its word in small letters."""
    start = end
    while start < len(text) and start < end + 8 and (text[start] in _OPENERS or text[start].isspace()):
        start += 1
    word = _WORD.match(text, start, min(len(text), start + 2 * _LONGEST_ABBREVIATION))
    return text[start : start + 1], word.group().lower() if word else ""


def _abbreviates(text: str, begin: int, stop: int, begins: str, word: str) -> bool:
    """Whether the full stop at `stop` belongs to an abbreviation, or to the number of an item, rather than ends."""
    start = stop
    while start > max(begin, stop - _LONGEST_ABBREVIATION) and (text[start - 1].isalnum() or text[start - 1] in ".'’"):
        start -= 1
    before = text[start:stop].lower()
    if before.isdecimal():
        in_front = _BEFORE_ITEM.fullmatch(text, max(begin, start - 4), start) is not None
        return len(before) < 3 and (in_front or word in _MONTHS)
    if before in _NEVER_END:
        return True
    if before in _BEFORE_NUMBERS and begins.isnumeric():
        return True
    return (before in _MAY_END or _INITIALS.fullmatch(before) is not None) and word not in _BEGINS_A_SENTENCE


def spans_of_units(texts: tuple[str, str], units: Units, turns: Sequence[Span] = ()) -> tuple[list[Span], list[Span]]:
    """The spans of the units of a text, and of its pair (without one: of an empty text); given ones are checked.

    Of a chat, no unit reaches beyond one of the `turns` of its text.
    """
    if isinstance(units, str):
        if units == "turn" and not turns:
            raise UsageError("a text has no turns: they are the messages of a chat", "use units='paragraph'")
        if units not in UNITS or units == "token":
            raise UnknownNameError("unit", units, UNITS)
        of_text = spans_in_turns(texts[0], turns, _SPANS[units]) if turns else _SPANS[units](texts[0])
        return of_text, [] if units == "turn" else _SPANS[units](texts[1])
    of_one = all(isinstance(edge, int) for span in units for edge in span)
    both: Any = (units, ()) if of_one else units
    if len(both) != 2:
        raise UsageError(f"units are given for {len(both)} texts", "give spans of one text, or of a text and its pair")
    given, of_pair = (sorted((start, end) for start, end in spans) for spans in both)
    for spans, text in zip((given, of_pair), texts, strict=True):
        for (start, end), (following, _) in zip(spans, [*spans[1:], (len(text), 0)], strict=False):
            if not 0 <= start < end <= following:
                raise UsageError(
                    f"unit {start}:{end} is empty, overlaps the next or lies outside a text of {len(text)} characters",
                    "give spans of characters, (start, end), that do not overlap",
                )
    return given, of_pair


def spans_in_turns(text: str, turns: Iterable[Span], spans_of: Callable[[str], list[Span]]) -> list[Span]:
    """The units of each turn by itself."""
    return [(begin + start, begin + end) for begin, stop in turns for start, end in spans_of(text[begin:stop])]


_SPANS: dict[str, Callable[[str], list[Span]]] = {
    "word": word_spans,
    "sentence": sentence_spans,
    "paragraph": paragraph_spans,
    "turn": lambda text: _visible(text, []),
}
