"""The best and the worst that any order of a text's tokens can get in the games: exactly for few tokens, else by beam.

An order is a chain of sets, each with one token more than the one before, from none to all. A game's area is a weighted
sum over the sets of its chain, so the best order is the best path through the lattice of all sets: with n tokens 2^n
answers of the model and n 2^n additions give it, where n! orders would have to be played one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.asking import Told
from whence.engine.searching import Search
from whence.metrics.curves import area_weights, hidden_counts

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    Weight = float | Float[np.ndarray, " set"]

EXACT = 12  # tokens: up to so many all sets are asked about
WIDTH = 3  # sets that the beam carries on: against exact bounds one loses a hundredth, three a thousandth
ROUNDS_TIMES_TOKENS = 2_000  # of a search: in long texts several tokens are added in a round, so that cost is bounded
FEWEST_ROUNDS = 10


@dataclass(frozen=True)
class Goal:
    """What a chain's sets S of k tokens are worth: alone[k] p(S) − without[k] p(all but S)."""

    alone: Float[np.ndarray, " size"]
    without: Float[np.ndarray, " size"]

    def worth(self, size: int | Int[np.ndarray, " set"], told: Told) -> Float[np.ndarray, " set"]:
        return self._weighted(self.alone[size], self.without[size], told)

    def rest(self, size: int, told: Told) -> Float[np.ndarray, " set"]:
        """What is still to come if everything stays as it is."""
        return self._weighted(self.alone[size + 1 :].sum(), self.without[size + 1 :].sum(), told)

    def questions(self, sets: Bool[np.ndarray, "set word"]) -> Bool[np.ndarray, "question word"]:
        """The sets, and all but them, as far as they count."""
        return np.concatenate([sets] * bool(self.alone.any()) + [~sets] * bool(self.without.any()))

    def _weighted(self, of_alone: Weight, of_without: Weight, told: Told) -> Float[np.ndarray, " set"]:
        both = self.alone.any() and self.without.any()
        alone, without = np.split(told.probability, 2) if both else (told.probability, told.probability)
        found: Float[np.ndarray, " set"] = of_alone * alone - of_without * without
        return found


def goals(n_tokens: int, grid: tuple[float, ...]) -> dict[str, Goal]:
    """Both games by one order (faithfulness), and each game by an order of its own."""
    weights = area_weights(grid)
    shown = n_tokens - hidden_counts(n_tokens, grid, "revealing")
    hidden = hidden_counts(n_tokens, grid, "hiding")
    alone, without = (np.bincount(taken, weights, minlength=n_tokens + 1) for taken in (shown, hidden))
    nothing = np.zeros(n_tokens + 1)
    return {
        "faithfulness": Goal(alone, without),
        "revealing": Goal(alone, nothing),
        "hiding": Goal(nothing, without),
    }


def best_chain(n_tokens: int, goal: Goal, width: int = WIDTH) -> Search[float]:
    """The most that a chain is worth: exactly where there are few tokens, else the most that a beam search finds."""
    if n_tokens <= EXACT:
        return _exact(n_tokens, goal)
    return _beam(n_tokens, goal, width)


def _exact(n_tokens: int, goal: Goal) -> Search[float]:
    numbers = np.arange(2**n_tokens)
    sets = (numbers[:, None] >> np.arange(n_tokens)) & 1 == 1
    told = yield goal.questions(sets)
    sizes = sets.sum(axis=1)
    worth = goal.worth(sizes, told)
    best = np.full(len(numbers), -np.inf)
    best[0] = worth[0]
    for size in range(1, n_tokens + 1):
        of_size = numbers[sizes == size]
        before = np.where(sets[of_size], best[of_size[:, None] ^ (1 << np.arange(n_tokens))], -np.inf)
        best[of_size] = before.max(axis=1) + worth[of_size]
    return float(best[-1])


def _beam(n_tokens: int, goal: Goal, width: int) -> Search[float]:
    """In each round all tokens that may come next are tried, and the few best sets are carried on.

    Sets are compared by what they are worth so far, and what would come if everything stayed as it is.
    """
    states = np.zeros((1, n_tokens), dtype=bool)
    told = yield goal.questions(states)
    totals = goal.worth(0, told)
    for size, reached in pairwise(rounds(n_tokens, np.flatnonzero(goal.alone + goal.without).tolist())):
        parents, tokens = np.nonzero(~states)
        tried = _with(states[parents], tokens[:, None])
        told = yield goal.questions(tried)
        if reached > size + 1:
            # several tokens at once: those that do best alone, and the last of them by turns
            parents, tried = _several(states, parents, tokens, goal.rest(size, told), reached - size, width)
            told = yield goal.questions(tried)
        so_far = totals[parents] + goal.worth(reached, told)
        chosen = _distinct(tried, so_far + goal.rest(reached, told), width)
        states, totals = tried[chosen], so_far[chosen]
    return float(totals.max())


def rounds(n_tokens: int, needed: Sequence[int] = ()) -> list[int]:
    """The sizes of sets at which a search stops: all, or in long texts fewer, spread evenly, and those needed.

    >>> rounds(5)
    [0, 1, 2, 3, 4, 5]
    >>> rounds(1_000, needed=[450])
    [0, 100, 200, 300, 400, 450, 500, 600, 700, 800, 900, 1000]
    """
    n_rounds = min(n_tokens, max(FEWEST_ROUNDS, ROUNDS_TIMES_TOKENS // max(1, n_tokens)))
    return sorted({*np.linspace(0, n_tokens, n_rounds + 1).round().astype(int).tolist(), *needed})


def _with(sets: Bool[np.ndarray, "set word"], tokens: Int[np.ndarray, "set few"]) -> Bool[np.ndarray, "set word"]:
    found = sets.copy()
    np.put_along_axis(found, tokens, True, axis=1)
    return found


def _several(
    states: Bool[np.ndarray, "state word"],
    parents: Int[np.ndarray, " tried"],
    tokens: Int[np.ndarray, " tried"],
    values: Float[np.ndarray, " tried"],
    n_more: int,
    width: int,
) -> tuple[Int[np.ndarray, " next"], Bool[np.ndarray, "next word"]]:
    of, found = [], []
    for state in range(len(states)):
        own = parents == state
        order = tokens[own][np.argsort(-values[own], kind="stable")]
        for last in order[n_more - 1 : n_more - 1 + width]:
            of.append(state)
            found.append(_with(states[state][None], np.append(order[: n_more - 1], last)[None])[0])
    return np.array(of), np.stack(found)


def _distinct(
    sets: Bool[np.ndarray, "set word"], values: Float[np.ndarray, " set"], width: int
) -> Int[np.ndarray, " chosen"]:
    """The best few sets, each once, by its best way."""
    order = np.argsort(-values, kind="stable")
    _, first = np.unique(np.packbits(sets[order], axis=1), axis=0, return_index=True)
    chosen: Int[np.ndarray, " chosen"] = order[np.sort(first)[:width]]
    return chosen
