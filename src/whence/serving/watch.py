"""A model under watch: its passes are counted, and it is stopped before the next one when that is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from whence.errors import WhenceError


class Watch:
    """Put once on a module that one thread uses; `over` then watches what that thread does."""

    def __init__(self, module: nn.Module) -> None:
        self.passes = 0
        self._end: Callable[[], WhenceError | None] | None = None
        module.register_forward_pre_hook(self._before_a_pass)

    @contextmanager
    def over(self, end: Callable[[], WhenceError | None]) -> Iterator[None]:
        """Inside, `end` is asked before every pass; the error it gives is raised there."""
        self.passes = 0
        self._end = end
        try:
            yield
        finally:
            self._end = None

    def _before_a_pass(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.passes += 1
        error = None if self._end is None else self._end()
        if error is not None:
            raise error


def ends_after(seconds: float, error: Callable[[], WhenceError]) -> Callable[[], WhenceError | None]:
    """What makes the error once that time is over."""
    until = time.monotonic() + seconds
    return lambda: error() if time.monotonic() > until else None
