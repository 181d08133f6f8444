"""Methods of few passes read nothing back before they have told a GPU all there is to do.

On a CPU to read a number is free; on a GPU it is to wait until all that was asked for is done, and the GPU then waits
for what comes next. So what would be a wait is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

import whence
from whence.methods.names import method_named
from whence.methods.question import Question
from whence.selection import select

READS = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")
TEXTS = ["a gorgeous, witty film", "far too long", "not the worst film of the year"]


@contextmanager
def counted_reads() -> Iterator[list[str]]:
    """The names of all that reads a tensor's numbers inside, or sends others to where it is."""
    found: list[str] = []

    def noting(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def note(*args: Any, **kwargs: Any) -> Any:
            found.append(name)
            return usual(*args, **kwargs)

        return note

    with pytest.MonkeyPatch.context() as patch:
        for name in READS:
            patch.setattr(torch.Tensor, name, noting(name, getattr(torch.Tensor, name)))
        patch.setattr(torch, "tensor", noting("tensor", torch.tensor))
        yield found


def reads_of(model: whence.LayeredModel, name: str) -> list[str]:
    """What is read from the states of a batch to its scores, once everything that is looked at once was looked at."""
    found = whence.explain(model, TEXTS, name)
    method, layers = method_named(name).method, found[0].layers
    inputs = model.collate([model.encode(text) for text in TEXTS])
    with model.held(), torch.inference_mode(False):
        with method.within(model.module) if method.within else nullcontext():
            states = model.states(inputs, differentiable=bool(method.differentiable))
        with counted_reads() as read:
            selection = select("predicted", found[0].target.scale, model.reading, states.logits, inputs.encodings)
            method.compute(Question(model, inputs, states, selection, layers, 0, 2_048))
    return read


@pytest.mark.parametrize("name", ["random", "diffmask", "amortised_shapley", "one_pass", "held_still", "attn_lrp"])
def test_nothing_is_waited_for(name: str) -> None:
    assert reads_of(whence.load(), name) == []


def test_gradients_are_looked_at_once_all_is_done() -> None:
    """Which of the layers between the first and the last have none, all in one."""
    assert reads_of(whence.load(), "gradient_x_input") == ["tolist"]


def test_a_read_is_counted() -> None:
    with counted_reads() as read:
        assert torch.ones(2).any()
        torch.zeros(2).tolist()
    assert read == ["__bool__", "tolist"]


@pytest.mark.parametrize("name", ["random", "attention", "diffmask", "amortised_shapley", "one_pass"])
def test_what_only_reads_is_not_ready_for_gradients_and_leaves_none_in_others_way(name: str) -> None:
    model = whence.load()
    seen: list[bool] = []
    model.module.register_forward_pre_hook(lambda *_: seen.append(torch.is_inference_mode_enabled()))
    before = whence.explain(model, TEXTS[0], "gradient_x_input")
    assert not seen[0]
    seen.clear()
    whence.explain(model, TEXTS[0], name)
    assert seen
    assert all(seen)
    assert whence.explain(model, TEXTS[0], "gradient_x_input").scores.tolist() == before.scores.tolist()


def by_states(question: Question) -> whence.Scores:
    return whence.Scores(torch.stack([gradient.sum(dim=-1) for gradient in question.state_gradients()], dim=1))


def by_resuming(question: Question) -> whence.Scores:
    words = question.states.embeddings
    found = question.gradients("embeddings", torch.arange(len(words)), lambda chunk: words[chunk])
    return whence.Scores(torch.cat([gradient.sum(dim=-1) for _, gradient in found])[:, None])


@pytest.mark.parametrize("compute", [by_states, by_resuming])
def test_a_method_of_few_passes_that_takes_gradients_must_say_so(compute: Callable[[Question], whence.Scores]) -> None:
    meaning = whence.Meaning("gradient", "its sum", signed=True, additive=False)
    silent, frank = (
        whence.Method(compute, meaning, needs=needs, cost="1 forward, 1 backward", few_passes=True)
        for needs in ("nothing", "gradients")
    )
    model = whence.load()
    with pytest.raises(whence.UsageError, match="takes gradients and does not say so"):
        whence.explain(model, TEXTS[0], silent)
    assert whence.explain(model, TEXTS[0], frank).scores.any()
