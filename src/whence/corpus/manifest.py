"""The manifest of a run: with what it was made and, once it is complete, what there is, with checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import torch

from whence.corpus.job import FORMATS
from whence.corpus.shards import Receipt, receipt_of
from whence.errors import FileError, UsageError
from whence.explanation import Explanation, Layer, Meaning, ModelRecord, Scale
from whence.explanation_json import LAYERS, MEANING, MODEL
from whence.files import write_bytes
from whence.json_records import (
    Reader,
    anything,
    flag,
    load_json,
    mapping,
    of_schema,
    one_of,
    plain,
    record,
    several,
    text,
    whole,
)
from whence.models.fingerprint import fingerprint
from whence.models.layered import LayeredModel
from whence.store import content_key
from whence.units import UNITS

SCHEMA = "whence.corpus/1"
MANIFEST = "manifest.json"
VERSIONS = ("whence", "torch", "transformers", "tokenizers", "pyarrow", "numpy")
COUNTS = ("texts", "failed", "warned", "truncated", "words")


@dataclass(frozen=True)
class MethodRecord:
    """A method as it was run: every option, where it looked, in which unit the target was, and what a score means."""

    name: str
    options: Mapping[str, Any]
    layers: tuple[Layer, ...]
    scale: Scale
    meaning: Meaning


@dataclass(frozen=True)
class Manifest:
    """What a folder holds. Nothing in it depends on when, how fast or by how many workers it was made."""

    complete: bool
    model: ModelRecord
    fingerprint: str
    device: str
    dtype: str
    data: Mapping[str, Any]
    methods: tuple[MethodRecord, ...]
    target: Any
    units: str
    seed: int
    batch_tokens: int
    shard_texts: int
    format: str
    kept: Mapping[str, str]
    paired: bool
    labelled: bool
    labels: tuple[str, ...]
    versions: Mapping[str, str]
    counts: Mapping[str, int]
    shards: tuple[Receipt, ...] = ()

    @property
    def key(self) -> str:
        """A digest of everything that the tables depend on beside the texts."""
        own = {name: value for name, value in plain(self).items() if name not in _NOT_OF_THE_JOB}
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


_NOT_OF_THE_JOB = ("complete", "data", "counts", "shards")


def method_record(explanation: Explanation) -> MethodRecord:
    return MethodRecord(
        explanation.method,
        plain(explanation.options),
        explanation.layers,
        explanation.target.scale,
        explanation.meaning,
    )


def model_fingerprint(model: LayeredModel) -> str:
    """A digest of some of the model's numbers."""
    return content_key(fingerprint(model.module))


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {name: torch.__version__ if name == "torch" else version(name) for name in VERSIONS}


def completed(manifest: Manifest, receipts: Sequence[Receipt]) -> Manifest:
    counts = {name: sum(getattr(receipt, name) for receipt in receipts) for name in COUNTS}
    return replace(manifest, complete=True, counts={"shards": len(receipts), **counts}, shards=tuple(receipts))


def write_manifest(manifest: Manifest, folder: Path) -> None:
    content = {"schema": SCHEMA, **plain(manifest)}
    write_bytes((json.dumps(content, indent=1) + "\n").encode(), folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder; every field is checked."""
    path = folder / MANIFEST
    if not path.exists():
        raise FileError(f"no {MANIFEST} in {str(folder)!r}", "give the folder that `whence run` wrote")
    try:
        found: Manifest = _MANIFEST(of_schema(load_json(path), SCHEMA, "a corpus"), "")
    except FileError as error:
        raise FileError(
            f"{str(path)!r} is broken: {error.problem}",
            "its shards are not lost: remove this file and give the same command with --resume",
        ) from error
    return found


def check_same(there: Manifest, mine: Manifest, folder: Path) -> None:
    """Refuse to go on with a run by other means: its shards would not fit together."""
    if there.key == mine.key:
        return
    one, other = plain(there), plain(mine)
    name = next(name for name in one if name not in _NOT_OF_THE_JOB and one[name] != other[name])
    told = " and ".join(json.dumps(each[name]) for each in (one, other))
    told = f": {told}" if len(told) < 200 else ""
    raise UsageError(
        f"{str(folder)!r} holds a run with other {name.replace('_', ' ')}{told}",
        "give the same model, settings and versions to go on with it, or another folder",
    )


_METHOD: Reader = record(
    MethodRecord,
    {
        "name": text, "options": mapping(anything), "layers": LAYERS, "scale": one_of(get_args(Scale)),
        "meaning": MEANING,
    },
)  # fmt: skip
_MANIFEST: Reader = record(
    Manifest,
    {
        "complete": flag, "model": MODEL, "fingerprint": text, "device": text, "dtype": text,
        "data": mapping(anything), "methods": several(_METHOD), "target": anything, "units": one_of(UNITS),
        "seed": whole, "batch_tokens": whole, "shard_texts": whole, "format": one_of(FORMATS),
        "kept": mapping(text), "paired": flag, "labelled": flag, "labels": several(text),
        "versions": mapping(text), "counts": mapping(whole),
        "shards": several(lambda value, where: receipt_of(value)),
    },
)  # fmt: skip
