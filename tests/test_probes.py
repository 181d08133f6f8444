"""Probes: the released and the paper's forms against plain loops, and what each kind of probe sees and trains."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from whence.explanation import Layer
from whence.probes.diffmask import Kind, Probes
from whence.probes.gates import HardConcrete
from whence.probes.networks import Bilinear, Form, Perceptron, all_at_once

FORMS: tuple[Form, ...] = ("released", "released_plain", "paper")
WIDTHS: dict[Layer, int] = {"embeddings": 3, 0: 4, 1: 4, 2: 5}  # word embeddings may be narrower, layers may differ
every_form = pytest.mark.parametrize("form", FORMS)


def states_of(widths: dict[Layer, int], batch: int = 2, tokens: int = 6, seed: int = 0) -> dict[Layer, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {layer: torch.randn(batch, tokens, width, generator=generator) for layer, width in widths.items()}


def shaken(kind: Kind, form: Form, widths: dict[Layer, int] = WIDTHS, n_hidden: int = 7) -> Probes:
    """Probes whose every weight is far from its start."""
    torch.manual_seed(1)
    probes = Probes(kind, form, widths, n_hidden, start=1.0)
    with torch.no_grad():
        for weight in probes.parameters():
            weight.add_(0.5 * torch.randn(weight.shape))
    return probes


@pytest.mark.parametrize(("width", "n_layers", "low", "high"), [(768, 14, 0.85, 0.93), (1024, 26, 0.78, 0.88)])
def test_acceptance_3_a_fresh_input_probe_keeps_almost_everything(
    width: int, n_layers: int, low: float, high: float
) -> None:
    """On states with the norms of BERT's: word embeddings of about 1.4, layer-normed states of about 15."""
    widths: dict[Layer, int] = {"embeddings": width, **dict.fromkeys(range(n_layers - 1), width)}
    torch.manual_seed(0)
    with torch.no_grad():
        probes = Probes("input", "released", widths, width // 4, start=5.0)
        states = {
            layer: torch.randn(4, 16, width) * (1.4 if layer == "embeddings" else 15) / width**0.5 for layer in widths
        }
        keep = probes.log_keep(states, probes.layers).exp()
    assert len(keep) == n_layers
    assert low < float(keep[-1].mean()) < high
    assert float(keep[0].mean()) == pytest.approx(0.995, abs=3e-3)


def dot(a: Tensor, b: Tensor) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("n_word", [0, 3])
def test_probes_all_at_once_equal_each_by_itself_with_their_gradients(n_word: int, bounded: bool) -> None:
    torch.manual_seed(0)
    probes = [Perceptron(n_word, 4, 5, start, bounded=bounded).double() for start in (0.5, -1.0, 2.0)]
    weights = [weight for probe in probes for weight in probe.parameters()]
    with torch.no_grad():
        for weight in weights:
            weight.add_(0.5 * torch.randn(weight.shape))
    word = torch.randn(2, 6, n_word, dtype=torch.float64) if n_word else None
    states = [torch.randn(2, 6, 4, dtype=torch.float64) for _ in probes]
    together = torch.stack(all_at_once(probes, word, states))
    alone = torch.stack([probe(word, state) for probe, state in zip(probes, states, strict=True)])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(
        torch.autograd.grad(together.square().sum(), weights), torch.autograd.grad(alone.square().sum(), weights)
    )


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("n_word", [0, 3])
def test_the_released_probe_by_hand(n_word: int, bounded: bool) -> None:
    torch.manual_seed(0)
    probe = Perceptron(n_word, 4, 5, start=2.5, bounded=bounded).requires_grad_(False)
    scales = {name: value for name, value in probe.named_parameters() if name.endswith("original0")}
    for scale in scales.values():
        scale.mul_(1.7)  # weight norm: the length of a row is learned apart from its direction
    word, state = (torch.randn(1, 1, n_word) if n_word else None), torch.randn(1, 1, 4)
    features = [*(word[0, 0].tolist() if word is not None else []), *state[0, 0].tolist()]

    def normed(part: str, row: int) -> list[float]:
        weights = dict(probe.named_parameters())
        direction = weights[f"{part}.parametrizations.weight.original1"][row].tolist()
        length = float(weights[f"{part}.parametrizations.weight.original0"][row])
        norm = math.sqrt(sum(value * value for value in direction))
        return [length * value / norm for value in direction]

    sums = [sum(w * x for w, x in zip(normed("inner", row), features, strict=True)) for row in range(5)]
    inner = [math.tanh(total + float(bias)) for total, bias in zip(sums, probe.inner.bias, strict=True)]
    outer = sum(w * x for w, x in zip(normed("outer", 0), inner, strict=True))
    expected = (10 * math.tanh(outer) if bounded else outer) + 2.5
    assert float(probe(word, state)) == pytest.approx(expected, rel=1e-5)


def test_bounded_logits_stay_within_ten_of_their_start() -> None:
    probe = Perceptron(0, 4, 5, start=5.0, bounded=True).requires_grad_(False)
    for weight in probe.outer.parameters():
        weight.mul_(100)
    logits = probe(None, 100 * torch.randn(20, 3, 4))
    assert float(logits.min()) >= -5
    assert float(logits.max()) <= 15
    assert float(HardConcrete(torch.tensor(-5.0)).nonzero) == pytest.approx(0.009, abs=5e-4)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_the_papers_probe_by_hand(kind: Kind) -> None:
    """x'W h / sqrt(d) + w[x; h] + b, then half its own and half the mean of those below; h stands for x in hidden."""
    probes, states = shaken(kind, "paper").requires_grad_(False), states_of(WIDTHS)
    gates = probes.gates(probes.layers, states)
    for row in range(2):
        for token in range(6):
            raw: list[float] = []
            for layer, probe in zip(probes.layers, probes.of_layer, strict=True):
                assert isinstance(probe, Bilinear)
                h = states[layer][row, token]
                x = states["embeddings"][row, token] if kind == "input" else h
                product = sum(float(x[i]) * dot(probe.product[i], h) for i in range(len(x)))
                linear = dot(probe.linear.weight[0], torch.cat([x, h])) + float(probe.linear.bias)
                raw.append(product / math.sqrt(len(h)) + linear)
            for index, gate in enumerate(gates):
                below = raw[:index]
                expected = (raw[index] + sum(below) / index) / 2 if below else raw[index]
                assert float(gate.logits[row, token]) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_the_papers_probe_starts_with_every_gate_alike(kind: Kind) -> None:
    probes = Probes(kind, "paper", WIDTHS, 7, start=5.0)
    for gate in probes.gates(probes.layers, states_of(WIDTHS)):
        assert gate.logits.unique().tolist() == [5.0]


@every_form
def test_input_gates_multiply_up(form: Form) -> None:
    probes, states = shaken("input", form), states_of(WIDTHS)
    keep = probes.log_keep(states, probes.layers)
    total = torch.zeros(2, 6)
    for index, gate in enumerate(probes.gates(probes.layers, states)):
        total = total + gate.nonzero.log()
        torch.testing.assert_close(keep[index], total)
    assert (keep.diff(dim=0) <= 0).all()  # what is dropped stays dropped


@pytest.mark.parametrize("form", ["released", "released_plain"])
def test_hidden_gates_look_at_their_own_layer_alone(form: Form) -> None:
    probes, states = shaken("hidden", form), states_of(WIDTHS)
    before = probes.log_keep(states, probes.layers)
    torch.testing.assert_close(before[2], probes.gates([1], states)[0].log_nonzero)
    other = {**states, 1: states[1] + 1}
    changed = (probes.log_keep(other, probes.layers) - before).abs().amax(dim=(1, 2)) > 1e-6
    assert changed.tolist() == [False, False, True, False]
    assert (before.diff(dim=0) > 0).any()  # nothing forbids a later layer to keep more
    assert probes.needed(2) == (2,)


@every_form
@pytest.mark.parametrize("kind", ["input", "hidden"])
def test_layers_alone_are_layers_among_others(kind: Kind, form: Form) -> None:
    probes, states = shaken(kind, form), states_of(WIDTHS)
    everything = probes.log_keep(states, probes.layers)
    for index, layer in enumerate(probes.layers):
        torch.testing.assert_close(probes.log_keep(states, [layer])[0], everything[index])
    torch.testing.assert_close(probes.log_keep(states, [0, 2]), everything[[1, 3]])


def trained(probes: Probes) -> list[bool]:
    """Which layers' probes have a gradient."""
    return [any(weight.grad is not None for weight in probe.parameters()) for probe in probes.of_layer]


@pytest.mark.parametrize(
    ("kind", "form", "reached"),
    [
        ("input", "released", [True, True, True, False]),
        ("input", "paper", [True, True, True, False]),
        ("hidden", "released", [False, False, True, False]),
        ("hidden", "paper", [True, True, True, False]),
    ],
)
def test_which_probes_learn_when_a_layer_is_drawn(kind: Kind, form: Form, reached: list[bool]) -> None:
    probes = shaken(kind, form)
    probes.log_keep(states_of(WIDTHS), [1]).sum().backward()
    assert trained(probes) == reached


def test_where_gates_act_and_what_stands_for_the_dropped() -> None:
    on_inputs, on_states = shaken("input", "released"), shaken("hidden", "released")
    assert [on_inputs.masked_layer(layer) for layer in on_inputs.layers] == ["embeddings"] * 4
    assert [on_states.masked_layer(layer) for layer in on_states.layers] == ["embeddings", 0, 1, 2]
    assert [tuple(on_inputs.baseline(layer).shape) for layer in on_inputs.layers] == [(3,)] * 4
    assert [tuple(on_states.baseline(layer).shape) for layer in on_states.layers] == [(3,), (4,), (4,), (5,)]
    assert len(on_inputs.baselines) == 1


def test_baselines_of_states_start_as_noise_of_unit_length() -> None:
    torch.manual_seed(0)
    probes = Probes("hidden", "released", {"embeddings": 400, 0: 400}, 4)
    for layer in probes.layers:
        assert float(probes.baseline(layer).detach().std()) == pytest.approx(0.05, rel=0.15)  # 1 / sqrt(400)


@every_form
def test_half_precision_around_a_probe_does_not_reach_it(form: Form) -> None:
    """Fitting runs the model in bfloat16 on a GPU; its gates are those that will explain."""
    probes, states = shaken("input", form), states_of(WIDTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = probes.log_keep(states, probes.layers)
    assert torch.equal(inside, probes.log_keep(states, probes.layers))
    halves = {layer: state.bfloat16() for layer, state in states.items()}
    assert probes.log_keep(halves, probes.layers).dtype == torch.float32


@every_form
def test_a_step_of_the_weights_is_seen_inside_half_precision(form: Form) -> None:
    """Autocast keeps its casts of weights for as long as it lasts, and a fit is one long stretch of it."""
    probes, states = shaken("input", form), states_of(WIDTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = probes.log_keep(states, probes.layers)
        with torch.no_grad():
            for weight in probes.parameters():
                weight.add_(0.3)
        after = probes.log_keep(states, probes.layers)
    assert not torch.equal(after, before)
    assert torch.equal(after, probes.log_keep(states, probes.layers))
