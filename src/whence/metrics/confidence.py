"""How sure a mean over texts is: bootstrap intervals, and paired differences between two methods on the same texts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError
from whence.metrics.many_comparisons import sign_flip_p_values

if TYPE_CHECKING:
    from jaxtyping import Float, Real

RESAMPLES = 1_000
LEVEL = 0.95
FEW_TEXTS = 30  # below so many the bootstrap is too sure of itself


@dataclass(frozen=True)
class Interval:
    """A mean with the ends of its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Difference:
    """How much higher one mean is than another over the same texts, and how likely chance alone gives as much."""

    mean: float
    low: float
    high: float
    p_value: float
    n_texts: int


@lru_cache(maxsize=4)
def resampling_weights(n_texts: int, resamples: int = RESAMPLES, seed: int = 0) -> Float[np.ndarray, "resample text"]:
    """How often each text is drawn in each resample, as shares; kept, since all methods are resampled alike."""
    draws = np.random.default_rng(seed).multinomial(n_texts, np.full(n_texts, 1 / n_texts), size=resamples)
    weights: Float[np.ndarray, "resample text"] = draws / n_texts
    weights.setflags(write=False)
    return weights


def bootstrap(
    values: Real[np.ndarray, " text *point"],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Float[np.ndarray, " *point"], Float[np.ndarray, " *point"]]:
    """The ends of the interval in which the mean over texts lies (percentile bootstrap), for each point by itself.

    The same seed draws the same texts, so that intervals of several methods over the same texts go together.

    Args:
        values: one number per text, or one row per text.
        level: the share of resampled means inside the interval.
        resamples: how often texts are drawn anew.
        seed: makes the draws repeatable.
    """
    values = np.asarray(values, dtype=float)
    if len(values) == 0:
        raise UsageError("there is no text to take a mean over", "give at least one text")
    if not 0 < level < 1:
        raise UsageError(f"level must lie between 0 and 1, got {level!r}", "give level=0.95")
    weights = resampling_weights(len(values), resamples, seed)
    means = (weights @ values.reshape(len(values), -1)).reshape(resamples, *values.shape[1:])
    return percentile_ends(means, level)


def percentile_ends(
    resampled: Float[np.ndarray, " resample *point"], level: float = LEVEL
) -> tuple[Float[np.ndarray, " *point"], Float[np.ndarray, " *point"]]:
    """The ends between which this share of the resampled numbers lies, for each point by itself."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def mean_interval(values: Real[np.ndarray, " text"], **settings: float | int) -> Interval:
    """The mean of one number per text, with its interval; settings as for `bootstrap`."""
    low, high = bootstrap(values, **settings)  # type: ignore[arg-type]
    return Interval(float(np.mean(values)), float(low), float(high))


def paired_difference(
    one: Float[np.ndarray, " text"],
    other: Float[np.ndarray, " text"],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """The mean of `one - other` over the same texts, its bootstrap interval, and a two-sided sign-flip p-value.

    If neither is better, each text's difference may as well have the other sign: p is the share of random signs that
    give a mean at least as far from zero, the signs seen counted in, so that p is never zero.
    """
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if one.shape != other.shape or one.ndim != 1:
        raise UsageError(
            f"{one.shape} and {other.shape} are not one number per text each", "compare results on the same texts"
        )
    differences = one - other
    low, high = bootstrap(differences, level=level, resamples=resamples, seed=seed)
    p_value = float(sign_flip_p_values(differences[:, None], flips=resamples, seed=seed)[0])
    return Difference(float(differences.mean()), float(low), float(high), p_value, len(differences))
