"""What changed copies of a text begin with is run once, whatever is changed behind it, and the scores stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from tiny_models import LONG, SHORT, tiny
from torch import nn

import whence
from whence.engine.masked import MaskedTexts
from whence.models import shared_beginning
from whence.models.hiding import HIDES, Hiding

DECODERS = [
    ("gpt2", "causal_lm"), ("gpt-neox", "causal_lm"), ("llama", "causal_lm"), ("qwen3", "causal_lm"),
    ("gemma2", "causal_lm"), ("gemma3", "causal_lm"), ("opt", "causal_lm"), ("gpt2", "classification"),
    ("llama", "classification"),
]  # fmt: skip


def tokens_run(model: whence.LayeredModel, block: int, ask: Callable[[], Any]) -> tuple[Any, int]:
    """What is found, and how many tokens that block was given for it, padding included."""
    seen = 0

    def count(part: nn.Module, args: Any, kwargs: Any) -> None:
        nonlocal seen
        state = args[0] if args else kwargs["hidden_states"]
        seen += state.shape[:2].numel()

    handle = model.stack.blocks[block].register_forward_pre_hook(count, with_kwargs=True)
    try:
        return ask(), seen
    finally:
        handle.remove()


@pytest.mark.parametrize("layer", ["embeddings", 0, 1])
@pytest.mark.parametrize(("family", "head"), DECODERS)
def test_replaced_tokens_share_what_stands_before_them(
    family: str, head: str, layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(family, head)
    texts = [LONG, SHORT, LONG[:40]]

    def ask() -> Any:
        return whence.explain(model, texts, "leave_one_out", baseline="zero", layers=layer, batch_tokens=100)

    ask()  # what is looked at once is behind us
    shared, few = tokens_run(model, -1, ask)
    monkeypatch.setattr(shared_beginning, "continues", lambda model, inputs: False)
    apart, many = tokens_run(model, -1, ask)
    for one, other in zip(shared, apart, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5, rtol=1e-5)
        assert np.abs(other.scores).max() > 1e-3
        assert one.cost.forwards in (other.cost.forwards, other.cost.forwards + 1), "a pass for a text's beginning"
    assert few < 0.85 * many, (few, many)


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "gemma3", "opt"])
def test_a_response_has_the_same_scores_for_fewer_tokens(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(family, "causal_lm")

    def ask() -> Any:
        return whence.explain(
            model, LONG, "leave_one_out", response=" a film", baseline=3, special=True, batch_tokens=100
        )

    ask()
    shared, few = tokens_run(model, 0, ask)
    monkeypatch.setattr(shared_beginning, "continues", lambda model, inputs: False)
    apart, many = tokens_run(model, 0, ask)
    np.testing.assert_allclose(shared.outputs.scores, apart.outputs.scores, atol=1e-5, rtol=1e-5)
    assert few < 0.8 * many, (few, many)


@pytest.mark.parametrize("hide", [hide for hide in HIDES if hide not in ("mask", "pad")])
@pytest.mark.parametrize(
    ("family", "head"), [("gpt2", "causal_lm"), ("llama", "causal_lm"), ("llama", "classification")]
)
def test_games_share_what_stands_before_the_first_hidden_token(
    family: str, head: str, hide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(family, head)
    encodings = [model.encode(text) for text in (LONG, SHORT)]
    generator, width = np.random.default_rng(0), len(encodings[0])
    rows = np.repeat([0, 1], 20)
    keep = np.arange(width) < generator.integers(width // 2, width + 1, size=(40, 1))
    for row, encoding in enumerate(encodings):
        keep[rows == row, len(encoding) :] = False
        keep[rows == row, len(encoding) - 1] = True

    def ask() -> Any:
        return MaskedTexts(model, encodings, Hiding.of(model, hide), 200).answers(rows, keep)

    ask()
    shared, few = tokens_run(model, 0, ask)
    monkeypatch.setattr(shared_beginning, "continues", lambda model, inputs: False)
    apart, many = tokens_run(model, 0, ask)
    np.testing.assert_allclose(shared.probability, apart.probability, atol=1e-6, rtol=1e-5)
    np.testing.assert_array_equal(shared.said, apart.said)
    assert few < 0.8 * many, (few, many)


def test_nothing_is_shared_at_the_top_where_a_row_costs_less_than_the_beginning() -> None:
    model = tiny("llama", "causal_lm")
    whence.explain(model, LONG, "leave_one_out", baseline="zero", batch_tokens=100)
    remembered: list[int] = []
    assert model.remember is not None
    remember = model.remember

    def counted(inputs: Any) -> Any:
        remembered.append(1)
        return remember(inputs)

    object.__setattr__(model, "remember", counted)
    try:
        whence.explain(model, LONG, "leave_one_out", baseline="zero", layers=[model.n_layers], batch_tokens=100)
        assert not remembered
        whence.explain(model, LONG, "leave_one_out", baseline="zero", layers=[0], batch_tokens=100)
        assert remembered == [1]
    finally:
        object.__setattr__(model, "remember", remember)


def test_a_model_is_looked_at_on_how_a_long_text_begins() -> None:
    module = tiny_models.build("llama", "causal_lm", max_position_embeddings=1_024)
    model = whence.load(module, tiny_models.tokenizer_of("llama"))
    inputs = model.collate([model.encode(" ".join([LONG] * 20))])
    with model.held(), torch.inference_mode():
        known, longest = tokens_run(model, 0, lambda: shared_beginning.continues(model, inputs))
    assert known
    assert longest <= 2 * 2 * 128
