"""Sets at a method's own threshold, scores as sizes, and the second way of hiding: against planted games."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from torch import Tensor, nn
from weighted_words import TEXTS, explained, probability, truth, weighted_words

import whence
from whence.engine.asking import Told
from whence.engine.greedy import best_sets
from whence.engine.searching import Search
from whence.errors import UnknownNameError, UsageError
from whence.explanation import Explanation, Meaning
from whence.metrics.additivity import held_out_r_squared, linear_datamodeling_score
from whence.metrics.own_sets import own_set, share_of_best
from whence.models.hiding import Hiding
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import evaluate
from whence.scoreboard.second_way import in_words, second_hiding, two_rankings

KEEP = Meaning("keep", "kept", signed=False, additive=False, low=0.0, high=1.0, keep_probability=True)
PLAIN = Meaning("weight", "how much", signed=True, additive=True)
SETTINGS: dict[str, Any] = {"methods": [], "layer": "embeddings"}


def gates(words: dict[str, float], other: float = 0.2) -> list[Explanation]:
    return [
        Explanation.from_scores(text, text.split(), [words.get(word, other) for word in text.split()], meaning=KEEP)
        for text in TEXTS
    ]


# -- the rule


def test_keep_probabilities_are_cut_at_one_half() -> None:
    scores = np.array([0.5, 0.51, 0.9, 0.0])
    assert own_set(scores, np.argsort(-scores), KEEP).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([3.0, 1.0, 1.0, -9.0], [0]),
        ([2.0, 1.0, 1.0, 0.0], [0]),
        ([2.0, 1.5, 1.0, 0.0], [0, 1]),
        ([-1.0, -2.0, 0.0, 0.0], []),
        ([1.0, 1.0, 1.0, 1.0], [0, 1]),
    ],
)
def test_other_scores_keep_half_of_what_is_positive(scores: list[float], kept: list[int]) -> None:
    row = np.array(scores)
    assert np.flatnonzero(own_set(row, np.argsort(-row, kind="stable"), PLAIN)).tolist() == kept


# -- sets on a board


@pytest.fixture(scope="module")
def board() -> Scoreboard:
    given = {"gates": gates({"good": 0.9, "witty": 0.7}), "truth": explained(TEXTS), "shut": gates({})}
    return evaluate(weighted_words(), TEXTS, explanations=given, metrics=["sets"], **SETTINGS)


def test_sets_by_hand(board: Scoreboard) -> None:
    """The gates keep "good" and "witty"; the closed form says what the model makes of them alone."""
    row = board.index("gates")
    for number, text in enumerate(TEXTS):
        words = text.split()
        kept = [word for word in words if word in ("good", "witty")]
        alone = probability([1.0 if word == "good" else 0.6 for word in kept])
        decided = probability(truth(text)) > 0.5
        assert board.values["set_kept"][row, number] == pytest.approx(len(kept) / len(words))
        assert board.values["set_agreement"][row, number] == ((alone > 0.5) == decided)
        sizes = [probability([truth(text)[i] for i in some]) for some in combinations(range(len(words)), len(kept))]
        given = [value if decided else 1 - value for value in sizes]
        alone = alone if decided else 1 - alone
        over = board.values["set_over_random"][row, number]
        assert alone - max(given) - 1e-5 <= over <= alone - min(given) + 1e-5
        share = board.values["set_of_best"][row, number]
        assert math.isnan(share) or share <= 1 + 1e-6


def test_random_sets_are_random(board: Scoreboard) -> None:
    """Over the texts their mean is near that of all sets of the size."""
    row, differences = board.index("gates"), []
    for number, text in enumerate(TEXTS):
        weights = truth(text)
        n_kept = round(board.values["set_kept"][row, number] * len(weights))
        every = [probability([weights[i] for i in some]) for some in combinations(range(len(weights)), n_kept)]
        alone = probability([weight for weight in weights if weight >= 0.6])
        differences.append(alone - board.values["set_over_random"][row, number] - np.mean(every))
    assert abs(np.mean(differences)) < 0.05


def test_a_set_of_nothing_is_no_better_than_chance(board: Scoreboard) -> None:
    row = board.index("shut")
    assert (board.values["set_kept"][row] == 0).all()
    np.testing.assert_allclose(board.values["set_over_random"][row], 0, atol=1e-6)
    assert np.isnan(board.values["set_of_best"][row]).all()


def test_the_true_weights_choose_the_best_sets(board: Scoreboard) -> None:
    assert board.interval("truth", "set_of_best").mean == pytest.approx(1, abs=1e-5)  # type: ignore[union-attr]
    assert board.interval("random", "set_of_best").mean < 0.6  # type: ignore[union-attr]
    assert math.isnan(share_of_best(0.5, 0.5, 0.52))


def told_of(found: Search[dict[int, float]], value: Any) -> tuple[dict[int, float], list[int]]:
    asked: list[int] = []
    try:
        sets = next(found)
        while True:
            asked.append(len(sets))
            sets = found.send(Told(0.5, np.array([value(each) for each in sets]), np.ones(len(sets)), None))
    except StopIteration as end:
        return end.value, asked


def test_greedy_search_by_hand() -> None:
    weights = np.array([0.1, 0.5, 0.3, -0.2])
    found, asked = told_of(best_sets(4, [1, 3]), lambda kept: float(kept @ weights))
    assert found == pytest.approx({0: 0.0, 1: 0.5, 2: 0.8, 3: 0.9})
    assert asked == [1, 4, 3, 2], "up to the largest size wanted, and no further"


def test_greedy_search_of_a_long_text_is_bounded() -> None:
    weights = np.random.default_rng(0).normal(size=200)
    found, asked = told_of(best_sets(200, [5, 11, 100]), lambda kept: float(kept @ weights))
    best = np.sort(weights)[::-1]
    for size in (5, 11, 100):
        assert found[size] == pytest.approx(best[:size].sum()), "in an additive game the first ones are the best"
    assert sum(asked) < 10 * 200 + 10


# -- sizes


class AdditiveWords(nn.Module):
    """The probability of "yes" itself is a sum over the words that are seen."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 1)
        self.same = nn.Identity()
        with torch.no_grad():
            self.embedding.weight.copy_(torch.linspace(-0.03, 0.04, len(vocabulary))[:, None])

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        h = self.same(self.embedding(ids)) * mask[..., None]
        yes = (0.5 + h[..., 0].sum(dim=1)).clamp(0.01, 0.99)
        return torch.stack([(1 - yes).log(), yes.log()], dim=1)


