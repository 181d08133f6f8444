"""What a server may be asked at most, and what it says when that is too much."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from whence.errors import UsageError, WhenceError

LOG = logging.getLogger("whence.serving")


@dataclass(frozen=True)
class Limits:
    """Bounds on what clients can make the server hold or do; each has a default that one machine bears.

    `body` is in bytes, `characters` counts all texts of a request, `numbers` the scores of an answer; `new_tokens` are
    written at most, and no number among a method's options is larger than `option`. `waiting` requests of each model
    and `jobs` of all models may wait; what takes few passes has `seconds` to answer, a job `job_seconds`. A client has
    `patience` seconds to send what it began to send, or to take what it asked for. `connections` are counted over all
    clients.
    """

    body: int = 2_000_000
    characters: int = 20_000
    numbers: int = 500_000
    new_tokens: int = 512
    option: int = 10_000
    waiting: int = 128
    jobs: int = 16
    seconds: float = 30.0
    job_seconds: float = 600.0
    patience: float = 10.0
    connections: int = 512


class TooLargeError(UsageError):
    """More than the server takes in one request."""


class BusyError(WhenceError):
    """As much waits as may wait; `seconds` says when to come again."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(f"{what}: no more can wait", f"come again in {seconds} seconds")
        self.seconds = seconds


class TooLongError(WhenceError):
    """It took longer than the server allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds", "give a shorter text or a cheaper method")


class StoppedError(WhenceError):
    """A job was cancelled, or nobody asked after it any more."""


class FailedError(WhenceError):
    """Something inside the model or the server went wrong that nobody foresaw; the reason may hold texts, so only its
    kind is told."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            f"the model failed: {type(error).__name__}", "other texts may work; the server's own log says where"
        )


def told(error: Exception) -> WhenceError:
    """An error as a client may see it: whence's own words, or only the kind of one that nobody foresaw.

    Where that happened goes to the log; what the exception says does not, because it may quote a text.
    """
    if isinstance(error, WhenceError):
        return error
    where = traceback.extract_tb(error.__traceback__)[-1]
    LOG.error("%s at %s:%s", type(error).__name__, where.filename, where.lineno)
    return FailedError(error)
