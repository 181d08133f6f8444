"""Rows out of files of any kind that can hold texts, each with the number by which an error names it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.errors import FileError
from whence.json_records import parse_json

Row = tuple[int, dict[str, Any]]
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+(\.0*)?")


@dataclass(frozen=True)
class Table:
    """Rows with their numbers; `name` and `unit` ("line" or "row") are for errors."""

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


def table_of(path: Path, columns: Sequence[str]) -> Table:
    """The rows of a file; of a wide Parquet file only the named columns."""
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a folder", "give a file in it")
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"cannot read texts from {path.name!r}", f"give a file of these: {', '.join(FORMATS)}")
    if not path.exists():
        raise FileError(f"no file {str(path)!r}", "look for a misspelling, or name its folder too")
    table = FORMATS[path.suffix.lower()](path, columns)
    if not table.rows:
        raise FileError(f"{path.name!r} holds no texts", "it may have been cut off when it was written")
    return table


def _lines(path: Path, _: Sequence[str]) -> Table:
    rows = [(number, {"text": line}) for number, line in _numbered_lines(path)]
    return Table(path.name, "line", ("text",), rows)


def _json_lines(path: Path, _: Sequence[str]) -> Table:
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for number, line in _numbered_lines(path):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise FileError(
                f"line {number} of {path.name!r} is not JSON: {error}", "write one object per line"
            ) from error
        if not isinstance(row, dict):
            raise FileError(
                f"line {number} of {path.name!r} is not a JSON object",
                'write one object per line, as {"text": "...", "label": 1}',
            )
        columns |= dict.fromkeys(row)
        rows.append((number, row))
    return Table(path.name, "line", tuple(columns), rows)


def _numbered_lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not blank. Only \\n ends a line: U+2028 and the like may stand in a text."""
    lines = (line.removesuffix("\r") for line in _content(path).split("\n"))
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _comma_separated(path: Path, _: Sequence[str]) -> Table:
    return _separated(path, ",")


def _tab_separated(path: Path, _: Sequence[str]) -> Table:
    table = _separated(path, "\t")
    for number, row in table.rows:
        if any(mark in str(value) for value in row.values() for mark in "\t\n"):
            # A quotation mark that opens a value and is never closed swallows rows up to the next one.
            raise FileError(
                f"the row that ends in line {number} of {path.name!r} runs over tabs or lines",
                "double the quotation marks in values and put values with any in quotation marks, or write JSON lines",
            )
    return table


def _separated(path: Path, delimiter: str) -> Table:
    content = _content(path)
    # A text may be longer than the module's own limit, which holds for the whole process.
    limit = csv.field_size_limit(max(len(content), csv.field_size_limit()))
    try:
        reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows: list[Row] = []
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                raise FileError(
                    f"line {reader.line_num} of {path.name!r} has {len(values)} values, but there are {len(header)} "
                    f"columns: {', '.join(header)}",
                    "put values with separators in quotation marks",
                )
            row: dict[str, Any] = dict(zip(header, values, strict=True))
            if WHOLE_NUMBER.fullmatch(row.get("label", "")):  # such a file has no numbers of its own
                row["label"] = int(row["label"].partition(".")[0])
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise FileError(
            f"line {reader.line_num} of {path.name!r} cannot be read: {error}", "look for a quotation mark left open"
        ) from error
    finally:
        csv.field_size_limit(limit)
    if len(set(header)) < len(header):
        raise FileError(f"two columns of {path.name!r} have one name: {', '.join(header)}", "rename one")
    return Table(path.name, "line", tuple(header), rows)


def _parquet(path: Path, columns: Sequence[str]) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        there = tuple(pyarrow.parquet.read_schema(path).names)
        wanted = [name for name in there if name in columns]
        rows = pyarrow.parquet.read_table(path, columns=wanted).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FileError(f"{path.name!r} cannot be read as Parquet: {reason}", "write it again") from error
    return Table(path.name, "row", there, list(enumerate(rows, start=1)))


def _content(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path.name!r} is not UTF-8 at byte {error.start}", "convert it, as with iconv") from error
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror}", "look at its permissions") from error


FORMATS: dict[str, Callable[[Path, Sequence[str]], Table]] = {
    ".jsonl": _json_lines,
    ".csv": _comma_separated,
    ".tsv": _tab_separated,
    ".parquet": _parquet,
    ".txt": _lines,
}
