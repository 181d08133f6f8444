"""A response in pieces that can be pointed at: its words or sentences, and which explained tokens are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from whence.explanation import Explanation, Word
from whence.units import sentence_spans, word_of, word_spans

Kind = Literal["word", "sentence"]
_SPANS = {"word": word_spans, "sentence": sentence_spans}
MOST_WORDS = 12
"""Of a response longer than this a terminal tells what each sentence rests on, not each word."""


@dataclass(frozen=True)
class ResponsePart:
    """Characters of the response, and the numbers of the outputs (see `Explanation.outputs`) that begin there."""

    start: int
    end: int
    outputs: tuple[int, ...]


def parts_of_response(explanation: Explanation, kind: Kind) -> list[ResponsePart]:
    """The words or sentences of the response of which some token was explained by itself."""
    if explanation.outputs is None or explanation.pair is None:
        return []
    spans = _SPANS[kind](explanation.pair)
    members: dict[int, list[int]] = {}
    for number, position in enumerate(explanation.outputs.positions):
        token = explanation.tokens[position]
        own = word_of(token.start, token.end, explanation.pair, spans)
        if own is not None:
            members.setdefault(own, []).append(number)
    return [ResponsePart(*spans[own], tuple(numbers)) for own, numbers in sorted(members.items())]


def told_parts(explanation: Explanation) -> list[ResponsePart]:
    """Words of a short response, or of a single sentence; sentences of a long one."""
    words, sentences = (parts_of_response(explanation, kind) for kind in ("word", "sentence"))
    return words if len(words) <= MOST_WORDS or len(sentences) == 1 else sentences


def rests_on(explanation: Explanation, part: ResponsePart, k: int = 3) -> Sequence[Word]:
    """The words of the prompt (or units asked for) that a part of the response rests on most."""
    return explanation.part((part.start, part.end)).top(k)
