"""Tokens by columns are the tokens themselves, and the words that many have are those that each has."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

import whence
from whence.explanation import Unit, units_of_tokens
from whence.explanation_json import to_json
from whence.models.inputs import Encoding
from whence.models.parts import parts_of, weights_of
from whence.tokens import Token, Tokens
from whence.units import word_of, word_spans, words_of

TEXTS = ["a film", "  It's not\tbad, 👍🏽!", "日本の film", "مرحبا بالعالم", "\u200b x", " ", ""]
MADE = (Token("[CLS]", 2, 0, 0, special=True), Token("a", 5, 0, 1, word=0), Token("film", 7, 2, 6, word=1))


@pytest.mark.parametrize("text", TEXTS)
def test_words_of_many_pieces_are_those_of_each(text: str) -> None:
    pieces = [(start, end) for start in range(len(text) + 1) for end in range(start, len(text) + 1)]
    spans = word_spans(text)
    assert words_of(pieces, text) == [word_of(start, end, text, spans) for start, end in pieces]


def test_json_by_columns_is_that_of_the_rows() -> None:
    odd = Token('"\\é\u2028👍\x00', 2**40, 0, 9, segment=1)
    for made in (MADE, (*MADE, odd), ()):
        tokens = Tokens.of(made)
        assert tokens.json() == json.dumps(tokens.rows(), separators=(",", ":"))


def test_columns_are_the_tokens() -> None:
    tokens = Tokens.of(MADE)
    assert tokens == MADE
    assert tokens != MADE[:2]
    assert hash(tokens) == hash(MADE)
    assert (len(tokens), tokens[-1], tokens[1:]) == (3, MADE[2], MADE[1:])
    assert (list(tokens.ids), list(tokens.special), list(tokens.words)) == (
        [2, 5, 7],
        [True, False, False],
        [None, 0, 1],
    )
    assert tokens.rows() == [vars(token) for token in MADE]
    assert Tokens.of(tokens) is tokens
    assert list(Tokens.of(())) == []


def test_an_encoding_takes_tokens_of_either_kind() -> None:
    one = Encoding("a film", None, MADE, {})
    assert one == Encoding("a film", None, Tokens.of(MADE), {})
    assert one.ids == [2, 5, 7]
    assert not one.is_empty
    assert replace(one, tokens=one.tokens[:1]).is_empty


def test_tokens_are_made_once_they_are_looked_at() -> None:
    explanation = whence.explain(whence.load(), "a fine film", "gradient_x_input")
    written = to_json(explanation)
    assert "_made" not in vars(explanation.tokens)
    assert json.loads(written)["tokens"] == [vars(token) for token in explanation.tokens]
    assert "_made" in vars(explanation.tokens)
    assert json.loads(written) == explanation.to_dict()


def test_parts_and_weights_are_those_that_torch_finds() -> None:
    shared = nn.Linear(2, 2)
    module = nn.Sequential(
        shared, nn.ModuleList([nn.LayerNorm(2, elementwise_affine=False), shared]), nn.Bilinear(2, 2, 1)
    )
    module.register_module("nothing", None)
    assert {id(part) for part in parts_of(module)} == {id(part) for part in module.modules()}
    assert len(parts_of(module)) == len(list(module.modules()))
    assert sorted(map(id, weights_of(parts_of(module)))) == sorted(map(id, module.parameters()))


def test_words_are_made_once_they_are_looked_at_and_are_those_of_their_tokens() -> None:
    text, pair = "  It's not\tbad, 👍🏽!", "日本の film"
    explanation = whence.explain(whence.load(), text, "gradient_x_input", layers="all", units="word")
    assert explanation.units is not None
    words = explanation.units.units
    assert "_made" not in vars(words)
    assert "_made" not in vars(explanation.tokens)
    own = [[i for i, token in enumerate(explanation.tokens) if token.word == number] for number in range(len(words))]
    assert [unit.tokens for unit in words] == list(map(tuple, own))
    assert [text[unit.start : unit.end] for unit in words] == [text[start:end] for start, end in word_spans(text)]
    for layer, row in zip(explanation.layers, explanation.units.scores, strict=True):
        assert row.tolist() == [np.float32(sum(map(float, explanation.row(layer)[positions]))) for positions in own]
    tokens = (Token("▁日本", 1, 0, 2, 1), Token("▁film", 2, 3, 8, 1), Token("bad", 3, 11, 14), Token("not", 4, 7, 10))
    found = units_of_tokens(tokens, [[0], [1], [2, 3]], text, pair)
    assert list(found) == [Unit(0, 2, 1, (0,)), Unit(4, 8, 1, (1,)), Unit(7, 14, 0, (2, 3))]
