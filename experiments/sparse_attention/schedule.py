"""Tasks side by side in processes of their own: in order of importance, until a time is up, whatever fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import torch

Record = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A call that gives a record, and the names of the tasks that must be over before it starts."""

    name: str
    function: Callable[..., Record]
    arguments: tuple[Any, ...]
    after: frozenset[str] = frozenset()


def side_by_side(
    tasks: Sequence[Task], n_workers: int, seconds: float | None = None
) -> Iterator[tuple[Task, Record | BaseException]]:
    """Each task with its record or its error, as they end; none is started after so many seconds.

    Of two tasks with one name only the first is run. A worker whose task failed is replaced: it may have died, or have
    lost its device.
    """
    started = time.monotonic()
    left: dict[str, Task] = {}
    for task in tasks:
        left.setdefault(task.name, task)
    idle = [_worker(n_workers) for _ in range(n_workers)]
    running: dict[Future[Record], tuple[Task, Executor]] = {}
    try:
        while True:
            in_time = seconds is None or time.monotonic() - started < seconds
            while idle and in_time and (ready := _next(left, [task.name for task, _ in running.values()])):
                worker = idle.pop()
                running[worker.submit(ready.function, *ready.arguments)] = (left.pop(ready.name), worker)
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task, worker = running.pop(future)
                error = future.exception()
                if error is not None:
                    worker.shutdown(wait=False)
                idle.append(worker if error is None else _worker(n_workers))
                yield task, future.result() if error is None else error
    finally:
        for worker in [*idle, *(worker for _, worker in running.values())]:
            worker.shutdown(wait=False, cancel_futures=True)


def _next(left: dict[str, Task], running: list[str]) -> Task | None:
    """The most important task that need not wait for another."""
    return next((task for task in left.values() if task.after.isdisjoint([*left, *running])), None)


def _worker(n_workers: int) -> Executor:
    if n_workers == 1:
        return _InThisProcess()
    n_threads = max(1, (os.cpu_count() or 1) // n_workers)
    return ProcessPoolExecutor(1, get_context("spawn"), torch.set_num_threads, (n_threads,))


class _InThisProcess(Executor):
    """An executor without a process: a call is over when `submit` returns."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # handed on to whoever asks for the result
            future.set_exception(error)
        return future
