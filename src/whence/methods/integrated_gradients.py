"""Integrated gradients: gradients along the straight path from nothing to the state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.options import at_least
from whence.methods.quadrature import Rule, points_and_weights
from whence.methods.question import INCOMPLETE, Method, Question, Scores, of_outputs
from whence.models.inputs import moved

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

FIRST, AGAIN = 25, 11  # points with steps="auto": on the whole path, and on each half of a part that is not settled
SETTLED = 0.1  # two rules agree where no score differs by more of the largest; the finer one is then far nearer to it
CONFINED = 0.25  # where the worst parts are less of the path than this, more points there will settle them
ROUNDING = 1e-4  # of the target's own size: a difference that small is no reason for more points


def integrated_gradients(
    question: Question,
    *,
    steps: int | Literal["auto"] = "auto",
    rule: Rule | Literal["auto"] = "auto",
    baseline: Baseline = "auto",
    special: bool | None = None,
    most: int = 400,
) -> Scores:
    """(state - baseline) times the mean gradient on the way (Sundararajan et al., 2017).

    Scores add up to f(text) - f(baseline); what is missing is reported as the completeness error.

    Args:
        steps: points on the path. "auto" takes 25, and where two rules on these do not agree or scores do not add up,
            more on the parts of the path where they differ. A number is taken as it is, and nothing is checked but that
            scores add up.
        rule: how the integral is approximated; "auto" is "fejer" with steps="auto", else "gauss_legendre". Of the other
            rules steps="auto" takes 25 points.
        baseline: where the path starts; see `whence.methods.baselines.Baseline`.
        special: whether special tokens move too; by default only above the input.
        most: points per text after which steps="auto" gives up, and says so in a warning.
    """
    refined = steps == "auto" and rule in ("auto", "fejer")
    if rule == "auto":
        rule = "fejer" if refined else "gauss_legendre"
    if steps == "auto":
        steps = FIRST
    at_least("steps", steps, 2 if rule == "trapezoid" else 1)
    at_least("most", most, FIRST)
    baselines = BaselineStates(question, baseline)
    answers = []
    for layer in question.layers:
        path = _Path.at(question, layer, baselines, special)
        answers.append(_refined(path, most) if refined else _fixed(path, rule, steps))
    return Scores(
        of_outputs(torch.stack([answer.scores for answer in answers], dim=2).float()),
        completeness_errors=of_outputs(torch.stack([answer.missing for answer in answers], dim=2).float()),
        warnings=[
            [each for each in said if each] for said in zip(*(answer.warnings for answer in answers), strict=True)
        ],
    )


@dataclass(frozen=True)
class _Path:
    """The straight way of each text's states at a layer from the baseline, and the outputs where it starts."""

    question: Question
    layer: Layer
    start: Float[Tensor, "batch token hidden"]
    end: Float[Tensor, "batch token hidden"]
    nothing: Float[Tensor, "batch output"]

    @classmethod
    def at(cls, question: Question, layer: Layer, baselines: BaselineStates, special: bool | None) -> _Path:
        end = question.states.at(layer).detach()
        start = torch.where(removable(question, layer, special)[..., None], baselines.at(layer), end)
        nothing = question.output_values(layer, torch.arange(len(end)), lambda chunk: start[chunk])
        return cls(question, layer, start, end, nothing)

    @cached_property
    def difference(self) -> Float[Tensor, "batch output"]:
        """What the whole way makes of the outputs: looked at once a GPU has been told all else there is to do."""
        return (self.question.outputs.detach() - self.nothing).double().cpu()

    def products(
        self, texts: Int[Tensor, " part"], points: Float[Tensor, "part point"]
    ) -> Float[Tensor, "part point output token"]:
        """(state - baseline) x gradient of each output, summed over features, at points of the way of some texts.

        Points are rounded to the model's numbers only as parts of states: in bfloat16 those near 1 would all be 1.
        """
        device, exact = self.end.device, torch.promote_types(self.end.dtype, torch.float32)
        of_points = texts.repeat_interleave(points.shape[1])
        rows = moved(of_points.numpy(), device)
        shares = moved(points.flatten().to(exact).numpy(), device)
        start, way = self.start.to(exact), self.end.to(exact) - self.start.to(exact)

        def on_the_way(chunk: slice) -> Float[Tensor, "row token hidden"]:
            return torch.addcmul(start[rows[chunk]], way[rows[chunk]], shares[chunk, None, None]).to(self.end.dtype)

        shape = (len(rows), self.question.outputs.shape[1], self.end.shape[1])
        found = torch.zeros(shape, dtype=torch.float64, device=device)
        for chunk, which, gradients in self.question.output_gradients(self.layer, of_points, on_the_way):
            products = (way[rows[chunk]] * gradients.to(exact)).sum(dim=-1)
            found[chunk, which] = products.double().transpose(0, 1)
        return found.cpu().view(*points.shape, *shape[1:])

    def answer(self, scores: Float[Tensor, "batch output token"], warnings: list[str] | None = None) -> _Answer:
        missing = (self.difference - scores.sum(dim=-1)).abs()
        return _Answer(scores, missing, warnings or [""] * len(scores))


@dataclass(frozen=True)
class _Answer:
    scores: Float[Tensor, "batch output token"]
    missing: Float[Tensor, "batch output"]
    warnings: list[str]


