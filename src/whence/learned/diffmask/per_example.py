"""DiffMask without amortisation: each text gets gates of its own, found by optimisation instead of by probes.

For every text by itself:   min over gate logits, max over λ in [0, 200] of   penalty + λ · (divergence - margin)

The gates of a text see no other text, so nothing is learnt about the model; the exact search of `erasure` solves the
same problem without relaxing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.errors import NonFiniteError, UnknownNameError
from whence.explanation import Layer, Meaning
from whence.learned.diffmask.objective import penalty as penalty_of
from whence.learned.diffmask.recipes import PENALTIES, Penalty
from whence.methods.baselines import Baseline, BaselineStates, removable
from whence.methods.options import at_least
from whence.methods.question import Method, Question, Scores
from whence.probes.gates import HardConcrete

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Choose = Literal["smallest", "last"]

OPEN = 5.0  # the first logit of every gate: kept with probability 0.995
LOGIT_LIMIT = 10.0
MULTIPLIER_LIMIT = 200.0
STEPS_DRAWN_AT_ONCE = 64


def diffmask_per_text(
    question: Question,
    *,
    margin: float = 0.1,
    penalty: Penalty = "share",
    steps: int = 1_000,
    rate: float = 0.05,
    multiplier_rate: float = 0.1,
    baseline: Baseline = "zero",
    learn_baseline: bool = False,
    baseline_rate: float = 1e-3,
    special: bool = True,
    choose: Choose = "smallest",
) -> Scores:
    """Keep probabilities of Hard Concrete gates, one per token, optimised for each text alone (De Cao et al., 2020).

    The target does not matter: the whole output is to stay within `margin`.

    Args:
        margin: the divergence from the whole text's output that is allowed; it should be well below what dropping
            everything costs.
        penalty: what keeping costs: the mean keep probability ("share"), the mean of its logarithm ("log", as in the
            released code) or the expected number of kept tokens ("count", as printed).
        steps: gradient steps.
        rate: Adam's learning rate for the gates' logits.
        multiplier_rate: RMSprop's learning rate for the text's Lagrange multiplier.
        baseline: what stands in a dropped token's place; see `whence.methods.baselines.Baseline`.
        learn_baseline: learn a vector for every position of the text, starting from `baseline`.
        baseline_rate: Adam's learning rate for it.
        special: whether special tokens may be dropped too; where not, they score 1.
        choose: "smallest" gives the gates as they were when, cut off at one half, they kept the fewest tokens within
            the margin (the latest such step); "last" gives those of the last step, within the margin or not.
    """
    check(penalty, choose, margin, steps)
    found = []
    for layer in question.layers:
        masks = FreeMasks(
            question, layer, margin, special, baseline, rate, multiplier_rate, baseline_rate if learn_baseline else None
        )
        chosen = Chosen(masks, choose, HardConcrete(masks.logits.detach()).nonzero)
        for noise in masks.noise(steps):
            with torch.enable_grad():
                gates = HardConcrete(masks.logits)
                moved = masks.moved(gates.rsample(noise=noise))
                cost = penalty_of(penalty, gates.log_nonzero, masks.free)
                loss = cost + masks.multipliers * (moved - margin)
            masks.step(loss, moved.detach())
            question.backwards += 1
            chosen.look_at(HardConcrete(masks.logits.detach()).nonzero)
        found.append(chosen.keep)
    return Scores(torch.stack(found, dim=1))


class FreeMasks:
    """The free numbers of a batch of texts at one layer: gate logits, multipliers and, if learnt, baselines.

    Every number moves by its own gradients alone, so texts in a batch do not meet; in double precision, so that nothing
    is rounded but what the model rounds. That still grows from step to step: such methods are `one_by_one`.
    """

    def __init__(
        self,
        question: Question,
        layer: Layer,
        margin: float,
        special: bool,
        baseline: Baseline,
        rate: float,
        multiplier_rate: float,
        baseline_rate: float | None,
    ) -> None:
        for name, value in {"rate": rate, "multiplier_rate": multiplier_rate, "baseline_rate": baseline_rate}.items():
            at_least(name, 0 if value is None else value, 0)
        self.question, self.layer, self.margin = question, layer, margin
        self.hidden = question.states.at(layer).detach()
        self.nothing = BaselineStates(question, baseline).at(layer).detach().clone()
        self.free = removable(question, layer, special)
        numbers = {"dtype": torch.float64, "device": self.hidden.device}
        self.logits = torch.full(self.free.shape, OPEN, requires_grad=True, **numbers)  # type: ignore[call-overload]
        self.multipliers = torch.ones(len(self.free), **numbers)  # type: ignore[call-overload]
        self.learns_baseline = baseline_rate is not None
        groups = [{"params": [self.logits], "lr": rate}]
        if baseline_rate is not None:
            groups.append({"params": [self.nothing.requires_grad_()], "lr": baseline_rate})
        self._descent = torch.optim.Adam(groups)
        self._ascent = torch.optim.RMSprop([self.multipliers], lr=multiplier_rate, maximize=True)

    def noise(self, steps: int) -> Iterator[Float[Tensor, "batch token"]]:
        """Uniform noise for each step, from every text's own random numbers."""
        encodings = self.question.inputs.encodings
        generators = [self.question.generator(row) for row in range(len(encodings))]
        for first in range(0, steps, STEPS_DRAWN_AT_ONCE):
            drawn = torch.full((min(STEPS_DRAWN_AT_ONCE, steps - first), *self.free.shape), 0.5, dtype=torch.float64)
            for row, (encoding, generator) in enumerate(zip(encodings, generators, strict=True)):
                own = torch.rand(len(drawn), len(encoding), generator=generator, dtype=torch.float64)
                drawn[:, row, : len(encoding)] = own
            yield from drawn.to(self.free.device)

    def moved(
        self, gates: Float[Tensor, "row token"], rows: Int[Tensor, " row"] | None = None
    ) -> Float[Tensor, " row"]:
        """How far the output of each text (or of those in `rows`) moves when its states pass through the gates."""
        question = self.question
        if rows is None:
            rows, inputs = torch.arange(len(self.free), device=self.free.device), question.inputs
            question.forwards += 1
        else:
            inputs = question.inputs.rows(rows)
            question.forwards[rows.cpu()] += 1
        length = inputs.ids.shape[1]
        z = torch.where(self.free[rows], gates, 1.0)[:, :length, None].float()
        h, nothing = self.hidden[rows, :length], self.nothing[rows, :length]
        mixed = (z * h.float() + (1 - z) * nothing.float()).to(h.dtype)
        changed = question.model.resume(self.layer, mixed, inputs)
        original = question.states.logits.detach()[rows]
        original = original if original.ndim == 2 else original[:, :length]
        return question.model.reading.divergence(original, changed, inputs.counted)

    def step(self, loss: Float[Tensor, " batch"], moved: Float[Tensor, " batch"]) -> None:
        """Gates go down the loss, multipliers up by how far the margin is exceeded, all within their limits."""
        self._descent.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        if not self.logits.grad.isfinite().all():
            raise NonFiniteError("the masked text's output has no finite gradient", "try float32 or another baseline")
        self._descent.step()
        self.multipliers.grad = (moved - self.margin).to(self.multipliers)
        self._ascent.step()
        with torch.no_grad():
            self.logits.clamp_(-LOGIT_LIMIT, LOGIT_LIMIT)
            self.multipliers.clamp_(0, MULTIPLIER_LIMIT)


