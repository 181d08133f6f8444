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
_MOST_SWEEPS = 10_000


def logit_of(log_probability: Float[np.ndarray, "*set"]) -> Float[np.ndarray, "*set"]:
    """log p - log(1 - p), without loss where p is nearly 0 or 1; a p that is 1 counts as the largest below it.

    >>> logit_of(np.log(np.array([0.5, 0.9]))).round(6).tolist()
    [0.0, 2.197225]
    """
    below_one = np.minimum(np.asarray(log_probability, dtype=np.float64), -np.finfo(np.float64).eps)
    logits: Float[np.ndarray, "*set"] = below_one - np.log(-np.expm1(below_one))
    return logits


def lasso(
    sets: Bool[np.ndarray, "*fit set source"],
    worths: Float[np.ndarray, "*fit set"],
    alpha: float = LASSO_ALPHA,
    tolerance: float = 1e-10,
) -> Float[np.ndarray, "*fit source"]:
    """The weights w that make ½ · mean((worths - w · x - b)²) + alpha · |w|₁ least, x being standardised sets.

    They are given for the sets as they are. A source that is in all of the sets, or in none, has weight 0. Many fits
    are made at once.
    """
    columns = np.asarray(sets, dtype=np.float64)
    spread = columns.std(axis=-2, keepdims=True)
    scaled = (columns - columns.mean(axis=-2, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    turned = np.swapaxes(scaled, -1, -2) / columns.shape[-2]
    centred = worths - worths.mean(axis=-1, keepdims=True)
    weights = _descend(turned @ scaled, (turned @ centred[..., None])[..., 0], alpha, tolerance)
    return weights / np.where(spread > 0, spread, 1.0)[..., 0, :]


def _descend(
    gram: Float[np.ndarray, "*fit source source"],
    target: Float[np.ndarray, "*fit source"],
    alpha: float,
    tolerance: float,
) -> Float[np.ndarray, "*fit source"]:
    """Coordinate descent, until no weight moves by more than the tolerance, relative to the largest."""
    weights = np.zeros(target.shape)
    for _ in range(_MOST_SWEEPS):
        largest_step = 0.0
        for number in range(target.shape[-1]):
            before = weights[..., number].copy()
            # the diagonal of `gram` is 1, or 0 where there is nothing to fit, and then the weight is 0 too
            free = target[..., number] - (gram[..., number, :] * weights).sum(axis=-1) + before
            weights[..., number] = np.sign(free) * np.maximum(np.abs(free) - alpha, 0.0)
            largest_step = max(largest_step, float(np.abs(weights[..., number] - before).max()))
        if largest_step <= tolerance * (1 + np.abs(weights).max()):
            break
    return weights
