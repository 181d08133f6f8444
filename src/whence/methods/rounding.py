"""Sums over the features of states, told from rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.columns import Later
from whence.methods.question import Question

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class BeyondRounding:
    """The sums over features, zero where nothing but rounding is left of them, with a word about it.

    A norm does not see some changes of a state: LayerNorm none of its mean, RMSNorm none of its length. Just below one,
    gradients that are summed, or multiplied by the state, are zero in theory and rounding errors in practice.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._found: list[tuple[Bool[Tensor, "batch token"], Float[Tensor, "batch token"]]] = []

    def sums(
        self, features: Float[Tensor, "output batch token hidden"], kind: torch.dtype
    ) -> Float[Tensor, "output batch token"]:
        """At one layer, whose states are numbers of some kind; layers come in their order."""
        eps = torch.finfo(kind).eps
        found = features.float().sum(dim=-1)
        # of many features the errors of one sign and the other cancel, in narrow numbers too
        rounding = found.abs() < max(1e-5, eps / 16) * features.float().abs().sum(dim=-1)
        sums = torch.where(rounding, 0.0, found)
        if len(self._found) < len(self._question.layers):  # what follows are other outputs
            self._found.append((rounding[0], sums[0]))
        return sums

    @property
    def warnings(self) -> Sequence[Sequence[str]]:
        """For each text the layers at which nothing was left of the target's scores."""
        names = self._question.model.layer_names(self._question.layers)
        rounding, sums = (torch.stack(each, dim=1) for each in zip(*self._found, strict=True))
        real = self._question.inputs.mask[:, None]

        def told() -> list[list[str]]:
            found: list[list[str]] = [[] for _ in range(len(sums))]
            emptied = (rounding & real).any(dim=2) & ~(sums.bool() & real).any(dim=2)
            for text, index in emptied.nonzero().tolist():
                found[text].append(
                    f"nothing but rounding was left of the scores at layer {names[index]}: a norm follows that does "
                    "not see such a change of a state"
                )
            return found

        return Later(len(sums), told)
