"""Tokens are gathered into units in one place, whatever the tokenizer and the task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import tiny

import whence
from whence.models.players import player_of_each_token
from whence.models.token_sets import distinct_sets

TEXT, PAIR = "a playful film, unhappily", "who made it"  # [CLS] a play ##ful film , un ##happi ##ly [SEP] who made it


@pytest.mark.parametrize(
    ("units", "players"),
    [
        ("token", [None, 0, 1, 2, 3, 4, 5, 6, 7, None, 8, 9, 10, None]),
        ("word", [None, 0, 1, 1, 2, 3, 4, 4, 4, None, 5, 6, 7, None]),
        ([(10, 25), (0, 9)], [None, 0, 0, 0, 1, 1, 1, 1, 1, None, None, None, None, None]),
        ([(10, 14)], [None, None, None, None, 0, None, None, None, None, None, None, None, None, None]),
        (([(0, 9)], [(0, 3), (4, 11)]), [None, 0, 0, 0, None, None, None, None, None, None, 1, 2, 2, None]),
        (([], [(0, 11)]), [None, None, None, None, None, None, None, None, None, None, 0, 0, 0, None]),
    ],
)
def test_tokens_of_a_pair_are_gathered(units: Any, players: list[int | None], bert: whence.LayeredModel) -> None:
    assert player_of_each_token(bert.encode(TEXT, PAIR), units) == players


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama"])
def test_players_of_words_are_the_words(family: str) -> None:
    model = tiny(family)
    encoding = model.encode("it's a  playful film, 👍🏽 日本!")
    players = player_of_each_token(encoding, "word")
    words = [token.word for token in encoding.tokens]
    assert [player for player in players if player is not None] == [word for word in words if word is not None]
    assert max(player for player in players if player is not None) == 8


@pytest.mark.parametrize("units", [[(3, 3)], [(0, 9), (5, 12)], [(0, 26)], [(-1, 4)], [[(0, 1)], [(0, 12)]]])
def test_spans_that_are_none_are_refused(units: Any, bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.UsageError, match="is empty, overlaps the next or lies outside"):
        player_of_each_token(bert.encode(TEXT, PAIR), units)


def test_an_unknown_unit_is_refused(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.UnknownNameError, match="unknown unit 'wrod'"):
        player_of_each_token(bert.encode(TEXT), "wrod")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0), (1, 1), (40, 3), (60, 20), (30, 130)])
def test_distinct_sets_are_those_that_numpy_finds(shape: tuple[int, int]) -> None:
    sets = np.random.default_rng(0).random(shape) < 0.5
    sets[shape[0] // 2 :] = sets[: shape[0] - shape[0] // 2]
    first, which = distinct_sets(sets)
    packed = np.packbits(sets, axis=1)
    if packed.size:
        _, of_numpy, back = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        assert (first == of_numpy).all()
        assert (which == back.reshape(-1)).all()
    assert (sets[first][which] == sets).all()
