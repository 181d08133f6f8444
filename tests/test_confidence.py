"""Bootstrap intervals and paired differences, by hand, by brute force and beside scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from whence.metrics.confidence import bootstrap, mean_interval, paired_difference


def test_texts_that_agree_leave_no_doubt() -> None:
    low, high = bootstrap(np.full((7, 2), 0.25))
    np.testing.assert_allclose([low, high], 0.25, rtol=1e-6)


def test_two_texts_by_hand() -> None:
    """Of the resampled means a quarter is 0, half is 0.5 and a quarter is 1."""
    values = np.array([0.0, 1.0])
    assert mean_interval(values, level=0.4).low == mean_interval(values, level=0.4).high == 0.5
    wide = mean_interval(values, level=0.9)
    assert (wide.mean, wide.low, wide.high) == (0.5, 0.0, 1.0)
    assert str(wide) == "0.500 [0.000, 1.000]"


def test_the_interval_is_scipys() -> None:
    values = np.random.default_rng(0).exponential(size=80)
    found = mean_interval(values, resamples=9000)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=9000, method="percentile", random_state=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert found.low == pytest.approx(theirs.low, abs=0.04 * width)
    assert found.high == pytest.approx(theirs.high, abs=0.04 * width)


def test_the_interval_by_loops() -> None:
    values = np.random.default_rng(0).random((9, 3))
    draws = np.random.default_rng(5).multinomial(9, np.full(9, 1 / 9), size=50)
    means = [np.repeat(values, counts, axis=0).mean(axis=0) for counts in draws]
    low, high = bootstrap(values, level=0.8, resamples=50, seed=5)
    np.testing.assert_allclose(low, np.percentile(means, 10, axis=0), rtol=1e-5)
    np.testing.assert_allclose(high, np.percentile(means, 90, axis=0), rtol=1e-5)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        interval = mean_interval(generator.random(60), level=0.9, resamples=300)
        held += interval.low <= 0.5 <= interval.high
    assert 0.83 < held / 300 < 0.95


@settings(max_examples=20)
@given(st.integers(0, 2**31), st.integers(3, 8))
def test_the_p_value_by_all_signs(seed: int, n: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.random(n), generator.random(n)
    differences = one - other
    sums = [abs(float(np.dot(signs, differences))) for signs in itertools.product((-1, 1), repeat=n)]
    exact = np.mean([total >= abs(differences.sum()) - 1e-9 for total in sums])
    found = paired_difference(one, other, resamples=4000)
    assert found.p_value == pytest.approx(exact, abs=0.04)
    theirs = scipy.stats.permutation_test(
        (one, other), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )
    assert exact == pytest.approx(theirs.pvalue, abs=1e-9)
    assert found.mean == pytest.approx(theirs.statistic)


def test_a_difference_of_the_same_is_nothing() -> None:
    values = np.random.default_rng(0).random(20)
    found = paired_difference(values, values)
    assert (found.mean, found.low, found.high, found.p_value, found.n_texts) == (0, 0, 0, 1, 20)
    clear = paired_difference(values + 0.2, values)
    assert clear.p_value == pytest.approx(1 / 1001)
    assert clear.low == pytest.approx(0.2)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(whence.UsageError, match="no text to take a mean over"):
        bootstrap(np.zeros((0, 2)))
    with pytest.raises(whence.UsageError, match="level must lie between"):
        bootstrap(np.zeros(2), level=95)
    with pytest.raises(whence.UsageError, match="not one number per text"):
        paired_difference(np.zeros(2), np.zeros(3))
