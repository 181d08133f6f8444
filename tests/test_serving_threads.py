"""Threads of `whence serve`: there while there is something to do, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from whence.errors import ModelError
from whence.serving import work


def test_a_thread_is_there_only_while_there_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes just as one ends is done by the next, in its order."""
    monkeypatch.setattr(work, "IDLE", 0.002)
    done: list[int] = []
    entered: list[int] = []
    alone = threading.RLock()  # as models are held

    @contextmanager
    def holding() -> Iterator[None]:
        with alone:
            entered.append(threading.get_native_id())
            yield

    mine: work.Work[int] = work.Work("test", done.extend, at_once=3, within=holding)
    assert not entered
    for number in range(300):
        mine.put(number)
        time.sleep(0.0001 * (number % 40))  # some come while it works, some as it ends, some later
    until = time.monotonic() + 20
    while len(done) < 300 or "whence: test" in {thread.name for thread in threading.enumerate()}:
        assert time.monotonic() < until
        time.sleep(0.005)
    assert done == list(range(300))
    assert 1 < len(entered) < 300


def test_what_is_made_apart_leaves_no_thread_of_torch_behind() -> None:
    """One more than there are processors, and all of them would sleep between any two steps."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("threads of a process are counted by /proc")
    script = """
import os, time, torch
from whence.serving.work import apart
torch.set_num_threads(2)
def threads(): return len(os.listdir("/proc/self/task"))
def add(): return torch.ones(4_000_000).add_(1).sum().item()
before = threads()
assert apart(add) == 8_000_000
until = time.monotonic() + 10
while threads() > before and time.monotonic() < until: time.sleep(0.01)
after = threads()
add()
print(after - before, threads() - after)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    left, of_this_thread = map(int, found.stdout.split())
    assert left == 0
    assert of_this_thread >= 1  # else there was nothing to count


def test_what_fails_apart_fails_here() -> None:
    def fails() -> None:
        raise ModelError("the weights are NaN", "look at them")

    with pytest.raises(ModelError, match="NaN"):
        work.apart(fails)
