"""Explanations as JSON: a schema version, a fixed set of types, everything checked on load, nothing executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

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
from whence.json_records import (
    Reader,
    anything,
    flag,
    load_json,
    mapping,
    misfit,
    number,
    of_schema,
    one_of,
    optional,
    plain,
    record,
    save_json,
    several,
    table,
    text,
    whole,
)

SCHEMA = "whence.explanation/1"
_ADVICE = "give a file that Explanation.save wrote"


def to_dict(explanation: Explanation) -> dict[str, Any]:
    return {"schema": SCHEMA, **plain(explanation)}


def from_dict(data: Mapping[str, Any]) -> Explanation:
    explanation: Explanation = _EXPLANATION(of_schema(data, SCHEMA, "an explanation"), "")
    return explanation


def _explanation(**values: Any) -> Explanation:
    shape = (len(values["layers"]), len(values["tokens"]))
    for name in ("scores", "standard_errors"):
        if values[name] is not None and values[name].shape != shape:
            raise FileError(f"{name}: expected {shape[0]} x {shape[1]} numbers", _ADVICE)
    errors = values["completeness_errors"]
    if errors is not None and len(errors) != shape[0]:
        raise FileError(f"completeness_errors: expected {shape[0]} numbers", _ADVICE)
    check_spans(values["tokens"], values["text"], values["pair"])
    return Explanation(**values)


def check_spans(tokens: tuple[Token, ...], source: str, pair: str | None) -> None:
    """Every token lies in the text or, if it is of the second segment, in the pair."""
    for index, token in enumerate(tokens):
        mine = source if token.segment == 0 else pair
        if mine is None or not 0 <= token.start <= token.end <= len(mine):
            raise FileError(f"tokens[{index}]: span {token.start}:{token.end} lies outside the text", _ADVICE)


def save(explanation: Explanation, path: str | Path) -> None:
    save_json(to_dict(explanation), path)


def load(path: str | Path) -> Explanation:
    return from_dict(load_json(path))


def _layer(value: Any, where: str) -> Any:
    value = layer_of_file(value)
    if value != "embeddings" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise misfit(where, "'embeddings' or a number from 0 up", value)
    return value


def _meaning_of_before(values: Mapping[str, Any]) -> dict[str, Any]:
    """An earlier version said by the score's name what is a field now."""
    name = str(values.get("name"))
    return {"keep_probability": name == "keep probability", "decoded": name.split(" ")[0] == "decoded"}


LAYERS: Reader = several(_layer)
TOKENS: Reader = several(
    record(
        Token,
        {"text": text, "id": whole, "start": whole, "end": whole, "segment": whole, "special": flag,
         "word": optional(whole)},
    )
)  # fmt: skip
MEANING: Reader = record(
    Meaning,
    {"name": text, "sentence": text, "signed": flag, "additive": flag, "low": optional(number),
     "high": optional(number), "keep_probability": flag, "decoded": flag},
    _meaning_of_before,
)  # fmt: skip
MODEL: Reader = record(
    ModelRecord,
    {"id": text, "revision": optional(text), "architecture": text, "task": text, "embedded": optional(text)},
    lambda values: {"embedded": None},
)
_EXPLANATION: Reader = record(
    _explanation,
    {
        "text": text,
        "pair": optional(text),
        "tokens": TOKENS,
        "layers": LAYERS,
        "scores": table(2),
        "meaning": MEANING,
        "prediction": record(
            Prediction,
            {"label": text, "index": whole, "probability": optional(number), "probabilities": mapping(number)},
        ),
        "target": record(ExplainedTarget, {"description": text, "scale": one_of(get_args(Scale)), "value": number}),
        "method": text,
        "options": mapping(anything),
        "model": MODEL,
        "seed": whole,
        "cost": record(Cost, {"forwards": whole, "backwards": whole, "seconds": number}),
        "warnings": several(text),
        "standard_errors": optional(table(2)),
        "completeness_errors": optional(several(number)),
        "whence_version": text,
        "notes": several(text),
    },
    lambda values: {"notes": []},
)
