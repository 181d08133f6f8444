"""Normalised entropy: how evenly a distribution is spread, from 0 (all on one token) to 1 (uniform)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Float


def normalised_entropy(weights: Float[np.ndarray, "*row token"]) -> Float[np.ndarray, "*row"]:
    """−Σ p log p / log n of weights made to sum to 1; NaN where they are all zero or not finite.

    >>> normalised_entropy(np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 0.0, 0.0]])).tolist()
    [1.0, 0.0]

    Args:
        weights: weights that are not negative, at least two in a row; their scale does not matter.
    """
    weights = np.asarray(weights, dtype=np.float64)
    n_tokens = weights.shape[-1]
    if n_tokens < 2:
        raise UsageError("the normalised entropy of one token is 0 / 0", "leave out texts with fewer than two tokens")
    if (weights < 0).any():
        raise UsageError("an entropy needs weights that are not negative", "take their sizes: np.abs(scores)")
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = weights / weights.sum(axis=-1, keepdims=True)
        terms = np.where(shares > 0, shares * np.log(shares), np.where(shares == 0, 0.0, np.nan))
    entropy: Float[np.ndarray, "*row"] = np.abs(terms.sum(axis=-1)) / np.log(n_tokens)
    return entropy
