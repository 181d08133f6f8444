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
        self._emptied: list[Bool[Tensor, " batch"]] = []

    def sums(
        self, features: Float[Tensor, "output batch token hidden"], kind: torch.dtype
    ) -> Float[Tensor, "output batch token"]:
        """At one layer, whose states are numbers of some kind; layers come in their order."""
        real = self._question.inputs.mask
        eps = torch.finfo(kind).eps
        found = features.float().sum(dim=-1)
        # of many features the errors of one sign and the other cancel, in narrow numbers too
        rounding = found.abs() < max(1e-5, eps / 16) * features.float().abs().sum(dim=-1)
        sums = found.masked_fill(rounding, 0.0)
        self._emptied.append((rounding[0] & real).any(dim=1) & ~(sums[0].bool() & real).any(dim=1))
        return sums

    @property
    def warnings(self) -> Sequence[Sequence[str]]:
        """For each text the layers at which nothing was left of the target's scores."""
        names = self._question.model.layer_names(self._question.layers)
        emptied = torch.stack(self._emptied[: len(names)], dim=1)

        def told() -> list[list[str]]:
            found: list[list[str]] = [[] for _ in range(len(emptied))]
            for text, index in emptied.nonzero().tolist():
                found[text].append(
                    f"nothing but rounding was left of the scores at layer {names[index]}: a norm follows that does "
                    "not see such a change of a state"
                )
            return found

        return Later(len(emptied), told)
