"""Do the scores' sums say what the model will say of sets of tokens?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

_ROUNDING = 1e-6  # of a probability: less is no difference
WORTH_FORETELLING = 0.05  # between the lowest and the highest probability: with less there is nothing to foretell


def linear_datamodeling_score(sums: Float[np.ndarray, " set"], values: Float[np.ndarray, " set"]) -> float:
    """Spearman's ρ between the sums of scores of sets and the model's values with them alone (Park et al., 2023).

    NaN where all values are the same; 0 where only the sums are.

    >>> linear_datamodeling_score(np.array([0.1, 0.2, 0.4]), np.array([0.5, 0.6, 0.9]))
    1.0
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    if len(values) < 2 or np.ptp(values) < _ROUNDING:
        return float("nan")
    if np.ptp(sums) <= 1e-9 * np.abs(sums).max(initial=0.0):
        return 0.0
    ranks = rankdata(np.round(np.stack([sums / np.abs(sums).max(), values]), 6), axis=1)
    return float(np.round(np.corrcoef(ranks)[0, 1], 12))


def held_out_r_squared(drawn: Float[np.ndarray, "set 2"]) -> float:
    """R² of the values of the second half of the sets, foretold from their sums by the line fitted to the first half.

    One slope and one intercept per text let scores of any unit take part: that of a logit is not that of a probability.
    NaN where the values held out are next to the same, and never below −1. A row is a sum of scores and a value.

    >>> held_out_r_squared(np.array([[0.0, 0.1], [1.0, 0.3], [2.0, 0.5], [3.0, 0.7]]))
    1.0
    """
    fitted, held_out = np.array_split(np.asarray(drawn, dtype=float), 2)
    if len(held_out) < 2 or np.ptp(held_out[:, 1]) < WORTH_FORETELLING:
        return float("nan")
    sums, values = fitted.T
    spread = float(((sums - sums.mean()) ** 2).sum())
    slope = float(((sums - sums.mean()) * (values - values.mean())).sum()) / spread if spread > 0 else 0.0
    foretold = values.mean() + slope * (held_out[:, 0] - sums.mean())
    missed = ((held_out[:, 1] - foretold) ** 2).sum()
    found = 1 - missed / ((held_out[:, 1] - held_out[:, 1].mean()) ** 2).sum()
    return float(max(-1.0, np.round(found, 12)))