def additive_words() -> whence.LayeredModel:
    tokenizer = tiny_models.word_tokenizer()
    module = AdditiveWords(tokenizer.vocabulary)
    return whence.load(module, tokenizer, blocks=[module.same], labels=["no", "yes"])


def test_an_additive_game_is_foretold_exactly() -> None:
    """Shapley values, and shares on another scale and with another zero, of a game in which words just add up."""
    model = additive_words()
    shapley = whence.explain(model, TEXTS, "shapley", layers="embeddings", scale="probability")
    scaled = [
        Explanation.from_scores(each.text, each.tokens, 7.0 * each.row(), meaning=PLAIN, method="scaled")
        for each in shapley
    ]
    keeps = [Explanation.from_scores(each.text, each.tokens, each.row() + 0.5, meaning=KEEP) for each in shapley]
    found = evaluate(
        model, TEXTS, explanations={"shapley": shapley, "scaled": scaled, "keeps": keeps}, metrics=["sizes"],
        **SETTINGS,
    )  # fmt: skip
    for name in ("shapley", "scaled"):
        for metric in ("lds", "r_squared"):
            row = found.values[metric][found.index(name)]
            assert np.isfinite(row).any(), metric
            np.testing.assert_allclose(row[np.isfinite(row)], 1, atol=2e-3, err_msg=f"{name} {metric}")
    assert np.isnan(found.values["r_squared"][found.index("keeps")]).all(), "which are not meant to be added up"
    assert found.interval("random", "lds").mean < 0.5  # type: ignore[union-attr]


@pytest.mark.parametrize("case", range(10))
def test_sizes_against_other_libraries(case: int) -> None:
    draw = np.random.default_rng(case)
    sums, values = draw.normal(size=40).round(1), draw.random(40)
    assert linear_datamodeling_score(sums, values) == pytest.approx(spearmanr(sums, values).statistic, abs=1e-9)
    drawn = np.stack([sums, 0.3 * sums + 0.1 * values], axis=1)
    line = LinearRegression().fit(drawn[:20, :1], drawn[:20, 1])
    assert held_out_r_squared(drawn) == pytest.approx(r2_score(drawn[20:, 1], line.predict(drawn[20:, :1])), abs=1e-9)


