"""Shards: so many texts at a time, each made by one worker and finished once its receipt is on the disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from whence.corpus.explaining import explain_each
from whence.corpus.job import Job
from whence.corpus.tables import TABLES, as_bytes, texts_table, words_table
from whence.data.records import Record
from whence.errors import FileError
from whence.files import write_bytes
from whence.json_records import Reader, load_json, mapping, plain, record, text, whole
from whence.memory import give_memory_back
from whence.methods.one_pass import forget_texts
from whence.models.layered import LayeredModel

RECEIPTS = "shards"
ADVICE = "make room or mend it, then go on with --resume (resume=True): finished shards are kept"


@dataclass(frozen=True)
class Shard:
    """Consecutive records."""

    index: int
    records: tuple[Record, ...]

    @cached_property
    def _records_as_json(self) -> str:
        return json.dumps([[getattr(record, name) for name in _FIELDS] for record in self.records])

    @property
    def key(self) -> str:
        """A digest of what was read."""
        return hashlib.sha256(self._records_as_json.encode()).hexdigest()

    def to_json(self) -> str:
        return f'{{"index": {self.index}, "records": {self._records_as_json}}}'


_FIELDS = tuple(each.name for each in fields(Record))


def shard_of(data: dict[str, Any]) -> Shard:
    """The shard that `to_json` wrote."""
    records = (dict(zip(_FIELDS, values, strict=True)) for values in data["records"])
    return Shard(data["index"], tuple(Record(**{**each, "kept": tuple(each["kept"])}) for each in records))


def shards_of(records: Iterable[Record], size: int) -> Iterator[Shard]:
    """The records in order, so many to a shard."""
    rest, index = iter(records), 0
    while some := tuple(islice(rest, size)):
        yield Shard(index, some)
        index += 1


@dataclass(frozen=True)
class FileRecord:
    """A file that was written: how large it is, and its SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Receipt:
    """What was made of a shard: of which job and which records, how much, and in which files."""

    index: int
    job: str
    records: str
    texts: int
    failed: int
    warned: int
    truncated: int
    words: int
    files: dict[str, FileRecord]


_RECEIPT: Reader = record(
    Receipt,
    {
        "index": whole, "job": text, "records": text, "texts": whole, "failed": whole, "warned": whole,
        "truncated": whole, "words": whole, "files": mapping(record(FileRecord, {"bytes": whole, "sha256": text})),
    },
)  # fmt: skip


def receipt_of(data: Any) -> Receipt:
    found: Receipt = _RECEIPT(data, "")
    return found


def make_shard(model: LayeredModel, job: Job, shard: Shard) -> Receipt:
    """Explain the texts of a shard and write its tables and, last, its receipt; each whole or not at all."""
    forget_texts()  # of other shards: which those were depends on the worker
    give_memory_back()
    explained = explain_each(model, job, shard.records)
    tables = dict(zip(TABLES, (texts_table(job, explained), words_table(job, explained)), strict=True))
    files = {}
    for name, table in tables.items():
        content = as_bytes(table, job.format)
        path = Path(job.folder) / name / f"{_name(shard.index)}.{job.format}"
        write_bytes(content, path, ADVICE)
        files[f"{name}/{path.name}"] = FileRecord(len(content), hashlib.sha256(content).hexdigest())
    said = [[warning for one in each.explanations for warning in one.warnings] for each in explained]
    receipt = Receipt(
        index=shard.index,
        job=job.key,
        records=shard.key,
        texts=len(explained),
        failed=sum(each.error is not None for each in explained),
        warned=sum(bool(warnings) for warnings in said),
        truncated=sum(any(warning.startswith("truncated") for warning in warnings) for warnings in said),
        words=tables["words"].num_rows,
        files=files,
    )
    write_bytes(json.dumps(plain(receipt)).encode(), receipt_path(Path(job.folder), shard.index), ADVICE)
    return receipt


def receipt_path(folder: Path, index: int) -> Path:
    return folder / RECEIPTS / f"{_name(index)}.json"


def _name(index: int) -> str:
    return f"part-{index:06}"


def finished(folder: Path, job: Job, shard: Shard) -> Receipt | str:
    """The receipt of a shard that is done, or why it is to be made: nothing of it counts that is not whole."""
    path = receipt_path(folder, shard.index)
    if not path.exists():
        return "it was not made yet"
    try:
        receipt = receipt_of(load_json(path))
    except FileError:
        return "its receipt cannot be read"
    if receipt.job != job.key:
        return "it was made by another run"
    if receipt.records != shard.key:
        return "its texts have changed"
    broken = [name for name, file in receipt.files.items() if not is_whole(folder / name, file)]
    return f"{broken[0]} is broken" if broken else receipt


@dataclass
class Work:
    """What an engine is to do, of which records (`here` once, `elsewhere` from their beginning), and whom to tell."""

    job: Job
    here: Iterator[Record]
    elsewhere: Callable[[], Iterator[Record]]
    shard_texts: int
    say: Callable[[str], None]

    def items(self, records: Iterator[Record]) -> Iterator[Shard | Receipt]:
        """Shard after shard: the receipt of one that is finished, any other itself."""
        folder = Path(self.job.folder)
        for shard in shards_of(records, self.shard_texts):
            found = finished(folder, self.job, shard)
            if isinstance(found, str) and receipt_path(folder, shard.index).exists():
                self.say(f"shard {shard.index} is made again: {found}")
            yield shard if isinstance(found, str) else found


def is_whole(path: Path, file: FileRecord) -> bool:
    """Whether a file is as it was written."""
    try:
        if path.stat().st_size != file.bytes:
            return False
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def remove_others(folder: Path, indices: Sequence[int]) -> None:
    """Remove what was made of shards that there are no more."""
    kept = {_name(index) for index in indices}
    for name in (*TABLES, RECEIPTS):
        for path in (folder / name).glob("part-*"):
            if path.name.split(".")[0] not in kept:
                path.unlink()
