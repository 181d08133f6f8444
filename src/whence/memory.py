"""What was freed goes back to the system: glibc keeps it, and batches of ever new shapes make that grow."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from itertools import count

BATCHES = 4  # more often costs time, as what goes back has to be fetched again; seldomer lets a shard's batches pile up


def give_memory_back() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def giving_memory_back() -> Callable[[str, int, int], None]:
    """To be told of every batch."""
    batches = count(1)

    def told(method: str, done: int, texts: int) -> None:
        if next(batches) % BATCHES == 0:
            give_memory_back()

    return told
