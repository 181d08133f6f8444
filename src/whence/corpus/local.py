"""The local engine: shards made in this process, or by several others of this machine."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import whence
from whence.corpus.job import Job
from whence.corpus.shards import Receipt, Shard, make_shard, receipt_of
from whence.corpus.worker import first_line
from whence.errors import FileError, ModelError
from whence.models.layered import LayeredModel

ATTEMPTS = 3  # at a shard, before it is held to be what kills its workers


def in_this_process(model: LayeredModel, job: Job, shards: Iterator[Shard]) -> Iterator[Receipt]:
    """One shard after the other, with one thread on a CPU, as workers have."""
    import torch

    threads = torch.get_num_threads()
    if model.device.type == "cpu":
        torch.set_num_threads(1)
    try:
        for shard in shards:
            yield make_shard(model, job, shard)
    finally:
        torch.set_num_threads(threads)


def in_processes(job: Job, shards: Iterator[Shard], workers: int, announce: Callable[[str], None]) -> Iterator[Receipt]:
    """As many workers as asked for, each with a model of its own; one that dies is replaced, and its shard made again.

    Receipts come as shards are finished. At an error those under way are finished before it is raised.
    """
    results: queue.Queue[Receipt | BaseException | None] = queue.Queue()
    lock, stop = threading.Lock(), threading.Event()
    processes: dict[int, _Worker] = {}

    def next_shard() -> Shard | None:
        with lock:
            return None if stop.is_set() else next(shards, None)

    def serve(number: int) -> None:
        try:
            while (shard := next_shard()) is not None:
                results.put(_made(processes, number, job, shard, announce))
        except BaseException as error:
            stop.set()
            results.put(error)
        finally:
            results.put(None)

    threads = [threading.Thread(target=serve, args=(number,), daemon=True) for number in range(workers)]
    try:
        for thread in threads:
            thread.start()
        left, failure = workers, None
        while left:
            result = results.get()
            if result is None:
                left -= 1
            elif isinstance(result, BaseException):
                failure = failure or result
            else:
                yield result
        if failure is not None:
            raise failure
    finally:
        stop.set()
        for worker in list(processes.values()):
            worker.end()


def _made(
    processes: dict[int, _Worker], number: int, job: Job, shard: Shard, announce: Callable[[str], None]
) -> Receipt:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if number not in processes:
                processes[number] = _Worker(number)
                processes[number].ask(first_line(job))
            return receipt_of(processes[number].ask(shard.to_json() + "\n"))
        except _LostError as lost:
            processes.pop(number).end()
            if attempt < ATTEMPTS:
                announce(f"a worker was lost ({lost}): another one makes shard {shard.index}")
    raise ModelError(
        f"shard {shard.index} (from {shard.records[0].source}) ended {ATTEMPTS} workers",
        "memory may have run out: lower --batch-tokens or --workers, then go on with --resume",
    )


class _LostError(Exception):
    """The process of a worker ended."""


class _Worker:
    """A process that makes shards."""

    def __init__(self, number: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "whence.corpus.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(number),
            encoding="utf-8",
        )

    def ask(self, line: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "it was opened with pipes"
        assert stdout is not None, "it was opened with pipes"
        try:
            stdin.write(line)
            stdin.flush()
            answer = stdout.readline()
        except OSError:
            answer = ""
        if not answer.endswith("\n"):
            raise _LostError(f"exit code {self._process.wait()}")
        found: dict[str, Any] = json.loads(answer)
        if "problem" in found:
            raise FileError(found["problem"], found["advice"])
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def _environment(number: int) -> dict[str, str]:
    """One thread each, one GPU each where there are several, and the whence that this process has."""
    import torch

    here = str(Path(whence.__file__).parent.parent)
    path = os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH")) if part)
    found = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    gpus = torch.cuda.device_count()
    if gpus > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        found["CUDA_VISIBLE_DEVICES"] = visible[number % gpus]
    return found
