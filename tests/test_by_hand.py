"""Answers known on paper: models so small that every score can be worked out in the head."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
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


def scores(model: whence.LayeredModel, method: str, text: str = "good bad film", **settings: Any) -> np.ndarray:
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
        assert scores(model, method, baseline="zero")[0] == pytest.approx([-3.0, -3.0, 0.0], abs=1e-4)
    assert scores(model, "leave_one_out", baseline="zero")[0].tolist() == [-6.0, -6.0, 0.0]
    assert scores(model, "gradient_x_input", layers="embeddings")[0].tolist() == [-6.0, -6.0, 0.0]


def test_standard_error_of_shapley() -> None:
    long = "good bad" + 8 * " film"  # 2^10 sets are more than 100 orders ask for
    explanation = whence.explain(wrapped(Product()), long, "shapley", target="yes", baseline="zero", samples=100)
    assert explanation.standard_errors is not None
    assert explanation.notes == ()
    assert explanation.scores[0] == pytest.approx([-3, -3] + 8 * [0], abs=0.9)
    # each order gives a word 0 or -6: a coin toss with standard deviation 3
    assert explanation.standard_errors[0] == pytest.approx([3 / 10, 3 / 10] + 8 * [0.0], abs=0.02)
    alike = whence.explain(wrapped(Sum()), long, "shapley", target="yes", samples=5)
    assert alike.standard_errors is not None
    assert alike.standard_errors[0] == pytest.approx(10 * [0], abs=1e-6), "every order of a sum gives the same"


def shown(explanation: whence.Explanation) -> str:
    console = Console(width=120, file=io.StringIO())
    console.print(explanation)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["shapley", "kernel_shap"])
def test_shapley_values_of_a_short_text_are_exact_and_say_so(method: str) -> None:
    several = [
        whence.explain(wrapped(Product()), "good bad film", method, target="yes", baseline="zero", seed=seed)
        for seed in (0, 1)
    ]
    for one in several:
        assert one.scores[0] == pytest.approx([-3, -3, 0], abs=1e-6)
        assert one.notes == ("exact at layer embeddings: all 8 sets of 3 tokens were asked",)
        assert "notes     exact at layer embeddings" in shown(one)
        assert one.standard_errors is None or not one.standard_errors.any()
        assert one.cost.forwards <= 1 + 8
    assert (several[0].scores == several[1].scores).all()
    alone = whence.explain(wrapped(Product()), "good bad film", "shapley", target="yes", samples=2)
    assert alone.notes == (), "two orders ask for at most 6 of the 8 sets"


class Jumps(Sum):
    """The logit of "yes" jumps up where the first word passes 0.77 of its value, and down where the second does."""

    def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        first, second = values[:, 0] / 2.0, values[:, 1] / -3.0
        return torch.sigmoid(400 * (first - 0.77)) - 0.5 * torch.sigmoid(400 * (second - 0.77))


def test_integrated_gradients_take_more_points_where_few_are_wrong() -> None:
    model = wrapped(Jumps())
    settings: dict[str, Any] = {"target": "yes", "baseline": "zero"}
    few = whence.explain(model, "good bad film", "integrated_gradients", steps=25, **settings)
    assert np.abs(few.scores[0] - [1, -0.5, 0]).max() > 0.1, "which is what had to be mended"
    found = whence.explain(model, "good bad film", "integrated_gradients", **settings)
    assert found.scores[0] == pytest.approx([1, -0.5, 0], abs=0.01)
    assert found.warnings == ()
    assert 25 < found.cost.backwards < 400


def test_complete_scores_are_not_yet_right_ones() -> None:
    class Cancelling(Jumps):
        def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            first, second = values[:, 0] / 2.0, values[:, 1] / -3.0
            return torch.sigmoid(400 * (first - 0.77)) - torch.sigmoid(400 * (second - 0.77)) + 0.1 * values[:, 2]

    model = wrapped(Cancelling())
    few = whence.explain(model, "good bad film", "integrated_gradients", steps=25, target="yes", baseline="zero")
    assert few.completeness_errors == pytest.approx((0.0,), abs=1e-5)
    assert np.abs(few.scores[0] - [1, -1, 0.025]).max() > 0.1, "wrong, and nothing is missing"
    found = whence.explain(model, "good bad film", "integrated_gradients", target="yes", baseline="zero")
    assert found.scores[0] == pytest.approx([1, -1, 0.025], abs=0.01)


def test_what_does_not_settle_is_said_and_more_points_are_advised_only_where_they_help() -> None:
    class Noise(Sum):
        def combine(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return values[:, 0] + 0.5 * torch.sin(1e5 * values[:, 0])

    settings: dict[str, Any] = {"target": "yes", "baseline": "zero"}
    (said, missing) = whence.explain(wrapped(Noise()), "good", "integrated_gradients", **settings).warnings
    assert said.startswith("scores at layer embeddings are not settled: with ")
    assert said.endswith("more points would hardly help")
    assert "raise" not in missing
    few = whence.explain(wrapped(Jumps()), "good bad film", "integrated_gradients", most=100, **settings)
    assert few.warnings[0].endswith("raise most (most=400)")
    assert not whence.explain(wrapped(Jumps()), "good bad film", "integrated_gradients", most=400, **settings).warnings


def test_points_of_the_path_are_rounded_only_as_parts_of_states() -> None:
    seen = []

    class Wide(Sum):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding.from_pretrained(torch.randn(len(VALUES), 64).bfloat16())

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            seen.append(self.block(self.embedding(ids)))
            return seen[-1].float().sum(dim=(1, 2))[:, None].expand(-1, 2)

    torch.manual_seed(0)
    model = wrapped(Wide())
    whence.explain(model, "good", "integrated_gradients", steps=1)  # the first time its gradients are looked at
    seen.clear()
    whence.explain(model, "good", "integrated_gradients", steps=100)
    states = torch.cat(seen).detach()[:, 0]
    # the text, the baseline and 100 points; as numbers of bfloat16 three of these would be 1, which is the text again
    assert len(states.unique(dim=0)) == 102


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

    settings: dict[str, Any] = {"rule": rule, "steps": steps, "baseline": "zero"}
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
