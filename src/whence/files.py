"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from whence.errors import FileError


def write_whole(content: str, path: str | Path) -> None:
    """Write a text file; one already there is replaced only once the new one is complete."""
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(content)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)  # mkstemp lets only its owner read
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror}", "choose another file") from error
