"""Kendall's τ-b between rankings with ties, and how much of it ties alone explain.

scipy's `kendalltau` is the reference; it takes one pair of rankings at a time, and an audit needs every head against
every measure on every text, so all pairs of rows are one matrix product here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Float

_PAIRS_AT_ONCE = 65_536  # small enough that float32 counts them exactly and memory stays flat


def kendall_tau(
    first: Float[np.ndarray, "row token"], second: Float[np.ndarray, "column token"]
) -> Float[np.ndarray, "row column"]:
    """τ-b of every row of `first` with every row of `second`; NaN where a row is constant, not finite, or one token.

    >>> kendall_tau(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])).tolist()
    [[1.0, -1.0, nan]]
    """
    return _concordance(first, second)


def tie_null(
    first: Float[np.ndarray, "row token"], second: Float[np.ndarray, "column token"]
) -> Float[np.ndarray, "row column"]:
    """What `kendall_tau` would be on average if all that the two agree on were which tokens have weight zero.

    Both keep their zeros, have no negative weight, and are otherwise ordered at random. If the two have the same
    zeros, all but s of n, this is (n − s) / (n − (s + 1) / 2), see `shared_zeros_null`; without zeros it is 0.
    """
    return _concordance(first, second, by_zeros=True)


def shared_zeros_null(n_tokens: int, n_nonzero: int) -> float:
    """The average τ-b of two random rankings whose weights are zero at the same tokens, all but `n_nonzero`.

    >>> round(shared_zeros_null(180, 9), 2)
    0.98
    """
    if not 1 <= n_nonzero <= n_tokens or n_tokens < 2:
        raise UsageError(f"{n_nonzero} of {n_tokens} tokens cannot have weight", "count at least one of at least two")
    return (n_tokens - n_nonzero) / (n_tokens - (n_nonzero + 1) / 2)


def _concordance(
    first: Float[np.ndarray, "row token"], second: Float[np.ndarray, "column token"], *, by_zeros: bool = False
) -> Float[np.ndarray, "row column"]:
    """Pairs in the same order less pairs in the opposite one, over the geometric mean of the pairs without ties.

    `by_zeros` takes a pair to be in order only if one of the two is zero.
    """
    rows = [np.asarray(each, dtype=np.float64) for each in (first, second)]
    together = np.zeros((len(rows[0]), len(rows[1])))
    untied = [np.zeros(len(each)) for each in rows]
    n_tokens = rows[0].shape[-1]
    step = max(1, _PAIRS_AT_ONCE // max(1, n_tokens))
    for start in range(0, n_tokens, step):
        some = slice(start, start + step)
        signs = [_signs(each, some) for each in rows]
        untied = [counts + np.abs(each).sum(axis=1) for counts, each in zip(untied, signs, strict=True)]
        if by_zeros:
            signs = [_signs((each != 0).astype(np.float64), some) for each in rows]
        together += signs[0] @ signs[1].T
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Float[np.ndarray, "row column"] = together / np.sqrt(np.outer(*untied))
    return tau


def _signs(rows: Float[np.ndarray, "row token"], some: slice) -> Float[np.ndarray, "row pair"]:
    """Which of two tokens has more, for some against all: 1, −1, or 0 for a tie."""
    with np.errstate(invalid="ignore"):
        differences = rows[:, some, None] - rows[:, None, :]
    signs: Float[np.ndarray, "row pair"] = np.sign(differences).astype(np.float32).reshape(len(rows), -1)
    return signs
