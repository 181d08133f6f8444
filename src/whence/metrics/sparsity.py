"""Sparsity: how far few tokens hold all of the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float


def gini(weights: Float[np.ndarray, " token"]) -> float:
    """The Gini index of the sizes of scores: 0 if all are equal, 1 − 1/n if one token has everything; NaN if all are 0.

    >>> gini(np.array([0.0, 0.0, 0.0, 2.0])), gini(np.array([1.0, -1.0]))
    (0.75, 0.0)
    """
    sizes = np.sort(np.abs(np.asarray(weights, dtype=float)))
    total = sizes.sum()
    if not len(sizes) or total == 0 or not np.isfinite(total):
        return float("nan")
    ranks = np.arange(1, len(sizes) + 1)
    return float(((2 * ranks - len(sizes) - 1) @ sizes) / (len(sizes) * total))
