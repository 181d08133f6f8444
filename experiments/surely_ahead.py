"""Which methods of a board are surely ahead of which, from what each got on each text: by the board's own tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from whence.metrics.many_comparisons import holm, sign_flip_p_values
from whence.scoreboard.ranking import SURE


def surely_ahead(texts: Mapping[str, Sequence[float]], seed: int) -> set[tuple[str, str]]:
    """Pairs of whom the first is surely ahead of the second: signs drawn for texts, Holm's correction for all pairs."""
    pairs = list(combinations(texts, 2))
    differences = np.array([np.subtract(texts[one], texts[other]) for one, other in pairs]).T
    chances = holm(sign_flip_p_values(differences, seed=seed))
    means = np.nan_to_num(differences).mean(axis=0)
    sure = [(pair, mean) for pair, chance, mean in zip(pairs, chances, means, strict=True) if chance < SURE]
    return {(one, other) if mean > 0 else (other, one) for (one, other), mean in sure}
