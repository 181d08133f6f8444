"""KernelSHAP: Shapley values as a constrained regression over coalitions."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.occlusion import masked_values
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores
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
    scores, players_of = [], [removable(question, layer, special).cpu() for layer in question.layers]
    for layer, may_go in zip(question.layers, players_of, strict=True):
        present, weights = [], []
        for row, players in enumerate(may_go):
            coalitions, kernel = _coalitions(int(players.sum()), samples, question.generator(row))
            mask = torch.ones(len(coalitions) + 1, len(players), dtype=torch.bool)
            mask[:-1, players] = coalitions
            mask[-1, players] = False
            present.append(mask)
            weights.append(kernel)
        counts = [len(mask) for mask in present]
        rows = torch.arange(len(may_go)).repeat_interleave(torch.tensor(counts)).to(question.inputs.ids.device)
        values = torch.split(masked_values(question, layer, rows, torch.cat(present), baselines).cpu().double(), counts)
        found = torch.zeros(may_go.shape)
        for row, players in enumerate(may_go):
            design = present[row][:-1, players].double()
            nothing, everything = values[row][-1], question.value[row].detach().cpu().double()
            found[row, players] = _solve(design, values[row][:-1] - nothing, weights[row], everything - nothing).float()
        scores.append(found)
    exact = notes_of_exact(question, players_of, lambda count: _all_fit(count, samples))
    return Scores(torch.stack(scores, dim=1), notes=exact)


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
    values: Float[Tensor, " sample"],
    weights: Float[Tensor, " sample"],
    total: Float[Tensor, ""],
) -> Float[Tensor, " player"]:
    """Weighted least squares with the coefficients adding up to `total`: the last one is what the others leave."""
    players = design.shape[1]
    if players == 1:
        return total[None]
    free = design[:, :-1] - design[:, -1:]
    root = weights.sqrt()[:, None]
    rest = (values - design[:, -1] * total)[:, None]
    others = torch.linalg.lstsq(root * free, root * rest, driver="gelsd").solution[:, 0]
    return torch.cat([others, (total - others.sum())[None]])


METHOD = Method(
    kernel_shap,
    Meaning("KernelSHAP", "the token's fair share of f(text) - f(baseline)", signed=True, additive=True),
    needs=("a baseline",),
    cost="samples + 1 forwards per layer",
)
