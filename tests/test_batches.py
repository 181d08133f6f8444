"""How texts are put into batches: by a token budget, shortest first, and back in the order they came."""

from __future__ import annotations

import pytest
import tiny_models
import torch

import whence
from whence.models.batching import batches, tokens_that_fit


def test_batches_keep_within_the_budget_and_lose_nothing() -> None:
    model = tiny_models.tiny("bert")
    texts = [" ".join(["film"] * length) for length in (9, 1, 4, 30, 2, 2, 7)]
    encodings = [model.encode(text) for text in texts]
    found = list(batches(encodings, 24))
    assert sorted(place for batch in found for place in batch) == list(range(len(texts)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(len(encodings[place]) for place in batch) <= 24
    assert len(found) < len(texts), "texts share batches"
    assert len(found[-1]) == 1, "a text longer than the budget comes alone"


def test_a_long_text_does_not_fill_a_batch_with_padding() -> None:
    model = tiny_models.tiny("bert")
    encodings = [model.encode(" ".join(["film"] * (n_tokens - 2))) for n_tokens in (10, 10, 10, 11, 40, 40)]
    assert list(batches(encodings, 1_000)) == [[0, 1, 2, 3, 4, 5]], "a small batch costs more than its padding"
    assert list(batches(encodings, 160)) == [[0, 1, 2, 3], [4, 5]]


def test_explanations_come_back_in_order(bert: whence.LayeredModel) -> None:
    texts = ["a very long film that is not so good", "bad", "a good film", "bad"]
    seen: list[tuple[str, int, int]] = []
    found = whence.explain(bert, iter(texts), "random", batch_tokens=8, progress=lambda *step: seen.append(step))
    assert [each.text for each in found] == texts
    assert (found[1].scores == found[3].scores).all()
    assert seen[-1] == ("random", 4, 4)
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_a_large_model_gets_small_batches() -> None:
    model = tiny_models.tiny("bert")
    assert tokens_that_fit(80 * 2**30, model) == 65_536
    # 34 numbers of 4 bytes for 16 features in 3 + 1 layers
    assert tokens_that_fit(2 * 1000 * 34 * 4 * 16 * 4, model) == 1000
    assert tokens_that_fit(0, model) == 256


def test_out_of_memory_is_met_with_smaller_batches(bert: whence.LayeredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a good film", "bad", "not the worst film of the year"]
    expected = whence.explain(bert, texts, "leave_one_out")
    sizes = []

    def small_memory(module: torch.nn.Module, args: object, output: object) -> None:
        sizes.append(output.logits.shape[0])  # type: ignore[attr-defined]
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("pretended")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    handle = bert.module.register_forward_hook(small_memory)
    try:
        found = whence.explain(bert, texts, "leave_one_out")
    finally:
        handle.remove()
    assert max(sizes) > 2, "memory ran out at first"
    for one, other in zip(expected, found, strict=True):
        assert abs(one.scores - other.scores).max() < 1e-5
