"""Trained probes as a folder: config.json, model.safetensors and a card, as on the hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor

from whence.errors import FileError
from whence.explanation import ModelRecord
from whence.files import write_tensors, write_whole
from whence.probes.hub import local_folder
from whence.probes.owner import Owner

FILES = ("model.safetensors", "README.md", "config.json")
FINGERPRINT = "fingerprint."
STEP = ".step"  # after the name of a matrix in whole numbers: what one of them is worth, row by row

Found = TypeVar("Found")


@dataclass(frozen=True)
class Contents:
    """What a folder holds: the probes' weights, whose they are, and all the rest as plain values."""

    weights: Mapping[str, Tensor]
    owner: Owner
    config: Mapping[str, Any]


def save(folder: Path, schema: str, contents: Contents, card: str, dtype: torch.dtype | None = None) -> None:
    """Write the folder; `dtype` stores the weights in less precision: int8 with a step of its own for each row."""
    weights = (
        _rounded(contents.weights)
        if dtype == torch.int8
        else {name: tensor.to(dtype or tensor.dtype) for name, tensor in contents.weights.items()}
    )
    print_of = {f"{FINGERPRINT}{name}": tensor for name, tensor in contents.owner.fingerprint.items()}
    config = {"schema": schema, "model": asdict(contents.owner.record), **contents.config}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {str(folder)!r}: {error.strerror}", "choose another folder") from error
    write_tensors(weights | print_of, folder / "model.safetensors", metadata={"format": "pt"})
    write_whole(card, folder / "README.md")
    write_whole(json.dumps(config, indent=1) + "\n", folder / "config.json")  # last: with it the folder is whole


def digest(facts: Any, weights: Mapping[str, Tensor]) -> str:
    """Of what probes are: plain facts of them, and every number of their weights."""
    told = json.dumps(facts, sort_keys=True).encode()
    return hashlib.sha256(
        told + serialised({name: each.cpu().contiguous() for name, each in weights.items()})
    ).hexdigest()


def schema_of(folder: Path) -> str | None:
    """Which kind of probes a folder holds, as far as it says so."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = config.get("schema") if isinstance(config, dict) else None
    return found if isinstance(found, str) else None


def load(folder: Path, schema: str, read: Callable[[Contents], Found]) -> Found:
    """What `read` makes of a folder that `save` wrote, here or on the hub; nothing in it is executed."""
    folder = local_folder(folder)
    if not (folder / "config.json").is_file():
        raise FileError(f"no probes in {str(folder)!r}", "give a folder that `whence fit` or save() wrote")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        found = config.get("schema") if isinstance(config, dict) else None
        if found != schema:
            raise FileError(
                f"{str(folder)!r} holds other things than probes of this kind (schema {found!r})",
                f"this version of whence reads {schema!r} here",
            )
        tensors = load_file(folder / "model.safetensors")
        prints = {name for name in tensors if name.startswith(FINGERPRINT)}
        owner = Owner(
            ModelRecord(**config["model"]), {name.removeprefix(FINGERPRINT): tensors[name] for name in sorted(prints)}
        )
        stored = {name: tensor for name, tensor in tensors.items() if name not in prints}
        return read(Contents(_as_computed(stored), owner, config))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileError(f"the probes in {str(folder)!r} are damaged: {reason}", "fit them anew") from error


def _rounded(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in whole numbers from -127 to 127, all else in float16."""
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim != 2:
            found[name] = tensor.half()
            continue
        step = (tensor.abs().amax(dim=1, keepdim=True) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        found[name] = (tensor / step).round().to(torch.int8)
        found[name + STEP] = step.float()
    return found


def _as_computed(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In float32, whatever they are stored in."""
    return {
        name: tensor.float() * stored[name + STEP] if name + STEP in stored
        else tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in stored.items()
        if not name.endswith(STEP)
    }  # fmt: skip
