"""Linear surrogates: what each source is worth, from what a sentence of the answer gets of some sets of sources.

A set is a row of booleans, one per source; a source that is not in it was deleted. The worth of a set is the logit of
the probability of the sentence (`logit_of`), and a source's score is how much it adds to that: its weight in the linear
function that comes nearest to the worth of all sets. If every set were asked, that weight is the mean, over all sets of
the others, of what the source adds (its Banzhaf value).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

LASSO_ALPHA = 0.01  # ContextCite's


def logit_of(log_probability: Float[np.ndarray, " set"]) -> Float[np.ndarray, " set"]:
    """log p - log(1 - p), without loss where p is nearly 0 or 1; a p that is 1 counts as the largest below it.

    >>> logit_of(np.log(np.array([0.5, 0.9]))).round(6).tolist()
    [0.0, 2.197225]
    """
    below_one = np.minimum(np.asarray(log_probability, dtype=np.float64), -np.finfo(np.float64).eps)
    logits: Float[np.ndarray, " set"] = below_one - np.log(-np.expm1(below_one))
    return logits


def lasso(
    sets: Bool[np.ndarray, "set source"], worths: Float[np.ndarray, " set"], alpha: float = LASSO_ALPHA
) -> Float[np.ndarray, " source"]:
    """The weights w that make ½ · mean((worths - w · x - b)²) + alpha · |w|₁ least, x being standardised sets.

    They are given for the sets as they are. A source that is in all of the sets, or in none, has weight 0.
    """
    columns = np.asarray(sets, dtype=np.float64)
    spread = columns.std(axis=0)
    told = spread > 0
    scaled = (columns[:, told] - columns[:, told].mean(axis=0)) / spread[told]
    weights = np.zeros(columns.shape[1])
    if told.any():
        gram = scaled.T @ scaled / len(scaled)
        weights[told] = _descend(gram, scaled.T @ (worths - worths.mean()) / len(scaled), alpha) / spread[told]
    return weights


def _descend(
    gram: Float[np.ndarray, "source source"], target: Float[np.ndarray, " source"], alpha: float
) -> Float[np.ndarray, " source"]:
    """Coordinate descent; the diagonal of `gram` is 1."""
    weights = np.zeros(len(target))
    for _ in range(10_000):
        largest_step = 0.0
        for number in range(len(target)):
            free = target[number] - gram[number] @ weights + weights[number]
            found = np.sign(free) * max(abs(free) - alpha, 0.0)
            largest_step = max(largest_step, abs(found - weights[number]))
            weights[number] = found
        if largest_step <= 1e-10 * (1 + np.abs(weights).max()):
            break
    return weights
