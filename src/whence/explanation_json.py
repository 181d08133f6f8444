"""Explanations as JSON: a schema version, a fixed set of types, everything checked on load, nothing executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from whence.errors import FileError
from whence.explanation import (
    Cost,
    ExplainedTarget,
    Explanation,
    Meaning,
    ModelRecord,
    OutputScores,
    Prediction,
    Scale,
    Unit,
    UnitScores,
    layer_of_file,
)
from whence.json_records import (
    Reader,
    anything,
    encoded,
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
from whence.tokens import Token, Tokens

SCHEMA = "whence.explanation/2"
_SCHEMA_OF_BEFORE = "whence.explanation/1"  # without outputs
_ADVICE = "give a file that Explanation.save wrote"


def to_dict(explanation: Explanation) -> dict[str, Any]:
    found = {"schema": SCHEMA, **plain({**vars(explanation), "tokens": ()})}
    return {**found, "tokens": Tokens.of(explanation.tokens).rows()}


def to_json(explanation: Explanation) -> str:
    """What `to_dict` gives, as a line of ASCII."""
    rest = dict(vars(explanation))
    first = encoded({"schema": SCHEMA, "text": rest.pop("text"), "pair": rest.pop("pair")})
    tokens = Tokens.of(rest.pop("tokens")).json()
    return f'{first[:-1]},"tokens":{tokens},{encoded(rest)[1:]}'


def from_dict(data: Mapping[str, Any]) -> Explanation:
    known = _SCHEMA_OF_BEFORE if isinstance(data, Mapping) and data.get("schema") == _SCHEMA_OF_BEFORE else SCHEMA
    explanation: Explanation = _EXPLANATION(of_schema(data, known, "an explanation"), "")
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
    if values["units"] is not None:
        _check_units(values["units"], shape, values["text"], values["pair"])
    if values["outputs"] is not None:
        _check_outputs(values["outputs"], shape)
    return Explanation(**values)


def check_spans(spans: Sequence[Token | Unit], source: str, pair: str | None, name: str = "tokens") -> None:
    """Every span lies in the text or, if it is of the second segment, in the pair."""
    for index, span in enumerate(spans):
        mine = source if span.segment == 0 else pair
        if mine is None or not 0 <= span.start <= span.end <= len(mine):
            raise FileError(f"{name}[{index}]: span {span.start}:{span.end} lies outside the text", _ADVICE)


def _unit_scores(**values: Any) -> UnitScores:
    shape = (len(values["scores"]), len(values["units"]))
    for name in ("scores", "standard_errors"):
        if values[name] is not None and values[name].shape != shape:
            raise FileError(f"units.{name}: expected {shape[0]} x {shape[1]} numbers", _ADVICE)
    return UnitScores(**values)


def _check_units(scored: UnitScores, shape: tuple[int, int], source: str, pair: str | None) -> None:
    if len(scored.scores) != shape[0]:
        raise FileError(f"units.scores: expected {shape[0]} rows", _ADVICE)
    check_spans(scored.units, source, pair, "units.units")
    for index, unit in enumerate(scored.units):
        if not unit.tokens or not all(0 <= position < shape[1] for position in unit.tokens):
            raise FileError(f"units.units[{index}]: expected positions of some of {shape[1]} tokens", _ADVICE)


def _check_outputs(outputs: OutputScores, shape: tuple[int, int]) -> None:
    count = len(outputs.positions)
    if outputs.scores.shape != (count, *shape) or len(outputs.values) != count:
        raise FileError(
            f"outputs: expected {count} tables of {shape[0]} x {shape[1]} numbers and as many values", _ADVICE
        )
    if not all(0 <= position < shape[1] for position in outputs.positions):
        raise FileError(f"outputs.positions: expected positions of some of {shape[1]} tokens", _ADVICE)


def save(explanation: Explanation, path: str | Path) -> None:
    save_json(to_dict(explanation), path)


def load(path: str | Path) -> Explanation:
    return from_dict(load_json(path))


def _layer(value: Any, where: str) -> Any:
    value = layer_of_file(value)
    if isinstance(value, str) and re.fullmatch("embeddings|encoder [0-9]+|decoder [1-9][0-9]*", value):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
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
UNIT: Reader = record(Unit, {"start": whole, "end": whole, "segment": whole, "tokens": several(whole)})
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
        "units": optional(
            record(
                _unit_scores,
                {"kind": text, "units": several(UNIT), "scores": table(2), "standard_errors": optional(table(2))},
            )
        ),
        "outputs": optional(
            record(OutputScores, {"positions": several(whole), "values": several(number), "scores": table(3)})
        ),
    },
    lambda values: {"notes": [], "units": None, "outputs": None},
)
