"""The page of the scoreboards says what its results files hold."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from weighted_words import TEXTS, explained, length, of_tokens, weighted_words

from whence.scoreboard.evaluate import evaluate

FOLDER = Path(__file__).parent.parent / "experiments" / "scoreboard"


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"scoreboard_{name}", FOLDER / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    given: dict[str, Any] = {
        "layer": "embeddings", "explanations": {"reverse": explained(TEXTS, -1.0)},
        "options": {"shapley": {"samples": 4}},
    }  # fmt: skip
    methods: dict[str, Any] = {"shapley": "shapley", "length": of_tokens(length, "length")}
    sst2 = evaluate(weighted_words(), TEXTS, methods=methods, metrics=["sufficiency", "randomisation", "cost"], **given)
    decoder = evaluate(weighted_words(), TEXTS, methods=["shapley"], metrics=["forwards", "backwards"], **given)
    for name, board in {"sst2": sst2, "decoder": decoder}.items():
        (folder / f"{name}.json").write_text(json.dumps(board.to_dict()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "scoreboard.md"
    sys.path.insert(0, str(FOLDER))
    try:
        script("write_page").main(argparse.Namespace(results=results, out=out))
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("figures", None)
    return out


def test_a_section_a_results_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall("^## (.*)$", text, flags=re.MULTILINE)
    assert titles == ["On all boards", "Sentiment: the embedded model on SST-2", "A decoder, read at the next token"]
    for link in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (page.parent / link).stat().st_size > 1_000
    assert text.count("![") == 2
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


def test_the_numbers_are_those_of_the_results(page: Path, results: Path) -> None:
    text = page.read_text(encoding="utf-8")
    board = json.loads((results / "sst2.json").read_text(encoding="utf-8"))
    assert f"**{board['verdict']['answer']}**" in text
    rows = {row[1]: row for line in text.splitlines() if len(row := [c.strip() for c in line.split("|")][1:-1]) > 6}
    shapley = board["means"]["faithfulness"]["shapley"]
    assert rows["shapley"][3] == f"{shapley['mean']:.2f} [{shapley['low']:.2f}, {shapley['high']:.2f}]"
    assert rows["*random*"][0] == ""
    assert "length (ignores the model)" in rows
    assert "Found to ignore the model on some board: length." in text
    assert "shapley (samples 4)" in text
    assert rows["shapley"][-1] == "samples 4", "a handicap is named in the row"
    assert text.count(f"n = {len(TEXTS)} texts; intervals are over texts.") == 2
    assert "| seconds |" not in text, "machines differ from board to board"


def test_a_row_says_that_its_scores_depend_on_the_batch(page: Path) -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        writing = script("write_page")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("figures", None)
    board = {
        "entries": [{"name": "one", "options": {"steps": 10}}, {"name": "other", "options": {}}],
        "means": {"batch_difference": {"one": {"mean": 0.25}, "other": {"mean": 0.0001}}},
    }
    assert writing.notes(board, "one") == "steps 10; changes with its batch, by 0.250 of the largest score"
    assert writing.notes(board, "other") == ""
    told = {"accuracy": {"mean": 0.735, "low": 0.675, "high": 0.79}, "n_texts": 200, "largest_class": 0.51}
    assert "right on 0.73 [0.68, 0.79] of the n = 200 texts" in writing.right_how_often(told)


def test_ranks_on_all_boards(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    together = text[text.index("## On all boards") : text.index("## Sentiment")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in together.splitlines() if line.startswith("| ")]
    assert rows[0] == ["method", "SST-2", "decoder"]
    assert rows[1] == ["shapley", "1", "1"]
    assert ["length", "–"] in [[row[0], row[2]] for row in rows]
    assert "On every board nobody is surely more faithful than shapley." in together
