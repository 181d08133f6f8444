"""The texts of a shard explained by every method; one that cannot be is a reason in words, and the others go on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from whence.corpus.job import Asked, Job, target_of
from whence.data.records import Record
from whence.errors import WhenceError, WhenceWarning
from whence.explanation import Explanation, Scale
from whence.memory import giving_memory_back
from whence.methods.explain import explain
from whence.models.batching import Text, encode_each, reads_padding
from whence.models.layered import LayeredModel
from whence.units import UnitName


@dataclass(frozen=True)
class Explained:
    """A record with its explanations in the order of the job's methods, or the reason why there are none."""

    record: Record
    explanations: tuple[Explanation, ...] = ()
    error: str | None = None


def explain_each(model: LayeredModel, job: Job, records: Sequence[Record]) -> list[Explained]:
    """Every record, explained in batches that depend on these records alone."""
    errors = {record.row: record.error for record in records if record.error is not None}
    found: dict[int, list[Explanation]] = {record.row: [] for record in records}
    for asked in job.methods:
        sound = [record for record in records if record.row not in errors]
        for record, answer in zip(sound, _answers(model, job, asked, sound), strict=True):
            if isinstance(answer, str):
                errors[record.row] = answer
            else:
                found[record.row].append(answer)
    return [
        Explained(record, error=errors[record.row])
        if record.row in errors
        else Explained(record, tuple(found[record.row]))
        for record in records
    ]


def prepare(model: LayeredModel, paired: bool) -> None:
    """Find out what is looked at once per model, on texts of our own: no shard may depend on which came first."""
    texts = ["word", "word " * 20]
    with suppress(WhenceError):
        reads_padding(model, encode_each(model, [(text, text) for text in texts] if paired else texts))


def _answers(model: LayeredModel, job: Job, asked: Asked, records: Sequence[Record]) -> list[Explanation | str]:
    """An explanation or a reason each: where a text fails, all are halved until it stands alone."""
    if not records:
        return []
    texts: list[Text] = [
        record.text or "" if record.pair is None else (record.text or "", record.pair) for record in records
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WhenceWarning)  # they stand in the table
            return [
                *explain(
                    model, texts, asked.method, target=target_of(job.target), scale=cast("Scale | None", job.scale),
                    layers=asked.layers, units=cast("UnitName", job.units), seed=job.seed,
                    batch_tokens=job.batch_tokens, progress=giving_memory_back(), **asked.options,
                )
            ]  # fmt: skip
    except Exception as error:  # whatever a text does to a model, the run goes on
        if len(records) == 1:
            return [reason(error)]
    middle = (len(records) + 1) // 2
    return [one for part in (records[:middle], records[middle:]) for one in _answers(model, job, asked, part)]


def reason(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, WhenceError):
        return error.problem.replace("text 0 is", "the text is")  # alone, it is the first of its list
    return f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
