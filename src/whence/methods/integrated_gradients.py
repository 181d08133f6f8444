"""Integrated gradients: gradients along the straight path from nothing to the state."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from whence.errors import UnknownNameError
from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores

Rule = Literal["gauss_legendre", "left", "right", "middle", "trapezoid"]
RULES: tuple[Rule, ...] = ("gauss_legendre", "left", "right", "middle", "trapezoid")


def integrated_gradients(
    question: Question,
    *,
    steps: int = 25,
    rule: Rule = "gauss_legendre",
    baseline: Baseline = "auto",
    special: bool | None = None,
) -> Scores:
    """(state - baseline) times the mean gradient on the way (Sundararajan et al., 2017).

    Scores add up to f(text) - f(baseline); what is missing is reported as the completeness error.

    Args:
        steps: points on the path.
        rule: how the integral is approximated.
        baseline: where the path starts; see `whence.methods.baselines.Baseline`.
        special: whether special tokens move too; by default only above the input.
    """
    at_least("steps", steps, 2 if rule == "trapezoid" else 1)
    points, weights = path(rule, steps)
    baselines = BaselineStates(question, baseline)
    answers = [_at_layer(question, layer, points, weights, baselines, special) for layer in question.layers]
    return Scores(
        torch.stack([scores for scores, _ in answers], dim=1),
        completeness_errors=torch.stack([error for _, error in answers], dim=1),
    )


def path(rule: Rule, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The points in [0, 1] at which gradients are taken, and their weights, which add up to one."""
    if rule == "gauss_legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return torch.tensor((nodes + 1) / 2).float(), torch.tensor(weights / 2).float()
    even = torch.full((steps,), 1 / steps)
    if rule == "left":
        return torch.arange(steps) / steps, even
    if rule == "right":
        return torch.arange(1, steps + 1) / steps, even
    if rule == "middle":
        return (torch.arange(steps) + 0.5) / steps, even
    if rule == "trapezoid":
        even = torch.full((steps,), 1 / (steps - 1))
        even[[0, -1]] /= 2
        return torch.linspace(0, 1, steps), even
    raise UnknownNameError("rule", rule, RULES)


def _at_layer(
    question: Question,
    layer: Layer,
    points: torch.Tensor,
    weights: torch.Tensor,
    baselines: BaselineStates,
    special: bool | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    h = question.states.at(layer).detach()
    start = torch.where(removable(question, layer, special)[..., None], baselines.at(layer), h)
    steps, batch = len(points), len(question.inputs)
    texts = torch.arange(batch, device=h.device)
    rows = texts.repeat_interleave(steps)
    points, weights = points.to(h).repeat(batch), weights.to(h.device).repeat(batch)

    def on_the_path(chunk: slice) -> torch.Tensor:
        return torch.lerp(start[rows[chunk]], h[rows[chunk]], points[chunk, None, None])

    total = torch.zeros_like(h, dtype=torch.float32)
    for chunk, gradients in question.gradients(layer, rows, on_the_path):
        total.index_add_(0, rows[chunk], gradients.float() * weights[chunk, None, None])
    scores = ((h - start).float() * total).sum(dim=-1)
    missing = question.value.detach() - question.values(layer, texts, lambda chunk: start[chunk]) - scores.sum(dim=-1)
    return scores, missing.abs()


METHOD = Method(
    integrated_gradients,
    Meaning(
        "integrated gradients", "the token's share of f(text) - f(baseline)", signed=True, additive=True
    ),
    needs=("gradients", "a baseline"),
    cost="steps x (1 forward, 1 backward) + 1 forward a layer",
    layers="embeddings",
    differentiable=False,
)  # fmt: skip
