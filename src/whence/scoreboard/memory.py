"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_STATUS = Path("/proc/self/statm")
_EVERY = 0.01  # seconds between two looks


@dataclass
class Peak:
    """Bytes above what was in use before, at most; None where that cannot be measured."""

    bytes: int | None = None


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """The memory of the device that the work inside takes; of the CPU, what the process grows by, looked at often."""
    peak = Peak()
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak.bytes = torch.cuda.max_memory_allocated(device) - before
        return
    if not _STATUS.exists():
        yield peak
        return
    before = highest = _resident()
    done = threading.Event()

    def look() -> None:
        nonlocal highest
        while not done.wait(_EVERY):
            highest = max(highest, _resident())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
    peak.bytes = max(highest, _resident()) - before


def _resident() -> int:
    return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
