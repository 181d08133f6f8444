"""Streamed moments: against numbers on paper, against numpy on all states at once, and without keeping a state."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from whence.methods.state_statistics import Moments, StateStatistics
from whence.models.inputs import Inputs
from whence.models.layered import States

TEXTS = [*tiny_models.TEXTS, "bad", "so sad", "why not hope for a great story this time", "a film by her"]


def moments(values: list[list[float]], real: list[list[bool]] | None = None) -> Moments:
    """Of texts of one-number states."""
    states = torch.tensor(values)[..., None]
    mask = torch.ones(states.shape[:2]) if real is None else torch.tensor(real)
    return Moments.of(states, mask.bool())


def test_moments_on_paper() -> None:
    both = moments([[1.0, 5.0], [3.0, 9.0]], [[True, True], [True, False]])
    assert both.count.tolist() == [[2.0], [1.0]]
    assert both.mean.tolist() == [[2.0], [5.0]], "padding does not count"
    assert both.variance.tolist() == [[1.0], [0.0]]
    pooled = both.pooled()  # 1, 3, 5
    assert (pooled.count.item(), pooled.mean.item()) == (3.0, 3.0)
    assert pooled.variance.item() == pytest.approx(8 / 3)
    merged = both.merged(moments([[2.0, 7.0, 4.0]]))
    assert merged.count.tolist() == [[3.0], [2.0], [1.0]]
    assert merged.mean.tolist() == [[2.0], [6.0], [4.0]]
    assert merged.variance[:, 0].tolist() == pytest.approx([2 / 3, 1.0, 0.0])


@settings(max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 2**31 - 1), st.sampled_from([0.0, 1e6]))
def test_any_split_gives_what_numpy_gives_at_once(lengths: list[int], seed: int, shift: float) -> None:
    """Also where the mean is a million deviations away, which sums of squares would not survive."""
    generator = np.random.default_rng(seed)
    texts = [shift + generator.normal(size=(length, 3)) for length in lengths]
    total: Moments | None = None
    for text in texts:
        states = torch.from_numpy(text)[None]
        found = Moments.of(states, torch.ones(states.shape[:2]).bool())
        total = found if total is None else total.merged(found)
    assert total is not None
    for place in range(max(lengths)):
        column = np.array([text[place] for text in texts if len(text) > place])
        assert total.mean[place].numpy() == pytest.approx(column.mean(axis=0))
        assert total.variance[place].numpy() == pytest.approx(column.var(axis=0), abs=1e-8)
    everything = np.concatenate(texts)
    assert total.pooled().mean[0].numpy() == pytest.approx(everything.mean(axis=0))
    assert total.pooled().variance[0].numpy() == pytest.approx(everything.var(axis=0), abs=1e-8)


def all_states(model: whence.LayeredModel, layer: Any) -> list[np.ndarray]:
    """The states of each text by itself."""
    inputs = [model.collate([model.encode(text)]) for text in TEXTS]
    return [model.states(one).at(layer)[0].numpy() for one in inputs]


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
@pytest.mark.parametrize("layer", ["embeddings", 0, 2])
def test_fitted_statistics_are_those_of_all_states_together(batch_tokens: int, layer: Any) -> None:
    model = tiny_models.tiny("bert")
    usual = StateStatistics(["embeddings", 0, 2], batch_tokens=batch_tokens).fit(model, TEXTS)
    mean, deviation = usual.at(layer, 5)
    states = all_states(model, layer)
    everything = np.concatenate(states)
    assert mean.shape == deviation.shape == (5, 16)
    for place in range(5):
        assert mean[place].numpy() == pytest.approx(everything.mean(axis=0), abs=1e-6)
        assert deviation[place].numpy() == pytest.approx(everything.std(axis=0), abs=1e-6)


def test_every_position_by_itself_and_all_together_where_few_texts_reach() -> None:
    model = tiny_models.tiny("bert")
    states = all_states(model, 1)
    longest = max(len(text) for text in states)
    second = sorted(len(text) for text in states)[-2]
    assert second < longest, "only one text is the longest"
    usual = StateStatistics([1], by_position=True).fit(model, TEXTS)
    mean, deviation = usual.at(1, longest + 3)
    everything = np.concatenate(states)
    for place in range(longest + 3):
        column = np.array([text[place] for text in states if len(text) > place])
        expected = column if place < second else everything
        assert mean[place].numpy() == pytest.approx(expected.mean(axis=0), abs=1e-6)
        assert deviation[place].numpy() == pytest.approx(expected.std(axis=0), abs=1e-6)


def test_no_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the next batch runs, the states of the batches before it are gone, and so are their texts."""
    model = tiny_models.tiny_plain("mlp")
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []
    states_of = whence.LayeredModel.states

    def watched(self: whence.LayeredModel, inputs: Inputs, **options: Any) -> States:
        alive.append(sum(reference() is not None for reference in seen))
        states = states_of(self, inputs, **options)
        seen.extend(weakref.ref(h) for h in (states.embeddings, *states.hidden, *inputs.encodings))
        return states

    def stream() -> Iterator[str]:
        yield from TEXTS * 20

    monkeypatch.setattr(whence.LayeredModel, "states", watched)
    usual = StateStatistics("all", batch_tokens=20).fit(model, stream())
    a_batch = 3 + 20  # states and texts of one batch at most
    assert len(alive) > 30
    assert max(alive) <= a_batch, "the last batch may still be held, none before it"
    assert usual.n_texts_ == 140
    assert sum(each.numel() for found in usual.moments_.values() for each in vars(found).values()) == (
        (1 + 12 + 12) + 2 * (1 + 16 + 16)
    )


