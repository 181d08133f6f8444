"""DeepLiftSHAP: captum's rescale rule between the text and one or more baselines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.question import Method, Question, Scores

if TYPE_CHECKING:
    from jaxtyping import Float


def deep_lift_shap(
    question: Question, *, baseline: Baseline | Sequence[Baseline] = "auto", special: bool | None = None
) -> Scores:
    """DeepLIFT multipliers averaged over baselines (Lundberg & Lee, 2017), by captum.

    Only activations that are modules known to captum (ReLU, Tanh, Sigmoid, Softmax, ...) follow the rescale rule;
    others, such as GELU and attention, pass their gradient, so that scores need not add up: see the completeness error.

    Args:
        baseline: one or more baselines; see `whence.methods.baselines.Baseline`.
        special: whether special tokens differ from the baseline too; by default only above the input.
    """
    choices = [baseline] if isinstance(baseline, (str, int, Tensor)) else list(baseline)
    baselines = [BaselineStates(question, choice) for choice in choices]
    answers = [_at_layer(question, layer, baselines, special) for layer in question.layers]
    return Scores(
        torch.stack([scores for scores, _ in answers], dim=1),
        completeness_errors=torch.stack([errors for _, errors in answers], dim=1),
    )


class _Resumed(nn.Module):
    """The rest of the model above a layer as a module of its own, which is what captum hooks."""

    def __init__(self, question: Question, layer: Layer, row: int) -> None:
        super().__init__()
        self.module = question.model.module
        self._question, self._layer, self._row = question, layer, row

    def forward(self, hidden: Tensor) -> Tensor:
        rows = torch.full((len(hidden),), self._row, device=hidden.device)
        inputs = self._question.inputs.rows(rows)
        logits = self._question.model.resume(self._layer, hidden, inputs)
        return self._question.selection.rows(rows).of(logits, inputs.mask)


def _at_layer(
    question: Question, layer: Layer, baselines: list[BaselineStates], special: bool | None
) -> tuple[Tensor, Tensor]:
    from captum.attr import DeepLift, DeepLiftShap
    from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR

    question.check_gradient(layer)
    h = question.states.at(layer).detach()
    may_go = removable(question, layer, special)[..., None]
    nothing = torch.stack([torch.where(may_go, baseline.at(layer), h) for baseline in baselines], dim=1)
    scores, errors = torch.zeros(h.shape[:2], device=h.device), torch.zeros(len(h), device=h.device)
    if not any(type(part) in SUPPORTED_NON_LINEAR for part in question.model.module.modules()):
        return _without_rules(question, layer, h, nothing)
    for row, encoding in enumerate(question.inputs.encodings):
        length = len(encoding)
        resumed = _Resumed(question, layer, row)
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum says at each call that it sets hooks; they are gone afterwards
            start, end = nothing[row, :, :length].contiguous(), h[row : row + 1, :length].contiguous()
            lift = DeepLift(resumed) if len(start) == 1 else DeepLiftShap(resumed)
            products = lift.attribute(end, start)
        scores[row, :length] = products.detach().float().sum(dim=-1)[0]
        with torch.no_grad():
            missing = question.value[row].detach() - resumed(start).mean() - scores[row].sum()
        errors[row] = missing.abs()
    question.forwards += 3 * len(baselines)
    question.backwards += len(baselines)
    return scores, errors


def _without_rules(
    question: Question,
    layer: Layer,
    h: Float[Tensor, "batch token hidden"],
    nothing: Float[Tensor, "batch baseline token hidden"],
) -> tuple[Float[Tensor, "batch token"], Float[Tensor, " batch"]]:
    """Where no module follows the rule (as in most decoders), multipliers are gradients, and one pass has them all."""
    texts = torch.arange(len(h), device=h.device)
    scores, start = torch.zeros(h.shape[:2], device=h.device), torch.zeros(len(h), device=h.device)
    for chunk, gradients in question.gradients(layer, texts, lambda chunk: h[chunk]):
        scores[chunk] = ((h[chunk] - nothing[chunk].mean(dim=1)).float() * gradients.float()).sum(dim=-1)
    for baseline in nothing.unbind(dim=1):
        start += question.values(layer, texts, lambda chunk: baseline[chunk]) / nothing.shape[1]  # noqa: B023
    return scores, (question.value.detach() - start - scores.sum(dim=-1)).abs()


METHOD = Method(
    deep_lift_shap,
    Meaning("DeepLiftSHAP", "the token's share of f(text) - f(baseline)", signed=True, additive=True),
    needs=("gradients", "a baseline", "captum"),
    cost="baselines x (3 forwards, 1 backward) per layer",
    differentiable=False,
    linear=True,
)
