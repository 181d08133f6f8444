"""Files as lines, a piece at a time: compressed or not, in UTF-8 or, where a byte order mark says so, UTF-16."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from whence.errors import FileError

PIECE = 1 << 20  # bytes
COUNTED = 64 * PIECE  # of which the lines are counted
STANDARD_INPUT = Path("-")
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_END = re.compile(r"\r\n|\n|\r")
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)


def _zstandard(file: IO[bytes]) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file), "zstd")


COMPRESSIONS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstandard,
}


def format_of(path: Path) -> str:
    """The suffix that tells what is in a file, whatever it is compressed with.

    >>> format_of(Path("reviews.CSV.gz"))
    '.csv'
    """
    path = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return path.suffix.lower()


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The bytes of a file or of standard input, uncompressed, and the file itself, which tells how far it was read."""
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    try:
        with open(path, "rb") as file:
            uncompress = COMPRESSIONS.get(path.suffix.lower())
            yield (file if uncompress is None else uncompress(file)), file
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def encoding_of(path: Path) -> str:
    """What the first bytes of a file say of its encoding."""
    with opened(path) as (file, _):
        return _encoding(file.read(3))[0]


def about_lines(path: Path) -> int:
    """How many lines a file has: counted in a short one, reckoned from the first of a long one."""
    counted = read = 0
    try:
        with opened(path) as (file, raw):
            while read < COUNTED and (piece := file.read(PIECE)):
                counted += piece.count(b"\n")
                read += len(piece)
            whole, so_far = path.stat().st_size, raw.tell()
    except FileError:  # it is told when its rows come to that place
        return counted
    return counted if read < COUNTED else round(counted * whole / max(1, so_far))


def pieces(path: Path) -> Iterator[str]:
    """The text of a file, a piece at a time."""
    with opened(path) as (file, _):
        yield from _decoded(file, path)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank. Only \\n ends a line: U+2028 and the like may stand in a text."""
    rest, number = "", 0
    for piece in chain(pieces(path), ["\n"]):
        *lines, rest = (rest + piece).split("\n")
        for line in lines:
            number += 1
            if line.strip():
                yield number, line.removesuffix("\r")


def lines_with_ends(parts: Iterator[str]) -> Iterator[str]:
    """Lines as they stand, each with what ends it (\\n, \\r\\n or \\r), as a reader of separated values wants them."""
    rest = ""
    for part in parts:
        held = rest + part
        end = len(held) - held.endswith("\r")  # half of a \r\n, perhaps
        cut = 0
        for match in _END.finditer(held, 0, end):
            yield held[cut : match.end()]
            cut = match.end()
        rest = held[cut:]
    if rest:
        yield rest


def _decoded(file: IO[bytes], path: Path) -> Iterator[str]:
    first = file.read(PIECE)
    encoding, skipped = _encoding(first)
    if not skipped and _looks_like_utf16(first[:64]):
        raise FileError(
            f"{path.name!r} is not a text file, or in UTF-16 without a byte order mark", "convert it, as with iconv"
        )
    decoder = codecs.getincrementaldecoder(encoding)()
    read = skipped
    piece = first[skipped:]
    while True:
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            name, at = encoding.upper()[:6].rstrip("-"), read - waiting + error.start
            raise FileError(f"{path.name!r} is not {name} at byte {at}", "convert it, as with iconv") from error
        yield text
        if not piece:
            return
        read += len(piece)
        piece = file.read(PIECE)


def _looks_like_utf16(first: bytes) -> bool:
    """Every second byte is zero and no other, as in Latin letters of two bytes each; a zero may stand in any text."""
    return len(first) >= 4 and any(not any(first[at::2]) and all(first[1 - at :: 2]) for at in (0, 1))


def _encoding(first: bytes) -> tuple[str, int]:
    """The encoding, and how many bytes the mark of it takes."""
    for mark, encoding in _MARKS.items():
        if first.startswith(mark):
            return encoding, len(mark)
    return "utf-8", 0


def _unreadable(path: Path, error: BaseException) -> FileError:
    reason = getattr(error, "strerror", None) or (str(error).strip() or type(error).__name__).splitlines()[0]
    advice = (
        "look at its permissions" if getattr(error, "strerror", None) else "it may have been cut off: fetch it again"
    )
    return FileError(f"cannot read {str(path)!r}: {reason}", advice)
