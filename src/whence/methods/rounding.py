"""Sums over the features of states, told from rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.methods.question import Question, Scores

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def summed(question: Question, values: Sequence[Float[Tensor, "batch token hidden"]]) -> Scores:
    """The sums over features at each layer, zero where nothing but rounding is left of them, with a word about it.

    A norm does not see some changes of a state: LayerNorm none of its mean, RMSNorm none of its length. Just below one,
    gradients that are summed, or multiplied by the state, are zero in theory and rounding errors in practice.
    """
    sums: list[Float[Tensor, "batch token"]] = []
    emptied: list[Bool[Tensor, " batch"]] = []
    real = question.inputs.mask
    for layer, features in zip(question.layers, values, strict=True):
        eps = torch.finfo(question.states.at(layer).dtype).eps
        found = features.float().sum(dim=-1)
        # of many features the errors of one sign and the other cancel, in narrow numbers too
        rounding = found.abs() < max(1e-5, eps / 16) * features.float().abs().sum(dim=-1)
        sums.append(found.masked_fill(rounding, 0.0))
        emptied.append((rounding & real).any(dim=1) & ~(sums[-1].bool() & real).any(dim=1))
    warnings = [
        [
            f"nothing but rounding was left of the scores at layer {layer}: a norm follows that does not see such a "
            "change of a state"
            for layer, nothing in zip(question.layers, text, strict=True)
            if nothing
        ]
        for text in torch.stack(emptied, dim=1).tolist()
    ]
    return Scores(torch.stack(sums, dim=1), warnings=warnings)
