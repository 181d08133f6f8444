"""The processes that share a run (of `accelerate launch` or `torchrun`): each takes some rows of every batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from whence.errors import UsageError


class Processes:
    """This process among those that share a run; by itself it is the only one."""

    def __init__(self) -> None:
        from accelerate import PartialState  # type: ignore[import-untyped]

        self._state = PartialState()
        self.number: int = self._state.num_processes

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes and reports."""
        return bool(self._state.is_main_process)

    def check_enough(self, n_texts: int) -> None:
        """Refuse steps of so few texts that a process would have none."""
        if n_texts < self.number:
            raise UsageError(
                f"{n_texts} texts per step are too few for {self.number} processes",
                "give more texts and a larger batch_size, or start fewer processes",
            )

    def share(self, n_rows: int) -> list[int]:
        """The rows of a batch that are this process's own."""
        return list(range(self._state.process_index, n_rows, self.number))

    def add_up(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over the processes."""
        if self.number > 1:
            for tensor in tensors:
                torch.distributed.all_reduce(tensor)

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether any process says so: what ends the run must end it in all of them at the same step."""
        votes = torch.tensor(float(flag), device=device)
        self.add_up([votes])
        return bool(votes > 0)

    def mean(self, number: float, device: torch.device) -> float:
        """Over the processes, so that all of them go by the same."""
        if self.number == 1:
            return number
        total = torch.tensor(number, device=device)
        self.add_up([total])
        return float(total) / self.number

    def wait(self) -> None:
        """Go on only when every process has come this far."""
        self._state.wait_for_everyone()
