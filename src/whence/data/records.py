"""A corpus as a stream of records: files, folders, globs, data sets and standard input, read as they are asked for."""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from whence.data.columns import Columns, find_columns
from whence.data.known import COLUMNS, KNOWN, KnownSet, known_table
from whence.data.reading import SAME_SPLIT, half_a_character
from whence.data.streams import STANDARD_INPUT, about_lines, encoding_of, format_of
from whence.data.tables import FORMATS, RowOrError, Stream, Table, json_row, stream_of
from whence.errors import FileError, UnknownNameError, UsageError

Value = str | int | float | bool | None
PEEKED = 100  # rows from which the columns of JSON lines are told
KINDS = {bool: "bool", int: "int64", float: "double"}
"""What a kept column may be in the tables; everything else is text."""


@dataclass(frozen=True)
class Record:
    """A row of a corpus: what is explained and what is kept beside it, or why it cannot be."""

    row: int
    id: str
    source: str
    text: str | None
    pair: str | None = None
    label: str | None = None
    kept: tuple[Value, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Records:
    """A corpus that can be read from its beginning as often as `each` is called.

    `kinds` are those of the kept columns; `about` is the number of records as far as one can tell before they are
    read; `notes` say what was found out about the source; `again` is False for what can be read only once.
    """

    name: str
    columns: Columns
    kinds: tuple[str, ...]
    each: Callable[[], Iterator[Record]]
    about: int | None = None
    notes: tuple[str, ...] = ()
    again: bool = True


@dataclass(frozen=True)
class _Part:
    """A file or data set: how its rows are read, and what is known of it."""

    name: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str] | None], Stream]
    peeked: Sequence[dict[str, Any]] = ()
    about: int | None = None


def records_of(
    source: Any,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    keep_columns: Sequence[str] = (),
    data_format: str | None = None,
    data_dir: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
) -> Records:
    """A corpus as a stream of records.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = file.write_text("review;stars\\na fine film;5\\n")
    >>> [record.text for record in records_of(file, keep_columns=["stars"]).each()]
    ['a fine film']

    Args:
        source: a file (.jsonl, .csv, .tsv, .txt, also compressed; .parquet), a folder or a glob of such files, several
            of these as a list, "-" for standard input, a known set, a data set of the hub (owner/name), or a `Dataset`
            of the library `datasets`.
        text_column: which column holds the texts; without it one of a usual name is taken, and `notes` say which. So
            for `pair_column`, `label_column` and `id_column`.
        keep_columns: further columns to keep.
        data_format: jsonl, csv, tsv, txt or parquet, where a file's name does not say.
        data_dir: where known sets are, see `whence.data.read`.
        split: rows of which part; without it a known set gives the part to measure on, and anything else everything.
        limit: the first so many rows.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be 1 or more, got {limit}", "leave it out to take everything")
    if data_format is not None and f".{data_format}" not in FORMATS:
        raise UnknownNameError("format", data_format, [name[1:] for name in FORMATS])
    known = KNOWN.get(str(source)) if isinstance(source, (str, Path)) else None
    parts, notes = _parts(source, known, data_format, data_dir)
    if known is not None:
        split = None if split == "all" else split or known.held_out
        notes.append(
            f"{source}: " + ("all of it" if split is None else f"the part {split!r} (--split all: everything)")
        )
    first = parts[0]
    columns = find_columns(
        first.columns, first.name, text=text_column, pair=pair_column, label=label_column, id=id_column,
        kept=keep_columns, usual_texts=() if known is None else known.text,
        usual_pairs=() if known is None else (known.pair,),
    )  # fmt: skip
    for part in parts[1:]:
        missing = [name for name in columns.names if name not in part.columns]
        if missing:
            raise FileError(
                f"{part.name!r} has no column {missing[0]!r}, as {first.name!r} has", "give files that are alike"
            )
    splits = None if split is None else _split_column(first, split)
    kinds = tuple(_kind([row.get(name) for part in parts[:1] for row in part.peeked]) for name in columns.kept)
    counts = [part.about for part in parts]
    whole = None if split is not None or None in counts else sum(count or 0 for count in counts)
    return Records(
        name=str(source) if isinstance(source, (str, Path)) else first.name,
        columns=columns,
        kinds=kinds,
        each=partial(_each, parts, columns, kinds, known, splits, limit),
        about=limit if whole is None else min(whole, limit or whole),
        notes=(*notes, str(columns)),
        again=all(part.name != "standard input" for part in parts),
    )


def _each(
    parts: Sequence[_Part],
    columns: Columns,
    kinds: Sequence[str],
    known: KnownSet | None,
    splits: tuple[str, str] | None,
    limit: int | None,
) -> Iterator[Record]:
    def rows() -> Iterator[tuple[str, str, RowOrError]]:
        wanted = [*columns.names, *(COLUMNS if known else ()), *([splits[0]] if splits else [])]
        for part in parts:
            stream = part.read(wanted)
            for each in stream.rows:
                yield part.name, stream.unit, each

    number = 0
    for name, unit, (place, row) in rows():
        if splits is not None and isinstance(row, dict):
            there = str(row.get(splits[0]))
            if SAME_SPLIT.get(there, there) != splits[1]:
                continue
        if limit is not None and number >= limit:
            return
        yield _record(number, f"{name}, {unit} {place}", row, columns, kinds, known)
        number += 1


def _record(
    number: int, where: str, row: dict[str, Any] | FileError, columns: Columns, kinds: Sequence[str],
    known: KnownSet | None,
) -> Record:  # fmt: skip
    if isinstance(row, FileError):
        return Record(number, str(number), where, None, kept=(None,) * len(kinds), error=row.problem)
    found: dict[str, Any] = {
        "row": number,
        "id": str(number) if columns.id is None else _as_text(row.get(columns.id)) or str(number),
        "source": where,
        "label": None if columns.label is None else _label(row.get(columns.label), known),
        "kept": tuple(_as(kind, row.get(name)) for name, kind in zip(columns.kept, kinds, strict=True)),
    }
    text = row.get(columns.text)
    pair = None if columns.pair is None else row.get(columns.pair)
    wrong = _wrong(text, columns.text) or (None if columns.pair is None else _wrong(pair, columns.pair))
    if wrong:
        return Record(text=_as_text(text), pair=_as_text(pair), error=wrong, **found)
    return Record(text=text, pair=pair, **found)


def _wrong(text: Any, column: str) -> str | None:
    """Why this cannot be explained."""
    if text is None or (isinstance(text, float) and math.isnan(text)):
        return f"there is no {column}"
    if not isinstance(text, str):
        return f"{column} is not a text but {type(text).__name__}"
    if not text.strip():
        return f"{column} is empty"
    half = half_a_character(text)
    return None if half is None else f"{column} is not valid Unicode: half a character at character {half.start()}"


def _label(value: Any, known: KnownSet | None) -> str | None:
    """A label as it is named, in a known set in words; a whole number that came as 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if known and known.labels and isinstance(value, int):
        return known.labels[value] if 0 <= value < len(known.labels) else None
    return _as_text(value) or None


