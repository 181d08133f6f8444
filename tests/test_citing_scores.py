"""Scores of sources on planted games: by hand, by brute force, against scikit-learn; how often intervals are wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from planted_games import ONE_SENTENCE, ablations_of, foretold, linear, mean_gains, mixed, wiggling
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from whence.citing.ablations import Ablations, of_sentences
from whence.citing.designs import balanced_pairs, drawn_as_context_cite, everything_but_one, hadamard
from whence.citing.scoring import LEAST, SCORES, SourceScores, balanced, context_cite, settled_scores
from whence.citing.surrogate import lasso, logit_of


def test_the_logit_of_a_probability_is_exact_at_both_ends() -> None:
    chances = np.array([0.5, 0.2, 1e-12])
    np.testing.assert_allclose(logit_of(np.log(chances)), np.log(chances / (1 - chances)), rtol=1e-9)
    near_one = np.array([-1e-9, -1e-300, 0.0])
    found = logit_of(near_one)
    assert found[0] == pytest.approx(-math.log(1e-9), rel=1e-6)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("n_sets", "n_sources"), [(8, 3), (64, 8), (16, 20), (256, 40)])
def test_the_lasso_is_that_of_scikit_learn(n_sets: int, n_sources: int) -> None:
    sets = drawn_as_context_cite(n_sets, n_sources)
    values = np.random.default_rng(0).normal(size=n_sets)
    scaler = StandardScaler()
    solver = Lasso(alpha=0.01, tol=1e-12, max_iter=100_000).fit(scaler.fit_transform(sets.astype(float)), values)
    np.testing.assert_allclose(lasso(sets, values), solver.coef_ / scaler.scale_, atol=1e-7)


def test_the_lasso_of_one_source_in_closed_form() -> None:
    sets = np.array([[True], [True], [False], [False]])
    values = np.array([1.0, 1.0, 0.0, 0.0])  # covariance with the standardised source: ½, less alpha, over ½
    assert lasso(sets, values, 0.1)[0] == pytest.approx((0.5 - 0.1) / 0.5)
    assert lasso(sets, values, 0.6)[0] == 0.0


def test_a_source_that_is_always_there_has_weight_zero() -> None:
    sets = np.array([[True, True], [True, False], [True, True], [True, False]])
    assert lasso(sets, np.array([1.0, 0.0, 1.0, 0.0]), 0.0).tolist() == pytest.approx([0.0, 1.0])
    assert lasso(sets[:1], np.array([3.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("least", [1, 2, 3, 5, 9, 13, 17, 28, 40, 100])
def test_hadamard_matrices_have_orthogonal_columns(least: int) -> None:
    matrix = hadamard(least)
    assert len(matrix) >= least
    assert (matrix.T @ matrix == len(matrix) * np.eye(len(matrix))).all()


def test_balanced_pairs_are_complements_distinct_nested_and_balanced() -> None:
    pairs = balanced_pairs(24, 11, seed=3)
    assert (pairs[:, 0] == ~pairs[:, 1]).all()
    assert len({half.tobytes() for pair in pairs for half in pair}) == 48
    assert (balanced_pairs(12, 11, seed=3) == pairs[:12]).all()
    signs = np.where(pairs[:12, 0], 1, -1)  # a block: every two sources are as often together as apart
    assert (signs.T @ signs == 12 * np.eye(11)).all()
    assert len(balanced_pairs(1_000, 5)) == 16


def test_draws_are_those_of_context_cite() -> None:
    expected = [np.random.RandomState(seed).choice([False, True], size=5, p=[0.5, 0.5]) for seed in range(7)]
    assert (drawn_as_context_cite(7, 5) == expected).all()


def test_each_distinct_set_is_asked_once() -> None:
    asked: list[int] = []

    def ask(sets: np.ndarray) -> np.ndarray:
        asked.append(len(sets))
        return sets.sum(axis=1, keepdims=True).astype(float)

    ablations = Ablations(ask, 2)
    sets = np.array([[True, False], [True, True], [True, False]])
    assert ablations.log_probabilities(sets).tolist() == [[1.0], [2.0], [1.0]]
    assert ablations.log_probabilities(sets[:1]).tolist() == [[1.0]]
    assert (asked, ablations.asked) == ([2], 2)


def test_sentences_are_sums_over_their_tokens() -> None:
    values = of_sentences(np.array([[1.0, 2.0, 4.0]]), [np.array([0]), np.array([1, 2])])
    assert values.tolist() == [[1.0], [6.0]]


@pytest.mark.parametrize("name", ["balanced", "leave_one_out", "shapley"])
@pytest.mark.parametrize("n_sources", [2, 5, 12])
def test_a_linear_game_is_told_exactly(name: str, n_sources: int) -> None:
    weights = np.linspace(-1, 3, n_sources)
    found = SCORES[name](ablations_of(linear(weights), n_sources), ONE_SENTENCE, 64, 0)
    np.testing.assert_allclose(found.scores[0], weights, atol=1e-6)


def test_leave_one_out_costs_one_set_a_source() -> None:
    ablations = ablations_of(linear(np.ones(9)), 9)
    SCORES["leave_one_out"](ablations, ONE_SENTENCE, 2, 0)
    assert ablations.asked == 10 == len(everything_but_one(9))


@pytest.mark.parametrize("seed", range(3))
def test_balanced_pairs_of_every_set_give_the_mean_gain(seed: int) -> None:
    worth = mixed(6, seed)
    found = balanced(ablations_of(worth, 6), ONE_SENTENCE, 64, seed)
    np.testing.assert_allclose(found.scores[0], mean_gains(worth, 6), atol=1e-8)
    assert found.low is not None
    assert (found.low == found.high).all()


def test_shapley_values_of_every_set_are_those_of_all_orders() -> None:
    worth = mixed(4, 1)
    gains = np.zeros(4)
    for order in itertools.permutations(range(4)):
        there = np.zeros((5, 4))
        for step, source in enumerate(order):
            there[step + 1 :, source] = 1
        gains[list(order)] += np.diff(worth(there)) / math.factorial(4)
    found = SCORES["shapley"](ablations_of(worth, 4), ONE_SENTENCE, 16, 0)
    np.testing.assert_allclose(found.scores[0], gains, atol=1e-6)
    many = SCORES["shapley"](ablations_of(worth, 4), ONE_SENTENCE, 15, 0)
    assert many.low is not None
    assert many.high is not None
    assert ((many.low <= gains) & (gains <= many.high)).all()


def test_what_two_sources_do_together_does_not_blur_balanced_scores() -> None:
    """A pair of sets and their complements cannot see it; a Lasso on as many random sets does."""
    strong = np.array([4.0, 2.0, *[0.0] * 8])
    together = {(2, 3): 5.0, (4, 5): -5.0, (0, 6): 3.0}

    def worth(sets: np.ndarray) -> np.ndarray:
        return -12 + sets @ strong + sum(size * sets[:, i] * sets[:, j] for (i, j), size in together.items())

    exact = mean_gains(worth, 10)
    found = balanced(ablations_of(worth, 10), ONE_SENTENCE, 24, 0)
    np.testing.assert_allclose(found.scores[0], exact, atol=1e-6)
    rival = context_cite(ablations_of(worth, 10), ONE_SENTENCE, 24, 0)
    assert np.abs(rival.scores[0] - exact).max() > 0.3


def test_balanced_pairs_foretell_better_than_four_times_as_many_random_sets() -> None:
    ours, theirs = [], []
    for seed in range(12):
        worth = mixed(14, seed)
        ours.append(foretold(balanced(ablations_of(worth, 14), ONE_SENTENCE, 64, seed).scores[0], worth, seed))
        sets = drawn_as_context_cite(256, 14, seed)
        theirs.append(foretold(lasso(sets, worth(sets.astype(float))), worth, seed))
    assert np.mean(ours) > np.mean(theirs)


def test_with_too_small_a_budget_balanced_is_context_cite() -> None:
    worth = mixed(14, 0)
    found = balanced(ablations_of(worth, 14), ONE_SENTENCE, 16, 0)
    assert (found.scores == context_cite(ablations_of(worth, 14), ONE_SENTENCE, 16, 0).scores).all()


@pytest.mark.parametrize("budget", [32, 64])
def test_intervals_hold_for_all_sources_at_once(budget: int) -> None:
    """They should in 95 of 100 games; fewer than 88 would happen by chance in one of 500 tests."""
    held = 0
    for seed in range(100):
        worth = mixed(9, seed)
        found = balanced(ablations_of(worth, 9), ONE_SENTENCE, budget, seed)
        assert found.low is not None
        assert found.high is not None
        exact = mean_gains(worth, 9)
        held += bool(((found.low <= exact) & (exact <= found.high)).all())
    assert held >= 88


@pytest.mark.parametrize("budget", [32, 64, 0])
def test_where_no_source_does_anything_hardly_ever_one_is_cited(budget: int) -> None:
    """At most 5 in 100, also where sets are added until it is settled (budget 0), and where any effect counts."""
    wrong = at_all = 0
    for seed in range(100):
        worth = wiggling(9, seed)
        ablations = ablations_of(worth, 9)
        score = (
            balanced(ablations, ONE_SENTENCE, budget, seed)
            if budget
            else settled_scores(balanced, ablations, ONE_SENTENCE, 256, seed)
        )
        cited = score.cited()
        assert cited is not None
        assert score.low is not None
        wrong += bool((cited[0] & (mean_gains(worth, 9) < LEAST)).any())
        at_all += bool(((score.low[0] > 0) & (mean_gains(worth, 9) < 0)).any())
    assert wrong <= 5
    assert at_all <= 5


def test_sources_that_say_the_same_are_both_cited() -> None:
    """Without either the answer is still likely, so leave-one-out sees nothing; the mean over sets does."""

    def worth(sets: np.ndarray) -> np.ndarray:
        return -4 + 8 * np.maximum(sets[:, 1], sets[:, 4])

    found = {name: SCORES[name](ablations_of(worth, 7), ONE_SENTENCE, 128, 0).cited() for name in SCORES}
    assert found["leave_one_out"] is not None
    assert not found["leave_one_out"].any()
    for name in ("balanced", "shapley"):
        cited = found[name]
        assert cited is not None
        assert np.flatnonzero(cited[0]).tolist() == [1, 4]


def test_a_clear_game_is_settled_soon_and_a_doubtful_one_later() -> None:
    noise = wiggling(12, 5)

    def doubtful(sets: np.ndarray) -> np.ndarray:
        return noise(sets) + (LEAST + 0.2) * sets[:, 0]

    asked = []
    for worth in (linear(np.array([6.0, *[0.0] * 11])), doubtful):
        ablations = ablations_of(worth, 12)
        settled_scores(balanced, ablations, ONE_SENTENCE, 256, 0)
        asked.append(ablations.asked)
    assert asked[0] == 48 < asked[1] <= 256


def test_settled_means_that_every_interval_is_on_one_side_or_narrow() -> None:
    def scores(low: float, high: float) -> SourceScores:
        middle = (low + high) / 2
        return SourceScores(np.array([[10.0, middle]]), np.array([[9.5, low]]), np.array([[10.5, high]]))

    assert scores(LEAST + 0.1, LEAST + 4).settled()
    assert scores(LEAST - 4, LEAST - 0.1).settled()
    assert not scores(LEAST - 1.1, LEAST + 1.1).settled()
    assert scores(LEAST - 0.9, LEAST + 0.9).settled()
    assert SourceScores(np.zeros((1, 2))).settled()
    assert SourceScores(np.zeros((1, 2))).cited() is None


def test_sources_that_the_sets_do_not_tell_apart_settle_nothing() -> None:
    """Two sets may both hold a source, or both lack it, or hold two sources alike: that says nothing of either."""
    weights = np.array([0.0, 6.0, 0.0, 0.0, 0.0, 0.0])
    for seed in range(20):
        sets = drawn_as_context_cite(3, 6, seed)
        found = context_cite(ablations_of(linear(weights), 6), ONE_SENTENCE, 3, seed)
        assert found.low is not None
        assert found.high is not None
        for source in range(6):
            columns = np.column_stack([np.ones(3, bool), np.delete(sets, source, axis=1)]).T
            unknown = any((sets[:, source] == other).all() or (sets[:, source] != other).all() for other in columns)
            assert np.isinf(found.high[0, source]) == np.isinf(found.low[0, source]) == unknown
        assert not found.settled()


def test_one_source_alone() -> None:
    found = balanced(ablations_of(linear(np.array([4.0])), 1), ONE_SENTENCE, 2, 0)
    assert found.scores[0, 0] == pytest.approx(4.0)
    assert found.cited() is not None
    assert SCORES["shapley"](ablations_of(linear(np.array([4.0])), 1), ONE_SENTENCE, 2, 0).scores[
        0, 0
    ] == pytest.approx(4)
