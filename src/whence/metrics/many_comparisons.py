"""Many methods compared with one another at once: p-values, Holm's correction, and the ranks that are left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

FLIPS = 20_000  # with 20 methods the smallest p-value must survive a factor of 190
_FLIPS_AT_ONCE = 1_000


def sign_flip_p_values(
    differences: Float[np.ndarray, "text pair"], *, flips: int = FLIPS, seed: int = 0
) -> Float[np.ndarray, " pair"]:
    """Two-sided p-values of the mean difference of each pair over the same texts.

    If neither of a pair is better, each text's difference may as well have the other sign: p is the share of random
    signs that give a sum at least as far from zero, the signs seen counted in. A text whose difference is NaN says
    nothing about its pair.
    """
    known = np.nan_to_num(np.asarray(differences, dtype=float))
    seen = np.abs(known.sum(axis=0)) - 1e-12
    generator = np.random.default_rng(seed)
    extreme = np.zeros(known.shape[1], dtype=int)
    for start in range(0, flips, _FLIPS_AT_ONCE):
        n_flips = min(_FLIPS_AT_ONCE, flips - start)
        signs = generator.integers(0, 2, (n_flips, len(known)), dtype=np.int8) * 2.0 - 1.0
        extreme += (np.abs(signs @ known) >= seen).sum(axis=0)
    p_values: Float[np.ndarray, " pair"] = (1 + extreme) / (1 + flips)
    return p_values


def holm(p_values: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Holm's step-down correction: the chance of one wrong finding among all tests stays below the level.

    The i-th smallest of m p-values is multiplied by m − i + 1, and is never below a smaller one's.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise UsageError("p-values lie between 0 and 1", "look for NaN or for values of another kind")
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def rank_ranges(surely_better: Bool[np.ndarray, "method other"]) -> list[tuple[int, int]]:
    """The ranks that each method may have: from 1 + the surely better ones to all but the surely worse ones.

    >>> rank_ranges(np.array([[False, False, True], [False, False, True], [False, False, False]]))
    [(1, 2), (1, 2), (3, 3)]

    Args:
        surely_better: whether the method of the row is surely better than that of the column.
    """
    better = np.asarray(surely_better, dtype=bool)
    above, below = better.sum(axis=0), better.sum(axis=1)
    return [(int(1 + up), int(len(better) - down)) for up, down in zip(above, below, strict=True)]