def _fixed(path: _Path, rule: Rule, steps: int) -> _Answer:
    points, weights = map(torch.from_numpy, points_and_weights(rule, steps))
    products = path.products(torch.arange(len(path.end)), points.expand(len(path.end), -1))
    return path.answer(_integral(weights, products))


def _integral(
    weights: Float[Tensor, " point"], products: Float[Tensor, "part point output token"]
) -> Float[Tensor, "part output token"]:
    return torch.einsum("n,pnot->pot", weights, products)


@dataclass(frozen=True)
class _Parts:
    """Parts of the ways of texts: where each lies, what it adds to the scores, and how far two rules differ there, for
    the target as a whole."""

    text: Int[Tensor, " part"]
    low: Float[Tensor, " part"]
    high: Float[Tensor, " part"]
    scores: Float[Tensor, "part output token"]
    apart: Float[Tensor, "part token"]

    @classmethod
    def along(cls, path: _Path, text: Tensor, low: Tensor, high: Tensor, steps: int) -> _Parts:
        points, weights = map(torch.from_numpy, points_and_weights("fejer", steps))
        fewer = torch.from_numpy(points_and_weights("fejer", steps // 2)[1])  # of every other point
        width = (high - low)[:, None]
        products = path.products(text, low[:, None] + width * points)
        scores = width[..., None] * _integral(weights, products)
        coarser = width * _integral(fewer, products[:, 1::2, :1])[:, 0]
        return cls(text, low, high, scores, (scores[:, 0] - coarser).abs())

    def halved(self, path: _Path, which: Bool[Tensor, " part"]) -> _Parts:
        """With two parts in the place of each of some."""
        low, high = self.low[which], self.high[which]
        middle, twice = (low + high) / 2, self.text[which].repeat(2)
        new = _Parts.along(path, twice, torch.cat([low, middle]), torch.cat([middle, high]), AGAIN)
        return _Parts(*(torch.cat([vars(self)[each.name][~which], vars(new)[each.name]]) for each in fields(self)))

    def worst(self, batch: int) -> Bool[Tensor, " part"]:
        """Those parts of each text where the rules differ at least half as much as anywhere on its way."""
        size = self.apart.amax(dim=1)
        largest = torch.zeros(batch, dtype=torch.float64).scatter_reduce_(0, self.text, size, "amax")
        return size >= largest[self.text] / 2

    def total(self, batch: int, values: Float[Tensor, "part *output token"]) -> Float[Tensor, "batch *output token"]:
        return torch.zeros(batch, *values.shape[1:], dtype=torch.float64).index_add_(0, self.text, values)


def _refined(path: _Path, most: int) -> _Answer:
    """More points where two rules differ most, for each text until they agree and nothing is missing.

    Agreement alone is not enough (both rules may step over the same jump), nor are complete scores (what one token has
    too much another may have too little).
    """
    batch = len(path.end)
    parts = _Parts.along(path, torch.arange(batch), torch.zeros(batch).double(), torch.ones(batch).double(), FIRST)
    used = torch.full((batch,), FIRST)
    scores, unsure = parts.total(batch, parts.scores), parts.total(batch, parts.apart).amax(dim=1)
    while (going := _is_unsettled(path, scores, unsure) & (used < most)).any():
        which = going[parts.text] & parts.worst(batch)
        used += 2 * AGAIN * torch.bincount(parts.text[which], minlength=batch)
        parts = parts.halved(path, which)
        scores, unsure = parts.total(batch, parts.scores), parts.total(batch, parts.apart).amax(dim=1)
    warnings = [""] * batch
    worst = parts.worst(batch)
    for text in _is_unsettled(path, scores, unsure).nonzero()[:, 0].tolist():
        mine = worst & (parts.text == text)
        confined = float((parts.high - parts.low)[mine].sum()) < CONFINED
        advice = f"raise most (most={4 * most})" if confined else "more points would hardly help"
        layer = path.question.model.stack.name(path.layer)
        warnings[text] = (
            f"scores at layer {layer} are not settled: with {used[text]} points on the path they are unsure by up "
            f"to {unsure[text]:.2g}, and the largest is {scores[text, 0].abs().max():.2g}; {advice}"
        )
    return path.answer(scores, warnings)


def _is_unsettled(
    path: _Path, scores: Float[Tensor, "batch output token"], unsure: Float[Tensor, " batch"]
) -> Bool[Tensor, " batch"]:
    """Whether more points are needed for the target as a whole; its outputs get the same."""
    rounding = ROUNDING * path.question.value.detach().double().cpu().abs()
    difference, whole = path.difference[:, 0], scores[:, 0]
    missing = (difference - whole.sum(dim=-1)).abs()
    moving = unsure > (SETTLED * whole.abs().amax(dim=-1)).maximum(rounding)
    return moving | (missing > (INCOMPLETE * difference.abs()).maximum(rounding))


METHOD = Method(
    integrated_gradients,
    Meaning(
        "integrated gradients", "the token's share of f(text) - f(baseline)", signed=True, additive=True
    ),
    needs=("gradients", "a baseline"),
    cost="steps (25 to most) x (1 forward, 1 backward) + 1 forward per layer",
    layers="embeddings",
    differentiable=False,
    tells_outputs=True,
    linear=True,
)  # fmt: skip
