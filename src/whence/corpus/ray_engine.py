"""The engine that runs on Ray Data: one task reads, actors hold the model, and Ray replaces what is lost.

Shards are blocks of one row. A worker that dies is started again by Ray and gets its shard again; files are written
whole and under the shard's number, so that nothing is lost and nothing is there twice.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import whence
from whence.corpus.explaining import prepare
from whence.corpus.job import job_of
from whence.corpus.shards import Receipt, Shard, Work, make_shard, receipt_of, shard_of
from whence.corpus.worker import load_quietly
from whence.errors import FileError, ModelError, UsageError, WhenceError
from whence.json_records import plain


def on_ray(work: Work, workers: int | None, address: str | None) -> Iterator[Receipt]:
    """The receipts of all shards, as they come: those found finished, and those made by actors."""
    try:
        import ray
        import ray.data
        from ray.exceptions import RayError
    except ImportError as error:
        raise UsageError(
            f"the engine ray needs Ray, which is not here: {error}", "pip install 'whence[ray]', or --engine local"
        ) from error
    with _cluster(ray, workers, address) as size:
        context = ray.data.DataContext.get_current()
        context.target_max_block_size = 1  # a shard is a block: several in one would go to one worker
        context.enable_progress_bars = False
        on_gpu = work.job.model.device != "cpu"
        made = ray.data.read_datasource(_source(work), override_num_blocks=1).map_batches(
            Explainer, fn_constructor_args=(work.job.to_dict(),), batch_size=1, num_cpus=1,
            num_gpus=1 if on_gpu else None,
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2),
        )  # fmt: skip
        failure: FileError | None = None
        try:
            for row in made.iter_rows():
                answer = json.loads(row["answer"])
                if "problem" not in answer:
                    yield receipt_of(answer)
                elif failure is None:  # what is under way is finished before it is raised
                    failure = FileError(answer["problem"], answer["advice"])
        except RayError as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise ModelError(f"Ray gave up: {reason}", "mend it, then go on with --resume") from error
        if failure is not None:
            raise failure


class Explainer:
    """An actor: it holds the model, and makes a shard of every row that it gets."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job_of(job)
        self._model = load_quietly(self._job.model)
        prepare(self._model, self._job.paired)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"answer": [json.dumps(self._answer(json.loads(item))) for item in batch["item"]]}

    def _answer(self, item: dict[str, Any]) -> dict[str, Any]:
        if "records" not in item or "files" in item or "problem" in item:
            return item  # it is finished, or the reader's last word
        try:
            answer: dict[str, Any] = plain(make_shard(self._model, self._job, shard_of(item)))
        except WhenceError as error:
            return {"problem": error.problem, "advice": error.advice}
        return answer


def _source(work: Work) -> Any:
    """One task that reads the corpus from its beginning and yields a block per shard."""
    import pyarrow as pa
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    job, records, shard_texts = work.job, work.elsewhere, work.shard_texts

    def read() -> Iterator[Any]:
        own = Work(job, iter(()), records, shard_texts, lambda sentence: None)
        try:
            for item in own.items(records()):
                yield pa.table({"item": [item.to_json() if isinstance(item, Shard) else json.dumps(plain(item))]})
        except WhenceError as error:  # what was read before is still to be made
            yield pa.table({"item": [json.dumps({"problem": error.problem, "advice": error.advice})]})

    class Corpus(Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, parallelism: int, *more: Any, **named: Any) -> list[Any]:
            return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None))]

    return Corpus()


@contextmanager
def _cluster(ray: Any, workers: int | None, address: str | None) -> Iterator[int]:
    """Ray, with one CPU more than workers: with none left for the task that reads, nothing would ever begin."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    mine = not ray.is_initialized()
    if mine and address is None:
        wanted = workers or os.cpu_count() or 1
        here = os.pathsep.join([str(Path(whence.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        ray.init(num_cpus=wanted + 1, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": here}}, **quiet)
    elif mine:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UsageError(f"no Ray cluster at {address!r}: {error}", "look at `ray status` there") from error
    try:
        cpus = int(ray.cluster_resources().get("CPU", 1))
        size = workers or max(1, cpus - 1)
        if size >= cpus:
            raise UsageError(
                f"{size} workers leave none of the cluster's {cpus} CPUs for reading", f"give at most {cpus - 1}"
            )
        yield size
    finally:
        if mine:
            ray.shutdown()
