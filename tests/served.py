"""Servers for tests, over tiny models: they run in a thread of this process, on a port of their own."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tiny_models

import whence
from whence.serving.app import make_app
from whence.serving.guard import LOOPBACK, Guard
from whence.serving.jobs import Jobs
from whence.serving.limits import Limits
from whence.serving.models import Models, ServedModel
from whence.serving.running import listen, server_of


@dataclass(frozen=True)
class Answered:
    """What a server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Running:
    """A server that runs, and its parts."""

    port: int
    models: Models
    jobs: Jobs

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if sent is not None:
            named.setdefault("content-type", "application/json")
        try:
            connection.request(method, path, sent, named)
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, path: str, **body: Any) -> Answered:
        return self.call("POST", path, body)

    def ended(self, job: str, seconds: float = 30) -> Any:
        """The record of a job once it has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            record = self.call("GET", f"/api/jobs/{job}").json()
            if record["state"] in ("done", "failed", "cancelled"):
                return record
            time.sleep(0.01)
        raise AssertionError(f"the job is {record}")


def small() -> whence.LayeredModel:
    return whence.load(tiny_models.build("bert"), tiny_models.wordpiece())


def decoder() -> whence.LayeredModel:
    return whence.load(tiny_models.build("gpt2", "causal_lm"), tiny_models.bare())


def tagger() -> whence.LayeredModel:
    return whence.load(tiny_models.build("bert", "token_classification"), tiny_models.wordpiece())


def reader() -> whence.LayeredModel:
    return whence.load(tiny_models.build("bert", "question_answering"), tiny_models.wordpiece())


@contextmanager
def running(
    makers: dict[str, Callable[[], whence.LayeredModel]],
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Sequence[str] = LOOPBACK,
    **settings: Any,
) -> Iterator[Running]:
    """A server over models, each made twice."""
    limits = limits or Limits()
    models = Models([ServedModel(name, make(), make(), limits) for name, make in makers.items()])
    jobs = Jobs(limits)
    listening = listen("127.0.0.1", 0)
    server = server_of(Guard(make_app(models, jobs, limits, **settings), hosts, limits, token), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        yield Running(listening.getsockname()[1], models, jobs)
    finally:
        jobs.close()
        server.should_exit = True
        thread.join(10)
        listening.close()
