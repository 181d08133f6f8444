"""The exact search for the smallest kept sets: on paper, against all subsets one by one, and at its limits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from planted_truth import needs_both

import whence
from whence import testing
from whence.learned.diffmask.erasure import KeptSets, smallest_kept_sets
from whence.learned.diffmask.subset_search import subsets

TEXTS = ["a witty film", "not the best movie", "bad", "so very dull in the end"]
TIGHT = 1e-4  # the tiny models say little, whatever they read


def test_the_planted_words_are_found() -> None:
    """The two words that matter; a choice where one of them stands twice; nothing where the answer is "no" anyway."""
    texts = ["this good old film is fun", "good film, good plot", "a good movie of the year"]
    found = smallest_kept_sets(needs_both(), texts)
    assert [each.sets for each in found] == [((1, 3),), ((0, 1), (1, 3)), ((),)]
    assert [each.size for each in found] == [2, 2, 0]
    assert all(each.complete for each in found)
    assert [each.evaluations for each in found] == [1 + 6 + 15, 1 + 5 + 10, 1]
    assert found[1].shares() == pytest.approx([0.5, 1, 0, 0.5, 0])
    assert str(found[1]) == "2 smallest sets of 2 of 5 tokens"


class NotTooMany(torch.nn.Module):
    """Says "yes" iff exactly one or at least three words are there: a set may fail though a part of it suffices."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(len(tiny_models.word_tokenizer().vocabulary), 1)
        self.same = torch.nn.Identity()
        torch.nn.init.ones_(self.embedding.weight)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        count = (self.same(self.embedding(ids))[..., 0] * mask).sum(dim=1)
        yes = (count == 1) | (count >= 3)
        return torch.stack([torch.zeros_like(count), yes.float() - 0.5], dim=1)


def test_what_suffices_need_not_suffice_with_more() -> None:
    module = NotTooMany()
    model = whence.load(module, tiny_models.word_tokenizer(), blocks=[module.same], labels=["no", "yes"])
    one, two = smallest_kept_sets(model, ["a fine film", "a film"])
    assert one.sets == ((0,), (1,), (2,))
    assert two.sets == ((),)
    (held,) = smallest_kept_sets(model, ["a fine film"], must_keep=[[0]])
    assert held.sets == ((0,),)
    (held,) = smallest_kept_sets(model, ["a fine film"], must_keep=[[0, 2]])
    assert held.sets == ((0, 1, 2),)


def brute_force(
    model: whence.LayeredModel,
    text: Any,
    *,
    layer: Any = "embeddings",
    margin: float | None = None,
    masked: bool = False,
    special: bool = True,
) -> set[tuple[int, ...]]:
    """All subsets of the tokens, each run by itself; the smallest that leave argmax (or KL) as it was."""
    encoding = model.encode(*text) if isinstance(text, tuple) else model.encode(text)
    inputs = model.collate([encoding])
    states = model.states(inputs)
    h = states.at(layer)
    nothing = torch.zeros_like(h)
    if masked:
        assert model.tokenizer.masking is not None
        nothing = model.embed(torch.full_like(inputs.ids, model.tokenizer.masking))
    before = states.logits[0].double()
    fixed = [i for i, token in enumerate(encoding.tokens) if token.special and not special]
    for size in range(len(encoding) + 1):
        good = set()
        for kept in itertools.combinations(range(len(encoding)), size):
            if not set(fixed) <= set(kept):
                continue
            keep = torch.zeros(1, len(encoding), 1, dtype=torch.bool)
            keep[0, list(kept)] = True
            after = model.resume(layer, torch.where(keep, h, nothing), inputs)[0].double()
            if margin is None:
                ok = bool((before.argmax(dim=0) == after.argmax(dim=0)).all())
            else:
                kl = torch.nn.functional.kl_div(
                    after.log_softmax(0), before.log_softmax(0), log_target=True, reduction="sum"
                )
                ok = float(kl) <= margin
            if ok:
                good.add(kept)
        if good:
            return good
    raise AssertionError("the whole text must do")


