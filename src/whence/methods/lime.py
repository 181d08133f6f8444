"""LIME: a linear model of the target over which tokens are present."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Meaning
from whence.methods.baselines import Baseline, BaselineStates
from whence.methods.occlusion import masked_outputs
from whence.methods.options import at_least
from whence.methods.players import players_of
from whence.methods.question import Method, Question, Scores, of_outputs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def lime(
    question: Question,
    *,
    samples: int = 200,
    keep_probability: float | None = None,
    kernel: Literal["cosine", "share"] = "cosine",
    kernel_width: float = 0.25,
    share_of: int | None = None,
    features: Literal["presence", "ids"] = "presence",
    ridge: float = 1.0,
    baseline: Baseline = "auto",
    special: bool | None = None,
) -> Scores:
    """The coefficients of a weighted ridge regression on random maskings of the text (Ribeiro et al., 2016).

    The defaults are those of the authors' own library for text.

    Args:
        samples: maskings per text.
        keep_probability: the chance of a token to stay; by default LIME's own way: the first masking keeps every token,
            in the others a uniform number of tokens goes.
        kernel: how a masking is weighted: "cosine" (exp(-d²/2w²), d the cosine distance to the whole text) or "share"
            (the share of tokens that stay).
        kernel_width: w of the cosine kernel.
        share_of: the number of positions the share is taken over, if not the text's own (a padded length).
        features: what the regression sees of a token: its "presence", or its raw id ("ids", as ThermoStat does).
        ridge: the ridge penalty.
        baseline: what stands in an absent token's place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens may go too; by default only above the input.
    """
    at_least("samples", samples, 2)
    at_least("ridge", ridge, 0)
    at_least("kernel_width", kernel_width, 1e-6)
    if kernel not in ("cosine", "share"):
        raise UnknownNameError("kernel", kernel, ["cosine", "share"])
    if features not in ("presence", "ids"):
        raise UnknownNameError("features", features, ["presence", "ids"])
    if features == "ids" and question.units != "token":
        raise UsageError("ids are features of tokens, not of larger units", "use features='presence' or units='token'")
    baselines = BaselineStates(question, baseline)
    scores = []
    for layer in question.layers:
        players = players_of(question, layer, special)
        drawn = [
            _maskings(torch.ones(own.count, dtype=torch.bool), samples, keep_probability, question.generator(row))
            for row, own in enumerate(players)
        ]
        keep = [own.keep(present) for own, present in zip(players, drawn, strict=True)]
        rows = torch.arange(len(players)).repeat_interleave(samples)
        values = torch.split(masked_outputs(question, layer, rows, torch.cat(keep), baselines).cpu(), samples)
        found = []
        for row, own in enumerate(players):
            length = len(question.inputs.encodings[row])
            design = drawn[row].double()
            if kernel == "cosine":
                distance = 1 - design.mean(dim=1).sqrt()
                weights = (-((distance / kernel_width) ** 2) / 2).exp()
            else:
                total = share_of or length
                weights = 1 - (~keep[row][:, :length]).sum(dim=1) / total
            if features == "ids":
                absent = baselines.id or 0
                ids = question.inputs.ids[row].cpu()[own.of_token >= 0].double()
                design = torch.where(design.bool(), ids, float(absent))
            found.append(own.spread(weighted_ridge(design, values[row].double(), weights.double(), ridge).T).float())
        scores.append(torch.stack(found))
    return Scores(of_outputs(torch.stack(scores, dim=2)))


def _maskings(
    players: Bool[Tensor, " token"], samples: int, keep_probability: float | None, generator: torch.Generator
) -> Bool[Tensor, "sample token"]:
    count = int(players.sum())
    ranks = torch.rand(samples, count, generator=generator)
    if keep_probability is None:
        gone = torch.randint(1, count + 1, (samples, 1), generator=generator)
        present = ranks.argsort(dim=1).argsort(dim=1) >= gone
        present[0] = True
    else:
        present = ranks < keep_probability
    keep = torch.ones(samples, len(players), dtype=torch.bool)
    keep[:, players] = present
    return keep


def weighted_ridge(
    design: Float[Tensor, "sample feature"],
    values: Float[Tensor, " sample *output"],
    weights: Float[Tensor, " sample"],
    ridge: float,
) -> Float[Tensor, " feature *output"]:
    """Coefficients of a weighted ridge regression with an unpenalised intercept."""
    shares = weights / weights.sum()
    centred = design - shares @ design
    gram = centred.T @ (weights[:, None] * centred)
    moment = (weights[:, None] * centred).T @ (values - shares @ values)
    penalty = ridge * torch.eye(design.shape[1], dtype=design.dtype)
    solution: Tensor = torch.linalg.lstsq(gram + penalty, moment.reshape(len(moment), -1), driver="gelsd").solution
    return solution.reshape(moment.shape)


METHOD = Method(
    lime,
    Meaning("LIME", "what the token's presence adds to the target in a linear model of it", signed=True, additive=True),
    needs=("a baseline",),
    cost="samples forwards per layer",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
