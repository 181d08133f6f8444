"""What a run is to do, without the texts: told to every worker, and written down in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.errors import UsageError
from whence.explanation import Layer
from whence.explanation_json import LAYERS
from whence.json_records import Reader, anything, mapping, misfit, optional, plain, record, several, text, whole
from whence.targets import Contrast, Label, Span, Target

FORMATS = ("parquet", "jsonl", "csv")


@dataclass(frozen=True)
class ModelSource:
    """How a worker gets the model: by name, with what `whence.load` is given beside it, onto which device."""

    name: str | None
    options: Mapping[str, Any]
    device: str


@dataclass(frozen=True)
class Asked:
    """A method with its own options, and the layers it is asked about."""

    method: str
    options: Mapping[str, Any]
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class Job:
    """Everything about a run but its texts.

    `kept` are the kept columns and their kinds; `labels` the model's class names, in which gold labels are told.
    """

    folder: str
    model: ModelSource
    methods: tuple[Asked, ...]
    target: Any
    scale: str | None
    units: str
    seed: int
    batch_tokens: int
    format: str
    paired: bool
    labelled: bool
    kept: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    key: str = ""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All that any method is asked about, lowest first."""
        found = {layer for asked in self.methods for layer in asked.layers}
        return tuple(sorted(found, key=lambda layer: -1 if layer == "embeddings" else int(layer)))

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)
        return found


def job_of(data: Mapping[str, Any]) -> Job:
    """The job that `to_dict` wrote."""
    job: Job = _JOB(data, "")
    return job


def target_as_json(target: Target) -> Any:
    """A target as JSON holds it; see `target_of`."""
    if target == Label():
        return "predicted"
    if isinstance(target, Contrast):
        return {"this": target_as_json(target.this), "that": target_as_json(target.that)}
    return plain(target)


def target_of(data: Any) -> Target:
    """
    >>> target_of(target_as_json(Contrast(Label("positive"), "negative")))
    Contrast(this=Label(label='positive', at=None), that='negative')
    """
    if not isinstance(data, Mapping):
        return data  # type: ignore[no-any-return]
    if "this" in data:
        return Contrast(target_of(data["this"]), target_of(data["that"]))  # type: ignore[arg-type]
    return Span(**data) if "start" in data else Label(**data)


def told_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A method's options as every worker can be told them: paths become names, and objects are refused."""
    found = {}
    for name, value in options.items():
        value = str(value) if isinstance(value, Path) else value
        found[name] = plain(value)
        if not isinstance(found[name], (str, int, float, bool, list, type(None))):
            raise UsageError(
                f"option {name} of {method} is {type(value).__name__}, which other processes cannot be told",
                "give what a file can hold: of probes, the folder they were saved to",
            )
    return found


def _two(value: Any, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise misfit(where, "a name and a kind", value)
    return text(value[0], where), text(value[1], where)


_ASKED: Reader = record(Asked, {"method": text, "options": mapping(anything), "layers": LAYERS})
_JOB: Reader = record(
    Job,
    {
        "folder": text,
        "model": record(ModelSource, {"name": optional(text), "options": mapping(anything), "device": text}),
        "methods": several(_ASKED),
        "target": anything,
        "scale": optional(text),
        "units": text,
        "seed": whole,
        "batch_tokens": whole,
        "format": text,
        "paired": lambda value, where: bool(value),
        "labelled": lambda value, where: bool(value),
        "kept": several(_two),
        "labels": several(text),
        "key": text,
    },
)
