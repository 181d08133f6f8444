"""Figures are written alike from run to run."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

matplotlib.use("agg")
from matplotlib import pyplot

from whence.render.figure_file import write_figure


def drawn() -> Figure:
    figure, ax = pyplot.subplots()
    ax.plot([0, 1], [1, 0], "o", clip_on=True)  # markers and clip paths are what SVG gives ids to
    ax.fill_between([0, 1], [0, 1], hatch="/")
    return figure


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_two_writes_are_equal_to_the_byte(ending: str, tmp_path: Path) -> None:
    open_before = pyplot.get_fignums()  # other tests' figures
    first, second = (write_figure(drawn(), tmp_path / name / f"figure.{ending}") for name in ("one", "other"))
    assert first.read_bytes() == second.read_bytes()
    assert pyplot.get_fignums() == open_before


def test_without_it_two_writes_differ(tmp_path: Path) -> None:
    for name in ("one", "other"):
        drawn().savefig(tmp_path / f"{name}.svg", metadata={"Date": None})
    pyplot.close("all")
    assert (tmp_path / "one.svg").read_bytes() != (tmp_path / "other.svg").read_bytes()


def test_every_figure_of_whence_and_its_experiments_is_written_so() -> None:
    folders = [Path(__file__).parents[1] / name for name in ("src", "experiments", "benchmarks", "training")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert [file.name for file in files if re.search(r'savefig\((?!")', file.read_text())] == ["figure_file.py"]
