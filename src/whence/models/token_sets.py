"""Many sets of a text's tokens, of which equal ones need not be asked about twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


def distinct_sets(
    sets: Bool[np.ndarray, "set token"],
) -> tuple[Int[np.ndarray, " distinct"], Int[np.ndarray, " set"]]:
    """Where each of the distinct sets comes first, and which of them each set is.

    >>> first, which = distinct_sets(np.array([[True, False], [False, True], [True, False]]))
    >>> first.tolist(), which.tolist()
    ([1, 0], [1, 0, 1])
    """
    packed = np.packbits(sets, axis=1)
    if not packed.size:  # of no tokens there is one set
        return np.arange(min(len(sets), 1)), np.zeros(len(sets), np.int64)
    # compared as a whole, not byte by byte as along an axis, which takes several times as long
    whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return first, which
