"""KernelSHAP: Shapley values as a constrained regression over coalitions."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Meaning
from whence.methods.baselines import Baseline, BaselineStates
from whence.methods.occlusion import masked_outputs
from whence.methods.options import at_least
from whence.methods.players import players_of
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.methods.shapley import all_sets, notes_of_exact

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def kernel_shap(
    question: Question, *, samples: int = 200, baseline: Baseline = "auto", special: bool | None = None
) -> Scores:
    """Least squares under the Shapley kernel, with scores made to add up to f(text) - f(baseline) (Lundberg, 2017).

    Where a text is so short that `samples` reach all its coalitions, the result is the exact Shapley value.

    Args:
        samples: coalitions per text, without the empty and the full one.
        baseline: what stands in an absent token's place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens are players too; by default only above the input.
    """
    at_least("samples", samples, 1)
    baselines = BaselineStates(question, baseline)
    scores, players = [], [players_of(question, layer, special) for layer in question.layers]
    for layer, of_layer in zip(question.layers, players, strict=True):
        drawn = [_coalitions(own.count, samples, question.generator(row)) for row, own in enumerate(of_layer)]
        keep = [
            own.keep(torch.cat([present, torch.zeros(1, own.count, dtype=torch.bool)]))
            for own, (present, _) in zip(of_layer, drawn, strict=True)
        ]
        counts = [len(mask) for mask in keep]
        rows = torch.arange(len(of_layer)).repeat_interleave(torch.tensor(counts))
        values = torch.split(masked_outputs(question, layer, rows, torch.cat(keep), baselines).cpu().double(), counts)
        found = []
        for row, (own, (present, weights)) in enumerate(zip(of_layer, drawn, strict=True)):
            nothing, everything = values[row][-1], question.outputs[row].detach().cpu().double()
            solved = _solve(present.double(), values[row][:-1] - nothing, weights, everything - nothing)
            found.append(own.spread(solved.T).float())
        scores.append(torch.stack(found))
    exact = notes_of_exact(question, players, lambda count: _all_fit(count, samples))
    return Scores(of_outputs(torch.stack(scores, dim=2)), notes=exact)


def _all_fit(players: int, samples: int) -> bool:
    """Whether all coalitions but the empty and the full one are no more than `samples`."""
    return players < 31 and 2**players - 2 <= samples


def _coalitions(
    players: int, samples: int, generator: torch.Generator
) -> tuple[Bool[Tensor, "sample player"], Float[Tensor, " sample"]]:
    """All coalitions with the Shapley kernel as weights if there are few, else a sample drawn by that kernel."""
    if players < 2:
        return torch.zeros(0, players, dtype=torch.bool), torch.zeros(0, dtype=torch.double)
    sizes = torch.arange(1, players)
    if _all_fit(players, samples):
        present = torch.from_numpy(all_sets(players)[1:-1])
        counts = present.sum(dim=1).tolist()
        kernel = [(players - 1) / (comb(players, count) * count * (players - count)) for count in counts]
        return present, torch.tensor(kernel, dtype=torch.double)
    chance = 1 / (sizes * (players - sizes))
    drawn = sizes[torch.multinomial(chance, samples, replacement=True, generator=generator)]
    ranks = torch.rand(samples, players, generator=generator).argsort(dim=1).argsort(dim=1)
    return ranks < drawn[:, None], torch.ones(samples, dtype=torch.double)


def _solve(
    design: Float[Tensor, "sample player"],
    values: Float[Tensor, "sample output"],
    weights: Float[Tensor, " sample"],
    total: Float[Tensor, " output"],
) -> Float[Tensor, "player output"]:
    """Weighted least squares with the coefficients adding up to `total`: the last one is what the others leave."""
    players = design.shape[1]
    if players == 1:
        return total[None]
    free = design[:, :-1] - design[:, -1:]
    root = weights.sqrt()[:, None]
    rest = values - design[:, -1:] * total
    others = torch.linalg.lstsq(root * free, root * rest, driver="gelsd").solution
    return torch.cat([others, (total - others.sum(dim=0))[None]])


METHOD = Method(
    kernel_shap,
    Meaning("KernelSHAP", "the token's fair share of f(text) - f(baseline)", signed=True, additive=True),
    needs=("a baseline",),
    cost="samples + 1 forwards per layer",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
