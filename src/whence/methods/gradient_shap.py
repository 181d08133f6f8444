"""GradientSHAP: gradients at random points between baselines and the states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores, of_outputs

if TYPE_CHECKING:
    from jaxtyping import Float


def gradient_shap(
    question: Question,
    *,
    samples: int = 20,
    noise: float = 0.0,
    baseline: Baseline | Sequence[Baseline] = "auto",
    between: Literal["states", "ids"] = "states",
    special: bool | None = None,
) -> Scores:
    """The mean of (state - baseline) x gradient at random points of the way (Lundberg & Lee, 2017).

    The standard error says how far another draw of points would be off.

    Args:
        samples: random points per text.
        noise: the standard deviation of Gaussian noise added to the states.
        baseline: where the ways start (one is drawn for each sample); see `whence.methods.baselines.Baseline`.
        between: whether points lie between states, or between token ids ("ids", as ThermoStat does: the gradient is
            then that of whatever word has the id in between).
        special: whether special tokens move too; by default only above the input.
    """
    at_least("samples", samples, 1)
    at_least("noise", noise, 0)
    if between not in ("states", "ids"):
        raise UnknownNameError("between", between, ["states", "ids"])
    choices = [baseline] if isinstance(baseline, (str, int, Tensor)) else list(baseline)
    baselines = [BaselineStates(question, choice) for choice in choices]
    if between == "ids" and baselines[0].id is None:
        raise UsageError("between='ids' needs a baseline that is a token", "use baseline='pad' or 'mask'")
    answers = [_at_layer(question, layer, samples, noise, baselines, between, special) for layer in question.layers]
    return Scores(
        of_outputs(torch.stack([mean for mean, _ in answers], dim=2)),
        standard_errors=of_outputs(torch.stack([error for _, error in answers], dim=2)) if samples > 1 else None,
    )


def _at_layer(
    question: Question,
    layer: Layer,
    samples: int,
    noise: float,
    baselines: list[BaselineStates],
    between: str,
    special: bool | None,
) -> tuple[Float[Tensor, "batch output token"], Float[Tensor, "batch output token"]]:
    """The mean over the random points, and its standard error."""
    h = question.states.at(layer).detach()
    may_go = removable(question, layer, special)[..., None]
    rows = torch.arange(len(h), device=h.device).repeat_interleave(samples)
    ends = h[rows]
    shares, drawn = torch.empty(len(rows)), torch.empty(len(rows), dtype=torch.long)
    for row, encoding in enumerate(question.inputs.encodings):
        own = slice(row * samples, (row + 1) * samples)
        generator = question.generator(row)
        shares[own] = torch.rand(samples, generator=generator)
        drawn[own] = torch.randint(len(baselines), (samples,), generator=generator)
        if noise:
            shape = (samples, len(encoding), h.shape[-1])
            ends[own, : len(encoding)] += noise * torch.randn(shape, generator=generator).to(h)
    shares = shares.to(h)
    of_baselines = torch.stack([torch.where(may_go, each.at(layer), h) for each in baselines])
    starts = of_baselines[drawn.to(h.device), rows]

    def on_the_way(chunk: slice) -> Tensor:
        if between == "ids":
            return _states_of_ids_between(question, layer, rows[chunk], shares[chunk], baselines[0])
        return torch.lerp(starts[chunk], ends[chunk], shares[chunk, None, None])

    products = torch.zeros(len(rows), question.outputs.shape[1], h.shape[1], device=h.device)
    for chunk, which, gradients in question.output_gradients(layer, rows, on_the_way):
        found = ((ends[chunk] - starts[chunk]).float() * gradients.float()).sum(dim=-1)
        products[chunk, which] = found.transpose(0, 1)
    of_text = products.view(len(h), samples, *products.shape[1:])
    return of_text.mean(dim=1), of_text.std(dim=1, correction=min(1, samples - 1)) / samples**0.5


def _states_of_ids_between(
    question: Question, layer: Layer, rows: Tensor, shares: Tensor, baseline: BaselineStates
) -> Tensor:
    """The states of the texts whose ids lie a share of the way from the baseline's ids to the text's."""
    inputs = question.inputs
    start = baseline.ids()[rows].double()
    ids = torch.lerp(start, inputs.ids[rows].double(), shares[:, None].double()).long()
    words = question.model.embed(ids)
    if layer == "embeddings":
        return words
    question.forwards += torch.bincount(rows.cpu(), minlength=len(inputs))
    length = words.shape[1]
    picked = inputs.rows(rows)
    states = question.model.states(picked, embeddings=words[:, : picked.ids.shape[1]]).at(layer)
    return torch.nn.functional.pad(states, (0, 0, 0, length - states.shape[1]))


METHOD = Method(
    gradient_shap,
    Meaning("GradientSHAP", "the token's share of f(text) - f(baseline), estimated", signed=True, additive=True),
    needs=("gradients", "a baseline"),
    cost="samples x (1 forward, 1 backward) per layer",
    differentiable=False,
    tells_outputs=True,
    linear=True,
)
