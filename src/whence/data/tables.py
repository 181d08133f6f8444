"""Rows out of files of any kind that can hold texts, each with the number by which an error names it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from whence.data.streams import COMPRESSIONS, format_of, lines_with_ends, numbered_lines, pieces
from whence.errors import FileError
from whence.json_records import parse_json

Row = tuple[int, dict[str, Any]]
RowOrError = tuple[int, dict[str, Any] | FileError]
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+(\.0*)?")
ROWS_AT_ONCE = 1_000  # of a Parquet file
LOOKED_AT = 1 << 16  # characters of a file from which its separator is told
SEPARATORS = (",", ";", "\t", "|")
_LONGEST_FIELD = (1 << 31) - 1  # a text may be longer than the module's own limit, which holds for the whole process


@dataclass(frozen=True)
class Table:
    """Rows with their numbers; `name` and `unit` ("line" or "row") are for errors."""

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Stream:
    """Rows that are read as they are asked for; one that cannot be read comes as the error that says so.

    `columns` are empty where only the rows tell them.
    """

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: Iterator[RowOrError]


def table_of(path: Path, columns: Sequence[str]) -> Table:
    """All rows of a file; of a wide Parquet file only the named columns."""
    stream = stream_of(path, columns)
    rows: list[Row] = []
    there = dict.fromkeys(stream.columns)
    for number, row in stream.rows:
        if isinstance(row, FileError):
            raise row
        if not stream.columns:
            there |= dict.fromkeys(row)
        rows.append((number, row))
    if not rows:
        raise FileError(f"{path.name!r} holds no texts", "it may have been cut off when it was written")
    return Table(stream.name, stream.unit, tuple(there), rows)


def stream_of(path: Path, columns: Sequence[str] | None = None, suffix: str | None = None) -> Stream:
    """The rows of a file, of a Parquet file perhaps only some columns; `suffix` tells the format if the name does not.

    A file that cannot be read to its end is an error when its rows come to that place.
    """
    kind = suffix or format_of(path)
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a folder", "give a file in it")
    if kind not in FORMATS:
        known = f"{', '.join(FORMATS)}; all but Parquet also with {', '.join(COMPRESSIONS)}"
        raise FileError(f"cannot read texts from {path.name!r}", f"give a file of these: {known}")
    if str(path) != "-" and not path.exists():
        raise FileError(f"no file {str(path)!r}", "look for a misspelling, or name its folder too")
    return FORMATS[kind](path, columns)


def _lines(path: Path, _: Sequence[str] | None) -> Stream:
    return Stream(path.name, "line", ("text",), ((number, {"text": line}) for number, line in numbered_lines(path)))


def _json_lines(path: Path, _: Sequence[str] | None) -> Stream:
    rows = ((number, json_row(path.name, number, line)) for number, line in numbered_lines(path))
    return Stream(path.name, "line", (), rows)


def json_row(name: str, number: int, line: str) -> dict[str, Any] | FileError:
    """A line that should hold an object of JSON."""
    try:
        row = parse_json(line)
    except ValueError as error:
        return FileError(f"line {number} of {name!r} is not JSON: {error}", "write one object per line")
    if isinstance(row, dict):
        return row
    return FileError(
        f"line {number} of {name!r} is not a JSON object",
        'write one object per line, as {"text": "...", "label": 1}',
    )


def _comma_separated(path: Path, _: Sequence[str] | None) -> Stream:
    parts = pieces(path)
    first = "".join(_until(parts, LOOKED_AT))
    return separated(path, lines_with_ends(chain([first], parts)), **dialect_of(first))


def _tab_separated(path: Path, _: Sequence[str] | None) -> Stream:
    stream = separated(path, lines_with_ends(pieces(path)), delimiter="\t")

    def checked() -> Iterator[RowOrError]:
        for number, row in stream.rows:
            if isinstance(row, dict) and any(mark in str(value) for value in row.values() for mark in "\t\n"):
                # A quotation mark that opens a value and is never closed swallows rows up to the next one.
                yield (
                    number,
                    FileError(
                        f"the row that ends in line {number} of {path.name!r} runs over tabs or lines",
                        "double the quotation marks in values and put values with any in quotation marks, or write "
                        "JSON lines",
                    ),
                )
            else:
                yield number, row

    return Stream(stream.name, stream.unit, stream.columns, checked())


def _until(parts: Iterator[str], length: int) -> Iterator[str]:
    """Parts until so many characters are together."""
    for part in parts:
        yield part
        length -= len(part)
        if length <= 0:
            return


def dialect_of(content: str) -> dict[str, Any]:
    """How values are set apart and quoted: the separator that gives the first rows most columns, all of them the same.

    >>> dialect_of("id;text\\n1;'a, b'\\n")["delimiter"]
    ';'
    """
    lines = list(islice(lines_with_ends(iter([content[:LOOKED_AT]])), 200))
    header = lines[0] if lines else ""
    quote = "'" if header.startswith("'") and header.count("'") >= 2 else '"'
    for escape in ({}, {"escapechar": "\\", "doublequote": False}):
        best: dict[str, Any] | None = None
        most = 1
        for separator in SEPARATORS:
            spaced = f"{separator} {quote}" in content
            tried: dict[str, Any] = {"quotechar": quote, "delimiter": separator, "skipinitialspace": spaced, **escape}
            try:
                widths = [len(row) for row in csv.reader(lines, strict=True, **tried) if row]
            except csv.Error:
                continue
            whole = widths[:-1] if len(widths) > 2 else widths  # the last row may have been cut
            if whole and whole[0] > most and len(set(whole)) == 1:
                best, most = tried, whole[0]
        if best is not None:
            return best
    return {"delimiter": ","}


def separated(path: Path, lines: Iterable[str], **dialect: Any) -> Stream:
    """Rows of values that are set apart as a dialect says, under a row of names."""
    reader = csv.reader(lines, strict=True, **dialect)
    header: list[str] = []

    def records() -> Iterator[list[str]]:
        while True:
            limit = csv.field_size_limit(_LONGEST_FIELD)
            try:
                yield next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise FileError(
                    f"line {reader.line_num} of {path.name!r} cannot be read: {error}",
                    "look for a quotation mark left open",
                ) from error
            finally:
                csv.field_size_limit(limit)

    def rows() -> Iterator[RowOrError]:
        for values in found:
            if values:
                yield reader.line_num, _separated_row(path, reader.line_num, header, values)

    found = records()
    header += [name.strip() for name in next(found, [])]
    if len(set(header)) < len(header):
        raise FileError(f"two columns of {path.name!r} have one name: {', '.join(header)}", "rename one")
    return Stream(path.name, "line", tuple(header), rows())


def _separated_row(path: Path, line: int, header: list[str], values: list[str]) -> dict[str, Any] | FileError:
    if len(values) != len(header):
        return FileError(
            f"line {line} of {path.name!r} has {len(values)} values, but there are {len(header)} "
            f"columns: {', '.join(header)}",
            "put values with separators in quotation marks",
        )
    row: dict[str, Any] = dict(zip(header, values, strict=True))
    if WHOLE_NUMBER.fullmatch(row.get("label", "")):  # such a file has no numbers of its own
        row["label"] = int(row["label"].partition(".")[0])
    return row


def _parquet(path: Path, columns: Sequence[str] | None) -> Stream:
    import pyarrow
    import pyarrow.parquet

    def unreadable(error: Exception) -> FileError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return FileError(f"{path.name!r} cannot be read as Parquet: {reason}", "write it again")

    def rows(file: Any, wanted: list[str]) -> Iterator[RowOrError]:
        number = 0
        try:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise unreadable(error) from error
        finally:
            file.close()

    try:
        file = pyarrow.parquet.ParquetFile(path)
        there = tuple(file.schema_arrow.names)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise unreadable(error) from error
    return Stream(path.name, "row", there, rows(file, [name for name in there if columns is None or name in columns]))


FORMATS: dict[str, Callable[[Path, Sequence[str] | None], Stream]] = {
    ".jsonl": _json_lines,
    ".csv": _comma_separated,
    ".tsv": _tab_separated,
    ".parquet": _parquet,
    ".txt": _lines,
}
