"""The hiding and the revealing game: counts, orders and areas by hand and by brute force, then on models."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_explanations import made
from torch import nn

import whence
from whence.engine.asking import Contestant, ask, may_go
from whence.engine.masked import MaskedTexts
from whence.engine.play import hiding_game, play, revealing_game
from whence.engine.result import GameResult
from whence.metrics.curves import GAMES, GRID, area_under, checked_grid, hidden_counts, kept_sets, orders
from whence.models.hiding import HIDES, Hiding
from whence.models.without_hidden import first_position, without_hidden

SYMMETRIC = st.sampled_from([tuple(i / steps for i in range(steps + 1)) for steps in (1, 2, 4, 5, 10, 20, 50, 100)])


# counts -------------------------------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    assert hidden_counts(3, (0, 0.5, 1), "hiding").tolist() == [0, 2, 3]
    assert hidden_counts(3, (0, 0.5, 1), "revealing").tolist() == [3, 2, 0]
    assert hidden_counts(3, (0, 0.5, 1), "hiding", "floor").tolist() == [0, 1, 3]
    assert hidden_counts(3, (0, 0.5, 1), "revealing", "floor").tolist() == [3, 2, 0]
    assert hidden_counts(50, (0.29,), "hiding").tolist() == [15], "14.5 is rounded up, whatever binary makes of it"
    assert hidden_counts(100, (0.29,), "hiding", "floor").tolist() == [29]


@given(st.integers(1, 600), SYMMETRIC)
def test_counts_by_fractions(n: int, grid: tuple[float, ...]) -> None:
    steps = len(grid) - 1
    exact = [Fraction(i, steps) * n for i in range(steps + 1)]
    half_up = [floor(share + Fraction(1, 2)) for share in exact]
    assert hidden_counts(n, grid, "hiding").tolist() == half_up
    assert hidden_counts(n, grid, "revealing").tolist() == half_up[::-1], "what is hidden at p is hidden at 1 - p"
    assert hidden_counts(n, grid, "hiding", "floor").tolist() == [floor(share) for share in exact]
    assert hidden_counts(n, grid, "revealing", "floor").tolist() == [n - floor(share) for share in exact]
    assert (np.diff(hidden_counts(n, grid, "hiding")) >= 0).all()
    assert {0, n} <= set(half_up), "the ends are all and nothing"


@pytest.mark.parametrize("grid", [(), (0.5,), (0, 0), (0.5, 0.2), (-0.1, 1), (0, 1.1), (0, float("nan"), 1)])
def test_a_wrong_grid_is_refused(grid: tuple[float, ...]) -> None:
    with pytest.raises(whence.UsageError, match="at least two shares"):
        checked_grid(grid)


# orders -------------------------------------------------------------------------------------------------------------


def test_orders_by_hand() -> None:
    scores = np.array([0.0, -3.0, 2.0, 0.0, 2.0])
    assert orders(scores).tolist() == [[2, 4, 0, 3, 1]]
    assert orders(scores, by="absolute").tolist() == [[1, 2, 4, 0, 3]]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.sampled_from(["signed", "absolute"]))
def test_orders_by_sorting(values: list[int], by: Any) -> None:
    size = abs if by == "absolute" else float
    expected = [i for i, _ in sorted(enumerate(values), key=lambda pair: (-size(pair[1]), pair[0]))]
    assert orders(np.array(values), by=by).tolist() == [expected]
    drawn = orders(np.array(values), by=by, tie_breaks=5, generator=np.random.default_rng(0))
    for order in drawn:
        assert sorted(order) == list(range(len(values)))
        assert [size(values[i]) for i in order] == [size(values[i]) for i in expected]


def test_random_breaks_are_even() -> None:
    drawn = orders(np.array([1.0, 1.0, 1.0, 5.0]), tie_breaks=6000, generator=np.random.default_rng(0))
    assert (drawn[:, 0] == 3).all()
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 120, "four standard deviations"


def test_scores_that_are_no_numbers_give_no_order() -> None:
    with pytest.raises(whence.UsageError, match="not finite"):
        orders(np.array([1.0, np.nan]))
    with pytest.raises(whence.UnknownNameError, match="known: signed, absolute"):
        orders(np.array([1.0]), by="size")  # type: ignore[arg-type]
    with pytest.raises(whence.UsageError, match="without a generator"):
        orders(np.array([1.0]), tie_breaks=2)


@given(st.permutations(range(7)), SYMMETRIC)
def test_hiding_is_revealing_backwards(order: list[int], grid: tuple[float, ...]) -> None:
    forth, back = np.array(order), np.array(order[::-1])
    hidden = kept_sets(forth, hidden_counts(7, grid, "hiding"), "hiding")
    revealed = kept_sets(back, hidden_counts(7, grid, "revealing"), "revealing")
    assert (hidden == revealed[::-1]).all()
    assert (hidden.sum(axis=1) == 7 - hidden_counts(7, grid, "hiding")).all(), "no token twice, none left out"
    assert (hidden[:-1] >= hidden[1:]).all(), "what is hidden stays hidden"


# areas --------------------------------------------------------------------------------------------------------------


def test_area_by_hand() -> None:
    assert area_under((0, 0.5, 1), np.array([0.0, 1.0, 1.0])) == 0.75
    assert area_under((0, 0.1, 1), np.array([0.0, 1.0, 1.0])) == pytest.approx(0.95)
    assert area_under((0.2, 0.6), np.array([0.5, 0.5])) == 0.5, "of a part of the grid the mean height"


@given(st.floats(0, 1), st.integers(2, 30), st.integers(0, 2**31))
def test_area_by_numpy(height: float, points: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    grid = np.concatenate([[0], np.sort(generator.random(points)), [1]])
    curves = generator.random((3, len(grid)))
    np.testing.assert_allclose(area_under(grid, curves), np.trapezoid(curves, grid))
    assert area_under(grid, np.full(len(grid), height)) == pytest.approx(height)


# a model whose truth is known ---------------------------------------------------------------------------------------


class Presence(nn.Module):
    """Says "yes" if the text holds the word "good", and looks at nothing else."""

    def __init__(self, vocabulary: int, good: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(
            nn.functional.one_hot(torch.tensor(good), vocabulary).float()[:, None]
        )
        self.block = nn.Identity()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = (self.block(self.embedding(ids))[..., 0] * mask).amax(dim=1)
        return torch.stack([torch.full_like(found, 0.5), found], dim=1)


@pytest.fixture(scope="module")
def presence() -> whence.LayeredModel:
    tokenizer = tiny_models.word_tokenizer()
    module = Presence(len(tokenizer.vocabulary), tokenizer.vocabulary["good"])
    return whence.load(module, tokenizer, blocks=[module.block], labels=["no", "yes"])


WITH = ["the good plot of a long and sad movie is", "he was so very dull but a good end for"]
WITHOUT = ["the dull plot of a long and sad movie is", "he was so very dull but a sad end for"]


def truth(text: str) -> np.ndarray:
    return np.array([float(word == "good") for word in text.split()])


def test_the_right_explainer_wins_and_its_reverse_loses(presence: whence.LayeredModel) -> None:
    """Ten words, one of which decides. Hidden counts of the grid are 0, 1, 1, 2, 2, ...: at 5 % one word is gone."""
    contestants = {
        "right": Contestant([truth(text) for text in WITH]),
        "reversed": Contestant([-truth(text) for text in WITH]),
    }
    found = play(presence, WITH, contestants, ["yes", "yes"])
    assert found["right"]["hiding"].auc().mean == pytest.approx(0.025), "right only while all is there"
    assert found["right"]["revealing"].auc().mean == pytest.approx(0.925), "right from 10 % on"
    assert found["reversed"]["hiding"].auc().mean == pytest.approx(0.925)
    assert found["reversed"]["revealing"].auc().mean == pytest.approx(0.025)


def test_with_both_classes_the_loser_gets_the_prior(presence: whence.LayeredModel) -> None:
    texts, labels = WITH + WITHOUT * 2, ["yes"] * 2 + ["no"] * 4
    scores = [truth(text) for text in texts]
    fine = [i / 100 for i in range(101)]
    right = play(presence, texts, {"right": Contestant(scores)}, labels, grid=fine)["right"]
    reverse = play(presence, texts, {"wrong": Contestant([-row for row in scores])}, labels, grid=fine)["wrong"]
    assert right["revealing"].auc().mean > 0.95
    assert reverse["revealing"].auc().mean == pytest.approx(4 / 6, abs=0.02), (
        "the share of the class that is the default"
    )
    assert right["hiding"].auc().mean == pytest.approx(4 / 6, abs=0.02)
    assert reverse["hiding"].auc().mean > 0.95
    assert right["revealing"].per_text().shape == (6, 101)
    assert right["revealing"].curve().mean[0] == pytest.approx(4 / 6), "nothing revealed: the prior"
    assert right["revealing"].curve().mean[-1] == 1, "all revealed: plain accuracy"


def test_random_orders_get_the_same_area_in_both_games(presence: whence.LayeredModel) -> None:
    flat = Contestant([np.zeros(10)] * 2, tie_breaks=2000)
    found = play(presence, WITH, {"random": flat}, ["yes", "yes"])["random"]
    assert found["hiding"].n_without_order == found["revealing"].n_without_order == 2
    # hiding k of ten hides "good" with a chance of k / 10
    expected = 1 - hidden_counts(10, GRID, "hiding") / 10
    np.testing.assert_allclose(found["hiding"].curve().mean, expected, atol=0.04)
    assert found["hiding"].auc().mean == pytest.approx(found["revealing"].auc().mean, abs=0.02)
    cut = play(presence, WITH, {"random": flat}, ["yes", "yes"], rounding="floor")["random"]
    assert cut["hiding"].auc().mean > cut["revealing"].auc().mean + 0.02, "cutting shares off sets the games apart"


def test_ties_by_position_and_at_random(presence: whence.LayeredModel) -> None:
    text = "good plot of a long and sad movie is bad"
    flat = [np.zeros(10)]
    found = play(presence, [text], {"flat": Contestant(flat), "mean": Contestant(flat, tie_breaks=500)}, ["yes"])
    assert found["flat"]["hiding"].per_text()[0].tolist() == [1.0] + [0.0] * 20, "in the order of the text"
    assert 0.4 < found["mean"]["hiding"].auc().mean < 0.6


def test_random_breaks_belong_to_the_text_and_the_seed(presence: whence.LayeredModel) -> None:
    flat = Contestant([np.zeros(10)] * 2, tie_breaks=3)
    forth = play(presence, WITH, {"flat": flat})["flat"]["hiding"].per_text()
    back = play(presence, WITH[::-1], {"flat": flat})["flat"]["hiding"].per_text()
    other = play(presence, WITH, {"flat": flat}, seed=1)["flat"]["hiding"].per_text()
    assert (forth == back[::-1]).all()
    assert (forth != other).any()


def test_absolute_order(presence: whence.LayeredModel) -> None:
    against = [-5 * truth(text) for text in WITH]
    found = play(
        presence, WITH, {"signed": Contestant(against), "absolute": Contestant(against, by="absolute")}, ["yes", 1]
    )
    assert found["absolute"]["hiding"].auc().mean == pytest.approx(0.025)
    assert found["signed"]["hiding"].auc().mean > 0.9


# transformers -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_loops(model: whence.LayeredModel, text: str, scores: np.ndarray, game: str, grid: Any) -> np.ndarray:
    """The game as the paper tells it, one text and one point at a time: mask id in place, attention mask zero."""
    encoding = model.encode(text)
    ids, special = torch.tensor([encoding.ids]), [token.special for token in encoding.tokens]
    words = [i for i in range(len(special)) if not special[i]]
    ranked = sorted(words, key=lambda i: (-scores[i], i))
    whole = model.module(input_ids=ids).logits.softmax(dim=-1)[0]
    rows = []
    for share in grid:
        if game == "hiding":
            gone = ranked[: floor(share * len(words) + 0.5)]
        else:
            gone = ranked[len(words) - floor((1 - share) * len(words) + 0.5) :]
        masked, attention = ids.clone(), torch.ones_like(ids)
        assert model.tokenizer.masking is not None
        masked[0, gone] = model.tokenizer.masking
        attention[0, gone] = 0
        chances = model.module(input_ids=masked, attention_mask=attention).logits.softmax(dim=-1)[0]
        rows.append([float(chances.argmax() == whole.argmax()), float(chances[whole.argmax()])])
    return np.array(rows)


@pytest.mark.parametrize("family", ["bert", "roberta", "electra", "albert", "deberta-v2", "mpnet", "distilbert"])
def test_games_by_loops(family: str) -> None:
    model = tiny_models.tiny(family)
    texts, grid = tiny_models.TEXTS, (0, 0.25, 0.5, 0.75, 1)
    generator = np.random.default_rng(3)
    scores = [generator.normal(size=len(model.encode(text))) for text in texts]
    found = play(model, texts, {"any": Contestant(scores)}, grid=grid, batch_tokens=40)["any"]
    for game in GAMES:
        assert found[game].measure == "agreement", "without labels the model is held to its own answer"
        assert "accuracy" not in found[game].outcomes
        for place, (text, row) in enumerate(zip(texts, scores, strict=True)):
            expected = by_loops(model, text, row, game, grid)
            assert found[game].per_text()[place].tolist() == expected[:, 0].tolist()
            np.testing.assert_allclose(found[game].per_text("probability")[place], expected[:, 1], atol=1e-5)


@pytest.mark.parametrize("family", sorted(tiny_models.FAMILIES))
def test_leaving_hidden_tokens_out_changes_nothing(family: str) -> None:
    """Where it is done; and where it is not done, it would be wrong or cannot be said."""
    model = tiny_models.tiny(family)
    first = first_position(model)
    assert (first is not None) == (
        family in {"bert", "roberta", "electra", "albert", "albert-two-groups", "xlm-roberta"}
    )
    if first is None:
        return
    inputs = model.collate([model.encode(text) for text in tiny_models.TEXTS])
    keep = inputs.special | (torch.rand(inputs.mask.shape, generator=torch.Generator().manual_seed(0)) < 0.5)
    with torch.no_grad():
        whole = model.run(inputs.unattending(~keep))
        left = model.run(without_hidden(inputs, keep & inputs.mask, first))
        assert (model.run(inputs) - whole).abs().max() > 1e-3, "hiding tokens does something"
    torch.testing.assert_close(whole, left, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2", "modernbert"])
def test_the_id_of_a_token_nobody_attends_to_does_not_matter(family: str) -> None:
    model = tiny_models.tiny(family)
    encodings = [model.encode(text) for text in tiny_models.TEXTS]
    rows = np.arange(3)
    width = max(map(len, encodings))
    keep = np.random.default_rng(0).random((3, width)) < 0.5
    for row, encoding in enumerate(encodings):
        keep[row, : len(encoding)] |= [token.special for token in encoding.tokens]
    answers = {
        hide: MaskedTexts(model, encodings, Hiding.of(model, hide), 2048).answers(rows, keep).probability
        for hide in HIDES
    }
    np.testing.assert_allclose(answers["mask_and_attention"], answers["attention"], atol=1e-6)
    assert (answers["auto"] == answers["mask_and_attention"]).all()
    for hide in ("mask", "pad", "zero"):
        assert np.abs(answers[hide] - answers["attention"]).max() > 1e-4, f"{hide} is another thing"


def test_special_tokens_stay_and_sets_are_evaluated_once() -> None:
    model = tiny_models.tiny("deberta-v2")
    text = "the plot was not bad"
    length = len(model.encode(text))
    masks: list[torch.Tensor] = []

    def spy(module: nn.Module, args: Any, kwargs: Any) -> None:
        masks.extend(kwargs["attention_mask"])

    handle = model.module.register_forward_pre_hook(spy, with_kwargs=True)
    try:
        contestants = {"one": Contestant([np.arange(length)]), "backwards": Contestant([-np.arange(length)])}
        play(model, [text], contestants, grid=[i / 100 for i in range(101)])
    finally:
        handle.remove()
    seen = torch.stack(masks)
    assert seen[:, [0, -1]].all(), "[CLS] and [SEP] are never hidden"
    n_words = length - 2
    # the whole text for the reference, then n + 1 sets one way and n + 1 the other, of which all and nothing are shared
    assert len(seen) == 1 + 2 * (n_words + 1) - 2
    assert len(torch.unique(seen[1:], dim=0)) == len(seen) - 1


def test_hiding_one_way_is_revealing_the_other_on_a_model() -> None:
    model = tiny_models.tiny("roberta")
    generator = np.random.default_rng(0)
    scores = [generator.normal(size=len(model.encode(text))) for text in tiny_models.TEXTS]
    found = play(
        model,
        tiny_models.TEXTS,
        {"forth": Contestant(scores), "back": Contestant([-row for row in scores])},
        ["good", "bad", 1],
    )
    for measure in ("accuracy", "agreement", "probability"):
        hidden, revealed = found["forth"]["hiding"], found["back"]["revealing"]
        np.testing.assert_allclose(hidden.per_text(measure), revealed.per_text(measure)[:, ::-1], atol=1e-6)
        assert hidden.auc(measure).mean == pytest.approx(revealed.auc(measure).mean)


def test_the_ends_are_the_plain_answer_and_the_bare_length() -> None:
    model = tiny_models.tiny("bert")
    texts = ["a witty film", "one dull year", *tiny_models.TEXTS]
    explanations = whence.explain(model, texts, "gradient_x_input", layers="all")
    labels = [explanation.prediction.label for explanation in explanations]
    shown = revealing_game(model, explanations, labels, layer=2)
    hidden = hiding_game(model, explanations, labels, layer=2)
    assert (shown.per_text()[:, -1] == 1).all()
    assert (hidden.per_text()[:, 0] == 1).all()
    probabilities: list[Any] = [explanation.prediction.probability for explanation in explanations]
    np.testing.assert_allclose(shown.per_text("probability")[:, -1], probabilities, atol=1e-5)
    nothing = shown.per_text("probability")[:2, 0]
    assert model.encode(texts[0]).ids != model.encode(texts[1]).ids
    if labels[0] == labels[1]:
        assert nothing[0] == pytest.approx(nothing[1], abs=1e-6), "all hidden, two texts of one length are the same"
    np.testing.assert_allclose(nothing, hidden.per_text("probability")[:2, -1], atol=1e-6)
    other = hiding_game(model, explanations, labels, layer=0)
    assert (other.per_text("probability") != hidden.per_text("probability")).any(), "the layer asked for is played"


@pytest.mark.parametrize(
    ("family", "head"),
    [
        ("bert", "question_answering"), ("bert", "token_classification"), ("bert", "masked_lm"),
        ("roberta", "masked_lm"), ("gpt2", "causal_lm"), ("llama", "causal_lm"),
        ("gpt2", "classification"), ("llama", "classification"),
        ("opt", "classification"), ("modernbert", "classification"),
    ],
)  # fmt: skip
def test_every_task_is_held_to_its_own_answer(family: str, head: str) -> None:
    model = tiny_models.tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    explanations = whence.explain(model, texts, "random")
    found = hiding_game(model, explanations, grid=(0, 0.3, 0.6, 1))
    assert (found.per_text("agreement")[:, 0] == 1).all()
    assert np.isfinite(found.per_text("probability")).all()
    probabilities: list[Any] = [each.prediction.probability for each in explanations]
    np.testing.assert_allclose(found.per_text("probability")[:, 0], probabilities, rtol=1e-4)
    alone = [hiding_game(model, [each], grid=(0, 0.3, 0.6, 1), batch_tokens=1) for each in explanations]
    for row, single in enumerate(alone):
        np.testing.assert_allclose(
            single.per_text("probability")[0], found.per_text("probability")[row], rtol=1e-3, atol=1e-6
        )


@pytest.mark.parametrize(
    ("family", "head"), [("gpt2", "causal_lm"), ("gpt2", "classification"), ("llama", "causal_lm")]
)
def test_a_decoder_sees_nothing_of_a_hidden_last_token(family: str, head: str) -> None:
    """It is read at its last token, whose own state would tell what it is: something else must stand there."""
    model = tiny_models.tiny(family, head)
    texts = ["a witty film", "a witty year", "the witty film"]
    encodings = [model.encode(text) for text in texts]
    assert len({len(encoding) for encoding in encodings}) == 1
    keep = np.array([[one == other for one, other in zip(encodings[0].ids, encodings[1].ids, strict=True)]] * 3)
    assert not keep[0, -1]
    with torch.no_grad():
        asked = MaskedTexts(model, encodings, Hiding.of(model, "auto"), 2048)
        logits = asked._logits(model.collate(encodings), torch.from_numpy(keep))
        leaking = MaskedTexts(model, encodings, Hiding.of(model, "attention"), 2048)
        leaked = leaking._logits(model.collate(encodings), torch.from_numpy(keep))
    torch.testing.assert_close(logits[0], logits[1], atol=1e-5, rtol=0)
    assert (logits[0] - logits[2]).abs().max() > 1e-3
    assert (leaked[0] - leaked[1]).abs().max() > 1e-3


def test_pairs_and_gold_labels_by_name_or_number() -> None:
    model = tiny_models.tiny("bert")
    explanations = whence.explain(model, tiny_models.PAIRS, "random")
    names = ["bad", "good", "fair"]
    by_name = revealing_game(model, explanations, names)
    by_number = revealing_game(model, explanations, np.array([0, 2, 1]))  # type: ignore[arg-type]
    assert (by_name.per_text() == by_number.per_text()).all()
    assert by_name.measure == "accuracy"
    right = [explanation.prediction.label == name for explanation, name in zip(explanations, names, strict=True)]
    assert by_name.per_text()[:, -1].tolist() == [float(each) for each in right]


def test_the_model_is_left_as_found() -> None:
    model = whence.load(tiny_models.build("bert"), tiny_models.wordpiece())
    model.module.train()
    explanations = whence.explain(model, tiny_models.TEXTS, "random")
    first = hiding_game(model, explanations)
    assert model.module.training, "and no dropout was at work:"
    assert (first.per_text("probability") == hiding_game(model, explanations).per_text("probability")).all()


def test_progress_counts_texts() -> None:
    model, seen = tiny_models.tiny("bert"), []
    explanations = whence.explain(model, tiny_models.TEXTS, "random")
    hiding_game(model, explanations, batch_tokens=4, progress=lambda *done: seen.append(done))
    assert seen[-1] == ("games", 3, 3)
    assert [done for _, done, _ in seen] == [1, 2, 3]


# errors -------------------------------------------------------------------------------------------------------------


def test_wrong_calls_say_what_is_wrong() -> None:
    model = tiny_models.tiny("bert")
    explanations = whence.explain(model, tiny_models.TEXTS, "random")
    with pytest.raises(whence.UsageError, match="2 labels for 3 texts"):
        hiding_game(model, explanations, ["bad", "good"])
    with pytest.raises(whence.UnknownNameError, match="unknown label 'great'"):
        hiding_game(model, explanations, ["bad", "good", "great"])
    with pytest.raises(whence.UnknownNameError, match="unknown way to hide 'blur'"):
        hiding_game(model, explanations, hide="blur")  # type: ignore[arg-type]
    with pytest.raises(whence.UnknownNameError, match="unknown rounding 'up'"):
        hiding_game(model, explanations, rounding="up")  # type: ignore[arg-type]
    with pytest.raises(whence.UnknownNameError, match="unknown layer 9"):
        hiding_game(model, explanations, layer=9)
    with pytest.raises(whence.UsageError, match="tie_breaks must be a number of at least 0"):
        hiding_game(model, explanations, tie_breaks=-1)
    with pytest.raises(whence.UsageError, match="no explanations"):
        hiding_game(model, [])
    with pytest.raises(whence.UsageError, match="nothing to play with"):
        play(model, [], {"mine": Contestant([])})
    with pytest.raises(whence.UsageError, match="nothing to play with"):
        play(model, ["a film"], {})
    with pytest.raises(whence.UsageError, match="other tokens than the model gives"):
        hiding_game(tiny_models.tiny("roberta"), explanations)
    with pytest.raises(whence.UsageError, match="scores of shape"):
        play(model, ["a film"], {"mine": Contestant([np.zeros(2)])})
    with pytest.raises(whence.UsageError, match="mine has scores of 2 texts, the games are played on 1"):
        play(model, ["a film"], {"mine": Contestant([np.zeros(4)] * 2)})
    with pytest.raises(whence.UsageError, match="not finite"):
        play(model, ["a film"], {"mine": Contestant([np.full(4, np.nan)])})
    with pytest.raises(whence.InputError, match="text 0 is empty"):
        play(model, [" "], {"mine": Contestant([np.zeros(2)])})
    with pytest.raises(whence.UnknownNameError, match="unknown measure 'accuracy'"):
        hiding_game(model, explanations).curve("accuracy")


def test_what_cannot_be_played_is_refused() -> None:
    answering = tiny_models.tiny("bert", "question_answering")
    with pytest.raises(whence.UsageError, match="gold labels are those of whole texts, not of question answering"):
        hiding_game(answering, whence.explain(answering, tiny_models.PAIRS, "random"), [0, 0, 0])
    bare = tiny_models.tiny("gpt2")
    with pytest.raises(whence.UsageError, match="no mask token to hide others behind"):
        hiding_game(bare, whence.explain(bare, tiny_models.TEXTS, "random"), hide="mask")
    number = whence.load(
        tiny_models.build("bert", num_labels=1, id2label={0: "x"}, label2id={"x": 0}), tiny_models.wordpiece()
    )
    with pytest.raises(whence.UsageError, match="plain number"):
        play(number, ["a film"], {"mine": Contestant([np.zeros(4)])})


def test_a_model_that_breaks_when_tokens_go_is_reported() -> None:
    module = tiny_models.build_plain("mlp")
    with torch.no_grad():
        module.embedding.weight[2] = torch.nan  # the mask's
    model = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=["a", "b", "c"]
    )
    explanation = whence.explain(model, "a good film", "random")
    with pytest.raises(whence.NonFiniteError, match="NaN with some tokens hidden"):
        hiding_game(model, [explanation])


# results ------------------------------------------------------------------------------------------------------------


def result(outcomes: Any, game: Any = "hiding") -> GameResult:
    values = np.array(outcomes, dtype=float)
    return GameResult(game, (0.0, 0.5, 1.0), "agreement", {"agreement": values}, 0, {"method": "made up"})


def test_a_result_by_hand() -> None:
    found = result([[1, 1, 0], [1, 0, 0]])
    assert found.areas().tolist() == [0.75, 0.25]
    curve = found.curve()
    assert curve.mean == (1.0, 0.5, 0.0)
    assert (curve.auc.mean, curve.n_texts) == (0.5, 2)
    assert (curve.low[0], curve.high[0]) == (1.0, 1.0)
    assert (curve.low[1], curve.high[1]) == (0.0, 1.0)
    data = json.loads(json.dumps(found.to_dict(outcomes=True)))
    assert data["curves"]["agreement"]["auc"] == 0.5
    assert data["outcomes"]["agreement"] == [[1, 1, 0], [1, 0, 0]]
    assert "outcomes" not in found.to_dict()
    assert repr(found) == "<GameResult hiding: agreement area 0.500 over 2 texts>"


def test_a_difference_needs_the_same_game_and_texts() -> None:
    better, worse = result([[1, 0, 0]] * 8), result([[1, 1, 0]] * 8)
    difference = better.minus(worse)
    assert difference.mean == -0.5
    assert difference.p_value < 0.05
    for other in (result([[1, 1, 0]] * 7), result([[1, 1, 0]] * 8, "revealing"), replace(worse, grid=(0.0, 0.4, 1.0))):
        with pytest.raises(whence.UsageError, match="not of one game"):
            better.minus(other)


def test_a_curve_is_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from whence.render.game_figure import plot_curves

    axes: Any = result([[1, 1, 0], [1, 0, 0]]).plot(label="a $x$ <b>")
    assert axes.get_xlabel() == "tokens hidden, %"
    assert axes.get_ylabel() == "agreement"
    assert axes.lines[0].get_ydata().tolist() == [1.0, 0.5, 0.0]
    together: Any = plot_curves({"one": result([[1, 1, 0]]), "$two$": result([[0, 0, 0]])})
    assert [text.get_text() for text in together.get_legend().get_texts()] == ["one (0.750)", "$two$ (0.000)"]
    together.figure.canvas.draw()
    pyplot.close("all")


def test_explanations_from_elsewhere_are_not_taken_for_the_models(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.UsageError, match="other tokens"):
        hiding_game(bert, [made("a fine film")])


@settings(max_examples=15)
@given(st.integers(0, 2**31))
def test_token_budget_and_company_do_not_matter(seed: int) -> None:
    model = tiny_models.tiny("bert")
    generator = np.random.default_rng(seed)
    texts = [" ".join(generator.choice(tiny_models.WORDS, generator.integers(1, 12))) for _ in range(5)]
    contestants = {
        name: Contestant([generator.normal(size=len(model.encode(text))) for text in texts]) for name in "ab"
    }
    together = play(model, texts, contestants, batch_tokens=int(generator.integers(1, 200)))
    for name, contestant in contestants.items():
        alone = play(model, texts, {name: contestant})[name]
        for game in GAMES:
            np.testing.assert_allclose(
                alone[game].per_text("probability"), together[name][game].per_text("probability"), atol=1e-5
            )


# the engine ---------------------------------------------------------------------------------------------------------


def test_each_distinct_set_is_asked_once_and_answered_where_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_models.tiny("bert")
    encodings = [model.encode(text) for text in tiny_models.TEXTS]
    rows: list[int] = []
    real = MaskedTexts.answers

    def counted(masked: MaskedTexts, which: np.ndarray, keep: np.ndarray) -> Any:
        rows.append(len(which))
        assert len(np.unique(np.column_stack([which, keep]), axis=0)) == len(which), "no set twice"
        return real(masked, which, keep)

    monkeypatch.setattr(MaskedTexts, "answers", counted)
    generator = np.random.default_rng(0)
    sets = [np.repeat(generator.random((4, int(may_go(each).sum()))) < 0.5, 3, axis=0) for each in encodings]
    hiding = Hiding.of(model, "auto")
    told = dict(ask(model, encodings, lambda index: sets[index], hiding=hiding, batch_tokens=2_048))
    assert sum(rows) == sum(len(np.unique(each, axis=0)) for each in sets) < sum(map(len, sets))
    for index, encoding in enumerate(encodings):
        masked = MaskedTexts(model, [encoding], hiding, 2_048)
        for number, shown in enumerate(sets[index]):
            keep = ~may_go(encoding)
            keep[may_go(encoding)] = shown
            alone = real(masked, np.array([0]), keep[None])
            assert told[index].probability[number] == pytest.approx(alone.probability[0], abs=1e-6)
            assert told[index].same[number] == float((alone.said == masked.whole.said).all())


# files --------------------------------------------------------------------------------------------------------------


def test_a_result_is_saved_and_comes_back(tmp_path: Path) -> None:
    model = tiny_models.tiny("bert")
    explanations = whence.explain(model, tiny_models.TEXTS, "random")
    found = hiding_game(model, explanations, ["bad", "good", 1], grid=(0, 0.5, 1), tie_breaks=2)
    found.save(tmp_path / "game.json")
    again = GameResult.load(tmp_path / "game.json")
    assert again.to_dict(outcomes=True) == found.to_dict(outcomes=True)
    assert (again.measure, again.settings["method"]) == ("accuracy", "random")
    table = again.to_dataframe()
    assert list(table.columns) == ["text", "share", "accuracy", "agreement", "probability"]
    assert table["probability"].tolist() == pytest.approx(found.per_text("probability").ravel().tolist())
    shown = replace(found, settings={**found.settings, "method": "<script>"})._repr_html_()
    assert shown.count("<tr>") == 4
    assert "<script>" not in shown


@pytest.mark.parametrize(
    "content", ["", "{}", '{"schema": "whence.game/1"}', "[1]", '{"schema": "whence.game/1", "grid": 3}']
)
def test_what_is_no_game_is_not_loaded(content: str, tmp_path: Path) -> None:
    (tmp_path / "game.json").write_text(content)
    with pytest.raises(whence.FileError, match=r"game\.json"):
        GameResult.load(tmp_path / "game.json")
    with pytest.raises(whence.FileError, match="cannot be read"):
        GameResult.load(tmp_path / "nothing.json")
