"""Lookahead (Zhang et al., 2019): fast weights explore, slow ones follow every few steps. PyTorch has none."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer


class Lookahead:
    """Wraps an optimiser: every `period` steps each weight is set `share` of the way from its slow copy to itself.

    The released DiffMask makes the slow copy at its first use and moves only weights that have a gradient just then;
    here all weights move together, from the start.
    """

    def __init__(self, optimiser: Optimizer, period: int = 6, share: float = 0.5) -> None:
        self.optimiser, self.period, self.share = optimiser, period, share
        self.weights: list[Tensor] = [weight for group in optimiser.param_groups for weight in group["params"]]
        self.slow: list[Tensor] = []  # copied before the first step, so that weights may still be set until then
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        if not self.slow:
            self.slow = [weight.detach().clone() for weight in self.weights]
        self.optimiser.step()
        self.steps += 1
        if self.steps % self.period == 0:
            for weight, slow in zip(self.weights, self.slow, strict=True):
                slow.lerp_(weight, self.share)
                weight.copy_(slow)

    def tensors(self) -> dict[str, Tensor]:
        """Everything to be saved beside the weights and the optimiser's own state."""
        return {f"slow.{index}": slow for index, slow in enumerate(self.slow)} | {"steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.slow = [tensors[f"slow.{index}"].to(weight) for index, weight in enumerate(self.weights)]
        self.steps = int(tensors["steps"])
