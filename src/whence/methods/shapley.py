"""Shapley values by permutation sampling, with their standard error."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.occlusion import masked_values
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores


def shapley(
    question: Question, *, samples: int = 25, baseline: Baseline = "auto", special: bool | None = None
) -> Scores:
    """What a token adds when tokens come in one by one, averaged over random orders (Castro et al., 2009).

    Scores add up to f(text) - f(baseline) exactly, whatever the number of samples. A set of tokens that comes up in
    several orders is evaluated once.

    Args:
        samples: random orders a text.
        baseline: what stands in an absent token's place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens are players too; by default only above the input.
    """
    at_least("samples", samples, 1)
    baselines = BaselineStates(question, baseline)
    answers = [_at_layer(question, layer, samples, baselines, special) for layer in question.layers]
    return Scores(
        torch.stack([mean for mean, _ in answers], dim=1),
        standard_errors=torch.stack([error for _, error in answers], dim=1) if samples > 1 else None,
    )


def permutations(generator: torch.Generator, players: int, samples: int) -> list[list[int]]:
    """Random orders of the players."""
    return [torch.randperm(players, generator=generator).tolist() for _ in range(samples)]


def _at_layer(
    question: Question, layer: Layer, samples: int, baselines: BaselineStates, special: bool | None
) -> tuple[Tensor, Tensor]:
    may_go = removable(question, layer, special).cpu().numpy()
    coalitions, rows, orders, places = [], [], [], []
    for row, players in enumerate(may_go):
        positions = np.flatnonzero(players)
        order = positions[np.array(permutations(question.generator(row), len(positions), samples))]
        # coalition k of an order: all tokens that stay anyway, and the first k players of the order
        rank = np.full((samples, len(players)), -1)
        np.put_along_axis(rank, order, np.arange(len(positions))[None, :], axis=1)
        present = rank[:, None, :] < np.arange(len(positions) + 1)[None, :, None]
        packed = np.packbits(present.reshape(-1, len(players)), axis=1)
        _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        coalitions.append(present.reshape(-1, len(players))[first])
        places.append(place.reshape(samples, -1) + sum(len(part) for part in coalitions[:-1]))
        rows.append(np.full(len(first), row))
        orders.append(order)
    keep = torch.from_numpy(np.concatenate(coalitions))
    texts = torch.from_numpy(np.concatenate(rows)).to(question.inputs.ids.device)
    values = masked_values(question, layer, texts, keep, baselines).double().cpu().numpy()
    mean, error = np.zeros(may_go.shape), np.zeros(may_go.shape)
    for row, (order, place) in enumerate(zip(orders, places, strict=True)):
        gains = np.zeros((samples, may_go.shape[1]))
        np.put_along_axis(gains, order, np.diff(values[place], axis=1), axis=1)
        mean[row] = gains.mean(axis=0)
        error[row] = gains.std(axis=0, ddof=1) / np.sqrt(samples) if samples > 1 else 0
    return torch.from_numpy(mean).float(), torch.from_numpy(error).float()


METHOD = Method(
    shapley,
    Meaning("Shapley value", "the token's fair share of f(text) - f(baseline)", signed=True, additive=True),
    needs=("a baseline",),
    cost="samples x tokens forwards a layer at most",
)