def test_sizes_where_there_is_nothing_to_foretell() -> None:
    same = np.full(6, 0.5)
    assert math.isnan(linear_datamodeling_score(np.arange(6.0), same))
    assert linear_datamodeling_score(same, np.arange(6.0)) == 0
    assert math.isnan(held_out_r_squared(np.stack([np.arange(6.0), same], axis=1)))
    wild = np.stack([np.arange(8.0), np.array([0, 1, 2, 3, 0.1, 0.2, 0.1, 0.0])], axis=1)
    assert held_out_r_squared(wild) == -1


# -- the second way


def test_the_second_way_differs_from_the_first(bert: whence.LayeredModel) -> None:
    first = Hiding.of(bert, "auto")
    second = second_hiding(bert, "auto", first)
    assert second is not None
    assert second.name != first.name
    assert second_hiding(bert, "zero", first).name == "zero"  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="hidden by 'mask_and_attention' already"):
        second_hiding(bert, "mask_and_attention", first)
    with pytest.raises(UnknownNameError, match="unknown way to hide"):
        second_hiding(bert, "ink", first)  # type: ignore[arg-type]


def test_ways_to_hide_are_told_in_words() -> None:
    assert in_words("mask_and_attention") == "mask and attention"
    assert in_words("mask_and_attention, Ġthe") == 'mask and attention ("the" in their place)'
    assert in_words("delete") == "deletion"


def test_the_second_faithfulness_is_the_first_of_a_board_that_hides_so(bert: whence.LayeredModel) -> None:
    texts = [f"{text} {word}" for text in tiny_models.TEXTS for word in ("bad", "good")]
    settings: dict[str, Any] = {"methods": ["leave_one_out", "gradient_x_input"], "layer": "embeddings"}
    both = evaluate(bert, texts, hide="mask", second_hide="zero", metrics=["second_hiding"], **settings)
    other = evaluate(bert, texts, hide="zero", metrics=["sufficiency"], **settings)
    np.testing.assert_allclose(both.values["second_faithfulness"][:2], other.values["faithfulness"][:2], atol=1e-5)
    assert both.settings["second_hide"] == "zero"


def with_values(first: list[float], second: list[float], noise: float = 0.01) -> Scoreboard:
    """A board of three methods whose means under the two ways are these."""
    names = ("a", "b", "c")
    given = {name: explained(TEXTS) for name in names}
    made = evaluate(weighted_words(), TEXTS, explanations=given, metrics=["second_hiding"], **SETTINGS)
    draw = np.random.default_rng(0)
    for metric, means in (("faithfulness", first), ("second_faithfulness", second)):
        for name, mean in zip(names, means, strict=True):
            made.values[metric][made.index(name)] = mean + noise * draw.normal(size=len(TEXTS))
    return made


def test_rankings_that_go_together() -> None:
    both = two_rankings(with_values([0.3, 0.2, 0.1], [0.6, 0.4, 0.2]))
    assert both is not None
    assert (both.tau.mean, both.tau.low, both.tau.high) == (1.0, 1.0, 1.0)
    assert (both.first, both.second) == ("a", "a")


def test_files_tell_of_both_rankings() -> None:
    board = with_values([0.3, 0.2, 0.1], [0.2, 0.4, 0.3])
    told = board.to_dict()["two_rankings"]
    assert (told["first"], told["second"]) == ("a", "b")
    assert told["tau"]["mean"] == pytest.approx(-1 / 3)


def test_where_the_winner_differs_the_verdict_says_so() -> None:
    board = with_values([0.8, 0.75, 0.7], [0.2, 0.4, 0.6])
    both = two_rankings(board)
    assert both is not None
    assert both.tau.mean == -1
    reasons = " ".join(board.verdict.reasons)
    assert "correlates with this one at τ -1.00" in reasons
    assert "but the two ways disagree on who comes first: here it is c, surely ahead of a" in reasons
    same = " ".join(with_values([0.8, 0.75, 0.7], [0.6, 0.4, 0.2]).verdict.reasons)
    assert "disagree on who" not in same


def test_an_interval_over_texts_says_how_sure_that_is() -> None:
    both = two_rankings(with_values([0.3, 0.29, 0.28], [0.3, 0.29, 0.28], noise=0.2))
    assert both is not None
    assert both.tau.low < both.tau.high
    assert two_rankings(evaluate(weighted_words(), TEXTS, explanations={"a": explained(TEXTS)}, **SETTINGS)) is None
