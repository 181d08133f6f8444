"""Attention of a decoder's next token: the row of the token that is read, one block's map at a time."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from tiny_models import LONG, SHORT, tiny

import whence
from whence.models import attention_maps
from whence.models.attention_maps import read_attention_where_read, read_block_attention

DECODERS = [family for family, head in tiny_models.CASES if head == "causal_lm"]


def undecided() -> whence.LayeredModel:
    """A tiny Llama that asks nothing: every query is zero, so a token looks alike at itself and all before it."""
    module: Any = tiny_models.build("llama", "causal_lm")
    for block in module.model.layers:
        block.self_attn.q_proj.weight.data.zero_()
    return whence.load(module, tiny_models.tokenizer_of("llama"))


def test_only_the_token_that_is_read_looks() -> None:
    model = undecided()
    found = whence.explain(model, SHORT, "attention")
    n = len(found.tokens)
    np.testing.assert_allclose(found.scores, np.full((3, n), 1 / n), atol=1e-6)
    assert "from the token that is read" in found.meaning.sentence
    # half of the first block's weight stays, the other half goes to all alike; in the second both happen again
    rolled = whence.explain(model, SHORT, "attention_rollout", layers=[1, 2])
    step = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None] / 2 + np.eye(n) / 2
    np.testing.assert_allclose(rolled.row(1), step[-1], atol=1e-6)
    np.testing.assert_allclose(rolled.row(2), (step @ step)[-1], atol=1e-6)


def test_read_at_a_character_what_follows_it_gets_nothing() -> None:
    model = undecided()
    found = whence.explain(model, "not the best movie of the year", "attention", target=whence.Label(at=8))
    before = [token.end <= 8 for token in found.tokens]  # <s> not the
    expected = np.where(before, 1 / sum(before), 0)
    np.testing.assert_allclose(found.scores, np.tile(expected, (3, 1)), atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "gemma2", "gemma3"])
def test_attention_of_a_decoder_by_loops(family: str) -> None:
    """What transformers itself returns, row by row; the texts together in a batch."""
    model = tiny(family, "causal_lm")
    texts = [LONG, SHORT]
    found, rolled = (whence.explain(model, texts, method) for method in ("attention", "attention_rollout"))
    for text, one, other in zip(texts, found, rolled, strict=True):
        inputs = model.collate([model.encode(text)])
        module: Any = model.module
        usual = module.config._attn_implementation
        module.set_attn_implementation("eager")
        try:
            with torch.no_grad():
                maps = module(input_ids=inputs.ids, output_attentions=True).attentions
        finally:
            module.set_attn_implementation(usual)
        row = None
        for layer, weights in enumerate(maps, start=1):
            heads = [head[-1].tolist() for head in weights[0]]
            np.testing.assert_allclose(one.row(layer), np.max(heads, axis=0), atol=1e-6)
            mean = weights[0].double().mean(dim=0).numpy()
            step = mean / 2 + np.eye(len(mean)) / 2
            row = step if row is None else step @ row
            np.testing.assert_allclose(other.row(layer), row[-1], atol=1e-6)


def test_an_encoder_is_looked_at_by_all_its_tokens() -> None:
    found = whence.explain(tiny("bert", "masked_lm"), "a [MASK] film", "attention")
    assert found.meaning == whence.METHODS["attention"].meaning


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3"])
def test_no_block_s_map_outlives_the_next(family: str) -> None:
    model = tiny(family, "causal_lm")
    maps: list[Any] = []

    def look(layer: int, weights: torch.Tensor) -> None:
        assert all(earlier() is None for earlier in maps), f"a map is still there at block {layer}"
        maps.append(weakref.ref(weights))

    assert read_block_attention(model, model.collate([model.encode(LONG)]), look) == 1
    assert len(maps) == model.n_layers


def whole_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model has to be read that cannot go on from keys and values."""
    monkeypatch.setattr(attention_maps, "continues", lambda model, inputs: False)


@pytest.mark.parametrize("family", DECODERS)
def test_rows_alone_say_what_whole_maps_say(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(family, "causal_lm")
    asked: list[dict[str, Any]] = [
        {"texts": [LONG, SHORT, LONG[:30]]},
        {"texts": LONG, "target": whence.Label(at=20)},
        {"texts": LONG, "response": " a dull film"},
    ]
    rows = [whence.explain(model, method="attention", **each) for each in asked]
    whole_maps(monkeypatch)
    maps = [whence.explain(model, method="attention", **each) for each in asked]
    for found, expected in zip([*rows[0], *rows[1:]], [*maps[0], *maps[1:]], strict=True):
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        assert (found.cost.forwards, expected.cost.forwards) == (3, 2), "the tokens before are a pass of their own"
        assert found.meaning == expected.meaning


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3"])
def test_no_row_is_made_but_those_of_tokens_that_are_read(family: str) -> None:
    model = tiny(family, "causal_lm")
    encoding = model.encode(LONG)
    shapes: list[tuple[int, ...]] = []
    inputs = model.collate([encoding])
    assert read_attention_where_read(model, inputs, lambda layer, weights: shapes.append(weights.shape[-2:])) == 2
    assert shapes == [(1, len(encoding))] * model.n_layers
