"""A half-trained run in one file that is there whole or not at all, so that `kill -9` costs seconds.

The file is safetensors: weights, the optimisers' state, and the rest as JSON in its header.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.errors import FileError
from whence.files import write_tensors

NAME = "checkpoint.safetensors"


def write(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Replace the checkpoint only once the new one is on the disk."""
    write_tensors(tensors, path, metadata={"record": json.dumps(record)})


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            record = json.loads((file.metadata() or {})["record"])
            return {name: file.get_tensor(name) for name in file.keys()}, record  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise broken(path) from error


def broken(path: Path) -> FileError:
    return FileError(f"{str(path)!r} is no checkpoint of a fit", "remove it to start anew, or choose another folder")


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state, flat."""
    state = optimiser.state_dict()["state"]
    return {f"{place}.{name}": torch.as_tensor(value) for place, each in state.items() for name, value in each.items()}


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        place, name = key.split(".", 1)
        state.setdefault(int(place), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
