"""Corpus runs on Ray: the same files as the local engine writes, also when workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_corpus import digests, folder, run, write_texts
from typer.testing import CliRunner

from whence.cli import app
from whence.errors import UsageError

assert folder  # a fixture

RAY = pytest.importorskip("ray", reason="Ray is not installed: pip install 'whence[ray]'")


def test_ray_writes_the_same_files_though_a_worker_is_killed(folder: Path, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv", 400, bad=13)
    run(folder, data, tmp_path / "one")
    killed: list[int] = []

    def kill_one(step: str, done: int, total: int) -> None:
        if not killed:
            killed.append(explainers()[0])
            os.kill(killed[0], signal.SIGKILL)

    run(folder, data, tmp_path / "two", engine="ray", workers=2, progress=kill_one)
    assert killed
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert not RAY.is_initialized()


def explainers() -> list[int]:
    """The processes of Ray's actors that explain."""
    listing = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listing.splitlines() if "ray::" in line and "Explainer" in line]


def test_what_ray_cannot_do_is_told(folder: Path, tmp_path: Path, bert: Any) -> None:
    data = write_texts(tmp_path / "reviews.csv", 8)
    with pytest.raises(UsageError, match="workers elsewhere cannot be given a loaded model"):
        run(bert, data, tmp_path / "1", engine="ray")
    with pytest.raises(UsageError, match="an address is that of a Ray cluster"):
        run(folder, data, tmp_path / "2", address="auto")
    arguments = ["run", "--model", str(folder), "--data", "-", "--engine", "ray", "--out", str(tmp_path / "3")]
    result = CliRunner().invoke(app, arguments, input="a film\n")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: standard input cannot be read by another machine\n")
