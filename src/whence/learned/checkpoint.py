"""A half-trained run in one file that is there whole or not at all, so that `kill -9` costs seconds.

The file is safetensors: weights, the optimisers' state, and the rest as JSON in its header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.errors import FileError, UsageError
from whence.files import remove_unfinished, write_tensors
from whence.probes.folder import FILES

NAME = "checkpoint.safetensors"
SECONDS: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 20.0)  # from one checkpoint to the next; the last holds from then on

Parts = Mapping[str, Mapping[str, Tensor]]
"""Tensors by name within each part of a run (weights, an optimiser's state, ...)."""


class Rhythm:
    """When to write: the first within seconds, so that a run killed early is not lost, and then ever less often."""

    def __init__(self) -> None:
        self._last = monotonic()
        self._n_written = 0

    def is_due(self) -> bool:
        return monotonic() - self._last > SECONDS[min(self._n_written, len(SECONDS) - 1)]

    def written(self) -> None:
        self._last = monotonic()
        self._n_written += 1


def write(path: Path, parts: Parts, record: Mapping[str, Any]) -> None:
    """Replace the checkpoint only once the new one is on the disk."""
    tensors = {f"{part}.{name}": tensor for part, each in parts.items() for name, tensor in each.items()}
    write_tensors(tensors, path, metadata={"record": json.dumps(record)})


def read(path: Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """What `write` was given; a part that had no tensors is left out."""
    parts: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            record = json.loads((file.metadata() or {})["record"])
            for key in file.keys():  # noqa: SIM118
                part, name = key.split(".", 1)
                parts.setdefault(part, {})[name] = file.get_tensor(key)
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise broken(path) from error
    return parts, record


def broken(path: Path) -> FileError:
    return FileError(f"{str(path)!r} is no checkpoint of a fit", "remove it to start anew, or choose another folder")


def check_same_run(
    path: Path, different_model: str | None, begun_with: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Refuse to go on with a run that was begun on another model, other texts or with other settings."""
    advice = "finish it with the settings it was begun with, or choose another folder"
    begun = f"the fit begun in {str(path.parent)!r}"
    if different_model is not None:
        raise UsageError(f"{begun} was on another model ({different_model} differs)", advice)
    for name, value in settings.items():
        if begun_with.get(name) != value:
            shown = "" if "texts" in name else f" ({begun_with.get(name)!r}, now {value!r})"
            raise UsageError(f"{begun} had other {name}{shown}", advice)


def free_folder(folder: Path) -> Path:
    """Make the folder unless it holds finished probes; a checkpoint beside them shows that finishing was cut short."""
    if (folder / "config.json").exists() and not (folder / NAME).exists():
        raise UsageError(f"{str(folder)!r} already holds something", "choose another folder, or load it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
    return folder


def remove(folder: Path) -> None:
    """Remove the checkpoint of a finished run, and what writers left in its folder when they were killed."""
    (folder / NAME).unlink(missing_ok=True)
    for name in (NAME, *FILES):
        remove_unfinished(folder / name)


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state, flat."""
    state = optimiser.state_dict()["state"]
    return {f"{index}.{name}": torch.as_tensor(value) for index, each in state.items() for name, value in each.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
