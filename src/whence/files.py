"""Files written whole or not at all, and folders that one process at a time works in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from whence.errors import FileError, UsageError

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from torch import Tensor


def write_whole(content: str, path: str | Path) -> None:
    """Write a text file; one already there is replaced only once the new one is complete."""
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(content)
            os.chmod(temporary, _usual_mode())  # mkstemp lets only its owner read
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", "choose another file") from error


def written(content: str, path: str | Path | None) -> str:
    """The content itself, written to a text file if a path is given."""
    if path is not None:
        write_whole(content, path)
    return content


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file; one already there is replaced only once the new one is on the disk."""
    from safetensors.torch import save

    held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_bytes(save(held, metadata), path)


def write_bytes(content: bytes, path: Path, advice: str = "choose another folder") -> None:
    """Write a file; one already there is replaced only once the new one is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", advice) from error


def remove_unfinished(path: Path) -> None:
    """Remove what writers of this file left beside it when they were killed."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder; another process that holds it is an error. The lock of a process that was killed holds nothing."""
    if fcntl is None:
        yield
        return
    with _opened(folder / ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is at work in {str(folder)!r}", "wait until it ends, or choose another folder"
            ) from None
        yield


def _opened(path: Path) -> IO[str]:
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", "choose another folder") from error


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
