"""Run the notebooks from top to bottom and store what comes out: python examples/run_notebooks.py"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent
NOTEBOOKS = tuple(sorted(EXAMPLES.glob("*.ipynb")))


def executed(path: Path, folder: Path = EXAMPLES) -> Any:
    """The notebook with the outputs of a fresh kernel that works in `folder`; a cell that fails is an error."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,  # on a busy machine what one cell prints arrives in pieces
    )
    silent = {"PYTHONWARNINGS": "ignore:IProgress not found", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    client.execute(env={**os.environ, **silent})
    for key in ("execution", "widgets"):
        notebook.metadata.pop(key, None)
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


if __name__ == "__main__":
    for each in NOTEBOOKS:
        nbformat.write(executed(each), each)
        print(each.name, f"{each.stat().st_size / 1024:.0f} kB", file=sys.stderr)
