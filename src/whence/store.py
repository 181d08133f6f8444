"""What a run has finished, piece by piece on the disk, so that one that was killed goes on where it stopped.

A piece is a safetensors file, written whole or not at all. The folder knows which run it belongs to: another model,
other texts or other settings are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from whence.errors import FileError, UsageError
from whence.files import write_tensors, write_whole

IDENTITY = "run.json"
WORK = "work"


@dataclass(frozen=True)
class Piece:
    """Finished work: arrays by name, and facts that JSON can hold."""

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


class Store:
    """Pieces of finished work in a folder; without a folder nothing is kept."""

    def __init__(self, folder: str | Path | None, identity: Mapping[str, Any]) -> None:
        self._work = None if folder is None else Path(folder) / WORK
        if self._work is None:
            return
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
        self._claim(Path(str(folder)), json.loads(json.dumps(identity)))
        for unfinished in self._work.glob(".*"):
            unfinished.unlink(missing_ok=True)

    def has(self, kind: str, name: str, key: Mapping[str, Any]) -> bool:
        path = self._path(kind, name, key)
        return path is not None and path.exists()

    def kept(self, kind: str, name: str, key: Mapping[str, Any], make: Callable[[], Piece]) -> Piece:
        """The piece of that kind, name and key, from the disk if it is there, else made and written."""
        path = self._path(kind, name, key)
        if path is not None and path.exists():
            return _read(path)
        piece = make()
        if path is not None:
            tensors = {each: torch.from_numpy(np.ascontiguousarray(array)) for each, array in piece.arrays.items()}
            write_tensors(tensors, path, {"facts": json.dumps(dict(piece.facts)), "key": _text(key)})
        return piece

    def _path(self, kind: str, name: str, key: Mapping[str, Any]) -> Path | None:
        if self._work is None:
            return None
        short = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:40]
        digest = hashlib.sha256(f"{kind}\0{name}\0{_text(key)}".encode()).hexdigest()[:16]
        return self._work / f"{kind}-{short}-{digest}.safetensors"

    @staticmethod
    def _claim(folder: Path, identity: Any) -> None:
        path = folder / IDENTITY
        if not path.exists():
            write_whole(json.dumps(identity, indent=1) + "\n", path)
            return
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"{str(path)!r} cannot be read", "choose another folder") from error
        for name in identity:
            if there.get(name) != identity[name]:
                raise UsageError(
                    f"{str(folder)!r} holds a run with another {name.replace('_', ' ')}",
                    "give the same model, texts and settings to go on with it, or another folder",
                )


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps(dict(key), sort_keys=True, default=str)


def _read(path: Path) -> Piece:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return Piece(arrays, json.loads(file.metadata()["facts"]))
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise FileError(f"{str(path)!r} is broken: {error}", "remove that file; only its part is made again") from error
