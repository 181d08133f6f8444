"""Masks of single texts: they find what was planted, keep to their limits, and no text sees another."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from planted_truth import NeedsBoth, needs_both

import whence
from whence import testing
from whence.learned.diffmask.erasure import smallest_kept_sets
from whence.learned.diffmask.per_example import (
    DIFFMASK_PER_TEXT,
    Chosen,
    FreeMasks,
    diffmask_per_text,
)
from whence.learned.diffmask.reinforce import REINFORCE_PER_TEXT, log_probability, reinforce_per_text
from whence.methods.question import Method, Question, Scores
from whence.selection import select

TEXTS = ["this good old film is fun", "a good movie of the year", "film: a very good story"]
QUICK: dict[str, Any] = {"rate": 0.1, "multiplier_rate": 0.3}
PLANTED = [{1, 3}, {1}, {0, 4}]  # "good" alone does not change the answer, but makes it less sure


def kept(explanation: whence.Explanation) -> set[int]:
    return set(np.flatnonzero(explanation.scores[0] > 0.5).tolist())


def question_about(model: whence.LayeredModel, texts: list[str]) -> Question:
    encodings = [model.encode(text) for text in texts]
    inputs = model.collate(encodings)
    states = model.states(inputs)
    selection = select("predicted", "logit", model.reading, states.logits, encodings)
    return Question(model, inputs, states, selection, ("embeddings",), seed=0, batch_tokens=1_000)


def masks_of(question: Question, margin: float = 0.1) -> FreeMasks:
    return FreeMasks(question, "embeddings", margin, True, "zero", rate=0.1, multiplier_rate=0.3, baseline_rate=None)


@pytest.mark.parametrize("penalty", ["share", "count", "log"])
def test_diffmask_keeps_the_planted_words(penalty: str) -> None:
    found = whence.explain(needs_both(), TEXTS, DIFFMASK_PER_TEXT, penalty=penalty, steps=300, **QUICK)
    assert [kept(each) for each in found] == PLANTED
    assert found[0].method == "diffmask_per_text"
    assert found[0].options["penalty"] == penalty
    assert found[0].cost.backwards == 300
    assert 300 < found[0].cost.forwards < 600


@pytest.mark.parametrize("form", ["corrected", "released"])
def test_reinforce_keeps_the_planted_words(form: str) -> None:
    found = whence.explain(needs_both(), TEXTS, REINFORCE_PER_TEXT, form=form, steps=400, **QUICK)
    assert [kept(each) for each in found] == PLANTED
    assert found[0].cost.backwards == 0


def sharpened(factor: float) -> whence.LayeredModel:
    """A tiny recurrent net with weights from chance that is surer of what it says."""
    module: Any = tiny_models.build_plain("gru")
    with torch.no_grad():
        module.head.weight *= factor
    blocks = [module.first, module.second]
    return whence.load(module, tiny_models.word_tokenizer(), blocks=blocks, labels=tiny_models.LABELS)


def test_the_masks_are_those_of_the_exact_search() -> None:
    """Within the margin, and mostly no larger than the smallest there is."""
    model, texts = (
        sharpened(50),
        ["the plot was not bad", "a witty film", "why so sad, she could say", tiny_models.LONG],
    )
    exact = smallest_kept_sets(model, texts, constraint="divergence", margin=0.1)
    found = whence.explain(model, texts, DIFFMASK_PER_TEXT, margin=0.1, steps=300, **QUICK)
    question = question_about(model, texts)
    keep = torch.zeros_like(question.inputs.mask)
    for row, explanation in zip(keep, found, strict=True):
        row[list(kept(explanation))] = True
    changed = model.resume("embeddings", question.states.embeddings * keep[..., None], question.inputs)
    moved = model.reading.divergence(question.states.logits, changed, question.inputs.mask)
    assert (moved <= 0.1).all()
    surplus = [len(kept(mine)) - len(best.sets[0]) for mine, best in zip(found, exact, strict=True)]
    assert min(surplus) >= 0
    assert surplus.count(0) >= 3
    assert max(len(best.sets[0]) for best in exact) >= 2, "too easy to tell"


def test_the_smallest_mask_within_the_margin_is_chosen() -> None:
    """Two good words and the film: five masks in turn, of which the second and fourth are the smallest that do."""
    question = question_about(needs_both(), ["good good film"])
    masks = masks_of(question)
    whole, first, too_small, second, again = (
        torch.tensor([row], dtype=torch.float64)
        for row in ([0.9, 0.9, 0.9], [0.8, 0.1, 0.8], [0.1, 0.1, 0.9], [0.2, 0.7, 0.7], [0.3, 0.6, 0.6])
    )
    smallest, last = Chosen(masks, "smallest", whole), Chosen(masks, "last", whole)
    for keep in (first, too_small, second):
        smallest.look_at(keep)
        last.look_at(keep)
    assert smallest.keep.tolist() == second.tolist()
    forwards = int(question.forwards[0])
    smallest.look_at(again)
    assert smallest.keep.tolist() == again.tolist(), "the same mask, later"
    assert int(question.forwards[0]) == forwards, "which needs no new pass"
    for keep in (too_small, whole):
        smallest.look_at(keep)
        last.look_at(keep)
    assert smallest.keep.tolist() == again.tolist()
    assert last.keep.tolist() == whole.tolist()


def test_a_learnt_baseline_lets_everything_be_dropped() -> None:
    """As in the paper's Figure 7c: a vector free to carry the answer makes every token superfluous."""
    settings: dict[str, Any] = {"steps": 200, "baseline_rate": 0.05, **QUICK}
    without = whence.explain(sharpened(20), "a witty film", DIFFMASK_PER_TEXT, **settings)
    learnt = whence.explain(sharpened(20), "a witty film", DIFFMASK_PER_TEXT, learn_baseline=True, **settings)
    assert kept(without)
    assert not kept(learnt)


