"""The best set of each size that forward selection finds: the token that helps most is added, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from whence.engine.bounds import rounds
from whence.engine.searching import Search


def best_sets(n_tokens: int, sizes: Sequence[int]) -> Search[dict[int, float]]:
    """The probability of the decision with the best set of each of these sizes.

    In long texts several tokens are added in a round, those that help most alone; a size between two rounds gets the
    first of them.
    """
    found: dict[int, float] = {}
    chosen = np.zeros(n_tokens, dtype=bool)
    told = yield chosen[None]
    found[0] = float(told.probability[0])
    for size, reached in pairwise(rounds(n_tokens)):
        if size >= max(sizes, default=0):
            break
        left = np.flatnonzero(~chosen)
        tried = np.repeat(chosen[None], len(left), axis=0)
        tried[np.arange(len(left)), left] = True
        told = yield tried
        order = left[np.argsort(-told.probability, kind="stable")]
        found[size + 1] = float(told.probability.max())
        wanted = [each for each in sizes if size + 1 < each <= reached]
        if wanted:
            more = np.repeat(chosen[None], len(wanted), axis=0)
            for row, each in zip(more, wanted, strict=True):
                row[order[: each - size]] = True
            told = yield more
            found.update(zip(wanted, told.probability.tolist(), strict=True))
        chosen[order[: reached - size]] = True
    return found
