"""Which texts, which layer and which noise a step gets: a function of the seed and the step alone.

Nothing random is carried from step to step, so a run that was killed goes on exactly as it would have.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

POOL = 50  # batches that are sorted by length together, so that they hold little padding


def generator(seed: int, *purpose: int | str) -> torch.Generator:
    """Random numbers for one purpose, the same whenever it is asked for."""
    # one number of 32 bits for all: of a larger one torch's generator on the CPU drops what is above
    return torch.Generator().manual_seed(zlib.crc32(repr((seed, *purpose)).encode()))


class Batches:
    """The batch of each step: every text once an epoch, texts of similar length together."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = torch.tensor(lengths)
        self.batch_size = min(batch_size, len(lengths))
        self.seed = seed
        self.steps_per_epoch = len(lengths) // self.batch_size
        self._epoch = -1
        self._batches: list[list[int]] = []

    def __getitem__(self, step: int) -> list[int]:
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffled(epoch)
        return self._batches[place]

    def _shuffled(self, epoch: int) -> list[list[int]]:
        chance = generator(self.seed, "epoch", epoch)
        order = torch.randperm(len(self.lengths), generator=chance)[: self.steps_per_epoch * self.batch_size]
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in order.split(POOL * self.batch_size)]  # type: ignore[no-untyped-call]
        batches = [batch.tolist() for pool in pools for batch in pool.split(self.batch_size)]
        return [batches[place] for place in torch.randperm(len(batches), generator=chance).tolist()]


def drawn_layer(seed: int, step: int, n_layers: int) -> int:
    """The place of the layer whose gates a step trains, where it trains one."""
    return int(torch.randint(n_layers, (), generator=generator(seed, "layer", step)))


def drawn_noise(seed: int, step: int, shape: tuple[int, int, int]) -> Float[Tensor, "layer batch token"]:
    return torch.rand(shape, generator=generator(seed, "noise", step))


def learning_rate_share(step: int, warm_up: int, cooling_from: int, steps: int) -> float:
    """Rises over the warm-up, stays at 1, and falls to zero from `cooling_from` to the last step."""
    rising = min(1.0, (step + 1) / warm_up) if warm_up else 1.0
    falling = (steps - step) / (steps - cooling_from) if step >= cooling_from else 1.0
    return rising * falling
