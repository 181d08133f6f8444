"""Explanations as JSON: a schema version, a fixed set of types, everything checked on load, nothing executed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from whence.errors import FileError
from whence.explanation import Cost, ExplainedTarget, Explanation, Meaning, ModelRecord, Prediction, Token

SCHEMA = "whence.explanation/1"
_ADVICE = "give a file that Explanation.save wrote"

# What each field of the record may be in a file; parts that are records themselves are checked the same way.
_NUMBER = (int, float)
_TYPES: dict[type, dict[str, tuple[type, ...]]] = {
    Token: {
        "text": (str,), "id": (int,), "start": (int,), "end": (int,), "segment": (int,), "special": (bool,),
        "word": (int, type(None)),
    },
    Meaning: {
        "name": (str,), "sentence": (str,), "signed": (bool,), "additive": (bool,), "low": (*_NUMBER, type(None)),
        "high": (*_NUMBER, type(None)),
    },
    Prediction: {"label": (str,), "index": (int,), "probability": (*_NUMBER, type(None)), "probabilities": (dict,)},
    ExplainedTarget: {"description": (str,), "scale": (str,), "value": _NUMBER},
    ModelRecord: {"id": (str,), "revision": (str, type(None)), "architecture": (str,), "task": (str,)},
    Cost: {"forwards": (int,), "backwards": (int,), "seconds": _NUMBER},
    Explanation: {
        "text": (str,), "pair": (str, type(None)), "tokens": (list,), "layers": (list,), "scores": (list,),
        "meaning": (dict,), "prediction": (dict,), "target": (dict,), "method": (str,), "options": (dict,),
        "model": (dict,), "seed": (int,), "cost": (dict,), "warnings": (list,),
        "standard_errors": (list, type(None)), "completeness_errors": (list, type(None)), "whence_version": (str,),
    },
}  # fmt: skip


def to_dict(explanation: Explanation) -> dict[str, Any]:
    data: dict[str, Any] = {"schema": SCHEMA}
    for name in _TYPES[Explanation]:
        data[name] = _plain(getattr(explanation, name))
    return data


def from_dict(data: Mapping[str, Any]) -> Explanation:
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise FileError(f"not an explanation of schema {SCHEMA!r}: found {found!r}", _ADVICE)
    values = _checked(Explanation, {key: value for key, value in data.items() if key != "schema"}, "")
    values["tokens"] = tuple(_record(Token, token, f"tokens[{i}]") for i, token in enumerate(values["tokens"]))
    for name, kind in {
        "meaning": Meaning,
        "prediction": Prediction,
        "target": ExplainedTarget,
        "model": ModelRecord,
        "cost": Cost,
    }.items():
        values[name] = _record(kind, values[name], name)
    values["layers"] = tuple(values["layers"])
    for layer in values["layers"]:
        if layer != "words" and (not isinstance(layer, int) or isinstance(layer, bool) or layer < 0):
            raise FileError(f"layers: {layer!r} is not a layer", "a layer is 'words' or a number from 0 up")
    shape = (len(values["layers"]), len(values["tokens"]))
    values["scores"] = _array(values["scores"], shape, "scores")
    if values["standard_errors"] is not None:
        values["standard_errors"] = _array(values["standard_errors"], shape, "standard_errors")
    if values["completeness_errors"] is not None:
        errors = _array([values["completeness_errors"]], (1, shape[0]), "completeness_errors")
        values["completeness_errors"] = tuple(float(error) for error in errors[0])
    values["warnings"] = tuple(str(warning) for warning in values["warnings"])
    for i, token in enumerate(values["tokens"]):
        source = values["text"] if token.segment == 0 else values["pair"] or ""
        if not 0 <= token.start <= token.end <= len(source):
            raise FileError(f"tokens[{i}]: span {token.start}:{token.end} lies outside the text", "")
    return Explanation(**values)


def save(explanation: Explanation, path: str | Path) -> None:
    path = Path(path)
    content = json.dumps(to_dict(explanation), ensure_ascii=False, allow_nan=False)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", "choose a folder that exists") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> Explanation:
    try:
        content = Path(path).read_text(encoding="utf-8", errors="surrogatepass")
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
    if type(value) in _TYPES:
        return {key: _plain(item) for key, item in asdict(value).items()}
    return value


def _record(kind: type, data: Any, where: str) -> Any:
    return kind(**_checked(kind, data, where))


def _checked(kind: type, data: Any, where: str) -> dict[str, Any]:
    """The fields of a record, none missing, none unknown, each of its type."""
    if not isinstance(data, Mapping):
        raise FileError(f"{where}: expected an object, found {type(data).__name__}", "")
    types = _TYPES[kind]
    wrong = sorted(set(types) ^ set(data))
    if wrong:
        raise FileError(f"{where or 'explanation'}: missing or unknown field {', '.join(wrong)}", "")
    for name, expected in types.items():
        value = data[name]
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            place = f"{where}.{name}" if where else name
            raise FileError(f"{place}: expected {expected[0].__name__}, found {type(value).__name__}", "")
    return {item.name: data[item.name] for item in fields(kind)}


def _array(rows: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    try:
        array = np.array(rows, dtype=np.float32).reshape(shape)
    except (TypeError, ValueError) as error:
        raise FileError(f"{name}: expected {shape[0]} x {shape[1]} numbers", "") from error
    if not np.isfinite(array).all():
        raise FileError(f"{name}: holds numbers that are not finite", "")
    return array
