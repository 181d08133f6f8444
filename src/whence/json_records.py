"""Records as JSON and back: every field is checked, and nothing in a file is believed unseen or executed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import FileError
from whence.files import write_whole

_ADVICE = "give a file that `save` wrote, as it was written"
_LARGEST = 2**63 - 1  # what counts and ids are held in

# A reader takes a value of a file and where it stands, and returns what the record holds, or raises FileError.
Reader = Callable[[Any, str], Any]


def plain(value: Any, *, nan_as_null: bool = False) -> Any:
    """A record as JSON types: dataclasses as objects, arrays and tuples as lists; a number that is none perhaps null.

    >>> plain({1: (np.arange(2), float("nan"))}, nan_as_null=True)
    {'1': [[0, 1], None]}
    """
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        value = _fields(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, nan_as_null=nan_as_null) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item, nan_as_null=nan_as_null) for item in value]
    if nan_as_null and isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def encoded(record: Any) -> str:
    """The JSON of `plain(record)`, in ASCII, several times as fast: only what is no JSON type goes through Python.

    >>> encoded({"a": (np.arange(2), "é")})
    '{"a":[[0,1],"\\\\u00e9"]}'
    """
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_json_type)


def _json_type(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _fields(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names_of(kind)}


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def parse_json(content: str) -> Any:
    """What a JSON text says; a ValueError where it says nothing, or two things at once.

    >>> parse_json('{"label": 0, "label": 1}')
    Traceback (most recent call last):
    ValueError: 'label' stands twice in one object
    """
    try:
        return json.loads(content, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} (line {error.lineno}, column {error.colno})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} stands twice in one object")
        found[key] = value
    return found


def load_json(path: str | Path) -> Any:
    """What a JSON file says."""
    try:
        content = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror}", _ADVICE) from error
    except UnicodeDecodeError as error:
        raise FileError(f"{str(path)!r} is not a text file", _ADVICE) from error
    try:
        return parse_json(content)
    except ValueError as error:
        raise FileError(f"{str(path)!r} is not JSON: {error}", _ADVICE) from error


def save_json(data: Mapping[str, Any], path: str | Path) -> None:
    """Write an object; a file already there is replaced only once the new one is whole."""
    try:
        content = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FileError(f"the record holds what JSON cannot: {error}", "look at its options") from error
    write_whole(content, path)


def of_schema(data: Any, schema: str, what: str) -> dict[str, Any]:
    """The object without its schema, which must be this one."""
    found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
    if found != schema:
        raise FileError(f"not {what} of schema {schema!r}: found {found!r}", _ADVICE)
    return {name: value for name, value in data.items() if name != "schema"}


def misfit(where: str, expected: str, value: Any) -> FileError:
    try:
        found = repr(value)
    except ValueError:  # a whole number of thousands of digits has no decimal form
        found = f"{type(value).__name__} beyond all bounds"
    shown = found if len(found) <= 40 else f"{type(value).__name__} {found[:30]}…"
    return FileError(f"{where or 'the file'}: expected {expected}, found {shown}", _ADVICE)


def typed(kind: type, name: str) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise misfit(where, name, value)
        return value

    return read


text, flag = typed(str, "a text"), typed(bool, "true or false")


def whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise misfit(where, "a whole number", value)
    return value


def number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise misfit(where, "a finite number", value)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        finite = False
    if not finite:
        raise misfit(where, "a finite number", value)
    return value


def anything(value: Any, where: str) -> Any:
    """Whatever JSON holds, but no number that is none or has no bounds: it could not be written again."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value, where)
    if isinstance(value, list):
        return [anything(item, f"{where}[{index}]") for index, item in enumerate(value)]
    return mapping(anything)(value, where) if isinstance(value, Mapping) else value


def one_of(choices: Sequence[str]) -> Reader:
    def read(value: Any, where: str) -> Any:
        if value not in choices:
            raise misfit(where, f"one of {', '.join(choices)}", value)
        return value

    return read


def optional(read: Reader) -> Reader:
    return lambda value, where: None if value is None else read(value, where)


def several(read: Reader) -> Reader:
    def read_all(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise misfit(where, "a list", value)
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return read_all


def mapping(read: Reader) -> Reader:
    def read_all(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise misfit(where, "an object", value)
        return {str(key): read(item, f"{where}.{key}" if where else str(key)) for key, item in value.items()}

    return read_all


def table(axes: int, kind: type[np.generic] = np.float32) -> Reader:
    """An array of so many axes, which nobody can write to."""
    read_all: Reader = whole if issubclass(kind, np.integer) else number
    for _ in range(axes):
        read_all = several(read_all)

    def read(value: Any, where: str) -> np.ndarray:
        rows = read_all(value, where)
        try:
            with np.errstate(over="ignore"):
                found = np.array(rows, dtype=kind)
        except (ValueError, OverflowError) as error:
            raise misfit(where, "rows of equal length", value) from error
        if found.ndim != axes or not found.size:
            raise misfit(where, "rows of equal length", value)
        if not np.isfinite(found).all():
            raise misfit(where, f"numbers that {np.dtype(kind)} can hold", value)
        found.setflags(write=False)
        return found

    return read


def record(
    make: Callable[..., Any],
    readers: Mapping[str, Reader],
    of_before: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda values: {},
) -> Reader:
    """What is made of named fields, each by its reader; `of_before` gives what earlier versions did not write."""

    def read(value: Any, where: str) -> Any:
        given = mapping(lambda item, where: item)(value, where)
        values = {**of_before(given), **given}
        wrong = sorted(set(readers) ^ set(values))
        if wrong:
            raise FileError(f"{where or 'the file'}: missing or unknown field {', '.join(wrong)}", _ADVICE)
        prefix = f"{where}." if where else ""
        return make(**{name: reader(values[name], f"{prefix}{name}") for name, reader in readers.items()})

    return read