def test_multipliers_rise_above_the_margin_and_fall_below_it() -> None:
    masks = masks_of(question_about(needs_both(), TEXTS[:2]), margin=0.5)
    loss = masks.logits.sum(dim=1) * 0
    masks.step(loss, torch.tensor([0.9, 0.1]))
    assert masks.multipliers[0] > 1 > masks.multipliers[1]
    for _ in range(1_000):
        masks.step(masks.logits.sum(dim=1) * torch.tensor([1, -1]), torch.tensor([1e6, 0.0]))
    assert masks.multipliers.tolist() == [200, 0]
    assert masks.logits[0].tolist() == [-10] * masks.free.shape[1]
    assert masks.logits[1].tolist() == [10] * masks.free.shape[1]


def test_open_gates_move_nothing_and_shut_ones_leave_the_baseline() -> None:
    model = tiny_models.tiny("bert")
    question = question_about(model, ["a witty film", "bad"])
    masks = masks_of(question)
    assert masks.moved(torch.ones_like(masks.logits)).tolist() == pytest.approx([0, 0], abs=1e-6)
    nothing = model.resume("embeddings", torch.zeros_like(question.states.embeddings), question.inputs)
    expected = model.reading.divergence(question.states.logits, nothing, question.inputs.mask)
    assert masks.moved(torch.zeros_like(masks.logits)).tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert expected.min() > 0
    second = torch.tensor([1])
    alone = masks.moved(torch.zeros(1, masks.free.shape[1], dtype=torch.float64), second)
    assert alone.tolist() == pytest.approx(expected[1:].tolist(), rel=1e-4)
    assert question.forwards.tolist() == [1 + 2, 1 + 3]


def test_the_score_function_has_the_gradient_of_the_expectation() -> None:
    """Σ p(z) c(z) ∇ log p(z) over all masks z is ∇ E[c]."""
    masks = masks_of(question_about(needs_both(), ["good film"]))
    with torch.no_grad():
        masks.logits.copy_(torch.tensor([[0.3, -0.7]]))
    costs = {mask: 1.0 + 2 * mask[0] - 3 * mask[0] * mask[1] for mask in itertools.product((0.0, 1.0), repeat=2)}
    p, q = torch.sigmoid(masks.logits)[0]
    expectation = 1 + 2 * p - 3 * p * q
    exact = torch.autograd.grad(expectation, masks.logits)[0]
    estimate = torch.zeros_like(exact)
    for mask, cost in costs.items():
        log_p = log_probability(masks, torch.tensor([mask], dtype=torch.float64))
        estimate += log_p.detach().exp() * cost * torch.autograd.grad(log_p.sum(), masks.logits)[0]
    assert estimate.tolist()[0] == pytest.approx(exact.tolist()[0])


