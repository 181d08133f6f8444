"""Threads that are there only while there is something to do.

Torch keeps helpers for every thread that has ever computed. With more helpers than processors they fall asleep between
any two steps of a model, and a single text takes half as long again: so a thread that computed must end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")
IDLE = 0.3
"""Seconds without anything to do after which a thread ends; to begin another takes about a millisecond."""


class Work(Generic[Item]):
    """Things done in a thread of their own, in the order in which they came; `do` gets up to `at_once` that wait.

    It raises nothing. All that one thread does happens `within` a context that it enters once.
    """

    def __init__(
        self,
        name: str,
        do: Callable[[list[Item]], None],
        at_once: int = 1,
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._name, self._do, self._at_once, self._within = name, do, at_once, within
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._coming_or_going = threading.Lock()
        self._there = False

    def put(self, item: Item) -> None:
        with self._coming_or_going:
            self._queue.put(item)
            if not self._there:
                self._there = True
                threading.Thread(target=self._work, name=f"whence: {self._name}", daemon=True).start()

    def _work(self) -> None:
        with self._within():
            while some := self._next():
                self._do(some)

    def _next(self) -> list[Item]:
        """What waits; nothing once the thread is no longer counted on."""
        try:
            some = [self._queue.get(timeout=IDLE)]
        except queue.Empty:
            with self._coming_or_going:
                if self._queue.empty():
                    self._there = False
                    return []
                some = [self._queue.get()]
        while len(some) < self._at_once and not self._queue.empty():
            some.append(self._queue.get())
        return some


def apart(make: Callable[[], Made]) -> Made:
    """What is made in a thread that then ends. Ctrl-C need not wait for it."""
    made: Future[Made] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    thread = threading.Thread(target=run, name="whence: apart", daemon=True)
    thread.start()
    found = made.result()
    thread.join()
    return found
