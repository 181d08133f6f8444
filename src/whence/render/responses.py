"""A response in pieces that can be pointed at: its words or sentences, and which tokens are theirs."""

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
    """Characters of the response, and the positions of the tokens that begin there."""

    start: int
    end: int
    tokens: tuple[int, ...]


def response_parts(explanation: Explanation, kind: Kind) -> list[ResponsePart]:
    """The words or sentences of the response."""
    response = explanation.response or ""
    spans = _SPANS[kind](response)
    members: dict[int, list[int]] = {}
    for position, token in enumerate(explanation.tokens):
        own = word_of(token.start, token.end, response, spans) if token.segment == 1 else None
        if own is not None:
            members.setdefault(own, []).append(position)
    return [ResponsePart(*spans[own], tuple(positions)) for own, positions in sorted(members.items())]


def told_parts(explanation: Explanation) -> list[ResponsePart]:
    """What was explained of a response: its words if it is short or a single sentence, else its sentences."""
    told = set(() if explanation.outputs is None else explanation.outputs.positions)
    kinds: tuple[Kind, Kind] = ("word", "sentence")
    words, sentences = (
        [part for part in response_parts(explanation, kind) if told.intersection(part.tokens)] for kind in kinds
    )
    return words if len(words) <= MOST_WORDS or len(sentences) == 1 else sentences


def rests_on(explanation: Explanation, part: ResponsePart, k: int = 3) -> Sequence[Word]:
    """The words of the prompt (or units asked for) that a part of the response rests on most."""
    return explanation.part((part.start, part.end)).top(k)