@pytest.mark.parametrize("margin", [None, TIGHT])
@pytest.mark.parametrize("name", ["bert", "gpt2", "gru"])
def test_equal_to_all_subsets_one_by_one(name: str, margin: float | None) -> None:
    model = tiny_models.tiny_plain(name) if name == "gru" else tiny_models.tiny(name)
    settings: dict[str, Any] = {} if margin is None else {"constraint": "divergence", "margin": margin}
    texts = TEXTS[:3]
    found = smallest_kept_sets(model, texts, **settings)
    assert [set(each.sets) for each in found] == [brute_force(model, text, margin=margin) for text in texts]
    assert margin is None or any(each.at_least > 1 for each in found), "too easy to tell"


@pytest.mark.parametrize(
    ("settings", "oracle"),
    [
        ({"layer": 2}, {"layer": 2}),
        ({"special": False}, {"special": False}),
        ({"baseline": 4, "special": False}, {"masked": True, "special": False}),
    ],
)
def test_layers_specials_and_baselines(settings: dict[str, Any], oracle: dict[str, Any]) -> None:
    model = tiny_models.tiny("bert")
    assert model.tokenizer.masking == 4
    found = smallest_kept_sets(model, TEXTS[:2], constraint="divergence", margin=TIGHT, **settings)
    assert [set(each.sets) for each in found] == [
        brute_force(model, text, margin=TIGHT, **oracle) for text in TEXTS[:2]
    ]


def test_the_answer_may_be_held() -> None:
    """Both ends of the answer stay where they are, and every set holds the whole of it."""
    model = tiny_models.tiny("bert", "question_answering")
    pair = ("who", "she made it")
    (free,) = smallest_kept_sets(model, [pair])
    assert set(free.sets) == brute_force(model, pair)
    (held,) = smallest_kept_sets(model, [pair], must_keep="answer")
    explanation = whence.explain(model, pair, method="random")
    first = explanation.prediction.index
    assert all(first in kept for kept in held.sets)
    assert held.at_least >= free.at_least


@pytest.mark.parametrize(("n", "size"), [(0, 0), (1, 1), (5, 0), (5, 2), (7, 4), (9, 9), (25, 3)])
def test_ranks_name_every_subset_once(n: int, size: int) -> None:
    counts = torch.tensor([[math.comb(m, i) for i in range(size + 1)] for m in range(n + 1)])
    named = subsets(torch.arange(math.comb(n, size)), counts).tolist()
    assert sorted(tuple(sorted(one)) for one in named) == list(itertools.combinations(range(n), size))


def test_a_budget_that_does_not_suffice_is_told() -> None:
    text = "this good old film is fun"
    (found,) = smallest_kept_sets(needs_both(), [text], budget=7)
    assert (found.found, found.size, found.at_least, found.evaluations) == (False, None, 2, 7)
    assert str(found) == "not found within 7 evaluations: at least 2 tokens must be kept"
    with pytest.raises(whence.UsageError, match="within 7 evaluations"):
        found.shares()
    (found,) = smallest_kept_sets(needs_both(), [text], budget=6)
    assert (found.at_least, found.evaluations) == (1, 6), "one set of one token was not tried"
    (found,) = smallest_kept_sets(needs_both(), [text], budget=8)
    assert (found.at_least, found.evaluations) == (2, 8)


def test_sets_found_before_the_budget_ran_out_are_smallest_but_perhaps_not_all() -> None:
    text = "good film, good plot"
    (whole,) = smallest_kept_sets(needs_both(), [text])
    (found,) = smallest_kept_sets(needs_both(), [text], budget=1 + 5 + 1)
    assert found.sets == ((0, 1),)
    assert found.size == whole.size
    assert not found.complete
    assert str(found) == "1 or more smallest sets of 2 of 5 tokens"


