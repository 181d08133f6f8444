"""Monotonicity: does each word that is revealed bring less than the one before it, as its lower score promised?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError
from whence.metrics.rank_correlation import kendall_tau

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def monotonicity(shown: Int[np.ndarray, " point"], probability: Float[np.ndarray, " point"]) -> float:
    """Kendall's τ-b between the gains of the revealing game and their order: 1 if they only fall, −1 if they only rise.

    A gain is the rise of the probability from one point to the next, divided by the tokens revealed between them; NaN
    where there are fewer than two or all are equal.

    >>> monotonicity(np.array([0, 1, 2, 4]), np.array([0.1, 0.6, 0.9, 1.0]))
    1.0

    Args:
        shown: how many tokens are shown at each point, rising.
        probability: the probability of the model's decision there.
    """
    widths = np.diff(np.asarray(shown))
    if (widths <= 0).any():
        raise UsageError("the points must show more and more tokens", "leave out points that show as many as another")
    if len(widths) < 2:
        return float("nan")
    # the model's own rounding is no gain: batches of other shapes differ in the last digits
    gains = np.round(np.diff(np.asarray(probability, dtype=float)) / widths, 6)
    return float(kendall_tau(gains[None], -np.arange(len(gains), dtype=float)[None])[0, 0])
