"""Rank correlation with ties, entropy and divergences: by hand, against scipy, and by simulation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, kendalltau

from whence.errors import UsageError
from whence.metrics.divergences import jensen_shannon, kullback_leibler, total_variation
from whence.metrics.entropy import normalised_entropy
from whence.metrics.rank_correlation import kendall_tau, shared_zeros_null, tie_null


def test_tau_by_hand():
    """Of six pairs: 4 in order, 1 reversed, 1 tied on one side: 3 / sqrt(5 · 6)."""
    assert kendall_tau(np.array([[1.0, 2, 2, 4]]), np.array([[2.0, 1, 3, 4]]))[0, 0] == pytest.approx(3 / math.sqrt(30))


@settings(max_examples=100)
@given(st.integers(2, 30).flatmap(lambda n: arrays(np.int8, (4, n), elements=st.integers(0, 5))))
def test_tau_is_that_of_scipy_on_ties(values):
    values = values.astype(float)
    found = kendall_tau(values[:2], values[2:])
    expected = [[kendalltau(one, other).statistic for other in values[2:]] for one in values[:2]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_tau_of_many_tokens_is_counted_in_blocks():
    values = np.random.default_rng(0).integers(0, 50, (2, 1_500)).astype(float)
    assert kendall_tau(values[:1], values[1:])[0, 0] == pytest.approx(kendalltau(*values).statistic, abs=1e-12)


def test_tau_is_undefined_for_constants_broken_numbers_and_one_token():
    assert np.isnan(kendall_tau(np.array([[1.0, 1, 1]]), np.array([[1.0, 2, 3]]))).all()
    assert np.isnan(kendall_tau(np.array([[1.0, np.nan, 2]]), np.array([[1.0, 2, 3]]))).all()
    assert np.isnan(kendall_tau(np.array([[1.0]]), np.array([[1.0]]))).all()


@pytest.mark.parametrize(("n", "s", "expected"), [(180, 9, 0.98), (180, 30, 0.91), (180, 90, 0.67), (20, 5, 0.88)])
def test_tie_null_by_formula_and_by_simulation(n, s, expected):
    """Weights that share their zeros and are random otherwise agree at (n − s) / (n − (s + 1) / 2) on average."""
    assert shared_zeros_null(n, s) == pytest.approx(expected, abs=0.006)
    random = np.random.default_rng(0)
    values = np.zeros((600, n))
    values[:, :s] = random.random((600, s)) + 0.1
    nulls = tie_null(values[:2], values[2:4])
    assert nulls == pytest.approx(shared_zeros_null(n, s), abs=1e-12)
    taus = [kendall_tau(values[[i]], values[[i + 1]])[0, 0] for i in range(0, 600, 2)]
    assert np.mean(taus) == pytest.approx(shared_zeros_null(n, s), abs=0.02)


def test_tie_null_where_zeros_are_not_shared():
    random = np.random.default_rng(1)
    dense = random.random((1, 40)) + 0.1
    sparse = np.where(random.random((1, 40)) < 0.5, 0, dense)
    assert tie_null(dense, sparse)[0, 0] == 0
    assert tie_null(dense, dense)[0, 0] == 0
    first, second = np.zeros(40), np.zeros(40)
    first[:20], second[10:30] = 1, 1
    taus = []
    for _ in range(400):
        one, other = (each * random.permutation(np.arange(1.0, 41)) for each in (first, second))
        taus.append(kendall_tau(one[None], other[None])[0, 0])
    assert np.mean(taus) == pytest.approx(tie_null(one[None], other[None])[0, 0], abs=0.02)


def test_null_of_impossible_counts():
    with pytest.raises(UsageError, match="0 of 5 tokens cannot have weight"):
        shared_zeros_null(5, 0)


def test_entropy_by_hand():
    rows = np.array([[0.25, 0.25, 0.25, 0.25], [0, 1, 0, 0], [0.5, 0.5, 0, 0]])
    np.testing.assert_allclose(normalised_entropy(rows), [1, 0, 0.5], atol=1e-12)


@settings(max_examples=50)
@given(arrays(np.float64, 7, elements=st.floats(0, 1).map(lambda x: round(x, 3))), st.floats(0.01, 100))
def test_entropy_is_that_of_scipy_whatever_the_scale(weights, scale):
    if not weights.sum():
        assert np.isnan(normalised_entropy(weights))
        return
    assert normalised_entropy(weights) == pytest.approx(entropy(weights) / math.log(7), abs=1e-9)
    assert normalised_entropy(weights * scale) == pytest.approx(float(normalised_entropy(weights)), abs=1e-9)


def test_entropy_errors_and_undefined_rows():
    with pytest.raises(UsageError, match="one token is 0 / 0"):
        normalised_entropy(np.array([[1.0]]))
    with pytest.raises(UsageError, match="not negative"):
        normalised_entropy(np.array([1.0, -1.0]))
    assert np.isnan(normalised_entropy(np.array([[0.0, 0.0], [1.0, np.nan]]))).all()


def random_distributions(n, seed=0):
    values = torch.rand(2, 50, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    values = values * (torch.rand(values.shape, generator=torch.Generator().manual_seed(seed + 1)) < 0.7)
    return values / values.sum(dim=-1, keepdim=True)


def test_divergences_by_hand():
    p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert total_variation(p, q).item() == 0.5
    assert kullback_leibler(p, q).item() == pytest.approx(math.log(2))
    assert kullback_leibler(q, p).item() == math.inf
    expected = (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2)) / 2
    assert jensen_shannon(p, q).item() == pytest.approx(expected)


def test_jensen_shannon_is_that_of_scipy_symmetric_bounded_and_zero_only_between_equals():
    p, q = random_distributions(9)
    found = jensen_shannon(p, q)
    np.testing.assert_allclose(found, jensenshannon(p.numpy(), q.numpy(), axis=-1) ** 2, atol=1e-12)
    torch.testing.assert_close(found, jensen_shannon(q, p))
    assert (found > 0).all()
    assert (found <= math.log(2) + 1e-12).all()
    assert jensen_shannon(p, p).abs().max() == 0
    far = torch.tensor([[1.0, 0, 0], [0, 0.5, 0.5]], dtype=torch.float64)
    assert jensen_shannon(far[0], far[1]).item() == pytest.approx(math.log(2))


def test_total_variation_is_the_largest_difference_of_any_event():
    p, q = (each[0] for each in random_distributions(6))
    events = [[i for i in range(6) if number >> i & 1] for number in range(64)]
    assert total_variation(p, q).item() == pytest.approx(max(abs(float((p - q)[event].sum())) for event in events))


@pytest.mark.parametrize("divergence", [jensen_shannon, kullback_leibler])
def test_gradients_are_finite_at_zeros(divergence):
    p = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([0.25, 0.25, 0.5, 0.0], dtype=torch.float64)
    assert torch.autograd.grad(divergence(p, q), p)[0].isfinite().all()
    inside = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: divergence(p, torch.tensor([0.3, 0.3, 0.4]).double()), inside)
