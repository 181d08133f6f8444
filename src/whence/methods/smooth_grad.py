"""SmoothGrad: the gradient averaged over noisy copies of the states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import UnknownNameError
from whence.explanation import Layer, Meaning
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.methods.rounding import BeyondRounding

if TYPE_CHECKING:
    from jaxtyping import Float

SUM = Meaning(
    "SmoothGrad", "how fast the target rises when all features of the state rise alike, averaged over noise",
    signed=True, additive=False,
)  # fmt: skip


def smooth_grad(
    question: Question, *, samples: int = 10, noise: float = 0.1, reduce: Literal["norm", "sum"] = "norm"
) -> Scores:
    """The mean gradient under Gaussian noise (Smilkov et al., 2017).

    Args:
        samples: noisy copies per text.
        noise: the noise's standard deviation, as a share of the range (max - min) of the text's states at the layer.
        reduce: "norm" (L2) or "sum" of the mean gradient over features; the sum has a sign.
    """
    at_least("samples", samples, 1)
    at_least("noise", noise, 0)
    if reduce not in ("norm", "sum"):
        raise UnknownNameError("reduce", reduce, ["norm", "sum"])
    rows = torch.arange(len(question.inputs), device=question.inputs.ids.device).repeat_interleave(samples)
    means = []
    for layer in question.layers:
        h = question.states.at(layer).detach()
        mean = torch.zeros(question.outputs.shape[1], *h.shape, device=h.device)
        noisy = _noisy_states(question, layer, samples, noise)
        for chunk, which, gradients in question.output_gradients(layer, rows, lambda chunk: noisy[chunk]):  # noqa: B023
            mean[which].index_add_(1, rows[chunk], gradients.float() / samples)
        means.append(mean)
    if reduce == "norm":
        return Scores(of_outputs(torch.stack([mean.norm(dim=-1) for mean in means], dim=2).transpose(0, 1)))
    rounding = BeyondRounding(question)
    sums = [
        rounding.sums(mean, question.states.at(layer).dtype) for layer, mean in zip(question.layers, means, strict=True)
    ]
    return Scores(of_outputs(torch.stack(sums, dim=2).transpose(0, 1)), meaning=SUM, warnings=rounding.warnings)


def _noisy_states(question: Question, layer: Layer, samples: int, noise: float) -> Float[Tensor, "row token hidden"]:
    """`samples` consecutive noisy copies of each text's states; padding gets no noise."""
    h = question.states.at(layer).detach()
    copies = h.repeat_interleave(samples, dim=0)
    for row, encoding in enumerate(question.inputs.encodings):
        real = h[row, : len(encoding)]
        spread = noise * (real.max() - real.min())
        drawn = torch.randn(samples, *real.shape, generator=question.generator(row))
        copies[row * samples : (row + 1) * samples, : len(encoding)] += spread * drawn.to(h)
    return copies


METHOD = Method(
    smooth_grad,
    Meaning(
        "SmoothGrad", "how fast the target changes when the state moves, averaged over noise", signed=False,
        additive=False, low=0.0,
    ),
    needs=("gradients",),
    cost="samples x (1 forward, 1 backward) per layer",
    layers="embeddings",
    differentiable=False,
    tells_outputs=True,
)  # fmt: skip
