"""Masks of single texts by REINFORCE (Williams, 1992): what DiffMask's relaxed gates are compared with.

The gates are Bernoulli variables, which pass no gradient. Their logits are moved by the gradient of log p(gates), times
how much worse the sampled gates are than those before them: no pass back through the model is needed, at the price of
variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from whence.errors import UnknownNameError, UsageError
from whence.learned.diffmask.objective import penalty as penalty_of
from whence.learned.diffmask.per_example import KEEP_PROBABILITY, Choose, Chosen, FreeMasks, check
from whence.learned.diffmask.recipes import Penalty
from whence.methods.baselines import Baseline
from whence.methods.question import Method, Question, Scores

if TYPE_CHECKING:
    from jaxtyping import Float

Form = Literal["corrected", "released"]


def reinforce_per_text(
    question: Question,
    *,
    form: Form = "corrected",
    decay: float = 0.9,
    margin: float = 0.1,
    penalty: Penalty = "share",
    steps: int = 1_000,
    rate: float = 0.1,
    multiplier_rate: float = 0.1,
    baseline: Baseline = "zero",
    special: bool = True,
    choose: Choose = "smallest",
) -> Scores:
    """Keep probabilities of Bernoulli gates, one per token, optimised for each text alone by the score function.

    Args:
        form: "corrected" descends the Lagrangian: the multiplier weighs the divergence in the reward, whose moving
            average holds only samples before this one. "released" is the published code's: the multiplier never
            reaches the gates, so the constraint's weight is 1 whatever happens, and the average holds this sample too.
        decay: the share of the moving average that stays at each step.
        margin: and all others: see `whence.learned.diffmask.per_example.diffmask_per_text`.
    """
    check(penalty, choose, margin, steps)
    if form not in ("corrected", "released"):
        raise UnknownNameError("form", form, ["corrected", "released"])
    if not 0 <= decay < 1:
        raise UsageError(f"decay must lie in [0, 1), got {decay!r}", "give decay=0.9")
    found = []
    for layer in question.layers:
        masks = FreeMasks(question, layer, margin, special, baseline, rate, multiplier_rate, baseline_rate=None)
        chosen = Chosen(masks, choose, torch.sigmoid(masks.logits.detach()))
        average = torch.zeros_like(masks.multipliers)  # at first all is kept and nothing moves
        for noise in masks.noise(steps):
            gates = (noise < torch.sigmoid(masks.logits.detach())).double()
            with torch.no_grad():
                moved = masks.moved(gates)
            before = average
            if form == "corrected":
                average = decay * before + (1 - decay) * moved
                advantage = masks.multipliers * (moved - before)
            else:
                average = decay * before + (1 - decay) * (moved - margin)
                advantage = moved - margin - average
            with torch.enable_grad():
                cost = penalty_of(penalty, logsigmoid(masks.logits), masks.free)
                loss = cost + advantage * log_probability(masks, gates)
            masks.step(loss, moved)
            chosen.look_at(torch.sigmoid(masks.logits.detach()))
        found.append(chosen.keep)
    return Scores(torch.stack(found, dim=1))


def log_probability(masks: FreeMasks, gates: Float[Tensor, "batch token"]) -> Float[Tensor, " batch"]:
    """log p of a text's sampled gates, summed over the tokens that have one."""
    each = torch.where(gates > 0, logsigmoid(masks.logits), logsigmoid(-masks.logits))
    return torch.where(masks.free, each, 0.0).sum(dim=1)


REINFORCE_PER_TEXT = Method(
    reinforce_per_text,
    KEEP_PROBABILITY,
    needs=("a baseline",),
    cost="steps x 1 to 2 forwards",
    one_by_one=True,
)
"""For `whence.explain(model, texts, method=REINFORCE_PER_TEXT, form="released")`."""
