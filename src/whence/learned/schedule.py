"""How long a run is, which texts each step gets and how fast it learns: functions of the seed and the step alone.

Nothing random is carried from step to step, so a run that was killed goes on exactly as it would have.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from whence.methods.options import at_least, check_seed

POOL = 50  # batches that are sorted by length together, so that they hold little padding


@dataclass(frozen=True)
class Pace:
    """How long a run is, how much a step takes in, and how it is judged and ended.

    Attributes:
        warm_up: steps over which the learning rate rises; over the last `cool_down` share of steps it falls to zero.
        validations: how often to validate in all.
        patience: validations without progress after which the run cools down and ends; None: never early.
        minutes: after which the run ends, if it has not had all its steps before: what a step takes says how many it
            will have, and rises and falls of the learning rate go by these. None: it has all of them.
    """

    steps: int
    batch_size: int
    warm_up: int = 0
    cool_down: float = 0.2
    validations: int = 20
    patience: int | None = 5
    seed: int = 0
    minutes: float | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        at_least("validations", self.validations, 1)
        if self.patience is not None:
            at_least("patience", self.patience, 1)

    @property
    def validate_every(self) -> int:
        return max(1, self.steps // self.validations)

    def n_cooling(self, last_step: int) -> int:
        """Steps over which the learning rate falls, of so many."""
        return round(self.cool_down * last_step)

    def n_rising(self, last_step: int) -> int:
        """Steps over which it rises: where time is limited, a tenth of all at most."""
        return self.warm_up if self.minutes is None else min(self.warm_up, last_step // 10)


def generator(seed: int, *purpose: int | str) -> torch.Generator:
    """Random numbers for one purpose, the same whenever it is asked for."""
    # one number of 32 bits for all: of a larger one torch's generator on the CPU drops what is above
    return torch.Generator().manual_seed(zlib.crc32(repr((seed, *purpose)).encode()))


class Batches:
    """The batch of each step: every text once per epoch, texts of similar length together."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = torch.tensor(lengths)
        self.batch_size = min(batch_size, len(lengths))
        self.seed = seed
        self.steps_per_epoch = len(lengths) // self.batch_size
        self._epoch = -1
        self._batches: list[list[int]] = []

    def __getitem__(self, step: int) -> list[int]:
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffled(epoch)
        return self._batches[index]

    def _shuffled(self, epoch: int) -> list[list[int]]:
        chance = generator(self.seed, "epoch", epoch)
        order = torch.randperm(len(self.lengths), generator=chance)[: self.steps_per_epoch * self.batch_size]
        pools = [pool[self.lengths[pool].argsort(stable=True)] for pool in order.split(POOL * self.batch_size)]  # type: ignore[no-untyped-call]
        batches = [batch.tolist() for pool in pools for batch in pool.split(self.batch_size)]
        return [batches[index] for index in torch.randperm(len(batches), generator=chance).tolist()]


def learning_rate_share(step: int, warm_up: int, cooling_from: int, steps: int) -> float:
    """Rises over the warm-up, stays at 1, and falls to zero from `cooling_from` to the last step."""
    rising = min(1.0, (step + 1) / warm_up) if warm_up else 1.0
    falling = (steps - step) / (steps - cooling_from) if step >= cooling_from else 1.0
    return rising * falling
