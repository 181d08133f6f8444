"""What people marked: spans of characters that matter, from labels of words or given as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.data.example import Example
from whence.errors import UsageError
from whence.explanation import Explanation
from whence.metrics.plausibility import average_precision, token_f1

if TYPE_CHECKING:
    from jaxtyping import Float

Rationale = Sequence[tuple[int, int]]
"""The spans of characters of a text that people marked."""

NEUTRAL = 2  # the middle of the treebank's five sentiments


def leaf_rationale(example: Example) -> Rationale | None:
    """The words of a treebank sentence whose own sentiment is on the side of the whole sentence's.

    None where the sentence has no labels of words, or is itself neutral.

    >>> leaf_rationale(Example("a dull but fine film", label=3, token_labels=(2, 1, 2, 4, 2)))
    [(11, 15)]
    """
    if example.token_labels is None or not isinstance(example.label, int) or example.label == NEUTRAL:
        return None
    spans = [match.span() for match in re.finditer(r"[^ ]+", example.text)]
    if len(spans) != len(example.token_labels):
        raise UsageError(
            f"{len(example.token_labels)} labels for {len(spans)} words: {example.text[:40]!r}", "give one a word"
        )
    side = np.sign(example.label - NEUTRAL)
    return [span for span, leaf in zip(spans, example.token_labels, strict=True) if np.sign(leaf - NEUTRAL) == side]


def plausibility(
    explanations: Sequence[Explanation], rationales: Sequence[Rationale | None], share: float
) -> dict[str, Float[np.ndarray, " text"]]:
    """AUPRC and token F1 of the words of each text; NaN where people marked nothing. For `share` see `marked_share`."""
    found = np.full((2, len(explanations)), np.nan)
    for place, (explanation, rationale) in enumerate(zip(explanations, rationales, strict=True)):
        if rationale is None:
            continue
        words = [word for word in explanation.words() if word.segment == 0]
        marks = np.array([_marked(word.start, word.end, rationale) for word in words])
        scores = np.array([word.score for word in words])
        found[:, place] = average_precision(scores, marks), token_f1(scores, marks, share)
    return {"auprc": found[0], "token_f1": found[1]}


def marked_share(explanations: Sequence[Explanation], rationales: Sequence[Rationale | None]) -> float | None:
    """The share of words that people marked, averaged over the texts in which they marked any; None if they did not."""
    shares = []
    for explanation, rationale in zip(explanations, rationales, strict=True):
        if rationale:
            words = [word for word in explanation.words() if word.segment == 0]
            shares.append(np.mean([_marked(word.start, word.end, rationale) for word in words]))
    share = float(np.mean(shares)) if shares else 0.0
    return share if share > 0 else None


def _marked(start: int, end: int, rationale: Rationale) -> bool:
    return any(first < end and start < last for first, last in rationale)
