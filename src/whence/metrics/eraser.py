"""Comprehensiveness and sufficiency (ERASER): what the model loses without the words named first, and with them alone.

Both compare the probability of the model's decision on the whole text with that on a part of it, at several sizes of
the part, and average (AOPC).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

BINS: tuple[float, ...] = (0.01, 0.05, 0.10, 0.20, 0.50)
"""The shares of tokens at which ERASER looks."""

MASSES: tuple[float, ...] = (0.10, 0.25, 0.50, 0.75, 0.90)
"""The shares of the scores' mass at which methods are compared whatever the number of tokens."""


def bin_counts(n_tokens: int, bins: Sequence[float] = BINS) -> Int[np.ndarray, " bin"]:
    """How many tokens the first share of them is, rounded up, so that it is never none.

    >>> bin_counts(30).tolist()
    [1, 2, 3, 6, 15]
    """
    shares = _checked(bins)
    counts: Int[np.ndarray, " bin"] = np.ceil(np.round(shares * n_tokens, 9)).astype(int)
    return counts


def mass_counts(ordered: Float[np.ndarray, " token"], masses: Sequence[float] = MASSES) -> Int[np.ndarray, " bin"]:
    """How many tokens, in their order, hold at least each share of the mass; none where nothing speaks for the target.

    The mass of a token is its score where that is positive, else 0: what speaks against the decision has no part in it.

    >>> mass_counts(np.array([6.0, 3.0, 1.0, -5.0]), [0.5, 0.6, 0.61, 1.0]).tolist()
    [1, 1, 2, 3]
    """
    shares = _checked(masses)
    mass = np.clip(np.asarray(ordered, dtype=float), 0, None)
    total = mass.sum()
    if total <= 0:
        return np.zeros(len(shares), dtype=int)
    reached = np.searchsorted(np.round(np.cumsum(mass) / total, 9), shares) + 1
    counts: Int[np.ndarray, " bin"] = np.minimum(reached, len(mass))
    return counts


def comprehensiveness(
    whole: Float[np.ndarray, "*text"], without: Float[np.ndarray, "*text bin"]
) -> Float[np.ndarray, "*text"]:
    """The mean over bins of p(text) − p(text without the first tokens): high if these tokens were needed.

    >>> round(float(comprehensiveness(np.array(0.9), np.array([0.9, 0.5, 0.1]))), 4)
    0.4
    """
    return _mean_drop(whole, without)


def sufficiency(whole: Float[np.ndarray, "*text"], alone: Float[np.ndarray, "*text bin"]) -> Float[np.ndarray, "*text"]:
    """The mean over bins of p(text) − p(the first tokens alone): low if these tokens are enough.

    >>> round(float(sufficiency(np.array(0.9), np.array([0.4, 0.9, 0.9]))), 4)
    0.1667
    """
    return _mean_drop(whole, alone)


def _mean_drop(whole: Float[np.ndarray, "*text"], part: Float[np.ndarray, "*text bin"]) -> Float[np.ndarray, "*text"]:
    drops = np.asarray(whole, dtype=float)[..., None] - np.asarray(part, dtype=float)
    mean: Float[np.ndarray, "*text"] = drops.mean(axis=-1)
    return mean


def _checked(shares: Sequence[float]) -> Float[np.ndarray, " bin"]:
    found = np.asarray(shares, dtype=float)
    if found.ndim != 1 or not len(found) or not ((found > 0) & (found <= 1)).all():
        raise UsageError("bins are shares above 0, up to 1", "give [0.01, 0.05, 0.1, 0.2, 0.5]")
    return found
