"""Long jobs: a short queue, one at a time, with how far they have come; they can be cancelled at any time."""

from __future__ import annotations

import secrets
import time
from typing import Any, Literal

from whence.errors import UsageError, WhenceError
from whence.methods.explain import explain
from whence.serving.asked import AskedExplanation
from whence.serving.limits import BusyError, Limits, StoppedError, TooLongError, told
from whence.serving.models import ServedModel, explanation_json
from whence.serving.work import Work

State = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")
FORGOTTEN = 30.0
"""Seconds after which a job that nobody asks after is given up: whoever wanted it has left."""
KEPT = 16
"""Finished jobs whose answers are kept, for who comes back."""


class Job:
    """One explanation in the making. `id` cannot be guessed: who knows it may see and cancel the job."""

    def __init__(self, asked: AskedExplanation, served: ServedModel) -> None:
        self.id = secrets.token_urlsafe(16)
        self.asked, self.served = asked, served
        self.state: State = "queued"
        self.answer: bytes | None = None
        self.error: WhenceError | None = None
        self.passes = 0
        self.seen = self.begun = time.monotonic()
        self.seconds = 0.0

    def record(self) -> dict[str, Any]:
        """Where it stands, without its answer."""
        running = self.state == "running"
        found: dict[str, Any] = {
            "id": self.id,
            "state": self.state,
            "passes": self.served.twins_watch.passes if running else self.passes,
            "seconds": round(time.monotonic() - self.begun if running else self.seconds, 2),
        }
        if self.error is not None:
            found |= {"problem": self.error.problem, "advice": self.error.advice}
        return found

    def cancel(self) -> None:
        if self.state not in ENDED:
            self.state = "cancelled"


class Jobs:
    """The queue, worked off one by one. Jobs change state here, or by `Job.cancel`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, Job] = {}
        self._work: Work[Job] = Work("jobs", self._do)

    def add(self, asked: AskedExplanation, served: ServedModel) -> Job:
        """A new job; BusyError where as many wait as may."""
        self._forget()
        if sum(job.state == "queued" for job in self._jobs.values()) >= self._limits.jobs:
            raise BusyError(f"{self._limits.jobs} jobs are waiting", 10)
        job = Job(asked, served)
        self._jobs[job.id] = job
        self._work.put(job)
        return job

    def named(self, name: str) -> Job:
        """The job of that id; to ask for it keeps it alive."""
        job = self._jobs.get(name)
        if job is None:
            raise UsageError("there is no such job", "it may have been forgotten: post it again")
        job.seen = time.monotonic()
        return job

    def ahead(self, job: Job) -> int:
        """How many are worked on, or wait, before it."""
        before = 0
        for other in list(self._jobs.values()):
            if other is job:
                break
            before += other.state in ("queued", "running")
        return before

    def close(self) -> None:
        """Cancel everything."""
        for job in list(self._jobs.values()):
            job.cancel()

    def _forget(self) -> None:
        """Let go of the oldest finished jobs, and of those that nobody waits for."""
        now = time.monotonic()
        for job in list(self._jobs.values()):
            if job.state == "queued" and now - job.seen > FORGOTTEN:
                job.cancel()
        ended = [job for job in self._jobs.values() if job.state in ENDED]
        for job in ended[: max(0, len(ended) - KEPT)]:
            del self._jobs[job.id]

    def _do(self, waiting: list[Job]) -> None:
        for job in waiting:
            if time.monotonic() - job.seen > FORGOTTEN:
                job.cancel()
            if job.state == "queued":
                self._run(job)

    def _run(self, job: Job) -> None:
        job.begun = time.monotonic()
        job.state = "running"
        until = job.begun + self._limits.job_seconds

        def end() -> WhenceError | None:
            now = time.monotonic()
            if now > until:
                return TooLongError(self._limits.job_seconds)
            if job.state == "cancelled" or now - job.seen > FORGOTTEN:
                return StoppedError("the job was cancelled", "post it again")
            return None

        watch = job.served.twins_watch
        try:
            with watch.over(end):
                found = explain(job.served.twin, job.asked.source, **job.asked.settings)
            job.answer = explanation_json(found, self._limits)
        except StoppedError:
            job.cancel()
        except Exception as error:
            job.error = told(error)
        job.passes, job.seconds = watch.passes, time.monotonic() - job.begun
        if job.state == "running":
            job.state = "done" if job.error is None else "failed"