def test_no_more_sets_than_wanted() -> None:
    text = "good good good film"
    (whole,) = smallest_kept_sets(needs_both(), [text])
    assert len(whole.sets) == 3
    assert whole.complete
    (cut,) = smallest_kept_sets(needs_both(), [text], most=2)
    assert len(cut.sets) == 2
    assert not cut.complete
    (exact,) = smallest_kept_sets(needs_both(), [text], most=3)
    assert exact.complete


def test_texts_together_in_any_batch_and_alone() -> None:
    model = tiny_models.tiny("bert")
    settings: dict[str, Any] = {"constraint": "divergence", "margin": TIGHT, "budget": 20}
    together = smallest_kept_sets(model, TEXTS, **settings)
    calls: list[tuple[int, int]] = []
    small = smallest_kept_sets(model, TEXTS, batch_tokens=11, progress=lambda *done: calls.append(done), **settings)
    alone = [smallest_kept_sets(model, [text], **settings)[0] for text in TEXTS]
    assert together == small == alone
    assert calls[-1] == (len(TEXTS), len(TEXTS))
    assert any(not each.found for each in together)
    assert max(each.evaluations for each in together) <= 20


def test_forward_passes_keep_the_token_budget() -> None:
    model = tiny_models.tiny("bert")
    sizes: list[int] = []
    handle = model.module.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    try:
        found = smallest_kept_sets(model, TEXTS, constraint="divergence", margin=TIGHT, budget=60, batch_tokens=40)
    finally:
        handle.remove()
    assert max(sizes) <= 40
    assert sum(sizes) >= sum(each.evaluations * len(each.tokens) for each in found)


def test_the_model_and_its_inputs_leave_as_they_came(bert: whence.LayeredModel) -> None:
    before = testing._snapshot(bert)
    smallest_kept_sets(bert, TEXTS, must_keep=[[0]] * len(TEXTS), budget=50)
    testing._assert_same(before, testing._snapshot(bert))


def test_a_long_text_has_more_sets_than_numbers_hold() -> None:
    """C(60, 30) overflows nothing, because what lies beyond the budget is never counted."""
    model = tiny_models.tiny("bert")
    (found,) = smallest_kept_sets(model, ["dull " * 58], constraint="divergence", margin=0, budget=2_000)
    assert found.evaluations == 2_000
    assert found.at_least == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constraint": "same"}, "unknown constraint 'same'"),
        ({"margin": -1}, "margin must be a number"),
        ({"budget": 0}, "budget must be a number"),
        ({"most": 0}, "most must be a number"),
        ({"batch_tokens": 0}, "batch_tokens must be a number"),
        ({"must_keep": "answer"}, "is for question answering"),
        ({"must_keep": "nothing"}, "unknown must_keep 'nothing'"),
        ({"must_keep": [[0], [0]]}, "positions for 2 texts, there are 1"),
        ({"must_keep": [[9]]}, "text 0 has no token 9"),
        ({"layer": 7}, "unknown layer 7"),
        ({"baseline": "<none>"}, "unknown baseline"),
    ],
)
def test_wrong_use_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(whence.UsageError, match=message):
        smallest_kept_sets(tiny_models.tiny("bert"), ["a film"], **settings)


@pytest.mark.parametrize("texts", ["a film", ("a film", "a plot")])
def test_a_single_text_is_refused(texts: Any) -> None:
    with pytest.raises(whence.InputError, match="single text"):
        smallest_kept_sets(tiny_models.tiny("bert"), texts)


def test_an_empty_text_is_refused_and_no_text_gives_nothing() -> None:
    with pytest.raises(whence.InputError, match="text 1 is empty"):
        smallest_kept_sets(tiny_models.tiny("bert"), ["a film", " "])
    assert smallest_kept_sets(tiny_models.tiny("bert"), []) == []


def test_shares_are_a_number_a_token() -> None:
    tokens = tiny_models.tiny("bert").encode("a film").tokens
    shares = KeptSets(tokens, ((0, 1), (1, 2)), 2, True, 9).shares()
    assert isinstance(shares, np.ndarray)
    assert shares.tolist() == [0.5, 1.0, 0.5, 0.0]
