"""What a run has finished, piece by piece on the disk, so that one that was killed goes on where it stopped.

A piece is a safetensors file, written whole or not at all, with a checksum, under a key made of contents: whatever it
was made from, by value. The folder knows which run it belongs to, and one process at a time works in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch

from whence.errors import FileError, UsageError
from whence.files import locked, write_tensors, write_whole

IDENTITY = "run.json"
WORK = "work"


def content_key(value: Any) -> str:
    """A digest of a value by what it holds: two values share it only if they are the same throughout.

    Arrays, tensors and modules count with their numbers, files and folders with what is in them, functions with their
    code, other objects with their type and attributes, or with what their own `content_key()` gives. What has no
    contents to speak of, such as an open file or a generator, is refused.

    >>> content_key({"steps": 10, "at": np.zeros(2)}) == content_key({"at": np.zeros(2), "steps": 10})
    True
    >>> content_key([1, 2]) == content_key(["1", "2"])
    False
    """
    digest = hashlib.sha256()
    try:
        for part in _parts(value):
            digest.update(len(part).to_bytes(8, "little") + part)
    except RecursionError:
        raise _without_contents(value) from None
    return digest.hexdigest()


def _parts(value: Any) -> Iterable[bytes]:
    """The value as bytes, each part of it by its kind first."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield type(value).__name__.encode()
        yield value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    elif isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().contiguous()
        yield f"tensor {tensor.dtype} {tuple(tensor.shape)}".encode()
        yield tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        yield f"array {value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, PurePath):
        yield b"path"
        yield from _parts(_of_path(Path(value)))
    elif callable(getattr(value, "content_key", None)) and not isinstance(value, type):
        yield _name(type(value))
        yield from _parts(value.content_key())
    elif isinstance(value, (list, tuple)):
        yield type(value).__name__.encode()
        yield from (content_key(each).encode() for each in value)
    elif isinstance(value, (Mapping, set, frozenset)):
        members = value.items() if isinstance(value, Mapping) else value
        yield b"mapping" if isinstance(value, Mapping) else b"set"
        yield from sorted(content_key(each).encode() for each in members)
    elif isinstance(value, torch.nn.Module):
        yield _name(type(value))
        yield from _parts([repr(value), value.state_dict()])
    elif isinstance(value, (type, BuiltinFunctionType)):
        yield _name(value)
    elif isinstance(value, (torch.dtype, torch.device)):
        yield str(value).encode()
    elif isinstance(value, partial):
        yield b"partial"
        yield from _parts([value.func, value.args, value.keywords])
    elif isinstance(value, MethodType):
        yield from _parts([value.__func__, value.__self__])
    elif isinstance(value, FunctionType):
        yield _name(value)
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
        yield from _parts([value.__code__, value.__defaults__, value.__kwdefaults__, inside])
    elif isinstance(value, CodeType):
        yield value.co_code
        yield from _parts([value.co_consts, value.co_names, value.co_varnames])
    elif is_dataclass(value) or (type(value).__module__ != "builtins" and getattr(value, "__dict__", None)):
        yield _name(type(value))
        named = [field.name for field in fields(value)] if is_dataclass(value) else sorted(vars(value))
        yield from _parts({name: getattr(value, name) for name in named})
    else:
        raise _without_contents(value)


def _without_contents(value: Any) -> UsageError:
    return UsageError(
        f"{type(value).__name__} has no contents to tell finished work by",
        "give its class a content_key() method, or keep no finished work (leave out folder=)",
    )


def _name(value: Any) -> bytes:
    return f"{value.__module__}.{value.__qualname__}".encode()


def _of_path(path: Path) -> Any:
    """The contents of a file or, by name, of a folder; a path where there is nothing stands for itself."""
    if path.is_dir():
        return {each.name: _of_path(each) for each in path.iterdir() if not each.name.startswith(".")}
    if not path.is_file():
        return str(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Piece:
    """Finished work: arrays by name, and facts that JSON can hold."""

    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]


class Store:
    """Pieces of finished work in a folder, held by this process alone until it is left; without one nothing is kept."""

    def __init__(self, folder: str | Path | None, identity: Mapping[str, Any]) -> None:
        self._held = ExitStack()
        self._work = None if folder is None else Path(folder) / WORK
        if self._work is None:
            return
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
        self._held.enter_context(locked(self._work.parent))
        try:
            self._claim(self._work.parent, json.loads(json.dumps(identity)))
        except BaseException:
            self._held.close()
            raise
        for unfinished in self._work.glob(".*"):
            unfinished.unlink(missing_ok=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def has(self, kind: str, name: str, key: Any) -> bool:
        path = self._path(kind, name, key)
        return path is not None and path.exists()

    def kept(self, kind: str, name: str, key: Any, make: Callable[[], Piece]) -> Piece:
        """The piece of that kind, name and key, from the disk if it is there, else made and written."""
        path = self._path(kind, name, key)
        if path is not None and path.exists():
            return _read(path)
        piece = make()
        if path is not None:
            tensors = {each: torch.from_numpy(np.ascontiguousarray(array)) for each, array in piece.arrays.items()}
            facts = json.dumps(dict(piece.facts))
            write_tensors(tensors, path, {"facts": facts, "checksum": _checksum(piece.arrays, facts)})
        return piece

    def _path(self, kind: str, name: str, key: Any) -> Path | None:
        if self._work is None:
            return None
        short = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:40]
        return self._work / f"{kind}-{short}-{content_key([version('whence'), kind, key])[:32]}.safetensors"

    @staticmethod
    def _claim(folder: Path, identity: Any) -> None:
        path = folder / IDENTITY
        if not path.exists():
            write_whole(json.dumps(identity, indent=1) + "\n", path)
            return
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
            differing = [name for name in identity if there.get(name) != identity[name]]
        except (OSError, ValueError, AttributeError) as error:
            raise FileError(f"{str(path)!r} cannot be read", "choose another folder") from error
        if differing:
            raise UsageError(
                f"{str(folder)!r} holds a run with another {differing[0].replace('_', ' ')}",
                "give the same model, texts and settings to go on with it, or another folder",
            )


def _checksum(arrays: Mapping[str, np.ndarray], facts: str) -> str:
    return content_key([{name: np.ascontiguousarray(array) for name, array in arrays.items()}, facts])


def _read(path: Path) -> Piece:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            told = file.metadata()
        if _checksum(arrays, told["facts"]) != told["checksum"]:
            raise ValueError("its contents do not match its checksum")
        return Piece(arrays, json.loads(told["facts"]))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise FileError(f"{str(path)!r} is broken: {error}", "remove that file; only its part is made again") from error
