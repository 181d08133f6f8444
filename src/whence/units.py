"""Words of the user's own text, whatever the tokenizer does.

Sub-word tokens are gathered into the words they were cut from by their character spans, so that words mean the same
for WordPiece, byte-level BPE and SentencePiece (whose own word indices differ or are missing).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Literal

import regex

from whence.errors import UsageError

Span = tuple[int, int]
UnitName = Literal["token", "word"]
Units = UnitName | Sequence[Span] | tuple[Sequence[Span], Sequence[Span]]
"""What is scored and goes as a whole: tokens, words, or spans of characters, of a text or of both texts of a pair."""
UNITS: tuple[UnitName, ...] = ("token", "word")

# A run of letters, digits and marks (with inner apostrophes and hyphens) is a word; so is each character of scripts
# written without spaces, each grapheme of anything else that can be seen (an emoji family is one), and nothing else.
_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
    r"|[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*(?:['’\-][\p{L}\p{M}\p{N}_]+)*"
    r"|(?=\S)\X"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Character spans of the words of `text`, in order.

    >>> text = "It's not bad, 👍🏽!"
    >>> [text[start:end] for start, end in word_spans(text)]
    ["It's", 'not', 'bad', ',', '👍🏽', '!']
    """
    return [match.span() for match in _WORD.finditer(text)]


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


def given_spans(units: Sequence[Span] | tuple[Sequence[Span], Sequence[Span]], *texts: str) -> list[list[Span]]:
    """The spans that a user gave of a text (or of a text and its pair), checked and in order: a list for each text."""
    of_one = all(isinstance(edge, int) for span in units for edge in span)
    both: Any = [units, []] if of_one else units
    found = [sorted((start, end) for start, end in spans) for spans in both]
    if len(found) > 2:
        raise UsageError(f"units are given for {len(found)} texts, there are {len(texts)}", "give [(start, end), ...]")
    for spans, text in zip(found, (*texts, ""), strict=False):
        for (start, end), (following, _) in zip(spans, [*spans[1:], (len(text), 0)], strict=False):
            if not 0 <= start < end <= following:
                raise UsageError(
                    f"unit {start}:{end} is empty, overlaps the next or lies outside a text of {len(text)} characters",
                    "give spans of characters, (start, end), that do not overlap",
                )
    return found