def _as(kind: str, value: Any) -> Value:
    """A kept value as its column holds it; what does not fit is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if kind == "text":
        return _as_text(value)
    if kind == "double" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value if KINDS.get(type(value)) == kind else None


def _as_text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return written.encode("utf-8", "backslashreplace").decode()


def _kind(values: Sequence[Any]) -> str:
    """Of which kind a kept column is, by its first values."""
    kinds = {KINDS.get(type(value), "text") for value in values if value is not None}
    if kinds == {"int64", "double"}:
        return "double"
    return kinds.pop() if len(kinds) == 1 else "text"


def _split_column(part: _Part, split: str) -> tuple[str, str]:
    column = next((name for name in ("split", "exp_split") if name in part.columns), None)
    if column is None:
        raise UsageError(
            f"{part.name!r} has no column 'split'; its columns: {', '.join(part.columns)}", "leave out split"
        )
    return column, SAME_SPLIT.get(split, split)


def _parts(
    source: Any, known: KnownSet | None, data_format: str | None, data_dir: str | Path | None
) -> tuple[list[_Part], list[str]]:
    notes: list[str] = []
    if known is not None:
        folder = data_dir or os.environ.get("WHENCE_DATA")
        path = None if folder is None else Path(folder).expanduser() / known.file
        if path is not None and path.is_file():
            return [_file_part(path, None)], notes
        if data_dir is not None:
            raise FileError(f"no {known.file} in {str(data_dir)!r}, where {source} should be", "or leave out data_dir")
        if known.hub_classes:  # of which only some rows are meant
            return [_table_part(known_table(str(source), None))], notes
        return _hub_parts(known.hub), notes
    if hasattr(source, "column_names") and hasattr(source, "__iter__"):
        return [
            _dataset_part(getattr(getattr(source, "info", None), "dataset_name", None) or "data set", source)
        ], notes
    paths: list[Path] = []
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    if not sources:
        raise UsageError("no source of texts was given", "name a file, a folder, a glob or a data set")
    for each in sources:
        if not isinstance(each, (str, Path)):
            raise UsageError(f"cannot read texts from {type(each).__name__}", "give files, or a Dataset of `datasets`")
        found = _paths(str(each))
        if found is None:
            return _hub_parts(str(each)), notes
        paths += found
    suffix = None if data_format is None else f".{data_format}"
    parts = [_file_part(path, suffix) for path in paths]
    if len(paths) > 1:
        notes.append(f"{len(paths)} files, from {paths[0].name!r} to {paths[-1].name!r}")
    odd = [path.name for path in paths if path != STANDARD_INPUT and (suffix or format_of(path)) != ".parquet"
           and encoding_of(path) != "utf-8"]  # fmt: skip
    if odd:
        notes.append(f"{odd[0]!r}{f' and {len(odd) - 1} more' if len(odd) > 1 else ''} in UTF-16")
    return parts, notes


def _paths(source: str) -> list[Path] | None:
    """The files that are meant; None: a data set of the hub."""
    if source == "-":
        return [STANDARD_INPUT]
    path = Path(source).expanduser()
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and format_of(file) in FORMATS]
        if not files:
            raise FileError(f"no file of texts in the folder {source!r}", f"files of texts are: {', '.join(FORMATS)}")
        return files
    if any(mark in source for mark in "*?[") and not path.exists():
        files = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
        if not files:
            raise FileError(f"no file is called as {source!r}", "look for a misspelling")
        return files
    if path.exists() or path.suffix or source.count("/") != 1:
        if not path.suffix and not path.exists():
            raise UnknownNameError(f"data set or file (of {', '.join(FORMATS)})", source, KNOWN)
        return [path]
    return None


def _file_part(path: Path, suffix: str | None) -> _Part:
    if path == STANDARD_INPUT:
        return _standard_input(suffix)
    stream = stream_of(path, None, suffix)
    peeked = [row for _, row in islice(stream.rows, PEEKED) if isinstance(row, dict)]
    columns = stream.columns or tuple(dict.fromkeys(name for row in peeked for name in row))
    if not peeked:
        raise FileError(f"{path.name!r} holds no texts", "it may have been cut off when it was written")
    return _Part(path.name, columns, lambda wanted: stream_of(path, wanted, suffix), peeked, _about(path, suffix))


def _about(path: Path, suffix: str | None) -> int:
    kind = suffix or format_of(path)
    if kind == ".parquet":
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(path).num_rows)
    return max(1, about_lines(path) - (kind in (".csv", ".tsv")))


def _standard_input(suffix: str | None) -> _Part:
    """Lines of text unless the first is an object of JSON, or the format is given."""
    stream = stream_of(STANDARD_INPUT, None, suffix or ".txt")
    peeked = list(islice(stream.rows, PEEKED))
    if not peeked:
        raise FileError("standard input holds no texts", "pipe some into it")
    if suffix is None and all(isinstance(row, dict) and row["text"].lstrip().startswith("{") for _, row in peeked[:3]):
        lines = chain(peeked, stream.rows)
        rows: Iterator[RowOrError] = ((at, json_row("standard input", at, row["text"])) for at, row in lines)  # type: ignore[index]
        peeked = list(islice(rows, PEEKED))
        stream = Stream("standard input", "line", (), rows)
    first = [row for _, row in peeked if isinstance(row, dict)]
    columns = stream.columns or tuple(dict.fromkeys(name for row in first for name in row))
    held = Stream("standard input", "line", columns, chain(peeked, stream.rows))
    return _Part("standard input", columns, lambda wanted: held, first)


def _table_part(table: Table) -> _Part:
    rows = [row for _, row in table.rows]
    stream = lambda _: Stream(table.name, table.unit, table.columns, iter(table.rows))  # noqa: E731
    return _Part(table.name, table.columns, stream, rows[:PEEKED], len(rows))


def _dataset_part(name: str, dataset: Any, split: str | None = None) -> _Part:
    columns = tuple(dataset.column_names or next(iter(dataset)))
    n_rows = len(dataset) if hasattr(dataset, "__len__") else None

    def read(wanted: Sequence[str] | None) -> Stream:
        some = dataset.select_columns([column for column in columns if wanted is None or column in wanted])
        more = {} if split is None else {"split": split}
        return Stream(name, "row", columns, ((at, {**row, **more}) for at, row in enumerate(some, start=1)))

    peeked = [dict(row) for row in islice(dataset, PEEKED)]
    return _Part(name, columns if split is None else (*columns, "split"), read, peeked, n_rows)


def _hub_parts(name: str) -> list[_Part]:
    import datasets

    try:
        found = datasets.load_dataset(name, streaming=True)
        return [_dataset_part(f"{name}, {part}", rows, part) for part, rows in found.items()]
    except Exception as error:  # network, cache, format: whatever the loader met, the way out is the same
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileError(
            f"cannot get {name!r} from the hub: {reason}", "fetch its files and name these, or look for a misspelling"
        ) from error
