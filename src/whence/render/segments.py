"""What the texts of an explanation are called, where an answer stands in them, and which token a tag is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whence.explanation import Explanation
from whence.render.rows import unquoted
from whence.render.visible import shortened

_NAMES = {
    "question_answering": ("Question", "Context"),
    "similarity": ("This text", "Compared with"),
    "response": ("Prompt", "Response"),
}
_ANSWER = re.compile(r"answer tokens (\d+) to (\d+) \(", re.DOTALL)
_LONGEST = 60
_TAG = re.compile(r"(.*) at token (\d+) \(.*\)", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Characters of a segment, and what the model says there."""

    start: int
    end: int
    segment: int
    says: str


def segment_names(task: str) -> tuple[str, str]:
    """What the two texts of a pair are called."""
    return _NAMES.get(task, ("First text", "Second text"))


def answer_place(explanation: Explanation) -> Place | None:
    """Where the answer explained stands, of question answering."""
    found = _ANSWER.match(explanation.target.description)
    if found is None or explanation.model.task != "question_answering":
        return None
    return _place(explanation, int(found[1]), int(found[2]), "answer")


def tag_place(explanation: Explanation) -> Place | None:
    """Which token's tag is explained, of token classification."""
    found = _TAG.fullmatch(explanation.target.description)
    if found is None or explanation.model.task != "token_classification":
        return None
    return _place(explanation, int(found[2]), int(found[2]), shortened(found[1], 40))


def target_words(explanation: Explanation) -> str:
    """What was explained, without the positions of tokens."""
    for place in (tag_place(explanation), answer_place(explanation)):
        if place is not None:
            source = explanation.text if place.segment == 0 else explanation.pair or ""
            words = source[place.start : place.end].strip()
            if place.says == "answer":
                return f"“{shortened(words, _LONGEST)}”"
            return f"{place.says} for “{shortened(word_at(explanation, place) or words, _LONGEST)}”"
    said = explanation.target.description
    names_token = explanation.model.task in ("causal_lm", "masked_lm")
    return shortened(unquoted(said) if names_token else said, _LONGEST)


def word_at(explanation: Explanation, place: Place) -> str | None:
    """The word that holds a place within it, as it was written."""
    for word in explanation.words():
        if word.segment == place.segment and word.start <= place.start and place.end <= word.end:
            return word.text
    return None


def _place(explanation: Explanation, first: int, last: int, says: str) -> Place | None:
    if not 0 <= first <= last < len(explanation.tokens):
        return None
    start, end = explanation.tokens[first], explanation.tokens[last]
    return Place(start.start, end.end, start.segment, says)
