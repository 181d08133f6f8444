"""Plausibility: do the scores find the words that people marked? (Not whether the model uses them.)

scikit-learn's `average_precision_score` is the reference; these few lines spare every user that dependency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def average_precision(scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]) -> float:
    """The area under the precision-recall curve, in steps: Σ (R_t − R_{t−1}) P_t over the thresholds, highest first.

    Words with one score come in together. NaN where people marked nothing.

    >>> average_precision(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]))
    0.8333333333333333
    """
    scores, marked = _checked(scores, marked)
    if not marked.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(marked[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # of several with one score, the last
    precision = found[last] / (np.flatnonzero(last) + 1)
    recall = found[last] / marked.sum()
    return float(np.diff(recall, prepend=0.0) @ precision)


def token_f1(scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"], share: float) -> float:
    """F1 of the first words against those that people marked: 2 P R / (P + R).

    The first words are `share` of all, rounded half up, at least one; equal scores come in the order of the text. NaN
    where people marked nothing.

    >>> token_f1(np.array([3.0, 2.0, 1.0, 0.0]), np.array([True, False, True, False]), share=0.5)
    0.5

    Args:
        share: the share of words that people mark on average in this data, so that every method names as many.
    """
    scores, marked = _checked(scores, marked)
    if not 0 < share <= 1:
        raise UsageError(f"share must lie above 0, up to 1, got {share!r}", "give the share of words that people mark")
    if not marked.any():
        return float("nan")
    n_named = max(1, int(np.floor(share * len(scores) + 0.5)))
    named = np.argsort(-scores, kind="stable")[:n_named]
    return float(2 * marked[named].sum() / (n_named + marked.sum()))


def _checked(
    scores: Float[np.ndarray, " word"], marked: Bool[np.ndarray, " word"]
) -> tuple[Float[np.ndarray, " word"], Bool[np.ndarray, " word"]]:
    scores, marked = np.asarray(scores, dtype=float), np.asarray(marked, dtype=bool)
    if scores.shape != marked.shape or scores.ndim != 1 or not len(scores):
        raise UsageError(
            f"{scores.shape} scores and {marked.shape} marks do not go together", "give one of each per word"
        )
    if not np.isfinite(scores).all():
        raise UsageError("some scores are not finite numbers", "look for NaN in the scores")
    return scores, marked