def test_fitting_again_starts_anew() -> None:
    model = tiny_models.tiny_plain("mlp")
    once = StateStatistics([1]).fit(model, TEXTS[:2])
    again = StateStatistics([1]).fit(model, TEXTS).fit(model, TEXTS[:2])
    assert again.n_texts_ == once.n_texts_ == 2
    assert torch.equal(again.at(1, 1)[0], once.at(1, 1)[0])


def test_pairs_of_texts() -> None:
    usual = StateStatistics([1]).fit(tiny_models.tiny("bert", "question_answering"), tiny_models.PAIRS)
    assert str(usual) == "statistics of 3 texts, at all positions together"
    assert str(StateStatistics(by_position=True)) == "statistics of 0 texts, at each position"


def test_complaints() -> None:
    model = tiny_models.tiny_plain("mlp")
    with pytest.raises(whence.InputError, match="no text was given"):
        StateStatistics().fit(model, [])
    with pytest.raises(whence.InputError, match="a single text"):
        StateStatistics().fit(model, "a film")
    with pytest.raises(whence.InputError, match="text 1 is empty"):
        StateStatistics().fit(model, ["a film", " "])
    with pytest.raises(whence.UsageError, match="do not know layer 1\nlayers they know: 0, 2"):
        StateStatistics([0, 2]).fit(model, TEXTS).at(1, 3)
    with pytest.raises(whence.UsageError, match="call fit"):
        StateStatistics().at(1, 3)
    with pytest.raises(whence.UnknownNameError, match="unknown layer 7"):
        StateStatistics([7]).fit(model, TEXTS)
    with pytest.raises(whence.UsageError, match="batch_tokens must be"):
        StateStatistics(batch_tokens=0)


def test_states_that_are_not_numbers_are_refused() -> None:
    module: Any = tiny_models.build_plain("mlp")
    module.first[0].weight.data[0, 0] = torch.nan
    model = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=["a", "b", "c"]
    )
    with pytest.raises(whence.NonFiniteError, match="some states at layer 1 are not finite"):
        StateStatistics().fit(model, TEXTS)