class Chosen:
    """The keep probabilities to be given out: of the last step, or of the smallest mask that is within the margin.

    A mask is tried, without chance, when it is no larger than the smallest so far and new, as every mask is while the
    baseline moves.
    """

    def __init__(self, masks: FreeMasks, choose: Choose, keep: Float[Tensor, "batch token"]) -> None:
        self._masks, self._choose = masks, choose
        self.keep = torch.where(masks.free, keep, 1.0)
        self._sizes = masks.free.sum(dim=1)
        self._tried = masks.free.clone()
        self._good = torch.ones_like(self._sizes, dtype=torch.bool)  # the whole text moves nothing

    @torch.no_grad()
    def look_at(self, keep: Float[Tensor, "batch token"]) -> None:
        free = self._masks.free
        keep = torch.where(free, keep, 1.0)
        if self._choose == "last":
            self.keep = keep
            return
        kept = (keep > 0.5) & free
        sizes = kept.sum(dim=1)
        candidate = sizes <= self._sizes
        new = (kept != self._tried).any(dim=1) | self._masks.learns_baseline
        self._try(kept, candidate & new)
        better = candidate & self._good
        self.keep = torch.where(better[:, None], keep, self.keep)
        self._sizes = torch.where(better, sizes, self._sizes)

    def _try(self, kept: Bool[Tensor, "batch token"], new: Bool[Tensor, " batch"]) -> None:
        rows = new.nonzero()[:, 0]
        if len(rows):
            self._good[rows] = self._masks.moved(kept[rows].double(), rows) <= self._masks.margin
            self._tried[rows] = kept[rows]


def check(penalty: str, choose: str, margin: float, steps: int) -> None:
    if penalty not in PENALTIES:
        raise UnknownNameError("penalty", penalty, PENALTIES)
    if choose not in ("smallest", "last"):
        raise UnknownNameError("choose", choose, ["smallest", "last"])
    at_least("margin", margin, 0)
    at_least("steps", steps, 1)


KEEP_PROBABILITY = Meaning(
    "keep probability", "how likely the token is kept by the smallest mask that leaves the output as it is",
    signed=False, additive=False, low=0.0, high=1.0, keep_probability=True,
)  # fmt: skip

DIFFMASK_PER_TEXT = Method(
    diffmask_per_text,
    KEEP_PROBABILITY,
    needs=("gradients",),
    cost="steps x (1 to 2 forwards, 1 backward) per layer",
    differentiable=False,
    one_by_one=True,
)
"""For `whence.explain(model, texts, method=DIFFMASK_PER_TEXT, margin=0.1)`."""
