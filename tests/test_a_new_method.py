"""A method of a user's own is one file; explain, board, page, terminal and the contract take it in one call each."""

from __future__ import annotations

import io
import runpy
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from rich.console import Console

import whence
from whence.testing import METHOD_CHECKS, Check

FILE = '''
"""Gradient x difference: integrated gradients in one step."""

import torch

import whence
from whence.methods.baselines import Baseline, BaselineStates


def gradient_x_difference(question: whence.Question, *, baseline: Baseline = "auto") -> whence.Scores:
    """(state - baseline) x gradient at the text itself."""
    nothing = BaselineStates(question, baseline)
    products = [
        ((question.states.at(layer).detach() - nothing.at(layer)) * gradient).sum(dim=-1)
        for layer, gradient in zip(question.layers, question.state_gradients(), strict=True)
    ]
    return whence.Scores(torch.stack(products, dim=1))


METHOD = whence.Method(
    gradient_x_difference,
    whence.Meaning("gradient x difference", "what the token adds, to first order", signed=True, additive=True),
    needs="gradients, a baseline",
    cost="2 forwards, 1 backward, all layers together",
    layers="all",
)
'''


@pytest.fixture(scope="module")
def method(tmp_path_factory: pytest.TempPathFactory) -> whence.Method:
    path: Path = tmp_path_factory.mktemp("mine") / "gradient_x_difference.py"
    path.write_text(FILE)
    found = runpy.run_path(str(path))["METHOD"]
    assert isinstance(found, whence.Method)
    return found


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_the_contract_runs_over_it(method: whence.Method, check: Check, bert: whence.LayeredModel) -> None:
    check(method, bert)


def test_it_explains_and_is_shown_like_any_other(method: whence.Method, bert: whence.LayeredModel) -> None:
    explanation = whence.explain(bert, "a good film", method, baseline="zero")
    plain = whence.explain(bert, "a good film", "gradient_x_input")
    np.testing.assert_allclose(explanation.scores, plain.scores, rtol=1e-4, atol=1e-5)
    assert (explanation.method, explanation.options) == ("gradient_x_difference", {"baseline": "zero"})
    assert "gradient_x_difference" in explanation.to_html()
    console = Console(width=120, file=io.StringIO())
    console.print(explanation)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "gradient_x_difference" in shown
    assert "what the token adds, to first order" in shown
    decoded = whence.explain(whence.load(), "a good film", whence.methods.decoded.decoded(method), layers=3)
    assert (decoded.method, decoded.meaning.decoded) == ("decoded_gradient_x_difference", True)


def test_a_board_takes_it(method: whence.Method, bert: whence.LayeredModel) -> None:
    board = whence.evaluate(
        bert, tiny_models.TEXTS, methods=[method, "leave_one_out"], metrics=["comprehensiveness"], layer="embeddings"
    )
    assert [entry.name for entry in board.entries][:2] == ["gradient_x_difference", "leave_one_out"]
    assert np.isfinite(board.interval("gradient_x_difference", "comprehensiveness").mean)  # type: ignore[union-attr]
