"""The page of one-pass explanations: which boards are on it, and who is told to be ahead of whom."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from weighted_words import TEXTS, explained, length, of_tokens, weighted_words

from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import evaluate

FOLDER = Path(__file__).parents[1] / "experiments" / "one_pass"
SCOREBOARDS = FOLDER.parent / "scoreboard" / "results"


@pytest.fixture(scope="module")
def scripts() -> Iterator[None]:
    sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
    yield
    for folder in (FOLDER, FOLDER.parent):
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def board() -> Scoreboard:
    methods: dict[str, Any] = {
        "one_pass": "shapley", "shapley": "leave_one_out", "held_still": of_tokens(length, "length"),
    }  # fmt: skip
    return evaluate(
        weighted_words(), TEXTS, methods=methods, metrics=["cost"], layer="embeddings",
        explanations={"reverse": explained(TEXTS, -1.0)},
    )  # fmt: skip


def of_each_text(board: Scoreboard) -> dict[str, list[float]]:
    values = board.values["faithfulness"]
    return {entry.name: list(map(float, row)) for entry, row in zip(board.entries, values, strict=True)}


def test_who_is_surely_ahead_is_what_the_board_says(scripts: None, board: Scoreboard) -> None:
    from surely_ahead import surely_ahead

    ahead = surely_ahead(of_each_text(board), seed=0)
    ranking = board.ranking()
    names = [each.name for each in ranking.standings]
    theirs = {(one, other) for one in names for other in names if ranking.surely_better(one, other)}
    assert ahead == theirs
    assert ("one_pass", "random") in ahead


def test_texts_of_another_run_count_where_they_are_the_same(scripts: None, board: Scoreboard, tmp_path: Path) -> None:
    from judged import Judged  # type: ignore[import-not-found]

    own, others = tmp_path / "own", tmp_path / "others"
    for folder in (own, others):
        folder.mkdir()
    (own / "sst2.json").write_text(json.dumps(board.to_dict()))
    (own / "sst2.run.json").write_text("{}")
    assert Judged.read("SST-2", own / "sst2.json", others).texts == {}
    texts = of_each_text(board)
    shifted = {**texts, "shapley": [value + 0.1 for value in texts["shapley"]]}
    (others / "sst2.run.json").write_text(json.dumps({"faithfulness": shifted}))
    found = Judged.read("SST-2", own / "sst2.json", others)
    assert found.texts.keys() == texts.keys() - {"shapley"}, "other texts, or another model"
    (own / "sst2.run.json").write_text(json.dumps({"faithfulness": texts}))
    whole = Judged.read("SST-2", own / "sst2.json", others)
    assert whole.texts.keys() == texts.keys()
    assert whole.relation("one_pass", "reverse") == found.relation("one_pass", "reverse") == "surely above"
    assert whole.relation("reverse", "one_pass") == "surely below"
    assert whole.relation("one_pass", "one_pass") == "not told apart"


@pytest.fixture
def scoreboards(tmp_path: Path) -> Path:
    folder = tmp_path / "scoreboards"
    folder.mkdir()
    for name in ("imdb.json", "imdb.run.json"):
        shutil.copy(SCOREBOARDS / name, folder)
    return folder


def written(scoreboards: Path) -> str:
    out = scoreboards / "one_pass.md"
    runpy.run_path(str(FOLDER / "write_page.py"))["main"](out, scoreboards)
    return out.read_text(encoding="utf-8")


def test_responses_are_on_the_page_as_soon_as_their_board_has_probes(
    scripts: None, board: Scoreboard, scoreboards: Path
) -> None:
    def opening() -> str:
        return " ".join(written(scoreboards).partition("## Held")[0].split())

    assert "- Not judged yet with probes: What a decoder answers." in opening()
    told = json.dumps(board.to_dict())
    file = scoreboards / "responses.json"
    file.write_text(told.replace('"one_pass"', '"grad_cam"'))
    assert "Not judged yet with probes: What a decoder answers." in opening(), "a board without probes of its own"
    file.write_text(told)
    found = opening()
    assert "Not judged yet" not in found
    answers = f"- What a decoder answers (n = {board.n_texts})"
    assert f"{answers}: `one_pass` is surely above `shapley` (25 orders) with" in found
    assert "; our aim was all of them." in found, "SST-2, beside Shapley sampling of the probability"
    mean = np.mean(of_each_text(board)["one_pass"])
    assert f"| one_pass | {mean:.3f} [" in written(scoreboards).partition("## What a decoder answers")[2]
    file.write_text(told.replace('"shapley"', '"lime"'))
    assert "- What a decoder answers, without Shapley sampling: Believe" in opening()
