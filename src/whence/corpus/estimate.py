"""Before a run starts: whether it can be done at all, and about how long it takes and how much it writes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from whence.corpus.explaining import explain_each
from whence.corpus.job import Job
from whence.corpus.tables import as_bytes, texts_table, words_table
from whence.data.records import Record
from whence.errors import FileError
from whence.models.layered import LayeredModel

ENOUGH_SECONDS = 2.0
MOST_TEXTS = 64
LOOKED_THROUGH = 10_000  # records, for a few that can be explained


@dataclass(frozen=True)
class Estimate:
    """What a sample says of the whole: `texts` is None where nobody knows how many there are."""

    texts: int | None
    seconds_per_text: float
    bytes_per_text: float
    workers: int

    def __str__(self) -> str:
        rate = self.workers / self.seconds_per_text
        if self.texts is None:
            return f"an unknown number of texts, about {rate:,.1f} a second, {self.bytes_per_text:,.0f} bytes each"
        seconds = self.texts * self.seconds_per_text / self.workers
        return (
            f"about {self.texts:,} texts, {rate:,.1f} a second: {duration(seconds)}, "
            f"{size(self.texts * self.bytes_per_text)} of tables"
        )


def sample_of(records: Iterator[Record]) -> tuple[list[Record], list[Record]]:
    """The first records, and those of them that can be explained; that there are none is an error."""
    head: list[Record] = []
    sample: list[Record] = []
    for record in islice(records, LOOKED_THROUGH):
        head.append(record)
        if record.error is None:
            sample.append(record)
        if len(sample) == MOST_TEXTS:
            break
    if not sample:
        told = f"{head[0].source}: {head[0].error}" if head else "there are no texts"
        raise FileError(f"nothing can be explained: {told}", "look at the data, and at the column of the texts")
    return head, sample


def measured(model: LayeredModel, job: Job, sample: Sequence[Record]) -> tuple[float, float]:
    """Seconds and bytes per text: from more and more texts, until they took long enough."""
    count, seconds, explained = 2, 0.0, []
    while True:
        started = time.perf_counter()
        explained = explain_each(model, job, sample[:count])
        seconds = time.perf_counter() - started
        if count >= len(sample) or seconds > ENOUGH_SECONDS / 4:
            break
        count *= 2
    written = sum(len(as_bytes(table(job, explained), job.format)) for table in (texts_table, words_table))
    return seconds / len(explained), written / len(explained)


def duration(seconds: float) -> str:
    """
    >>> [duration(seconds) for seconds in (5.2, 130, 9000, 400000)]
    ['5 s', '2 min', '2.5 h', '4.6 days']
    """
    for unit, length, digits in (("days", 86_400, 1), ("h", 3_600, 1), ("min", 60, 0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def size(n_bytes: float) -> str:
    """
    >>> size(3_400_000)
    '3.4 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1_000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1_000
    return f"{n_bytes:.3g} TB"
