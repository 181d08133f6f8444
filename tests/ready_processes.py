"""Scripts run in a process of their own that need not wait for torch: it is forked from one that has imported all.

Importing torch and transformers takes seconds of a core, and the tests run dozens of scripts. The process that forks
has computed nothing: after a backward pass torch could not be forked.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

IMPORTED_BEFOREHAND = [
    "torch",
    "accelerate",
    "datasets",
    "matplotlib.pyplot",
    "transformers.generation",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "whence.cli",
    "whence.models.loading",
    "whence.scoreboard.evaluate",
]
_forked = multiprocessing.get_context("forkserver")
_forked.set_forkserver_preload(IMPORTED_BEFOREHAND)


def run(script: Path | str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """As `python SCRIPT ARGUMENTS`, or `python -c SCRIPT ARGUMENTS` if it is code, with one thread; never an error."""
    given = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("stdout", "stderr")]
        process = _forked.Process(target=_as_main, args=(script, given, files, dict(os.environ), os.getcwd()))
        process.start()
        process.join()
        said = [file.read_text() if file.exists() else "" for file in files]
        code = process.exitcode
        process.close()
    assert code is not None
    return subprocess.CompletedProcess([str(script), *given], code, *said)


def _as_main(script: Path | str, given: list[str], files: list[Path], environment: Mapping[str, str], at: str) -> None:
    for stream, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(at)
    torch.set_num_threads(1)
    if isinstance(script, Path):
        sys.argv = [str(script), *given]
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
    else:
        sys.argv = ["-c", *given]
        exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
