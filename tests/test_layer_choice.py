"""Layers are chosen on as many texts as settle the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import TEXTS as TINY_TEXTS

import whence
from whence.scoreboard import layer_choice
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import HELD_OUT, evaluate, set_aside
from whence.scoreboard.layer_choice import chosen, portions

WORDS = ("bad", "good", "witty", "sad", "film", "not", "so", "she", "was", "and")
MANY = [f"{text} {one} {other}" for text in TINY_TEXTS for one in WORDS for other in WORDS]


def test_portions_double_and_cover_every_text_once() -> None:
    parts = list(portions(100))
    assert [len(part) for part in parts] == [16, 16, 32, 36]
    assert sorted(index for part in parts for index in part) == list(range(100))
    assert list(portions(5)) == [list(np.random.default_rng(0).permutation(5))]
    assert list(portions(0)) == []


def test_a_clear_choice_is_settled_and_noise_is_not() -> None:
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(20, 3))
    assert chosen(np.array([0.0, 1.0, 0.5]) + 0.01 * noise) == (1, 1.0)
    best, stability = chosen(noise)
    assert stability < 0.95
    assert best == int(noise.mean(axis=0).argmax())
    as_good = np.array([0.5, 0.505, 0.2]) + np.zeros((20, 3))
    assert chosen(as_good + 0.004 * noise[:, :1])[1] == 1.0, "a difference of less than 0.01 is none"
    assert chosen(np.full((4, 3), 0.2)) == (0, 1.0), "of equal ones the one nearest the input"


def board(bert: whence.LayeredModel, **settings: Any) -> Scoreboard:
    return evaluate(bert, MANY, methods=["grad_cam", "leave_one_out"], metrics=["sufficiency"], limit=20, **settings)


def test_texts_are_added_until_the_choice_is_settled(
    bert: whence.LayeredModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(layer_choice, "chosen", lambda values: (0, 1.0 if len(values) >= 32 else 0.5))
    found = board(bert)
    assert (found.entries[0].chosen_on, found.entries[0].stability) == (32, 1.0)
    assert (found.entries[1].chosen_on, found.entries[1].stability) == (0, None), "which has one layer only"
    assert not any("settle" in warning for warning in found.warnings)
    monkeypatch.setattr(layer_choice, "chosen", lambda values: (1, 0.5))
    found = board(bert, folder=tmp_path)
    assert (found.entries[0].chosen_on, found.entries[0].stability) == (HELD_OUT, 0.5)
    assert "64 held-out texts do not settle which layer is best: grad_cam" in found.warnings
    found.save(tmp_path / "saved")
    assert Scoreboard.load(tmp_path / "saved").entries == found.entries


def test_no_more_texts_are_set_aside_than_may_be_used() -> None:
    assert len(set_aside(1_000, None, "best", chooses=True)) == HELD_OUT
    assert len(set_aside(264, 200, "best", chooses=False)) == HELD_OUT
    assert len(set_aside(40, None, "best", chooses=True)) == 8
