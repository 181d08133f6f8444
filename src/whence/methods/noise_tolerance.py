"""Noise tolerance: how much noise does each state bear before the output changes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from whence.errors import UnknownNameError
from whence.explanation import Layer, Meaning
from whence.methods.baselines import removable
from whence.methods.descent import descend
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores
from whence.models.inputs import Inputs

if TYPE_CHECKING:
    from jaxtyping import Float, Int

QUIET = -5.0  # where the noise starts, before softplus: a standard deviation of 0.0067

INVERSE = Meaning(
    "noise tolerance", "one over the standard deviation of the noise that the state bears", signed=False,
    additive=False, low=0.0,
)  # fmt: skip
NEGATIVE = Meaning(
    "noise tolerance", "minus the standard deviation of the noise that the state bears", signed=True, additive=False,
    high=0.0,
)  # fmt: skip
MEANINGS = {"share": None, "inverse": INVERSE, "negative": NEGATIVE}


def noise_tolerance(
    question: Question,
    *,
    weight: float = 0.1,
    steps: int = 50,
    samples: int = 1,
    rate: float = 0.1,
    score: Literal["share", "inverse", "negative"] = "share",
    special: bool | None = None,
) -> Scores:
    """How little noise each state bears while the whole output stays as it is (Guan et al., 2019).

    Every token's state gets Gaussian noise of a standard deviation s of its own, the same for all features. The s
    minimise, for each text by itself, the expected squared change of all logits - weight x the sum of log s over
    tokens. The target does not matter. (The paper divides the squared change by the output's variance: that is to
    multiply `weight` by it.) Tokens that never get noise score 0.

    Args:
        weight: the worth of noise; were the model linear, each token would change the logits by weight / 2.
        steps: gradient steps (centred RMSprop).
        samples: draws of noise per step.
        rate: the learning rate.
        score: "share" is v / (v + s^2), where v is the mean square of the text's states, 1 for a state that bears no
            noise and 0 for one that can drown in it; "inverse" is 1 / s and "negative" is -s.
        special: whether special tokens get noise too; by default only above the input.
    """
    at_least("weight", weight, 0)
    if score not in MEANINGS:
        raise UnknownNameError("score", score, MEANINGS)
    values = [_at_layer(question, layer, weight, steps, samples, rate, score, special) for layer in question.layers]
    return Scores(torch.stack(values, dim=1), meaning=MEANINGS[score])


def _at_layer(
    question: Question,
    layer: Layer,
    weight: float,
    steps: int,
    samples: int,
    rate: float,
    score: str,
    special: bool | None,
) -> Float[Tensor, "batch token"]:
    h = question.states.at(layer).detach().float()
    may_go = removable(question, layer, special)

    def with_noise(free: Tensor, noise: Tensor, rows: Tensor) -> Tensor:
        return h[rows] + (softplus(free) * may_go[rows]).float()[..., None] * noise

    free = descend(
        question,
        layer,
        start=QUIET,
        disturb=with_noise,
        loss=lambda logits, inputs, rows: _squared_change(question, logits, inputs, rows),
        penalty=lambda free: -weight * (softplus(free).log() * may_go).sum(dim=1),
        steps=steps,
        samples=samples,
        rate=rate,
    )
    deviation = softplus(free)
    if score == "inverse":
        return may_go / deviation
    if score == "negative":
        return -deviation * may_go
    real = question.inputs.mask[..., None]
    power = (h.double().square() * real).mean(dim=-1).sum(dim=1, keepdim=True) / real.sum(dim=1)
    return may_go * power / (power + deviation.square())


def _squared_change(
    question: Question, logits: Float[Tensor, "row *token label"], inputs: Inputs, rows: Int[Tensor, " row"]
) -> Float[Tensor, " row"]:
    """Of all logits that belong to real tokens."""
    before = question.states.logits.detach()[rows]
    if logits.ndim == 2:
        return (logits.float() - before.float()).square().sum(dim=1)
    change = (logits.float() - before[:, : logits.shape[1]].float()).square().sum(dim=-1)
    return (change * (inputs.mask if inputs.read_at is None else inputs.read_once)).sum(dim=1)


METHOD = Method(
    noise_tolerance,
    Meaning(
        "noise tolerance", "how little noise the state bears before the output changes", signed=False, additive=False,
        low=0.0, high=1.0,
    ),
    needs=("gradients",),
    cost="steps x samples x (1 forward, 1 backward) per layer",
    differentiable=False,
    one_by_one=True,
)  # fmt: skip
