"""The scoreboard's own metrics: worked out by hand, then against a second implementation on random cases."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, f1_score

from whence.errors import UsageError
from whence.metrics.eraser import BINS, bin_counts, comprehensiveness, mass_counts, sufficiency
from whence.metrics.many_comparisons import holm, rank_ranges, sign_flip_p_values
from whence.metrics.monotonicity import monotonicity
from whence.metrics.plausibility import average_precision, token_f1
from whence.metrics.sparsity import gini

RANDOM_CASES = range(25)


def generator(case: int) -> np.random.Generator:
    return np.random.default_rng(case)


# -- comprehensiveness and sufficiency


def test_bins_by_hand() -> None:
    assert BINS == (0.01, 0.05, 0.1, 0.2, 0.5)
    assert bin_counts(100).tolist() == [1, 5, 10, 20, 50]
    assert bin_counts(10).tolist() == [1, 1, 1, 2, 5]
    assert bin_counts(1).tolist() == [1, 1, 1, 1, 1]


def test_comprehensiveness_and_sufficiency_by_hand() -> None:
    """p = 0.9 on the text; 0.8, 0.5, 0.2 without the first words; 0.3, 0.6, 0.9 with them alone."""
    assert float(comprehensiveness(np.array(0.9), np.array([0.8, 0.5, 0.2]))) == pytest.approx((0.1 + 0.4 + 0.7) / 3)
    assert float(sufficiency(np.array(0.9), np.array([0.3, 0.6, 0.9]))) == pytest.approx((0.6 + 0.3 + 0.0) / 3)


@pytest.mark.parametrize("case", RANDOM_CASES)
def test_eraser_against_loops(case: int) -> None:
    """As ERASER's own script has it: for each text and bin a difference, all of them averaged."""
    draw = generator(case)
    whole, parts = draw.random(7), draw.random((7, 5))
    slow = []
    for text in range(7):
        total = 0.0
        for bin_number in range(5):
            total += whole[text] - parts[text, bin_number]
        slow.append(total / 5)
    np.testing.assert_allclose(comprehensiveness(whole, parts), slow)
    np.testing.assert_allclose(sufficiency(whole, parts), slow)
    n_tokens = int(draw.integers(1, 300))
    assert bin_counts(n_tokens).tolist() == [
        next(k for k in range(1, n_tokens + 1) if k * 100 >= percent * n_tokens) for percent in (1, 5, 10, 20, 50)
    ]


def test_mass_by_hand() -> None:
    """Of 8 in all: 4 is half; 4 + 3 is seven eighths; what speaks against has no mass."""
    assert mass_counts(np.array([4.0, 3.0, 1.0, -9.0]), [0.5, 0.51, 0.875, 0.9, 1.0]).tolist() == [1, 2, 2, 3, 3]
    assert mass_counts(np.array([-1.0, -2.0]), [0.5]).tolist() == [0]
    assert mass_counts(np.zeros(3), [0.5]).tolist() == [0]


@pytest.mark.parametrize("case", RANDOM_CASES)
def test_mass_against_a_search(case: int) -> None:
    draw = generator(case)
    scores = -np.sort(-draw.normal(size=int(draw.integers(1, 30))).round(3))
    positive = [max(0.0, score) for score in scores.tolist()]
    for share in (0.1, 0.5, 0.9):
        found = mass_counts(scores, [share])[0]
        if sum(positive) == 0:
            assert found == 0
        else:
            wanted = share * sum(positive) - 1e-9
            assert found == next(k for k in range(1, len(scores) + 1) if sum(positive[:k]) >= wanted)


@pytest.mark.parametrize("bins", [[], [0.0], [1.5], [math.nan]])
def test_bins_that_are_none(bins: list[float]) -> None:
    with pytest.raises(UsageError, match="shares above 0"):
        bin_counts(10, bins)


# -- monotonicity


def test_monotonicity_by_hand() -> None:
    """Gains 0.5, 0.3, 0.1 fall; 0.1, 0.3, 0.5 rise; of gains 0.3, 0.5, 0.1 two pairs of three fall."""
    shown = np.arange(4)
    assert monotonicity(shown, np.array([0.0, 0.5, 0.8, 0.9])) == 1.0
    assert monotonicity(shown, np.array([0.0, 0.1, 0.4, 0.9])) == -1.0
    assert monotonicity(shown, np.array([0.0, 0.3, 0.8, 0.9])) == pytest.approx(1 / 3)
    assert math.isnan(monotonicity(shown, np.array([0.2, 0.2, 0.2, 0.2])))
    assert math.isnan(monotonicity(np.array([0, 1]), np.array([0.0, 1.0])))


def test_a_gain_is_that_of_one_token() -> None:
    """0.4 for one token, then 0.6 for three: each of these brings less."""
    assert monotonicity(np.array([0, 1, 4]), np.array([0.0, 0.4, 1.0])) == 1.0


