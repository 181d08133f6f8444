"""Answers known on paper: models so small that every score can be worked out in the head."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import whence

VALUES = {"<pad>": 0.0, "<unk>": 0.0, "<mask>": 0.5, "good": 2.0, "bad": -3.0, "film": 0.25}
VOCABULARY = {word: index for index, word in enumerate(VALUES)}


class Sum(nn.Module):
    """The logit of "yes" is the sum of the words' values; the block hands its input on."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VALUES), 1)
        self.embedding.weight.data = torch.tensor([[value] for value in VALUES.values()])
        self.block = nn.Identity()

    def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (values * mask).sum(dim=1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        yes = self.combine(self.block(self.embedding(ids))[..., 0], mask)
        return torch.stack([torch.zeros_like(yes), yes], dim=1)


class Product(Sum):
    """The logit of "yes" is the product of the first two words' values."""

    def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return values[:, 0] * values[:, 1]


def wrapped(module: Sum) -> whence.LayeredModel:
    return whence.load(module, whence.WordTokenizer(VOCABULARY), blocks=[module.block], labels=["no", "yes"])


@pytest.fixture
def adding() -> whence.LayeredModel:
    return wrapped(Sum())


def scores(model: whence.LayeredModel, method: str, text: str = "good bad film", **settings: object) -> np.ndarray:
    return whence.explain(model, text, method, target="yes", **settings).scores


# against a baseline of zero each word's share of the sum is its value; the mask is worth 0.5, so against it 0.5 less
FROM_ZERO, FROM_MASK = [2.0, -3.0, 0.25], [1.5, -3.5, -0.25]


@pytest.mark.parametrize("layer", ["embeddings", 0, 1])
def test_gradients_of_a_sum(adding: whence.LayeredModel, layer: str | int) -> None:
    assert scores(adding, "gradient", layers=layer)[0].tolist() == [1.0, 1.0, 1.0]
    assert scores(adding, "gradient_x_input", layers=layer)[0].tolist() == FROM_ZERO
    assert scores(adding, "grad_cam", layers=layer)[0].tolist() == [2.0, 0.0, 0.25]
    assert scores(adding, "smooth_grad", layers=layer)[0] == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("layer", ["embeddings", 0, 1])
@pytest.mark.parametrize(
    "method",
    ["integrated_gradients", "gradient_shap", "deep_lift_shap", "leave_one_out", "shapley", "kernel_shap"],
)
def test_every_fair_share_of_a_sum_is_the_summand(adding: whence.LayeredModel, method: str, layer: str | int) -> None:
    assert scores(adding, method, layers=layer, baseline="zero")[0] == pytest.approx(FROM_ZERO, abs=1e-5)
    assert scores(adding, method, layers=layer, baseline="mask")[0] == pytest.approx(FROM_MASK, abs=1e-5)
    assert scores(adding, method, layers=layer)[0] == pytest.approx(FROM_MASK, abs=1e-5), "the default is the mask"
    assert scores(adding, method, layers=layer, baseline="film")[0] == pytest.approx([1.75, -3.25, 0.0], abs=1e-5)
    given = torch.tensor([1.0])
    assert scores(adding, method, layers=layer, baseline=given)[0] == pytest.approx([1.0, -4.0, -0.75], abs=1e-5)


def test_lime_on_a_sum_without_penalty_finds_the_summands(adding: whence.LayeredModel) -> None:
    assert scores(adding, "lime", baseline="zero", ridge=0.0)[0] == pytest.approx(FROM_ZERO, abs=1e-4)


def test_occlusion_shares_what_a_window_loses(adding: whence.LayeredModel) -> None:
    # windows "good bad" (-1) and "bad film" (-2.75); the middle word lies in both
    assert scores(adding, "occlusion", window=2, baseline="zero")[0].tolist() == [-1.0, -1.875, -2.75]
    # overhanging: a third window with "film" alone (0.25)
    assert scores(adding, "occlusion", window=2, baseline="zero", overhang=True)[0].tolist() == [-1.0, -1.875, -1.25]
    # one window of three words, all of the text
    assert scores(adding, "occlusion", window=9, baseline="zero")[0].tolist() == [-0.75] * 3
    # every other start: "good bad" and "film"
    assert scores(adding, "occlusion", window=2, stride=2, baseline="zero")[0].tolist() == [-1.0, -1.0, 0.25]


def test_a_product_is_shared_evenly() -> None:
    model = wrapped(Product())
    # good x bad = -6; alone neither is worth anything, so each gets half, and each order gives all to the last comer
    for method in ("shapley", "kernel_shap", "integrated_gradients"):
        settings = {"samples": 400} if method == "shapley" else {}
        found = scores(model, method, baseline="zero", **settings)[0]
        assert found == pytest.approx([-3.0, -3.0, 0.0], abs=0.35 if method == "shapley" else 1e-4)
    assert scores(model, "leave_one_out", baseline="zero")[0].tolist() == [-6.0, -6.0, 0.0]
    assert scores(model, "gradient_x_input", layers="embeddings")[0].tolist() == [-6.0, -6.0, 0.0]


def test_standard_error_of_shapley() -> None:
    explanation = whence.explain(
        wrapped(Product()), "good bad film", "shapley", target="yes", baseline="zero", samples=100
    )
    assert explanation.standard_errors is not None
    # each order gives a word 0 or -6: a coin toss with standard deviation 3
    assert explanation.standard_errors[0] == pytest.approx([3 / 10, 3 / 10, 0.0], abs=0.02)
    alike = whence.explain(wrapped(Sum()), "good bad film", "shapley", target="yes", samples=5)
    assert alike.standard_errors is not None
    assert alike.standard_errors[0] == pytest.approx([0, 0, 0], abs=1e-6), "every order of a sum gives the same"


@pytest.mark.parametrize(
    ("rule", "steps", "expected"),
    [
        # the integral of 2a over [0, 1] is 1: a word squared; left and right sums miss 1/steps
        ("gauss_legendre", 2, 1.0), ("left", 4, 0.75), ("right", 4, 1.25), ("middle", 4, 1.0), ("trapezoid", 5, 1.0),
    ],
)  # fmt: skip
def test_rules_of_integration_on_a_square(rule: str, steps: int, expected: float) -> None:
    class Square(Sum):
        def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (values**2 * mask).sum(dim=1)

    settings = {"rule": rule, "steps": steps, "baseline": "zero"}
    explanation = whence.explain(wrapped(Square()), "good", "integrated_gradients", target="yes", **settings)
    assert explanation.scores[0] == pytest.approx([4 * expected], abs=1e-5)
    assert explanation.completeness_errors == pytest.approx((abs(4 - 4 * expected),), abs=1e-5)
    assert bool(explanation.warnings) == (expected != 1.0), "what is missing is said"


def test_attention_does_not_exist_where_there_is_none(adding: whence.LayeredModel) -> None:
    with pytest.raises(whence.ModelError, match="no attention weights"):
        scores(adding, "attention")


def test_contrast_is_the_difference(adding: whence.LayeredModel) -> None:
    explanation = whence.explain(adding, "good bad film", "gradient_x_input", target=whence.Contrast("no", "yes"))
    assert explanation.scores[0].tolist() == [-2.0, 3.0, -0.25]
    assert explanation.target.value == pytest.approx(0.75)
    assert explanation.target.description == "no rather than yes"
