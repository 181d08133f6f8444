"""Intervals of numbers that rest on several texts and seeds, where records keep summaries and not every text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t

LEVEL = 0.975  # each end, so that 95 % lie between
NORMAL = 1.96


class Interval(NamedTuple):
    """An estimate with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def over(values: Sequence[float]) -> Interval:
    """The mean of a few numbers (seeds, cells of a table) with its t interval; of one number, only that number."""
    mean = float(np.mean(values))
    half = _of_seeds(float(np.std(values, ddof=1)), len(values)) if len(values) > 1 else 0.0
    return Interval(mean, mean - half, mean + half)


def with_seeds(
    value: float, low: float, high: float, sd: float | None, n_seeds: int, within: tuple[float, float] | None = None
) -> Interval:
    """An interval over texts widened by what another draw of seeds would change; with one seed that is not known.

    The two halves are added as squares: that over texts, and that of the mean over seeds (Student's t).

    Args:
        sd: the standard deviation over seeds (ddof 1).
        within: the smallest and the largest value there can be.
    """
    half = _of_seeds(sd, n_seeds) if sd is not None and n_seeds > 1 else 0.0
    ends = value - math.hypot(value - low, half), value + math.hypot(high - value, half)
    if within is not None:
        ends = max(ends[0], within[0]), min(ends[1], within[1])
    return Interval(value, *ends)


def difference(one: Interval, other: Interval) -> Interval:
    """One number less another, their errors taken for independent; wider than need be if the texts are the same."""
    value = one.value - other.value
    down = math.hypot(one.value - one.low, other.high - other.value)
    up = math.hypot(one.high - one.value, other.value - other.low)
    return Interval(value, value - down, value + up)


def of_rank_correlation(tau: float, n: int) -> Interval:
    """Kendall's τ over n pairs: Fisher's transformation with the variance 0.437 / (n - 4) of Fieller et al. (1957)."""
    middle, half = math.atanh(max(-0.999999, min(0.999999, tau))), NORMAL * math.sqrt(0.437 / (n - 4))
    return Interval(tau, math.tanh(middle - half), math.tanh(middle + half))


def centred(value: float, low: float, high: float, middle: float | None = None) -> Interval:
    """A share with the spread of resamples that are off its value on average, moved onto it.

    Some numbers are lower in every resample than in the whole (fewer distinct texts), so that the ends of the resamples
    need not hold the number itself. Their spread is kept, their shift is not.

    Args:
        middle: the median of the resamples; if only the ends are known, the middle between them.
    """
    middle = (low + high) / 2 if middle is None else middle
    return Interval(value, max(0.0, value - (middle - low)), min(1.0, value + (high - middle)))


def _of_seeds(sd: float, n_seeds: int) -> float:
    return float(t.ppf(LEVEL, n_seeds - 1)) * sd / math.sqrt(n_seeds)
