"""Shapley values: exact where a text is short enough, else by permutation sampling, with their standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates
from whence.methods.occlusion import masked_outputs
from whence.methods.options import at_least
from whence.methods.players import Players, players_of
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.models.token_sets import distinct_sets

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    # from the outputs of each set of players to each player's mean gain and the standard error of that
    Gains = Float[np.ndarray, "player output"]
    Solve = Callable[[Float[np.ndarray, "set output"]], tuple[Gains, Gains]]


def shapley(
    question: Question, *, samples: int = 25, baseline: Baseline = "auto", special: bool | None = None
) -> Scores:
    """What a token adds when tokens come in one by one, averaged over random orders (Castro et al., 2009).

    Scores add up to f(text) - f(baseline) exactly, whatever the number of samples. A set of tokens that comes up in
    several orders is evaluated once. Where all sets are no more than the orders could ask for, all are asked and the
    scores are exact.

    Args:
        samples: random orders per text.
        baseline: what stands in an absent token's place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens are players too; by default only above the input.
    """
    at_least("samples", samples, 1)
    baselines = BaselineStates(question, baseline)
    players = [players_of(question, layer, special) for layer in question.layers]
    answers = [
        _at_layer(question, layer, samples, baselines, own) for layer, own in zip(question.layers, players, strict=True)
    ]
    return Scores(
        of_outputs(torch.stack([mean for mean, _ in answers], dim=2)),
        standard_errors=of_outputs(torch.stack([error for _, error in answers], dim=2)) if samples > 1 else None,
        notes=notes_of_exact(question, players, lambda count: _all_fit(count, samples)),
    )


def permutations(generator: torch.Generator, players: int, samples: int) -> list[list[int]]:
    """Random orders of the players."""
    return [torch.randperm(players, generator=generator).tolist() for _ in range(samples)]


def all_sets(players: int) -> Bool[np.ndarray, "set player"]:
    """Every set of players; player i is in set k if bit i of k is one."""
    return np.array((np.arange(2**players)[:, None] >> np.arange(players)) % 2 == 1)


def notes_of_exact(
    question: Question, players: Sequence[Sequence[Players]], exact: Callable[[int], bool]
) -> list[list[str]]:
    """For each text, at which layers its scores are exact, since every set of its players was asked."""
    kind = question.units if isinstance(question.units, str) else "unit"
    notes: list[list[str]] = []
    for row in range(len(question.inputs)):
        layers: dict[int, list[str]] = {}
        for layer, own in zip(question.layers, players, strict=True):
            layers.setdefault(own[row].count, []).append(str(layer))
        notes.append(
            [
                f"exact at layer {', '.join(where)}: all {2**count} sets of {count} {kind}s were asked"
                for count, where in layers.items()
                if exact(count)
            ]
        )
    return notes


def _all_fit(players: int, samples: int) -> bool:
    """Whether all sets of players are no more than random orders could ask for."""
    return players < 31 and 2**players <= samples * max(players - 1, 0) + 2


def _at_layer(
    question: Question, layer: Layer, samples: int, baselines: BaselineStates, players: Sequence[Players]
) -> tuple[Float[Tensor, "batch output token"], Float[Tensor, "batch output token"]]:
    sets, solves, counts = [], [], []
    for row, own in enumerate(players):
        if _all_fit(own.count, samples):
            present, solve = enumerated(own.count)
        else:
            present, solve = sampled(np.array(permutations(question.generator(row), own.count, samples)))
        sets.append(own.keep(torch.from_numpy(present)))
        solves.append(solve)
        counts.append(len(present))
    texts = torch.arange(len(players)).repeat_interleave(torch.tensor(counts))
    asked = masked_outputs(question, layer, texts, torch.cat(sets), baselines)
    values = torch.split(asked.double().cpu(), counts)
    answers = [solve(each.numpy()) for solve, each in zip(solves, values, strict=True)]
    mean, error = (
        torch.stack([own.spread(torch.from_numpy(each).T) for own, each in zip(players, column, strict=True)]).float()
        for column in zip(*answers, strict=True)
    )
    return mean, error


def enumerated(players: int) -> tuple[Bool[np.ndarray, "set player"], Solve]:
    """All sets, and the mean over all orders of what a player adds."""
    present = all_sets(players)
    sizes = present.sum(axis=1)

    def solve(values: Float[np.ndarray, "set output"]) -> tuple[np.ndarray, np.ndarray]:
        mean = np.zeros((players, values.shape[1]))
        for player in range(players):
            without = np.flatnonzero(~present[:, player])
            orders = np.array([players * comb(players - 1, int(size)) for size in sizes[without]])
            mean[player] = ((values[without + 2**player] - values[without]) / orders[:, None]).sum(axis=0)
        return mean, np.zeros_like(mean)

    return present, solve


def sampled(orders: Int[np.ndarray, "sample player"]) -> tuple[Bool[np.ndarray, "set player"], Solve]:
    """The sets that some orders go through, each once, and the mean over these orders of what a player adds."""
    samples, players = orders.shape
    # set k of an order: its first k players
    present = np.argsort(orders, axis=1)[:, None, :] < np.arange(players + 1)[None, :, None]
    present = present.reshape(-1, players)
    first, index = distinct_sets(present)
    index = index.reshape(samples, -1)

    def solve(values: Float[np.ndarray, "set output"]) -> tuple[np.ndarray, np.ndarray]:
        gains = np.diff(values[index], axis=1)[np.arange(samples)[:, None], np.argsort(orders, axis=1)]
        mean = gains.mean(axis=0)
        return mean, gains.std(axis=0, ddof=1) / np.sqrt(samples) if samples > 1 else np.zeros_like(mean)

    return present[first], solve


METHOD = Method(
    shapley,
    Meaning("Shapley value", "the token's fair share of f(text) - f(baseline)", signed=True, additive=True),
    needs=("a baseline",),
    cost="samples x tokens forwards per layer at most",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
