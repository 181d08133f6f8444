"""Every result that a call gives back saves and loads, shows itself in a notebook, and becomes a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
import tiny_models

import whence

TEXTS = ["a good film", "a very bad film"]


def explanation(model: whence.LayeredModel) -> whence.Explanation:
    return whence.explain(model, TEXTS[0], "leave_one_out")


def game(model: whence.LayeredModel) -> whence.GameResult:
    return whence.hiding_game(model, whence.explain(model, TEXTS, "leave_one_out"))


def citations(model: whence.LayeredModel) -> whence.Citations:
    return whence.cite(tiny_models.tiny("llama", "causal_lm"), "why?", TEXTS, answer="a good film", budget=8)


RESULTS: dict[type, Callable[[whence.LayeredModel], Any]] = {
    whence.Explanation: explanation,
    whence.Comparison: lambda model: whence.compare(model, TEXTS[0], ["leave_one_out", "gradient_x_input"]),
    whence.Lens: lambda model: whence.decode_layers(model, TEXTS[0]),
    whence.GameResult: game,
    whence.Scoreboard: lambda model: whence.evaluate(
        model, TEXTS, methods=["leave_one_out"], metrics=["comprehensiveness"]
    ),
    whence.Citations: citations,
    whence.AttentionAudit: lambda model: whence.audit_attention(model, TEXTS, measures=["gradient", "leave_one_out"]),
}


def as_data(result: Any) -> str:
    return json.dumps(result.to_dict(), sort_keys=True, default=str)


@pytest.fixture(scope="module")
def results() -> dict[type, Any]:
    head = tiny_models.tiny("bert", "masked_lm")
    model = whence.load(tiny_models.build("bert"), tiny_models.wordpiece(), head=head)
    return {kind: make(model) for kind, make in RESULTS.items()}


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_a_result_comes_back_from_a_file(kind: Any, results: dict[type, Any], tmp_path: Path) -> None:
    result = results[kind]
    assert type(result) is kind
    result.save(tmp_path / "result")
    assert as_data(kind.load(tmp_path / "result")) == as_data(result)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_what_is_no_result_is_refused(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(whence.FileError):
        kind.load(tmp_path / "nothing")
    (tmp_path / "broken.json").write_text('{"schema": ')
    with pytest.raises(whence.FileError):
        kind.load(tmp_path / "broken.json")


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_a_result_shows_itself_in_a_notebook_and_becomes_a_table(kind: Any, results: dict[type, Any]) -> None:
    result = results[kind]
    assert "<" in result._repr_html_()
    frame = result.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame)
    assert len(frame.columns)


def test_no_result_of_the_door_is_left_out() -> None:
    """Whatever the door shows that can be saved and is not trained is a result."""
    saved = {getattr(whence, name) for name in whence.__all__ if hasattr(getattr(whence, name), "save")}
    assert {kind for kind in saved if not hasattr(kind, "fit")} == set(RESULTS)
