"""Explanations as JSON: a schema version, a fixed set of types, everything checked on load, nothing executed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from whence.errors import FileError
from whence.explanation import (
    Cost,
    ExplainedTarget,
    Explanation,
    Meaning,
    ModelRecord,
    Prediction,
    Scale,
    Token,
    layer_of_file,
)
from whence.files import write_whole

SCHEMA = "whence.explanation/1"
_ADVICE = "give a file that Explanation.save wrote"


def to_dict(explanation: Explanation) -> dict[str, Any]:
    data: dict[str, Any] = {"schema": SCHEMA}
    for item in fields(Explanation):
        data[item.name] = _plain(getattr(explanation, item.name))
    return data


def from_dict(data: Mapping[str, Any]) -> Explanation:
    found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
    if found != SCHEMA:
        raise FileError(f"not an explanation of schema {SCHEMA!r}: found {found!r}", _ADVICE)
    explanation: Explanation = _record(Explanation)({name: data[name] for name in data if name != "schema"}, "")
    shape = (len(explanation.layers), len(explanation.tokens))
    for name in ("scores", "standard_errors"):
        table = getattr(explanation, name)
        if table is not None and table.shape != shape:
            raise FileError(f"{name}: expected {shape[0]} x {shape[1]} numbers", _ADVICE)
    errors = explanation.completeness_errors
    if errors is not None and len(errors) != len(explanation.layers):
        raise FileError(f"completeness_errors: expected {len(explanation.layers)} numbers", _ADVICE)
    for place, token in enumerate(explanation.tokens):
        source = explanation.text if token.segment == 0 else explanation.pair
        if source is None or not 0 <= token.start <= token.end <= len(source):
            raise FileError(f"tokens[{place}]: span {token.start}:{token.end} lies outside the text", _ADVICE)
    return explanation


def save(explanation: Explanation, path: str | Path) -> None:
    try:
        content = json.dumps(to_dict(explanation), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FileError(f"the explanation holds what JSON cannot: {error}", "look at its options") from error
    write_whole(content, path)


def load(path: str | Path) -> Explanation:
    try:
        content = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror}", _ADVICE) from error
    except UnicodeDecodeError as error:
        raise FileError(f"{str(path)!r} is not a text file", _ADVICE) from error
    try:
        return from_dict(json.loads(content))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"{str(path)!r} is not JSON: {error}", _ADVICE) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if type(value) in _FIELDS:
        return {key: _plain(item) for key, item in asdict(value).items()}
    return value


# A reader takes a value of a file and where it stands, and returns what the record holds, or raises FileError.
Reader = Callable[[Any, str], Any]


def _wrong(where: str, expected: str, value: Any) -> FileError:
    found = repr(value)
    shown = found if len(found) <= 40 else f"{type(value).__name__} {found[:30]}…"
    return FileError(f"{where or 'explanation'}: expected {expected}, found {shown}", _ADVICE)


def _typed(kind: type, name: str) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong(where, name, value)
        return value

    return read


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _wrong(where, "a finite number", value)
    return value


def _optional(read: Reader) -> Reader:
    return lambda value, where: None if value is None else read(value, where)


def _several(read: Reader) -> Reader:
    def read_all(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple(read(item, f"{where}[{place}]") for place, item in enumerate(value))

    return read_all


def _mapping(read: Reader) -> Reader:
    def read_all(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        return {str(key): read(item, f"{where}.{key}") for key, item in value.items()}

    return read_all


def _table(value: Any, where: str) -> np.ndarray:
    rows = _several(_several(_number))(value, where)
    if not rows or len({len(row) for row in rows}) != 1:
        raise _wrong(where, "rows of equal length", value)
    table = np.array(rows, dtype=np.float32)
    table.setflags(write=False)
    return table


def _layer(value: Any, where: str) -> Any:
    value = layer_of_file(value)
    if value != "embeddings" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise _wrong(where, "'embeddings' or a number from 0 up", value)
    return value


def _scale(value: Any, where: str) -> Any:
    if value not in get_args(Scale):
        raise _wrong(where, f"one of {', '.join(get_args(Scale))}", value)
    return value


def _of_before(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a file of an earlier version leaves out: it said by the score's name what is a field now."""
    if kind is Meaning:
        name = str(values.get("name"))
        return {"keep_probability": name == "keep probability", "decoded": name.split(" ")[0] == "decoded"}
    newer: dict[type, dict[str, Any]] = {ModelRecord: {"embedded": None}, Explanation: {"notes": []}}
    return newer.get(kind, {})


def _record(kind: type) -> Reader:
    def read(value: Any, where: str) -> Any:
        values = _mapping(lambda item, where: item)(value, where)
        values = {**_of_before(kind, values), **values}
        wrong = sorted(set(_FIELDS[kind]) ^ set(values))
        if wrong:
            raise FileError(f"{where or 'explanation'}: missing or unknown field {', '.join(wrong)}", _ADVICE)
        prefix = f"{where}." if where else ""
        return kind(**{name: reader(values[name], f"{prefix}{name}") for name, reader in _FIELDS[kind].items()})

    return read


_text, _whole, _flag = _typed(str, "a text"), _typed(int, "a whole number"), _typed(bool, "true or false")
_FIELDS: dict[type, dict[str, Reader]] = {
    Token: {
        "text": _text, "id": _whole, "start": _whole, "end": _whole, "segment": _whole, "special": _flag,
        "word": _optional(_whole),
    },
    Meaning: {
        "name": _text, "sentence": _text, "signed": _flag, "additive": _flag, "low": _optional(_number),
        "high": _optional(_number), "keep_probability": _flag, "decoded": _flag,
    },
    Prediction: {
        "label": _text, "index": _whole, "probability": _optional(_number), "probabilities": _mapping(_number)
    },
    ExplainedTarget: {"description": _text, "scale": _scale, "value": _number},
    ModelRecord: {
        "id": _text, "revision": _optional(_text), "architecture": _text, "task": _text, "embedded": _optional(_text)
    },
    Cost: {"forwards": _whole, "backwards": _whole, "seconds": _number},
    Explanation: {
        "text": _text, "pair": _optional(_text), "tokens": _several(lambda value, where: _record(Token)(value, where)),
        "layers": _several(_layer), "scores": _table, "meaning": _record(Meaning), "prediction": _record(Prediction),
        "target": _record(ExplainedTarget), "method": _text, "options": _mapping(lambda value, where: value),
        "model": _record(ModelRecord), "seed": _whole, "cost": _record(Cost), "warnings": _several(_text),
        "standard_errors": _optional(_table), "completeness_errors": _optional(_several(_number)),
        "whence_version": _text, "notes": _several(_text),
    },
}  # fmt: skip
