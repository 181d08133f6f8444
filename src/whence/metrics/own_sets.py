"""The set of tokens that scores choose by their own threshold, and what it is worth beside others of its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.explanation import Meaning
from whence.metrics.eraser import mass_counts

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

KEPT = 0.5  # a keep probability above it keeps the token
MASS = 0.5  # the share of the positive scores that a set must hold
WORTH_FINDING = 0.05  # probability between random sets and the best: with less there is no share to speak of


def own_set(
    scores: Float[np.ndarray, " token"], order: Int[np.ndarray, " token"], meaning: Meaning
) -> Bool[np.ndarray, " token"]:
    """The tokens that the scores choose: keep probabilities above one half; of other scores the fewest first ones that
    hold half of what is positive. `order` has the tokens from the most to the least important.

    >>> about = Meaning("weight", "how much", signed=True, additive=True)
    >>> own_set(np.array([1.0, -5.0, 4.0, 3.0]), np.array([2, 3, 0, 1]), about).tolist()
    [False, False, True, False]
    """
    if meaning.keep_probability:
        kept: Bool[np.ndarray, " token"] = np.asarray(scores) > KEPT
        return kept
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[order[: int(mass_counts(np.asarray(scores, dtype=float)[order], [MASS])[0])]] = True
    return chosen


def share_of_best(value: float, random: float, best: float) -> float:
    """How much of what the best set has over random ones this one has; NaN where that is next to nothing.

    >>> round(share_of_best(0.8, 0.5, 0.9), 2)
    0.75
    """
    return (value - random) / (best - random) if best - random >= WORTH_FINDING else float("nan")
