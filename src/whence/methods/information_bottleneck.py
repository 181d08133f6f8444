"""The information bottleneck: which states may be made noise without losing the decision?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Layer, Meaning
from whence.methods.baselines import removable
from whence.methods.descent import descend
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores
from whence.methods.state_statistics import Moments, StateStatistics
from whence.models.inputs import Inputs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

OPEN = 5.0  # the gates' logit at the start: all but 0.7 % of every state is kept
LEAST_DEVIATION = 1e-3  # of the states' root mean square: a feature that never moves must not count infinitely

BITS = Meaning(
    "information bottleneck", "bits of the state that had to be kept for the decision", signed=False, additive=True,
    low=0.0,
)  # fmt: skip


def information_bottleneck(
    question: Question,
    *,
    beta: float = 10.0,
    steps: int = 50,
    samples: int = 1,
    rate: float = 0.1,
    statistics: StateStatistics | None = None,
    score: Literal["gate", "information"] = "gate",
    special: bool | None = None,
) -> Scores:
    """The smallest share of each state that keeps the target likely (Schulz et al., 2020).

    A state h becomes g h + (1 - g) e, where e is noise with the mean and deviation that states usually have, so
    that 1 - g scales the noise's standard deviation. The gates g minimise, for each text by itself, -log p(target) +
    beta x the information (in nats, averaged over features and tokens) that still comes through. Where the model
    gives a plain number, its squared change takes the place of -log p. Tokens that are never replaced score 0.

    Args:
        beta: the price of information.
        steps: gradient steps (centred RMSprop).
        samples: draws of noise per step.
        rate: the learning rate.
        statistics: what states usually are, learnt from many texts; by default the moments over the text's own tokens.
        score: the gate, from 0 (noise will do) to 1 (kept whole), or the information kept, in bits.
        special: whether special tokens are replaced too; by default only above the input.
    """
    at_least("beta", beta, 0)
    if score not in ("gate", "information"):
        raise UnknownNameError("score", score, ["gate", "information"])
    if not isinstance(statistics, (StateStatistics, type(None))):
        raise UsageError(
            f"statistics is {type(statistics).__name__}, not StateStatistics",
            "give StateStatistics(layers=...).fit(model, texts)",
        )
    answers = []
    for layer in question.layers:
        bottleneck = _Bottleneck.at(question, layer, statistics, special)
        logits = descend(
            question,
            layer,
            start=OPEN,
            disturb=bottleneck.through,
            loss=lambda logits, inputs, rows: _loss(question, logits, inputs, rows),
            penalty=lambda logits: beta * bottleneck.mean_information(logits),  # noqa: B023
            steps=steps,
            samples=samples,
            rate=rate,
        )
        answers.append(bottleneck.gates(logits) if score == "gate" else bottleneck.bits(logits))
    return Scores(torch.stack(answers, dim=1), meaning=BITS if score == "information" else None)


@dataclass(frozen=True)
class _Bottleneck:
    """The states of a layer, what they usually are, and which of them may be replaced by that."""

    h: Float[Tensor, "batch token hidden"]
    mean: Float[Tensor, "batch token hidden"]
    deviation: Float[Tensor, "batch token hidden"]
    may_go: Bool[Tensor, "batch token"]

    @classmethod
    def at(
        cls, question: Question, layer: Layer, statistics: StateStatistics | None, special: bool | None
    ) -> _Bottleneck:
        h = question.states.at(layer).detach().float()
        mean, deviation = (
            _own_moments(h, question.inputs.mask) if statistics is None else statistics.at(layer, h.shape[1])
        )
        if mean.shape[-1] != h.shape[-1]:
            raise UsageError(
                f"the statistics are of states of width {mean.shape[-1]}, those of the model have {h.shape[-1]}",
                "fit them on this model",
            )
        mean, deviation = mean.to(h), deviation.to(h)
        size = (mean.square() + deviation.square()).mean(dim=-1, keepdim=True).sqrt()
        deviation = deviation.maximum(LEAST_DEVIATION * size).clamp(min=torch.finfo(h.dtype).tiny)
        return cls(h, mean.expand_as(h), deviation.expand_as(h), removable(question, layer, special))

    def through(self, logits: Tensor, noise: Tensor, rows: Tensor) -> Float[Tensor, "row token hidden"]:
        """What comes through gates: g h + (1 - g) (mean + deviation x noise)."""
        lost = (torch.sigmoid(-logits) * self.may_go[rows]).float()[..., None]
        return self.h[rows] + lost * (self.mean[rows] + self.deviation[rows] * noise - self.h[rows])

    def information(self, logits: Tensor) -> Float[Tensor, "batch token"]:
        """KL(what comes through, given the state || what states usually are), in nats, averaged over features."""
        gate, lost = logits.sigmoid(), torch.sigmoid(-logits)
        return (lost.square() + gate.square() * self.distance - 1) / 2 - logsigmoid(-logits)

    @cached_property
    def distance(self) -> Float[Tensor, "batch token"]:
        """From the mean, in squared deviations, averaged over features."""
        return ((self.h - self.mean) / self.deviation).double().square().mean(dim=-1)

    def mean_information(self, logits: Tensor) -> Float[Tensor, " batch"]:
        counts = self.may_go.sum(dim=1).clamp(min=1)
        return (self.information(logits) * self.may_go).sum(dim=1) / counts

    def gates(self, logits: Tensor) -> Float[Tensor, "batch token"]:
        return logits.sigmoid() * self.may_go

    def bits(self, logits: Tensor) -> Float[Tensor, "batch token"]:
        return self.information(logits) * self.may_go * self.h.shape[-1] / math.log(2)


def _own_moments(
    h: Float[Tensor, "batch token hidden"], mask: Bool[Tensor, "batch token"]
) -> tuple[Float[Tensor, "batch 1 hidden"], Float[Tensor, "batch 1 hidden"]]:
    """Mean and deviation over each text's own real tokens."""
    moments = Moments.of(h.transpose(0, 1), mask.T)
    return moments.mean[:, None], moments.variance.sqrt()[:, None]


def _loss(
    question: Question, logits: Float[Tensor, "row *token label"], inputs: Inputs, rows: Int[Tensor, " row"]
) -> Float[Tensor, " row"]:
    """-log p(target), or the target's squared change where the model gives no probabilities."""
    if not question.selection.reading.decides:
        return (question.selection.rows(rows).of(logits, inputs.mask) - question.value.detach()[rows]).square()
    likelihood = replace(question.selection, scale="log_probability")
    return -likelihood.rows(rows).of(logits, inputs.mask)


METHOD = Method(
    information_bottleneck,
    Meaning(
        "information bottleneck", "the share of the state that had to be kept for the decision", signed=False,
        additive=False, low=0.0, high=1.0,
    ),
    needs=("gradients", "statistics of states"),
    cost="steps x samples x (1 forward, 1 backward) per layer",
    differentiable=False,
    one_by_one=True,
)  # fmt: skip
