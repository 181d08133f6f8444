"""One free number per token, found by gradient descent while the states are noisy, for each text by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Layer
from whence.methods.options import at_least
from whence.methods.question import Question
from whence.models.inputs import Inputs

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Free = Float[Tensor, "row token"]
    Noise = Float[Tensor, "row token hidden"]
    Disturb = Callable[[Free, Noise, Int[Tensor, " row"]], Float[Tensor, "row token hidden"]]
    Loss = Callable[[Float[Tensor, "row *token label"], Inputs, Int[Tensor, " row"]], Float[Tensor, " row"]]
    Penalty = Callable[[Float[Tensor, "batch token"]], Float[Tensor, " batch"]]


def descend(
    question: Question,
    layer: Layer,
    *,
    start: float,
    disturb: Disturb,
    loss: Loss,
    penalty: Penalty,
    steps: int,
    samples: int,
    rate: float,
) -> Float[Tensor, "batch token"]:
    """Minimise, for every text by itself, E[loss(output of the disturbed states)] + penalty over a number per token.

    Centred RMSprop moves every number by its own gradients alone, so texts in a batch do not meet; in double precision,
    so that nothing is rounded but what the model rounds. That still grows from step to step: methods that descend are
    `one_by_one`.

    Args:
        start: where every number starts.
        disturb: the states of some rows (indices of texts) under standard normal noise, differentiable in the numbers.
        loss: of the output, one number per row.
        penalty: of the numbers themselves, one per text; padding must not count.
        steps: gradient steps.
        samples: draws of noise per text and step.
        rate: the learning rate.
    """
    at_least("steps", steps, 1)
    at_least("samples", samples, 1)
    at_least("rate", rate, 0)
    h = question.states.at(layer)
    free = torch.full(h.shape[:2], start, dtype=torch.float64, device=h.device, requires_grad=True)
    optimiser = torch.optim.RMSprop([free], lr=rate, centered=True)
    generators = [question.generator(row) for row in range(len(h))]
    rows = torch.arange(len(h), device=h.device).repeat_interleave(samples)
    for _ in range(steps):
        noise = _draw(question, generators, samples, h)
        optimiser.zero_grad()
        with torch.enable_grad():
            penalty(free).sum().backward()  # type: ignore[no-untyped-call]
        question.backpropagate(
            layer,
            rows,
            lambda chunk: disturb(free[rows[chunk]], noise[chunk], rows[chunk]).to(h.dtype),  # noqa: B023
            lambda logits, inputs, chunk: loss(logits, inputs, rows[chunk]) / samples,
        )
        optimiser.step()
    return free.detach()


def _draw(
    question: Question, generators: list[torch.Generator], samples: int, h: Float[Tensor, "batch token hidden"]
) -> Float[Tensor, "row token hidden"]:
    """Noise for `samples` consecutive copies of each text, from the text's own random numbers; none at padding."""
    noise = torch.zeros(len(h), samples, *h.shape[1:])
    for own, encoding, generator in zip(noise, question.inputs.encodings, generators, strict=True):
        own[:, : len(encoding)] = torch.randn(samples, len(encoding), h.shape[-1], generator=generator)
    return noise.flatten(0, 1).to(h.device)
