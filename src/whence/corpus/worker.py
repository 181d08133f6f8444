"""A worker: `python -m whence.corpus.worker` reads a job and then shards as lines of JSON, and answers a line each."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from typing import Any

from whence.corpus.explaining import prepare
from whence.corpus.job import Job, ModelSource, job_of
from whence.corpus.shards import make_shard, shard_of
from whence.errors import WhenceError
from whence.json_records import plain
from whence.models.layered import LayeredModel


def load_quietly(source: ModelSource) -> LayeredModel:
    """The model of a job, on its device, with one thread on a CPU: what one thread adds up never depends on others."""
    import torch
    from transformers.utils import logging

    from whence.models.loading import load

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    model = load(source.name or "sentiment", **source.options)
    if source.device != "cpu":
        model.module.to(source.device)
    return model


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started us decides
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    warnings.simplefilter("ignore")
    job, model = None, None
    for line in sys.stdin:
        try:
            if job is None or model is None:
                job = job_of(json.loads(line))
                model = load_quietly(job.model)
                prepare(model, job.paired)
                answer: dict[str, Any] = {"ready": True}
            else:
                answer = plain(make_shard(model, job, shard_of(json.loads(line))))
        except WhenceError as error:
            answer = {"problem": error.problem, "advice": error.advice}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _leave_with(parent: int) -> None:
    """End when the process that started this one is gone: nobody would want what is still to come."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def first_line(job: Job) -> str:
    return json.dumps(job.to_dict()) + "\n"


if __name__ == "__main__":
    main()
