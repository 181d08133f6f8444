"""Games about sources whose right answer is known: what each set does to an answer is written down, not run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whence.citing.ablations import Ablations

Worth = Callable[[np.ndarray], np.ndarray]
"""From sets (rows of 0 and 1) to the logit of the answer's probability."""
ONE_SENTENCE = (np.array([0]),)


def ablations_of(worth: Worth, n_sources: int) -> Ablations:
    """An answer of one token whose probability has this logit."""

    def ask(sets: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, -worth(sets.astype(float)))[:, None]

    return Ablations(ask, n_sources)


def linear(weights: np.ndarray, begin: float = -9.0) -> Worth:
    return lambda sets: begin + sets @ weights


def wiggling(n_sources: int, seed: int) -> Worth:
    """A little of everything, of no source in particular: smooth noise that is the same whenever a set is asked."""
    generator = np.random.default_rng(seed)
    directions, sizes = generator.normal(size=(n_sources, 12)), generator.gamma(0.5, 1.0, 12)
    return lambda sets: -6.0 + np.sin(3 * (2 * sets - 1) @ directions + 1) @ sizes


def mixed(n_sources: int, seed: int) -> Worth:
    """A few strong sources, some that work together or against each other, many weak ones, and noise."""
    generator = np.random.default_rng(seed)
    weights = generator.normal(0, 0.2, n_sources)
    strong = generator.choice(n_sources, 3, replace=False)
    weights[strong] += generator.gamma(4, 1.0, 3)
    pairs, noise = generator.normal(0, 1.5, (n_sources, n_sources)), wiggling(n_sources, seed)
    pairs *= generator.random((n_sources, n_sources)) < 0.1
    return lambda sets: 0.3 * noise(sets) + sets @ weights + ((sets @ pairs) * sets).sum(axis=1)


def mean_gains(worth: Worth, n_sources: int) -> np.ndarray:
    """What each source adds on average over all sets of the others, by asking every set (by brute force)."""
    sets = (np.arange(2**n_sources)[:, None] >> np.arange(n_sources)) % 2 == 1
    values = worth(sets.astype(float))
    return np.array([values[sets[:, i]].mean() - values[~sets[:, i]].mean() for i in range(n_sources)])


def foretold(scores: np.ndarray, worth: Worth, seed: int) -> float:
    """The rank correlation of what the scores say of random sets with what is so."""
    from scipy.stats import spearmanr

    sets = np.random.default_rng(seed).random((200, len(scores))) < 0.5
    return float(spearmanr(sets @ scores, worth(sets.astype(float))).statistic)
