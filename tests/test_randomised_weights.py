"""Scores are about the model: when its upper layers are re-initialised they change, and the random method's do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import whence
from whence.embedded import load_embedded

TEXT = "the plot is thin but the actors are wonderful"
METHODS = (
    "gradient", "gradient_x_input", "grad_cam", "smooth_grad", "integrated_gradients", "gradient_shap",
    "deep_lift_shap", "leave_one_out", "occlusion", "shapley", "lime", "kernel_shap", "attention",
    "attention_rollout", "decoded_grad_cam",
    *(preset for preset in whence.PRESETS if preset != "allennlp_smooth"),  # all zero below a LayerNorm
)  # fmt: skip
CHEAP = {"samples": 4, "steps": 4}


@pytest.fixture(scope="module")
def trained() -> whence.LayeredModel:
    return whence.load("sentiment")


@pytest.fixture(scope="module")
def spoilt() -> whence.LayeredModel:
    """The same model, but block 6 and all above it drawn anew; the head that decodes is untouched."""
    model = whence.load("sentiment")
    module: Any = model.module
    torch.manual_seed(0)
    for part in (module.bert.encoder.layer[-1], module.bert.pooler, module.classifier):
        part.apply(module._init_weights)
    return model


def scores(model: whence.LayeredModel, method: str, **options: int) -> torch.Tensor:
    known = whence.METHODS[whence.PRESETS[method].method if method in whence.PRESETS else method].options
    cheap: dict[str, Any] = {name: value for name, value in CHEAP.items() if name in known}
    layers = model.n_layers if method.startswith("attention") else None  # lower ones are below the change
    explanation = whence.explain(model, TEXT, method, target="positive", layers=layers, **{**cheap, **options})
    return torch.from_numpy(explanation.scores.copy())


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """How far apart two sets of scores are, as a share of their size."""
    return float((one - other).norm() / one.norm())


@pytest.mark.parametrize("method", METHODS)
def test_scores_depend_on_the_upper_weights(
    method: str, trained: whence.LayeredModel, spoilt: whence.LayeredModel
) -> None:
    one = scores(trained, method)
    assert distance(one, scores(spoilt, method)) > 0.01
    assert distance(one, scores(trained, method)) < 1e-6, "without a change there is none"


def test_a_method_that_ignores_the_model_is_found_out(
    trained: whence.LayeredModel, spoilt: whence.LayeredModel
) -> None:
    assert distance(scores(trained, "random"), scores(spoilt, "random")) < 1e-6


@pytest.mark.parametrize("method", ["smooth_grad", "gradient_shap", "shapley", "lime", "kernel_shap", "random"])
def test_another_seed_draws_other_samples(method: str, trained: whence.LayeredModel) -> None:
    assert distance(scores(trained, method, seed=0), scores(trained, method, seed=1)) > 1e-4


def test_the_upper_weights_are_the_only_ones_changed(spoilt: whence.LayeredModel) -> None:
    before = load_embedded("sentiment")[0].state_dict()
    changed = {name for name, weight in spoilt.module.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed
    assert all(name.startswith(("bert.encoder.layer.5.", "bert.pooler.", "classifier.")) for name in changed)
