"""Hard Concrete gates: closed forms against sampling, quadrature and finite differences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from whence.probes.gates import HardConcrete

# of stretch (-0.2, 1) and temperature 0.2: the keep probability and the mean of a gate, by its logit
KNOWN = {0.0: (0.580, 0.473), 1.0: (0.789, 0.706), 3.0: (0.965, 0.946), 5.0: (0.9951, 0.992), -3.0: (0.0643, 0.044)}
OTHER: dict[str, Any] = {"temperature": 2 / 3, "low": -0.1, "high": 1.1}
logits = st.floats(-30, 30)


def sampled(logit: float, n: int = 400_000, **shape: float) -> torch.Tensor:
    noise = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return HardConcrete(torch.full((n,), logit, dtype=torch.float64), **shape).rsample(noise=noise)


@pytest.mark.parametrize(("logit", "known"), KNOWN.items())
def test_acceptance_1_closed_forms_equal_monte_carlo(logit: float, known: tuple[float, float]) -> None:
    gate = HardConcrete(torch.tensor(logit))
    samples = sampled(logit)
    assert float(gate.nonzero) == pytest.approx(known[0], abs=1e-3)
    assert float(gate.mean) == pytest.approx(known[1], abs=1e-3)
    assert float((samples != 0).double().mean()) == pytest.approx(float(gate.nonzero), abs=3e-3)
    assert float(samples.mean()) == pytest.approx(float(gate.mean), abs=3e-3)


@pytest.mark.parametrize("logit", [-2.0, 0.3, 4.0])
def test_another_stretch_and_temperature(logit: float) -> None:
    gate = HardConcrete(torch.tensor(logit), **OTHER)
    samples = sampled(logit, **OTHER)
    assert float((samples != 0).double().mean()) == pytest.approx(float(gate.nonzero), abs=3e-3)
    assert float(samples.mean()) == pytest.approx(float(gate.mean), abs=3e-3)
    assert (samples == 1).any()  # mass at both ends


@given(logits)
def test_the_keep_probability_is_the_sigmoid_of_the_logit_and_a_fifth_of_ln_5(logit: float) -> None:
    gate = HardConcrete(torch.tensor(logit, dtype=torch.float64))
    assert float(gate.nonzero) == pytest.approx(special.expit(logit + 0.2 * math.log(5)), rel=1e-12)
    assert float(gate.log_nonzero) == pytest.approx(special.log_expit(logit + 0.2 * math.log(5)), rel=1e-12)


@settings(max_examples=30)
@given(logits)
def test_the_mean_equals_a_quadrature(logit: float) -> None:
    def gate(concrete: float) -> float:
        """The gate times the density of s, with s = sigmoid(t) and t logistic around γ / τ."""
        return max(0.0, 1.2 * special.expit(concrete) - 0.2)

    def density(t: float) -> float:
        x = 0.2 * t - logit
        return 0.2 * math.exp(-abs(x)) / (1 + math.exp(-abs(x))) ** 2

    first = -math.log(5)  # where the gate leaves 0
    points = sorted({first, min(max(logit / 0.2, first), 400.0), 5.0})
    mean = sum(
        integrate.quad(lambda t: gate(t) * density(t), low, high, limit=400)[0]
        for low, high in zip(points, [*points[1:], 600.0], strict=True)
    )
    assert float(HardConcrete(torch.tensor(logit, dtype=torch.float64)).mean) == pytest.approx(mean, abs=2e-6)


def test_far_logits_stay_finite() -> None:
    gate = HardConcrete(torch.tensor([-1000.0, 1000.0]))
    assert gate.log_nonzero.tolist() == [pytest.approx(-1000, abs=1), 0.0]
    assert gate.mean.tolist() == [0.0, pytest.approx(1)]
    for noise in (0.0, 1.0):  # the ends of what torch.rand may give
        assert gate.rsample(noise=torch.full((2,), noise)).tolist() == [0.0, 1.0]


def test_the_gradient_of_a_sample_equals_finite_differences() -> None:
    generator = torch.Generator().manual_seed(1)
    at = torch.randn(50, generator=generator, dtype=torch.float64)
    noise = torch.rand(50, generator=generator, dtype=torch.float64)
    logit = at.clone().requires_grad_()
    samples = HardConcrete(logit).rsample(noise=noise)
    (gradient,) = torch.autograd.grad(samples.sum(), logit)
    h = 1e-6
    numeric = (HardConcrete(at + h).rsample(noise=noise) - HardConcrete(at - h).rsample(noise=noise)) / (2 * h)
    torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)
    shut = samples == 0
    assert shut.any()
    assert (gradient[shut] == 0).all()  # a closed gate learns through its probability alone
    assert (gradient[~shut] > 0).all()


def test_the_gradient_of_the_log_probability_is_one_minus_the_probability() -> None:
    logit = torch.linspace(-5, 5, 11, requires_grad=True)
    gate = HardConcrete(logit)
    (gradient,) = torch.autograd.grad(gate.log_nonzero.sum(), logit)
    torch.testing.assert_close(gradient, 1 - gate.nonzero)


def test_deterministic_gates_open_above_one_half() -> None:
    edge = -0.2 * math.log(5)
    gate = HardConcrete(torch.tensor([edge - 0.01, edge + 0.01, -5.0, 5.0]))
    assert gate.deterministic().tolist() == [0.0, 1.0, 0.0, 1.0]


def test_it_is_a_distribution_like_those_of_torch() -> None:
    gate = HardConcrete(torch.zeros(2, 3, requires_grad=True))
    torch.manual_seed(3)
    samples = gate.rsample((4,))
    assert samples.shape == (4, 2, 3)
    assert samples.requires_grad
    assert not gate.sample((5,)).requires_grad
    assert gate.sample((5,)).shape == (5, 2, 3)
    assert bool(gate.support.check(samples).all())
    torch.manual_seed(3)
    torch.testing.assert_close(gate.rsample(torch.Size([4])), samples)


@pytest.mark.parametrize("shape", [{"temperature": 0.0}, {"low": 0.0}, {"high": 0.9}])
def test_what_is_no_hard_concrete_is_refused(shape: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs temperature > 0"):
        HardConcrete(torch.zeros(1), **shape)
