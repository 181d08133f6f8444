"""Noise tolerance: the closed form on a linear model, and what each option and each output makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from torch import nn

import whence

VOCABULARY = {name: i for i, name in enumerate(["<pad>", "<unk>", "good", "bad", "film", "dull", "witty"])}
TEXT = "good film bad witty"


class Linear(nn.Module):
    """Logits are a sum over positions of a matrix of that position times the state there."""

    def __init__(self, sizes: list[float]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.embedding = nn.Embedding(len(VOCABULARY), 3)
        self.embedding.weight.data = torch.randn(len(VOCABULARY), 3, generator=generator)
        self.block = nn.Identity()
        matrices = torch.randn(len(sizes), 2, 3, generator=generator)
        self.matrices = nn.Parameter(matrices * torch.tensor(sizes)[:, None, None])

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = self.block(self.embedding(ids)) * mask[..., None]
        return torch.einsum("plh,bph->bl", self.matrices[: ids.shape[1]], h)


def linear(sizes: list[float]) -> whence.LayeredModel:
    module = Linear(sizes)
    return whence.load(module, whence.WordTokenizer(VOCABULARY), blocks=[module.block], labels=["no", "yes"])


def tolerance(model: whence.LayeredModel, texts: Any = TEXT, **options: Any) -> Any:
    return whence.explain(model, texts, "noise_tolerance", **options)


def optimum(model: whence.LayeredModel, weight: float) -> np.ndarray:
    """The mean of |sum_i W_i s_i e_i|^2 is sum_i |W_i|^2 s_i^2; less weight x log s_i, it is flat in s_i here."""
    module: Any = model.module
    sizes = module.matrices.detach().square().sum(dim=(1, 2)).numpy()
    return np.sqrt(weight / (2 * sizes))


@pytest.mark.parametrize("weight", [0.1, 0.001])
def test_a_linear_model_has_a_closed_form(weight: float) -> None:
    model = linear([1.0, 3.0, 0.3, 10.0])
    options = {"weight": weight, "samples": 32, "rate": 0.005, "steps": 1000, "layers": 1}
    expected = optimum(model, weight)
    assert -tolerance(model, score="negative", **options).scores[0] == pytest.approx(expected, rel=0.05)


def test_texts_of_a_batch_do_not_share_the_worth_of_noise() -> None:
    """The weight holds for each text: twenty texts at once find what one finds."""
    model = linear([1.0, 3.0, 0.3, 10.0])
    options = {"score": "inverse", "steps": 100, "layers": 1, "weight": 0.01}
    alone = tolerance(model, **options).scores
    for found in tolerance(model, [TEXT, "bad film", *[TEXT] * 18], **options)[2:]:
        assert found.scores == pytest.approx(alone, rel=1e-5)


def test_a_position_that_is_not_read_drowns_in_noise() -> None:
    found = tolerance(linear([0.0, 1.0, 0.0, 1.0]), weight=0.01, steps=300).scores[0]
    assert found[[0, 2]] == pytest.approx([0, 0], abs=0.01)
    assert found[[1, 3]].min() > 0.9


def test_scores_say_what_they_mean() -> None:
    model = tiny_models.tiny("bert")
    found = {
        score: tolerance(model, tiny_models.SHORT, layers=1, steps=3, score=score)
        for score in ("share", "inverse", "negative")
    }
    assert found["share"].meaning.high == 1.0
    assert found["inverse"].meaning.high is None
    assert "one over" in found["inverse"].meaning.sentence
    assert (found["negative"].meaning.signed, found["negative"].meaning.high) == (True, 0.0)
    assert found["inverse"].scores == pytest.approx(-1 / found["negative"].scores)
    h = model.states(model.collate([model.encode(tiny_models.SHORT)])).at(1)[0].double().numpy()
    power = (h**2).mean()
    assert found["share"].scores == pytest.approx(power / (power + found["negative"].scores ** 2), abs=1e-5)


def test_the_target_does_not_matter() -> None:
    model = tiny_models.tiny("bert")
    first, second = (tolerance(model, tiny_models.SHORT, target=label, steps=5) for label in ("good", "bad"))
    assert (first.scores == second.scores).all()


def test_special_tokens_stay_quiet_at_the_input_unless_told() -> None:
    model = tiny_models.tiny("bert")
    by_default = tolerance(model, tiny_models.SHORT, layers=["embeddings", 1], steps=3)
    special = [token.special for token in by_default.tokens]
    assert (by_default.row("embeddings")[special] == 0).all()
    assert (by_default.row(1)[special] > 0).all()
    assert (tolerance(model, tiny_models.SHORT, layers=["embeddings"], steps=3, special=True).scores > 0).all()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"weight": -0.1}, "weight must be a number of at least 0"),
        ({"steps": 0}, "steps must be"),
        ({"score": "sigma"}, "unknown score 'sigma'\nknown: share, inverse, negative"),
    ],
)
def test_complaints(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(whence.UsageError, match=problem):
        tolerance(tiny_models.tiny("bert"), tiny_models.SHORT, **options)