def test_only_in_the_corrected_form_does_the_multiplier_reach_the_gates() -> None:
    def scores(form: str, multiplier_rate: float) -> np.ndarray:
        settings: dict[str, Any] = {"form": form, "multiplier_rate": multiplier_rate, "choose": "last", "steps": 60}
        return whence.explain(needs_both(), TEXTS[0], REINFORCE_PER_TEXT, rate=0.3, **settings).scores

    assert (scores("released", 0.0) == scores("released", 1.0)).all()
    assert (scores("corrected", 0.0) != scores("corrected", 1.0)).any()


def test_special_tokens_can_be_left_alone() -> None:
    model = tiny_models.tiny("bert")
    for method in (DIFFMASK_PER_TEXT, REINFORCE_PER_TEXT):
        explanation = whence.explain(model, "a witty film", method, special=False, steps=40, rate=0.5)
        assert explanation.scores[0, [0, -1]].tolist() == [1, 1]
        assert explanation.scores[0, 1:-1].max() < 1


@pytest.mark.parametrize("head", ["question_answering", "token_classification", "masked_lm"])
def test_every_task_has_masks(head: str) -> None:
    texts = tiny_models.texts_for("bert", head)[:2]
    for method in (DIFFMASK_PER_TEXT, REINFORCE_PER_TEXT):
        for explanation in whence.explain(
            tiny_models.tiny("bert", head), texts, method, steps=5, layers=["embeddings", 2]
        ):
            assert explanation.scores.shape == (2, len(explanation.tokens))


def few_steps_of_diffmask(question: Question) -> Scores:
    return diffmask_per_text(question, steps=12, rate=0.3, margin=1e-3)


def few_steps_of_reinforce(question: Question) -> Scores:
    return reinforce_per_text(question, steps=12, rate=0.3, margin=1e-3)


def few_steps_with_a_baseline(question: Question) -> Scores:
    return diffmask_per_text(question, steps=12, rate=0.3, margin=1e-3, learn_baseline=True, choose="last")


@pytest.mark.parametrize("check", testing.METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("compute", "method"),
    [
        (few_steps_of_diffmask, DIFFMASK_PER_TEXT),
        (few_steps_of_reinforce, REINFORCE_PER_TEXT),
        (few_steps_with_a_baseline, DIFFMASK_PER_TEXT),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_contract_is_kept(compute: Any, method: Method, check: testing.Check, bert: whence.LayeredModel) -> None:
    check(replace(method, compute=compute), bert)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (DIFFMASK_PER_TEXT, {"penalty": "l0"}, "unknown penalty 'l0'"),
        (DIFFMASK_PER_TEXT, {"choose": "best"}, "unknown choose 'best'"),
        (DIFFMASK_PER_TEXT, {"margin": -0.1}, "margin must be a number"),
        (DIFFMASK_PER_TEXT, {"steps": 0}, "steps must be a number"),
        (DIFFMASK_PER_TEXT, {"rate": -1}, "rate must be a number"),
        (REINFORCE_PER_TEXT, {"form": "paper"}, "unknown form 'paper'"),
        (REINFORCE_PER_TEXT, {"decay": 1.0}, "decay must lie in"),
    ],
)
def test_wrong_use_is_refused(method: Method, options: dict[str, Any], message: str) -> None:
    with pytest.raises(whence.UsageError, match=message):
        whence.explain(needs_both(), "a film", method, **options)


class Overflowing(NeedsBoth):
    """Right on whole texts, not a number once anything is changed."""

    same: Remembers  # type: ignore[assignment]

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits = super().forward(ids, mask)
        whole = (self.same.last == self.embedding.weight[ids]).all()
        return logits if whole else logits * torch.nan


class Remembers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x.detach()
        return x


def test_a_gradient_that_is_no_number_is_told() -> None:
    tokenizer = tiny_models.word_tokenizer()
    module = Overflowing(tokenizer.vocabulary)
    module.same = Remembers()
    model = whence.load(module, tokenizer, blocks=[module.same], labels=["no", "yes"])
    for method in (DIFFMASK_PER_TEXT, REINFORCE_PER_TEXT):
        with pytest.raises(whence.NonFiniteError, match="no finite gradient"):
            whence.explain(model, "a good film", method, steps=100, rate=1.0)
