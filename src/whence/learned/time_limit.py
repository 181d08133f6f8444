"""A run that ends with the clock: how many steps it will have had by then, planned anew after each of them."""

from __future__ import annotations

from dataclasses import dataclass

from whence.errors import UsageError

REMEMBERED = 50  # steps whose mean time is the rate: batches differ in length, and a machine in what else it does
VALIDATING = 0.05  # of the time, that a validation takes at most, and all before the last together
FEW = 8  # held-out texts that tell how long a validation takes
AFTERWARDS = 1 / 6  # of the time limit, that judging the finished probes takes at most beside it


def check_minutes(minutes: float | None) -> None:
    if minutes is not None and not 0 < minutes < float("inf"):
        raise UsageError(f"minutes must be above 0, got {minutes!r}", "leave it out, or give 50")


@dataclass
class TimeLimit:
    """How long a run may train, and what it has learnt of its own speed: all of it is carried from step to step.

    `each` is what a step takes lately; the first one is left out, since much is done then for the first time.
    `n_judged` is on how many held-out texts the run is validated, 0 until that is known.
    """

    seconds: float
    each: float = 0.0
    n_steps: int = 0
    validation: float = 0.0
    validated_at: float = 0.0
    n_judged: int = 0

    def stepped(self, seconds: float) -> None:
        """A step took so long."""
        if self.n_steps:
            self.each += (seconds - self.each) / min(self.n_steps, REMEMBERED)
        self.n_steps += 1

    def judge(self, n_few: int, took: float, n_texts: int) -> None:
        """Validate on as many of the texts as there is time for, where so few took so long."""
        affordable = int(n_few * VALIDATING * self.seconds / max(took, 1e-9))
        self.n_judged = min(n_texts, max(n_few, affordable))
        self.validation = took * self.n_judged / n_few

    def validated(self, seconds: float, spent: float) -> None:
        """A validation took so long, and ended after so much of the run."""
        self.validation, self.validated_at = seconds, spent

    def last_step(self, step: int, spent: float, most: int) -> int:
        """The step that the run will end with, time for a last validation set aside."""
        left = self.seconds - spent - self.validation
        if left <= 0:
            return step
        return min(most, step + int(left / self.each)) if self.each else most

    def is_validation_due(self, spent: float) -> bool:
        return spent - self.validated_at >= max(self.seconds / 10, self.validation / VALIDATING)
