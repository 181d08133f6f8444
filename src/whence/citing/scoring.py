"""The ways to score sources by taking sets of them away, and how sure each is of its scores.

All scores are in one unit: what a source adds to the logit of the probability of a sentence. Intervals hold for all
sources of a sentence at once with probability `LEVEL`: each holds alone with more (Bonferroni). Where every set was
asked nothing is left to chance, and an interval is a point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.citing.ablations import Ablations, of_sentences
from whence.citing.designs import balanced_pairs, drawn_as_context_cite, everything_but_one, hadamard
from whence.citing.surrogate import lasso, logit_of
from whence.methods.shapley import enumerated, sampled

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

LEVEL = 0.95
LEAST = float(np.log(10))  # a source is cited that makes the odds of the sentence ten times as large
SETTLED = 0.1  # of the strongest score: an interval with no more on either side of a score is narrow enough
_RESAMPLES = 200


@dataclass(frozen=True, eq=False)
class SourceScores:
    """The scores of sources for each sentence, and the ends of their intervals, where a method gives any."""

    scores: Float[np.ndarray, "sentence source"]
    low: Float[np.ndarray, "sentence source"] | None = None
    high: Float[np.ndarray, "sentence source"] | None = None

    @classmethod
    def around(
        cls, scores: Float[np.ndarray, "sentence source"], margin: Float[np.ndarray, "sentence source"]
    ) -> SourceScores:
        return cls(scores, scores - margin, scores + margin)

    def cited(self, least: float = LEAST) -> Bool[np.ndarray, "sentence source"] | None:
        """Which sources are cited: those whose whole interval is above `least`; None without intervals."""
        return None if self.low is None else self.low > least

    def settled(self, least: float = LEAST) -> bool:
        """Whether more sets could hardly change what is cited: each interval is above `least`, or below, or narrow."""
        if self.low is None or self.high is None:
            return True
        narrow = self.high - self.low <= 2 * SETTLED * np.abs(self.scores).max(axis=1, keepdims=True)
        return bool(((self.low > least) | (self.high < least) | narrow).all())


Score = Callable[[Ablations, "Sequence[Int[np.ndarray, ' _token']]", int, int], SourceScores]
"""From what can be asked, the positions of each sentence's tokens, a budget of sets and a seed to scores."""


def balanced(
    ablations: Ablations, sentences: Sequence[Int[np.ndarray, " _token"]], budget: int, seed: int
) -> SourceScores:
    """Least squares on the differences within balanced pairs of sets; ContextCite's way where no block of them fits."""
    n_sources = ablations.n_sources
    every_pair = 2 ** (n_sources - 1)
    if budget // 2 < min(len(hadamard(n_sources)), every_pair):
        return context_cite(ablations, sentences, budget, seed)
    pairs = balanced_pairs(budget // 2, n_sources, seed)
    values = _logits(ablations, sentences, pairs.reshape(-1, n_sources)).reshape(len(sentences), -1, 2)
    differences = values[..., 0] - values[..., 1]
    signs = np.where(pairs[:, 0], 1.0, -1.0)
    inverse = np.linalg.inv(signs.T @ signs)
    scores = differences @ signs @ inverse
    if len(pairs) == every_pair:
        return SourceScores.around(scores, np.zeros_like(scores))
    freedom = len(pairs) - n_sources
    if freedom < 1:
        return SourceScores.around(scores, np.full_like(scores, np.inf))
    missed = ((differences - scores @ signs.T) ** 2).sum(axis=1, keepdims=True) / freedom
    unasked = 1 - len(pairs) / every_pair
    errors = np.sqrt(missed * np.diag(inverse) * unasked)
    return SourceScores.around(scores, errors * _quantile(n_sources, freedom))


def context_cite(
    ablations: Ablations, sentences: Sequence[Int[np.ndarray, " _token"]], budget: int, seed: int
) -> SourceScores:
    """ContextCite as published: a Lasso on random sets; the intervals are from a bootstrap over the sets."""
    sets = drawn_as_context_cite(budget, ablations.n_sources, seed)
    values = _logits(ablations, sentences, sets)
    lengths = np.array([len(tokens) for tokens in sentences])[:, None]
    per_token = values / lengths
    scores = np.stack([lasso(sets, of) for of in per_token]) * lengths
    draws = np.random.default_rng(seed).integers(budget, size=(_RESAMPLES, budget))
    errors = np.stack([lasso(sets[draws], of[draws], tolerance=1e-3).std(axis=0, ddof=1) for of in per_token]) * lengths
    margin = np.where(_told_apart(sets), errors * _quantile(ablations.n_sources, budget - 1), np.inf)
    return SourceScores.around(scores, margin)


def _told_apart(sets: Bool[np.ndarray, "set source"]) -> Bool[np.ndarray, " source"]:
    """Which sources can be told from all others by these sets, and from what is always there: a few sets may hold a
    source each time, or two of them always together, and a weight of zero then says nothing."""
    columns = np.concatenate([np.ones((len(sets), 1)), np.where(sets, 1.0, -1.0)], axis=1)
    alike = np.abs(columns.T @ columns) == len(sets)
    return np.asarray(alike.sum(axis=1)[1:] == 1)


def leave_one_out(
    ablations: Ablations, sentences: Sequence[Int[np.ndarray, " _token"]], budget: int, seed: int
) -> SourceScores:
    """What is lost when one source goes and all others stay: sources + 1 sets, whatever the budget; none is drawn."""
    values = _logits(ablations, sentences, everything_but_one(ablations.n_sources))
    scores = values[:, :1] - values[:, 1:]
    return SourceScores.around(scores, np.zeros_like(scores))


def shapley(
    ablations: Ablations, sentences: Sequence[Int[np.ndarray, " _token"]], budget: int, seed: int
) -> SourceScores:
    """A fair share of what all sources add together: over every set where the budget allows, or over random orders."""
    n_sources = ablations.n_sources
    orders = max(2, (budget - 2) // max(1, n_sources - 1))
    exact = 2**n_sources <= max(budget, 2)
    generator = np.random.default_rng(seed)
    sets, solve = (
        enumerated(n_sources) if exact else sampled(np.stack([generator.permutation(n_sources) for _ in range(orders)]))
    )
    scores, errors = (found.T for found in solve(_logits(ablations, sentences, sets).T))
    return SourceScores.around(scores, errors * _quantile(n_sources, orders - 1))


def settled_scores(
    score: Score,
    ablations: Ablations,
    sentences: Sequence[Int[np.ndarray, " _token"]],
    most: int,
    seed: int,
    least: float = LEAST,
) -> SourceScores:
    """The scores at the smallest budget at which they are settled, or at the most; budgets double."""
    budget = min(most, max(16, 4 * len(hadamard(ablations.n_sources))))
    while True:
        found = score(ablations, sentences, budget, seed)
        if budget == most or found.settled(least):
            return found
        budget = min(most, 2 * budget)


def _logits(
    ablations: Ablations, sentences: Sequence[Int[np.ndarray, " _token"]], sets: Bool[np.ndarray, "set source"]
) -> Float[np.ndarray, "sentence set"]:
    return logit_of(of_sentences(ablations.log_probabilities(sets), sentences))


def _quantile(n_sources: int, freedom: int) -> float:
    """How many standard errors wide an interval is on either side, so that all of them hold at once."""
    from scipy.stats import t  # type: ignore[import-untyped]

    return float(t.ppf(1 - (1 - LEVEL) / (2 * n_sources), freedom))


SCORES: dict[str, Score] = {
    "balanced": balanced,
    "context_cite": context_cite,
    "leave_one_out": leave_one_out,
    "shapley": shapley,
}
