"""Lenses as JSON, read back with every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from whence.errors import FileError
from whence.explanation_json import LAYERS, MODEL, TOKENS, check_spans
from whence.json_records import Reader, flag, number, of_schema, optional, record, several, table, text, whole
from whence.lens import SCHEMA, Lens
from whence.lens_answer import LensAnswer

_ADVICE = "give a file that Lens.save wrote"
_DERIVED = ("read_back", "read_ahead", "written")  # written for readers in other languages; worked out from the rest


def from_dict(data: Mapping[str, Any]) -> Lens:
    values = of_schema(data, SCHEMA, "a lens")
    lens: Lens = _LENS({name: value for name, value in values.items() if name not in _DERIVED}, "")
    return lens


def _lens(**values: Any) -> Lens:
    shape = (len(values["layers"]), len(values["tokens"]))
    of_ranks = (*shape, values["ids"].shape[-1])
    followers = (shape[0], shape[1] - 1)
    expected = {"ids": of_ranks, "probabilities": of_ranks, "own_probabilities": shape, "own_ranks": shape,
                "following_probabilities": followers, "following_ranks": followers}  # fmt: skip
    for name, wanted in expected.items():
        if values.get(name) is not None and values[name].shape != wanted:
            raise FileError(f"{name}: expected {' x '.join(map(str, wanted))} numbers", _ADVICE)
    lengths = {len(ranks) for layer in values["words"] for ranks in layer}
    if len(values["words"]) != shape[0] or {len(layer) for layer in values["words"]} != {shape[1]}:
        raise FileError(f"words: expected {shape[0]} x {shape[1]} lists", _ADVICE)
    if lengths != {of_ranks[-1]}:
        raise FileError(f"words: expected lists of {of_ranks[-1]}", _ADVICE)
    check_spans(values["tokens"], values["text"], values["pair"])
    return Lens(**values)


def _answer(**values: Any) -> LensAnswer:
    if not len(values["layers"]) == len(values["said"]) == len(values["probabilities"]) == len(values["ranks"]):
        raise FileError(f"answer: expected {len(values['layers'])} of each", _ADVICE)
    return LensAnswer(**values)


_ANSWER: Reader = record(
    _answer,
    {
        "label": text,
        "probability": number,
        "position": optional(whole),
        "layers": LAYERS,
        "said": several(text),
        "probabilities": table(1),
        "ranks": table(1, np.int64),
    },
)


_READERS: dict[str, Reader] = {
    "text": text,
    "pair": optional(text),
    "tokens": TOKENS,
    "layers": LAYERS,
    "words": several(several(several(text))),
    "ids": table(3, np.int64),
    "probabilities": table(3),
    "own_probabilities": table(2),
    "own_ranks": table(2, np.int64),
    "model": MODEL,
    "head": text,
    "next_token": flag,
    "warnings": several(text),
    "following_probabilities": optional(table(2)),
    "following_ranks": optional(table(2, np.int64)),
    "answer": optional(_ANSWER),
}
_LENS: Reader = record(
    _lens, {field.name: _READERS[field.name] for field in fields(Lens)}, of_before=lambda _: {"answer": None}
)