@pytest.mark.parametrize("case", RANDOM_CASES)
def test_monotonicity_against_scipy(case: int) -> None:
    draw = generator(case)
    shown = np.cumsum(draw.integers(1, 4, size=12))
    probability = draw.random(12).round(1)
    gains = [round((probability[i + 1] - probability[i]) / (shown[i + 1] - shown[i]), 6) for i in range(len(shown) - 1)]
    assert monotonicity(shown, probability) == pytest.approx(kendalltau(gains, range(len(gains), 0, -1)).statistic)


def test_points_that_show_nothing_new() -> None:
    with pytest.raises(UsageError, match="more and more"):
        monotonicity(np.array([0, 1, 1]), np.array([0.0, 0.5, 0.6]))


# -- sparsity


def test_gini_by_hand() -> None:
    assert gini(np.array([1.0, 1.0, -1.0])) == 0.0
    assert gini(np.array([0.0, 0.0, 0.0, 0.0, 5.0])) == pytest.approx(0.8)
    assert gini(np.array([1.0, 3.0])) == pytest.approx(0.25)
    assert math.isnan(gini(np.zeros(3)))
    assert math.isnan(gini(np.zeros(0)))


@pytest.mark.parametrize("case", RANDOM_CASES)
def test_gini_against_all_pairs(case: int) -> None:
    """Half the mean difference between two members, over the mean."""
    values = generator(case).normal(size=9)
    sizes = np.abs(values)
    apart = np.mean([abs(one - other) for one, other in product(sizes, sizes)])
    assert gini(values) == pytest.approx(apart / (2 * sizes.mean()))


# -- plausibility


def test_plausibility_by_hand() -> None:
    """Marked words come first and third: recall ½ at precision 1, then 1 at ⅔."""
    scores, marked = np.array([0.9, 0.5, 0.4, 0.1]), np.array([True, False, True, False])
    assert average_precision(scores, marked) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert token_f1(scores, marked, 0.5) == pytest.approx(0.5)
    assert token_f1(scores, marked, 0.01) == pytest.approx(2 / 3), "one word is named at least"
    assert math.isnan(average_precision(scores, np.zeros(4, dtype=bool)))
    assert math.isnan(token_f1(scores, np.zeros(4, dtype=bool), 0.5))


@pytest.mark.parametrize("case", RANDOM_CASES)
def test_plausibility_against_sklearn(case: int) -> None:
    draw = generator(case)
    scores = draw.normal(size=12).round(1)  # with ties
    marked = draw.random(12) < 0.4
    marked[0] = True
    assert average_precision(scores, marked) == pytest.approx(average_precision_score(marked, scores))
    untied = draw.permutation(12).astype(float)
    named = untied >= np.sort(untied)[-4]
    assert token_f1(untied, marked, 4 / 12) == pytest.approx(f1_score(marked, named))


def test_plausibility_of_what_does_not_fit() -> None:
    with pytest.raises(UsageError, match="do not go together"):
        average_precision(np.zeros(3), np.ones(2, dtype=bool))
    with pytest.raises(UsageError, match="not finite"):
        average_precision(np.array([np.nan, 1.0]), np.ones(2, dtype=bool))
    with pytest.raises(UsageError, match="share must lie"):
        token_f1(np.ones(2), np.ones(2, dtype=bool), 0.0)


# -- many comparisons


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1; a later one is never below an earlier."""
    assert holm(np.array([0.04, 0.01, 0.03, 0.02])).tolist() == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


@settings(max_examples=50)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8), st.floats(0.01, 0.2))
def test_holm_rejects_what_the_steps_reject(p_values: list[float], level: float) -> None:
    """The textbook's way: go up from the smallest and stop at the first that is too large."""
    rejected = set()
    for step, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] * (len(p_values) - step) > level:
            break
        rejected.add(place)
    corrected = holm(np.array(p_values))
    assert {place for place, value in enumerate(corrected) if value <= level} == rejected


def test_sign_flips_against_all_signs() -> None:
    """Eight texts have 256 patterns of signs: the share of those at least as far from zero is the p-value."""
    differences = np.random.default_rng(3).normal(0.4, 1, size=(8, 3))
    exact = [
        np.mean([abs(np.dot(signs, column)) >= abs(column.sum()) - 1e-12 for signs in product([-1, 1], repeat=8)])
        for column in differences.T
    ]
    np.testing.assert_allclose(sign_flip_p_values(differences), exact, atol=0.015)


def test_sign_flips_leave_out_what_is_undefined() -> None:
    known = np.random.default_rng(0).normal(0.5, 1, size=(20, 1))
    with_gaps = np.concatenate([known, np.full((5, 1), np.nan)])
    assert sign_flip_p_values(with_gaps)[0] == pytest.approx(sign_flip_p_values(known)[0], abs=0.01)
    assert sign_flip_p_values(np.zeros((4, 1)))[0] == 1.0


def test_ranks_left_open() -> None:
    """a beats c and d, b beats d: a and b may be first, c second or third or … as nobody beats it but a."""
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert rank_ranges(better) == [(1, 2), (1, 3), (2, 4), (3, 4)]
    assert rank_ranges(np.zeros((3, 3), dtype=bool)) == [(1, 3)] * 3
