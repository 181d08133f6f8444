"""A metric of the user's own: one call, and the board, its page, the terminal and the files have it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from weighted_words import TEXTS, weighted_words

from whence.errors import UnknownNameError, UsageError
from whence.metrics.answered import AnsweredText, ScoredText
from whence.metrics.table import METRICS, Metric, checked_metric, chosen_metrics, register
from whence.render.scoreboard_page import page_data, scoreboard_page
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import evaluate


def first_tenth(answered: AnsweredText) -> float:
    """what the decision loses without the first tenth of the tokens"""
    return answered.whole - float(answered.curve("hiding")[1])


def largest(scored: ScoredText) -> float:
    return float(np.abs(scored.scores).max())


OWN = Metric("first_tenth", "what the decision loses without the first tenth of the tokens", "higher", first_tenth)


@pytest.fixture
def registered() -> Iterator[Metric]:
    yield register(OWN)
    METRICS.pop("first_tenth")


def board_with(**settings: Any) -> Scoreboard:
    return evaluate(weighted_words(), TEXTS, methods=["gradient_x_input"], layer="embeddings", **settings)


def check_everywhere(board: Scoreboard, folder: Path) -> None:
    curves = board.curves[:, :, 0]  # the hiding game's probability
    np.testing.assert_allclose(board.values["first_tenth"], curves[:, :, 0] - curves[:, :, 1], atol=1e-6)
    assert board.ranking("first_tenth").standings[-1].name == "random"
    data = page_data(board)
    told = data["metrics"]["first_tenth"]
    assert (told["title"], told["better"], told["sentence"]) == ("first tenth", "higher", OWN.sentence)
    assert len(data["rankings"]["first_tenth"]) == 3
    assert "first_tenth" in scoreboard_page(board)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(board)
    shown = console.export_text()
    assert f"first tenth: {OWN.sentence}" in " ".join(shown.split())
    mean = board.interval("gradient_x_input", "first_tenth").mean  # type: ignore[union-attr]
    assert any("gradient_x_input" in line and f"{mean:.2f}" in line for line in shown.splitlines())
    board.save(folder)
    assert json.loads((folder / "scoreboard.json").read_text())["metrics"]["first_tenth"]["better"] == "higher"
    assert board.to_dataframe()["first_tenth"].notna().all()


def check_loads(board: Scoreboard, folder: Path) -> None:
    again = Scoreboard.load(folder)
    assert again.kinds["first_tenth"].sentence == OWN.sentence
    assert again.to_dict() == board.to_dict()
    np.testing.assert_array_equal(again.values["first_tenth"], board.values["first_tenth"])


def test_a_registered_metric_is_on_every_board(registered: Metric, tmp_path: Path) -> None:
    board = board_with()
    assert board.metrics[-1] == "first_tenth"
    check_everywhere(board, tmp_path)
    check_loads(board, tmp_path)
    METRICS.pop("first_tenth")
    check_loads(board, tmp_path)
    register(OWN)
    assert list(chosen_metrics(["own"])) == ["faithfulness", "first_tenth"]


def test_a_metric_can_be_given_to_one_board(tmp_path: Path) -> None:
    board = board_with(metrics=["sufficiency", OWN, largest])
    assert board.metrics == ("faithfulness", "sufficiency", "first_tenth", "largest")
    check_everywhere(board, tmp_path)
    check_loads(board, tmp_path)
    assert "first_tenth" not in METRICS
    np.testing.assert_allclose(board.values["largest"][0], [np.abs(row).max() for row in board.scores[0]])
    with pytest.raises(UsageError, match="neither more nor less largest"):
        board.ranking("largest")


def test_a_metric_of_peoples_marks() -> None:
    found = Metric("n_marked", "how many words people marked", None, lambda text: float(text.marked.sum()), "marked")
    marks = [[(text.index("good"), text.index("good") + 4)] for text in TEXTS]
    board = board_with(metrics=[found], rationales=marks)
    assert (board.values["n_marked"] == 1).all()


def test_a_metric_takes_up_finished_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store keeps what the model said, so that another metric costs no pass through it."""
    first = board_with(metrics=["sufficiency"], folder=tmp_path)
    monkeypatch.setattr("whence.scoreboard.games.answered", lambda *_, **__: pytest.fail("asked again"))
    again = board_with(metrics=["sufficiency", OWN], folder=tmp_path)
    np.testing.assert_array_equal(again.values["sufficiency"], first.values["sufficiency"])
    assert np.isfinite(again.values["first_tenth"]).all()


def no_annotation(answered):
    return 0.0


def replaced(**wrong: Any) -> Metric:
    return replace(OWN, **wrong)


def two_texts(answered: AnsweredText, other: AnsweredText) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (replace(OWN, name="sufficiency"), "there is a metric or a group 'sufficiency' already"),
        (replace(OWN, name="shape"), "there is a metric or a group 'shape' already"),
        (replace(OWN, name="first tenth"), "is no name for a metric"),
        (replaced(better="more"), "unknown direction of metric first_tenth 'more'"),
        (replaced(group="mine"), "unknown group of metric first_tenth 'mine'"),
        (replace(OWN, compute=None), "nobody computes the metric 'first_tenth'"),
        (replace(OWN, of="explained again"), "nobody computes the metric 'first_tenth'"),
        (replace(OWN, of="scored"), "fails on a made-up scored text: AttributeError"),
        (replaced(compute=lambda: 0.0), "fails on a made-up answered text: TypeError"),
        (replaced(compute=lambda text: None), "gives NoneType, not a number"),
        (no_annotation, "does not say what it is computed from"),
        (two_texts, "does not say what it is computed from"),
        (3, "3 is no metric"),
    ],
)
def test_what_is_no_metric_is_not_registered(metric: Any, problem: str) -> None:
    before = dict(METRICS)
    with pytest.raises(UsageError, match=problem):
        register(metric)
    assert before == METRICS


def test_a_name_is_given_once(registered: Metric) -> None:
    with pytest.raises(UsageError, match="'first_tenth' already"):
        register(OWN)
    assert chosen_metrics([OWN])["first_tenth"] is registered, "the very same may be given again"
    with pytest.raises(UsageError, match="two metrics are called 'first_tenth'"):
        chosen_metrics([replace(OWN, better="lower")])
    with pytest.raises(UnknownNameError, match="unknown metric 'last_tenth'"):
        chosen_metrics(["last_tenth"])


def test_a_metric_that_nobody_computes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = replace(METRICS["seed_stability"], name="weather_stability")
    monkeypatch.setitem(METRICS, "weather_stability", forgotten)
    with pytest.raises(UsageError, match="nobody computes the metric 'weather_stability'"):
        board_with()


def test_every_metric_of_the_table_can_be_computed_or_is_made_by_a_step() -> None:
    for metric in METRICS.values():
        if metric.of == "explained again":
            assert metric.compute is None
        else:
            assert checked_metric(metric) is metric
    assert checked_metric(largest).of == "scored"
