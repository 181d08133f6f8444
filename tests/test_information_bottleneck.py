"""The information bottleneck: by hand, against scipy's optimum of the same problem, and on every kind of output."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from scipy.optimize import minimize
from torch import nn
from torch.distributions import Normal, kl_divergence

import whence
from whence.methods.information_bottleneck import _Bottleneck
from whence.methods.state_statistics import StateStatistics
from whence.testing import METHOD_CHECKS, Check

VOCABULARY = {name: i for i, name in enumerate(["<pad>", "<unk>", "good", "bad", "film", "dull", "witty"])}
TEXT = "good film bad witty"


class Weighted(nn.Module):
    """The logit of "yes" is a weighted sum of all states, with a weight of its own for every position."""

    def __init__(self, by_position: list[float]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 2)
        self.embedding.weight.data = torch.randn(len(VOCABULARY), 2, generator=torch.Generator().manual_seed(3))
        self.block = nn.Identity()
        self.by_position = nn.Parameter(torch.tensor(by_position))
        self.by_feature = nn.Parameter(torch.tensor([1.5, -1.0]))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        each = self.block(self.embedding(ids)) @ self.by_feature * mask
        yes = each @ self.by_position[: ids.shape[1]]
        return torch.stack([torch.zeros_like(yes), yes], dim=1)


def weighted(by_position: list[float]) -> whence.LayeredModel:
    module = Weighted(by_position)
    return whence.load(module, whence.WordTokenizer(VOCABULARY), blocks=[module.block], labels=["no", "yes"])


def bottleneck(model: whence.LayeredModel, texts: Any = TEXT, **options: Any) -> Any:
    return whence.explain(model, texts, "information_bottleneck", **options)


def test_a_position_that_is_not_read_is_noise_and_the_only_one_read_is_kept() -> None:
    model = weighted([0.0, 0.0, 4.0, 0.0])
    found = bottleneck(model, steps=600, beta=0.2).scores[0]
    assert found[[0, 1, 3]] == pytest.approx([0, 0, 0], abs=0.03)
    assert found[2] > 0.3


def test_gates_are_those_of_the_optimum_that_scipy_finds() -> None:
    """Under the noise the logit is Gaussian, so that the expected loss is a one-dimensional integral."""
    by_position = [2.0, -1.0, 0.5, 3.0]
    model = weighted(by_position)
    usual = StateStatistics([1]).fit(model, ["good bad", "film dull witty", "bad witty good good"])
    mean, deviation = (each[0].double().numpy() for each in usual.at(1, 1))
    h = model.states(model.collate([model.encode(TEXT)])).at(1)[0].double().numpy()
    weights = np.array([1.5, -1.0])
    sign = 1 if h @ weights @ by_position > 0 else -1  # the predicted label is explained
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    beta = 1.0

    def expected_loss(logits: np.ndarray) -> float:
        gate = 1 / (1 + np.exp(-logits))
        centre = (np.array(by_position) * ((gate[:, None] * h + (1 - gate)[:, None] * mean) @ weights)).sum()
        spread = math.sqrt(((np.array(by_position) * (1 - gate)) ** 2).sum() * (deviation**2 @ weights**2))
        task = (shares * np.logaddexp(0, -sign * (centre + spread * nodes))).sum() / shares.sum()
        distance = (((h - mean) / deviation) ** 2).mean(axis=1)
        information = -np.log(1 - gate) + ((1 - gate) ** 2 + gate**2 * distance - 1) / 2
        return float(task + beta * information.mean())

    best = minimize(expected_loss, np.zeros(4), method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-10}).x
    expected = 1 / (1 + np.exp(-best))
    assert expected.max() - expected.min() > 0.2, "the problem tells the positions apart"
    options = {"statistics": usual, "beta": beta, "samples": 64, "rate": 0.02, "steps": 700, "layers": 1}
    found = bottleneck(model, **options).scores[0].astype(float)
    assert found == pytest.approx(expected, abs=0.03)
    assert expected_loss(np.log(found / (1 - found))) == pytest.approx(expected_loss(best), abs=1e-3)


def test_information_is_the_divergence_of_two_gaussians() -> None:
    generator = torch.Generator().manual_seed(0)
    h, mean, deviation = (torch.randn(2, 3, 5, generator=generator) for _ in range(3))
    deviation = deviation.abs() + 0.1
    logits = 4 * torch.randn(2, 3, generator=generator).double()
    gate = logits.sigmoid()[..., None]
    through = Normal(gate * h + (1 - gate) * mean, (1 - gate) * deviation)
    expected = kl_divergence(through, Normal(mean, deviation)).mean(dim=-1)
    layer = _Bottleneck(h, mean, deviation, torch.ones(2, 3).bool())
    assert torch.allclose(layer.information(logits), expected, atol=1e-5)
    assert layer.mean_information(logits).tolist() == pytest.approx(expected.mean(dim=1).tolist(), abs=1e-5)
    rows, noise = torch.tensor([1, 0, 1]), torch.randn(3, 3, 5, generator=generator)
    samples = through.loc[rows] + through.scale[rows] * noise
    assert torch.allclose(layer.through(logits[rows], noise, rows).double(), samples, atol=1e-5)


def test_bits_add_up_over_features_and_carry_their_own_meaning() -> None:
    model = tiny_models.tiny("bert")
    gates = bottleneck(model, tiny_models.SHORT, layers=2, steps=5)
    bits = bottleneck(model, tiny_models.SHORT, layers=2, steps=5, score="information")
    h = model.states(model.collate([model.encode(tiny_models.SHORT)])).at(2)[0].double()
    distance = ((h - h.mean(dim=0)) / h.std(dim=0, correction=0)).square().mean(dim=-1).numpy()
    g = gates.scores[0].astype(float)
    nats = -np.log(1 - g) + ((1 - g) ** 2 + g**2 * distance - 1) / 2
    assert bits.scores[0] == pytest.approx(nats * 16 / math.log(2), rel=1e-3)
    assert (gates.meaning.high, bits.meaning.high) == (1.0, None)
    assert "bits" in bits.meaning.sentence
    assert bits.meaning.additive


def test_dearer_information_is_used_less() -> None:
    model = weighted([2.0, -1.0, 0.5, 3.0])
    sums = [bottleneck(model, beta=beta, steps=200, samples=8).scores.sum() for beta in (0.01, 0.3, 10.0)]
    assert sums[0] > sums[1] + 0.2 > sums[2] + 0.4


def test_a_text_of_one_word_can_only_be_replaced_by_itself() -> None:
    """Its own moments are the word itself with no deviation, so that noise costs nothing."""
    found = bottleneck(weighted([2.0]), "good", steps=200).scores
    assert found[0, 0] < 0.1


def test_special_tokens_stay_at_the_input_unless_told() -> None:
    model = tiny_models.tiny("bert")
    by_default = bottleneck(model, tiny_models.SHORT, layers=["embeddings", 1], steps=3)
    special = [token.special for token in by_default.tokens]
    assert (by_default.row("embeddings")[special] == 0).all()
    assert (by_default.row(1)[special] > 0).all()
    told = bottleneck(model, tiny_models.SHORT, layers=["embeddings", 1], steps=3, special=True)
    assert (told.row("embeddings") > 0).all()
    never = bottleneck(model, tiny_models.SHORT, layers=["embeddings", 1], steps=3, special=False)
    assert (never.row(1)[special] == 0).all()


@pytest.mark.parametrize("head", ["question_answering", "token_classification", "masked_lm", "causal_lm"])
@pytest.mark.parametrize("method", ["information_bottleneck", "noise_tolerance"])
def test_every_head_alone_and_in_a_batch(head: str, method: str) -> None:
    family = "gpt2" if head == "causal_lm" else "bert"
    model, texts = tiny_models.tiny(family, head), tiny_models.texts_for(family, head)
    together = whence.explain(model, texts, method, layers=["embeddings", 2], steps=10)
    for text, found in zip(texts, together, strict=True):
        alone = whence.explain(model, text, method, layers=["embeddings", 2], steps=10)
        # the noise starts so small that of the change of a hundred float32 logits only five digits are left
        assert alone.scores == pytest.approx(found.scores, abs=1e-5 if method == "information_bottleneck" else 5e-5)
        assert found.scores.max() > 0


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", ["information_bottleneck", "noise_tolerance"])
def test_the_contract_holds_on_a_recurrent_net(method: str, check: Check) -> None:
    descent = whence.METHODS[method]
    few_steps = replace(descent, compute=functools.partial(descent.compute, steps=5))
    check(few_steps, tiny_models.tiny_plain("gru"))


def test_a_plain_number_keeps_its_value() -> None:
    """Regression has no probabilities: the squared change of the number is the loss."""
    module = tiny_models.build("bert", num_labels=1, id2label={0: "grade"}, label2id={"grade": 0})
    found = bottleneck(whence.load(module, tiny_models.wordpiece()), tiny_models.LONG, layers=3, steps=100, beta=1e-3)
    assert found.scores[0, 0] == found.scores.max(), "only the first state is read at the top"
    assert found.scores[0, 1:].max() < 0.9 * found.scores[0, 0]


def test_statistics_are_recorded_and_the_explanation_can_be_saved(tmp_path: Path) -> None:
    model = tiny_models.tiny("bert")
    usual = StateStatistics([1], by_position=True).fit(model, tiny_models.TEXTS)
    found = bottleneck(model, tiny_models.SHORT, layers=1, steps=2, statistics=usual)
    assert found.options["statistics"] == "statistics of 3 texts, at each position"
    found.save(tmp_path / "why.json")
    assert whence.Explanation.load(tmp_path / "why.json") == found
    own = bottleneck(model, tiny_models.SHORT, layers=1, steps=2)
    assert own.options["statistics"] is None
    assert not np.allclose(own.scores, found.scores)


def test_passes_are_steps_times_samples() -> None:
    found = bottleneck(tiny_models.tiny("bert"), tiny_models.SHORT, layers=[1, 2], steps=3, samples=4)
    assert (found.cost.forwards, found.cost.backwards) == (1 + 2 * 12, 2 * 12)


def test_gradients_switched_off_outside_do_not_matter() -> None:
    model = tiny_models.tiny("bert")
    with torch.no_grad():
        without = bottleneck(model, tiny_models.SHORT, steps=3)
    assert (without.scores == bottleneck(model, tiny_models.SHORT, steps=3).scores).all()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"beta": -1}, "beta must be a number of at least 0"),
        ({"steps": 0}, "steps must be a number of at least 1"),
        ({"samples": 0}, "samples must be"),
        ({"rate": "fast"}, "rate must be"),
        ({"score": "bits"}, "unknown score 'bits'"),
        ({"statistics": "sst2"}, "statistics is str, not StateStatistics"),
    ],
)
def test_complaints(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(whence.UsageError, match=problem):
        bottleneck(tiny_models.tiny("bert"), tiny_models.SHORT, **options)


def test_statistics_of_another_model_are_refused() -> None:
    usual = StateStatistics([1]).fit(tiny_models.tiny_plain("mlp"), tiny_models.TEXTS)
    with pytest.raises(whence.UsageError, match=r"states of width 16, those of the model have 2"):
        bottleneck(weighted([1.0] * 4), statistics=usual, layers=1)
