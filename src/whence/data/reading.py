"""`whence.data.read`: texts out of a file or a known set, checked row by row."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whence.data.example import Answer, Example
from whence.data.known import KNOWN, KnownSet, known_table
from whence.data.tables import FORMATS, Row, Table, table_of
from whence.errors import FileError, UnknownNameError, UsageError

FILE_COLUMNS = ("text", "pair", "label", "split", "exp_split")
SAME_SPLIT = {"validation": "dev", "valid": "dev", "val": "dev", "development": "dev", "training": "train"}


def read(
    source: str | Path,
    *,
    data_dir: str | Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    response_column: str | None = None,
) -> list[Example]:
    """Read texts, and their labels and pairs where there are any.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = file.write_text("text,label\\na fine film,1\\n")
    >>> read(file)[0].text
    'a fine film'

    Args:
        source: a file (.jsonl, .csv, .tsv or .parquet with a column text, perhaps label, pair and split; .txt with a
            text per line), or a known set: sst2, sst5, ag_news, imdb, squad (question and context), 20news (baseball
            and hockey).
        data_dir: the folder with the files of known sets; without it the environment variable WHENCE_DATA names the
            folder, and what is not there comes from the hub.
        split: which part, such as "train", "dev" (or "validation") or "test". Without it a file gives everything and
            a known set the part that is held out to measure on.
        limit: at most so many, spread over the whole by chance if a seed is given, else the first ones.
        seed: makes the choice repeatable; examples keep their order.
        response_column: which column holds what a decoder wrote after each text: as a text, or as a list of token ids.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be 1 or more, got {limit}", "leave it out to take everything")
    known = KNOWN.get(str(source))
    if known is None:
        table = _file_table(source, data_dir, response_column)
        text_column, pair_column = "text", "pair"
    else:
        table = known_table(str(source), data_dir)
        text_column = next((name for name in known.text if name in table.columns), known.text[0])
        pair_column = known.pair
        split = split or known.held_out
    for column, advice in {text_column: "rename the one that holds the texts", response_column: "name another"}.items():
        if column is not None and column not in table.columns:
            raise FileError(f"{table.name!r} has no column {column!r}; its columns: {', '.join(table.columns)}", advice)
    labels = _labels(table)
    chosen = _sample(_rows_of_split(table, split), limit, seed)
    examples = [
        Example(
            text=_text(table, number, row, text_column),
            pair=_text(table, number, row, pair_column) if pair_column in table.columns else None,
            label=labels[number],
            response=None if response_column is None else _response(table, number, row, response_column),
        )
        for number, row in chosen
    ]
    if known is None:
        return examples
    return [_with_facts(example, row, known) for example, (_, row) in zip(examples, chosen, strict=True)]


def _file_table(source: str | Path, data_dir: str | Path | None, response_column: str | None) -> Table:
    if data_dir is not None:
        raise UsageError("data_dir is the folder of known sets, but a file was named", "leave out data_dir")
    if not Path(source).suffix and not Path(source).exists():
        raise UnknownNameError(f"data set or file (of {', '.join(FORMATS)})", str(source), KNOWN)
    further = () if response_column is None else (response_column,)
    return table_of(Path(source).expanduser(), (*FILE_COLUMNS, *further))


def _with_facts(example: Example, row: dict[str, Any], known: KnownSet) -> Example:
    """What only a known set has; a label below 0 is how the hub hides those of a test set."""
    hidden = isinstance(example.label, int) and example.label < 0
    label = None if hidden else example.label
    answers = row.get("answers") or {"text": [], "answer_start": []}
    leaves = row.get("token_labels")
    return replace(
        example,
        label=label,
        label_name=known.labels[label] if isinstance(label, int) and label < len(known.labels) else None,
        answers=tuple(
            Answer(text, start) for text, start in zip(answers["text"], answers["answer_start"], strict=True)
        ),
        token_labels=None if leaves is None else tuple(leaves),
    )


def _text(table: Table, number: int, row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    where = f"{table.unit} {number} of {table.name!r}"
    if value is None or (isinstance(value, str) and not value.strip()):
        raise FileError(f"{where} has no {column}", "fill it in or leave it out")
    if not isinstance(value, str):
        raise FileError(f"{column} in {where} is not a text but {type(value).__name__}", "write it as a string")
    return _unicode(value, f"{column} in {where}")


def _response(table: Table, number: int, row: dict[str, Any], column: str) -> str | tuple[int, ...]:
    value = row.get(column)
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        return tuple(value)
    return _text(table, number, row, column)


def half_a_character(text: str) -> re.Match[str] | None:
    """The first half of a character that stands alone."""
    return re.search("[\ud800-\udfff]", text)


def _unicode(text: str, what: str) -> str:
    """The text, if it can be written in UTF-8: JSON may hold one half of a character that is written in two."""
    half = half_a_character(text)
    if half is not None:
        raise FileError(
            f"{what} is not valid Unicode: half a character, \\u{ord(half[0]):04x}, at character {half.start()}",
            "write the character whole, or leave it out",
        )
    return text


def _rows_of_split(table: Table, split: str | None) -> Sequence[Row]:
    if split is None:
        return table.rows
    column = next((name for name in ("split", "exp_split") if name in table.columns), None)
    if column is None:
        raise UsageError(
            f"{table.name!r} has no column 'split'; its columns: {', '.join(table.columns)}", "leave out split"
        )
    wanted = SAME_SPLIT.get(split, split)
    rows = [
        (number, row) for number, row in table.rows if SAME_SPLIT.get(str(row.get(column)), row.get(column)) == wanted
    ]
    if not rows:
        there = dict.fromkeys(str(row.get(column)) for _, row in table.rows)
        raise UnknownNameError(f"split of {table.name}", split, there)
    return rows


def _sample(rows: Sequence[Row], limit: int | None, seed: int | None) -> Sequence[Row]:
    if limit is None or limit >= len(rows):
        return rows
    if seed is None:
        return rows[:limit]
    return [rows[index] for index in sorted(random.Random(seed).sample(range(len(rows)), limit))]


def _labels(table: Table) -> dict[int, str | int | None]:
    """The labels by row: all names or all whole numbers."""
    labels = {number: _label(table, number, row.get("label")) for number, row in table.rows}
    first: dict[type, str] = {}
    for number, label in labels.items():
        if label is not None and type(label) not in first:
            first[type(label)] = f"{label!r} in {table.unit} {number}"
    if len(first) > 1:
        raise FileError(
            f"the labels of {table.name!r} are of two kinds: {', '.join(first.values())}",
            "give all by name or all by number",
        )
    return labels


def _label(table: Table, number: int, value: object) -> str | int | None:
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return _unicode(value, f"the label in {table.unit} {number} of {table.name!r}")
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise FileError(
        f"the label {value!r} in {table.unit} {number} of {table.name!r} is neither a name nor a whole number",
        "give the class by name or number",
    )
