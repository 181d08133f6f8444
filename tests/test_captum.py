"""The second route: captum, scikit-learn and brute force give the same scores."""

from __future__ import annotations

from itertools import permutations as all_orders
from math import factorial
from typing import Any

import captum.attr
import numpy as np
import pytest
import tiny_models
import torch
from sklearn.linear_model import Ridge

import whence
from whence.methods.baselines import BaselineStates, removable
from whence.methods.lime import _maskings, weighted_ridge
from whence.methods.question import Question
from whence.methods.shapley import permutations
from whence.selection import select

TEXT = "not the best movie of the year"
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def model() -> whence.LayeredModel:
    return tiny_models.tiny("bert")


class Captum:
    """What captum needs to be told: a forward function, ids, a target, and modules for layers."""

    def __init__(self, model: whence.LayeredModel, text: str = TEXT) -> None:
        self.module: Any = model.module
        inputs = model.collate([model.encode(text)])
        self.ids, self.mask = inputs.ids, inputs.mask.long()
        assert model.tokenizer.masking is not None
        self.masked = torch.full_like(self.ids, model.tokenizer.masking)
        self.target = int(self.forward(self.ids).argmax())
        bert: Any = self.module.base_model
        self.layers: dict[whence.Layer, Any] = {
            "embeddings": bert.embeddings.word_embeddings,
            0: bert.embeddings,
            **dict(enumerate(bert.encoder.layer, 1)),
        }

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.module(input_ids=ids, attention_mask=self.mask.expand(len(ids), -1)).logits


def question_of(model: whence.LayeredModel, text: str = TEXT, layers: tuple = ("embeddings",)) -> Question:
    inputs = model.collate([model.encode(text)])
    states = model.states(inputs)
    selection = select("predicted", "logit", model.reading, states.logits, inputs.encodings)
    return Question(model, inputs, states, selection, layers, 0, 2048)


def summed(attributions: torch.Tensor) -> np.ndarray:
    return attributions.sum(dim=-1)[0].detach().numpy()


def test_gradient_x_input_at_every_layer(model: whence.LayeredModel) -> None:
    oracle = Captum(model)
    explanation = whence.explain(model, TEXT, "gradient_x_input", layers=["embeddings", "all"])
    assert explanation.cost.forwards == explanation.cost.backwards == 1, "all layers cost one pass each way"
    for layer in explanation.layers:
        method = captum.attr.LayerGradientXActivation(oracle.forward, oracle.layers[layer])
        expected = summed(method.attribute(oracle.ids, target=oracle.target))
        np.testing.assert_allclose(explanation.row(layer), expected, **CLOSE)
        cam = whence.explain(model, TEXT, "grad_cam", layers=layer)
        np.testing.assert_allclose(cam.scores[0], expected.clip(min=0), **CLOSE)


def test_gradient_norm(model: whence.LayeredModel) -> None:
    oracle = Captum(model)
    words = oracle.layers["embeddings"](oracle.ids).detach().requires_grad_()
    logits = oracle.module(inputs_embeds=words, attention_mask=oracle.mask).logits
    expected = torch.autograd.grad(logits[0, oracle.target], words)[0].norm(dim=-1)[0]
    found = whence.explain(model, TEXT, "gradient", layers="embeddings").scores[0]
    np.testing.assert_allclose(found, expected.numpy(), **CLOSE)


@pytest.mark.parametrize("rule", ["gauss_legendre", "left", "right", "middle", "trapezoid"])
@pytest.mark.parametrize("layer", ["embeddings", 0, 1, 2, 3])
def test_integrated_gradients(model: whence.LayeredModel, rule: str, layer: whence.Layer) -> None:
    oracle, steps = Captum(model), 20
    name = "gausslegendre" if rule == "gauss_legendre" else f"riemann_{rule}"
    method = captum.attr.LayerIntegratedGradients(oracle.forward, oracle.layers[layer])
    expected = summed(method.attribute(oracle.ids, oracle.masked, target=oracle.target, n_steps=steps, method=name))
    if rule == "trapezoid":
        expected = expected * steps / (steps - 1)  # captum's weights of this rule add up to (steps - 1) / steps
    settings: dict[str, Any] = {"steps": steps, "rule": rule, "baseline": model.tokenizer.masking, "special": True}
    found = whence.explain(model, TEXT, "integrated_gradients", layers=layer, **settings)
    np.testing.assert_allclose(found.scores[0], expected, **CLOSE)


def test_integrated_gradients_are_complete(model: whence.LayeredModel) -> None:
    question = question_of(model)
    for layer in (0, 1, 2):
        explanation = whence.explain(model, TEXT, "integrated_gradients", layers=layer, steps=200)
        nothing = BaselineStates(question, "mask").at(layer)
        start = torch.where(removable(question, layer, None)[..., None], nothing, question.states.at(layer))
        lost = question.value - question.values(layer, torch.tensor([0]), lambda chunk: start)  # noqa: B023
        assert explanation.scores.sum() == pytest.approx(float(lost), abs=1e-3)
        assert explanation.completeness_errors is not None
        assert explanation.completeness_errors[0] < 1e-3
        assert not explanation.warnings


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 3)])
def test_occlusion(model: whence.LayeredModel, window: int, stride: int) -> None:
    oracle = Captum(model)
    expected = captum.attr.Occlusion(oracle.forward).attribute(
        oracle.ids, (window,), strides=(stride,), baselines=model.tokenizer.masking, target=oracle.target
    )
    settings: dict[str, Any] = {
        "window": window,
        "stride": stride,
        "baseline": model.tokenizer.masking,
        "special": True,
    }
    found = whence.explain(model, TEXT, "occlusion", **settings)
    np.testing.assert_allclose(found.scores, expected.detach().numpy(), **CLOSE)
    if window == 1:
        alone = whence.explain(model, TEXT, "leave_one_out", baseline=model.tokenizer.masking, special=True)
        np.testing.assert_allclose(alone.scores, expected.detach().numpy(), **CLOSE)


def test_hidden_states_left_out_one_by_one(model: whence.LayeredModel) -> None:
    question = question_of(model)
    explanation = whence.explain(model, TEXT, "leave_one_out", layers=[0, 2], baseline="zero", special=True)
    for layer in (0, 2):
        h = question.states.at(layer)
        for position in range(h.shape[1]):
            changed = h.clone()
            changed[:, position] = 0
            with torch.no_grad():
                logits = model.resume(layer, changed, question.inputs)
            lost = question.value - question.selection.of(logits, question.inputs.mask)
            assert explanation.row(layer)[position] == pytest.approx(float(lost), abs=1e-5)


def test_shapley_sampling_with_the_same_orders(model: whence.LayeredModel) -> None:
    oracle, samples = Captum(model), 6
    orders = permutations(question_of(model).generator(0), oracle.ids.shape[1], samples)
    method = captum.attr.ShapleyValueSampling(oracle.forward)
    method.permutation_generator = lambda features, samples: orders
    expected = method.attribute(oracle.ids, oracle.masked, target=oracle.target, n_samples=samples)
    settings: dict[str, Any] = {"samples": samples, "baseline": model.tokenizer.masking, "special": True}
    found = whence.explain(model, TEXT, "shapley", **settings)
    np.testing.assert_allclose(found.scores, expected.detach().numpy(), **CLOSE)


def exact_shapley(model: whence.LayeredModel, text: str) -> np.ndarray:
    """By definition: every order of the words, one at a time."""
    question = question_of(model, text)
    words, nothing = question.states.embeddings, BaselineStates(question, "mask").at("embeddings")
    players = removable(question, "embeddings", None)[0].nonzero()[:, 0].tolist()

    def value(present: frozenset[int]) -> float:
        hidden = nothing.clone()
        keep = [i for i in range(words.shape[1]) if i not in players or i in present]
        hidden[:, keep] = words[:, keep]
        with torch.no_grad():
            return float(
                question.selection.of(model.resume("embeddings", hidden, question.inputs), question.inputs.mask)
            )

    known: dict[frozenset[int], float] = {}
    shares = np.zeros(words.shape[1])
    for order in all_orders(players):
        for position, player in enumerate(order):
            before, after = frozenset(order[:position]), frozenset(order[: position + 1])
            for coalition in (before, after):
                if coalition not in known:
                    known[coalition] = value(coalition)
            shares[player] += (known[after] - known[before]) / factorial(len(players))
    return shares


def test_exact_shapley_values(model: whence.LayeredModel) -> None:
    text = "not a bad film"
    expected = exact_shapley(model, text)
    np.testing.assert_allclose(whence.explain(model, text, "kernel_shap").scores[0], expected, atol=1e-4)
    exact = whence.explain(model, text, "shapley")
    np.testing.assert_allclose(exact.scores[0], expected, atol=1e-5)
    assert exact.cost.forwards == 1 + 2**4, "each set of tokens is evaluated once"
    long = "not a bad film of the year but far too long"  # 2^11 sets
    sampled = whence.explain(model, long, "shapley", samples=200)
    assert sampled.standard_errors is not None
    players = sampled.standard_errors[0] > 0
    truth = whence.explain(model, long, "shapley", samples=205).scores[0]
    distances = np.abs(sampled.scores[0] - truth)[players] / sampled.standard_errors[0][players]
    assert distances.max() < 4, "the truth lies within four standard errors"


@pytest.mark.parametrize("method", ["shapley", "kernel_shap"])
def test_efficiency_axiom(model: whence.LayeredModel, method: str) -> None:
    question = question_of(model)
    nothing = BaselineStates(question, "mask").at("embeddings")
    start = torch.where(removable(question, "embeddings", None)[..., None], nothing, question.states.embeddings)
    lost = question.value - question.values("embeddings", torch.tensor([0]), lambda chunk: start)
    for samples in (3, 30):
        assert whence.explain(model, TEXT, method, samples=samples).scores.sum() == pytest.approx(float(lost), abs=1e-4)


def test_kernel_shap_by_captum(model: whence.LayeredModel) -> None:
    text = "not a bad film"
    oracle = Captum(model, text)
    torch.manual_seed(0)
    np.random.seed(0)
    expected = captum.attr.KernelShap(oracle.forward).attribute(
        oracle.ids, oracle.masked, target=oracle.target, n_samples=2000, perturbations_per_eval=100
    )
    found = whence.explain(model, text, "kernel_shap", baseline=model.tokenizer.masking, special=True, samples=100)
    np.testing.assert_allclose(found.scores, expected.detach().numpy(), atol=2e-2)


@pytest.mark.parametrize("layer", ["embeddings", 0, 1])
def test_deep_lift_shap_on_a_small_classifier(layer: whence.Layer) -> None:
    plain = tiny_models.tiny_plain("mlp")
    module: Any = plain.module
    inputs = plain.collate([plain.encode(TEXT)])
    references = torch.cat([torch.full_like(inputs.ids, 2), torch.zeros_like(inputs.ids)])  # <mask> and <pad>
    target = int(module(inputs.ids, inputs.mask).argmax())

    class AboveTheWords(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.Sequential(module.first, module.second)
            self.head = module.head

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.head(self.blocks(words).mean(dim=1))

    above = AboveTheWords()
    words, nothing = module.embedding(inputs.ids).detach(), module.embedding(references).detach()
    for baseline, rows in (("mask", nothing[:1]), (("mask", "pad"), nothing)):
        if layer == 1:
            lift = captum.attr.LayerDeepLiftShap if len(rows) > 1 else captum.attr.LayerDeepLift
            expected = summed(lift(above, module.first).attribute(words, rows, target=target))
        else:
            lift = captum.attr.DeepLiftShap if len(rows) > 1 else captum.attr.DeepLift
            expected = summed(lift(above).attribute(words, rows, target=target))
        found = whence.explain(plain, TEXT, "deep_lift_shap", layers=layer, baseline=baseline)
        np.testing.assert_allclose(found.scores[0], expected, **CLOSE)
        assert found.completeness_errors is not None
        assert found.completeness_errors[0] < 1e-4, "Tanh follows the rescale rule, so that scores add up"


def test_deep_lift_shap_on_a_transformer(model: whence.LayeredModel) -> None:
    oracle = Captum(model)

    class Forward(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = oracle.module

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.module(inputs_embeds=words, attention_mask=oracle.mask.expand(len(words), -1)).logits

    words, nothing = (oracle.layers["embeddings"](ids).detach() for ids in (oracle.ids, oracle.masked))
    method = captum.attr.LayerDeepLift(Forward(), oracle.layers[0])
    expected = summed(method.attribute(words, nothing, target=oracle.target))
    settings: dict[str, Any] = {"baseline": model.tokenizer.masking, "special": True}
    found = whence.explain(model, TEXT, "deep_lift_shap", layers=0, **settings)
    np.testing.assert_allclose(found.scores[0], expected, **CLOSE)


def test_gradient_shap_is_integrated_gradients_on_average(model: whence.LayeredModel) -> None:
    exact = whence.explain(model, TEXT, "integrated_gradients", steps=200).scores
    near = whence.explain(model, TEXT, "gradient_shap", samples=3000).scores
    far = whence.explain(model, TEXT, "gradient_shap", samples=3).scores
    assert np.abs(near - exact).max() < 0.05 * np.abs(exact).max()
    assert np.abs(near - exact).max() < np.abs(far - exact).max()


def test_gradient_shap_by_captum(model: whence.LayeredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle, samples = Captum(model), 8
    shares = torch.rand(samples, generator=question_of(model).generator(0)).numpy()
    monkeypatch.setattr(np.random, "uniform", lambda low, high, size: shares[:size].astype("float64"))
    words, nothing = (oracle.layers["embeddings"](ids).detach() for ids in (oracle.ids, oracle.masked))

    def forward(words: torch.Tensor) -> torch.Tensor:
        return oracle.module(inputs_embeds=words, attention_mask=oracle.mask.expand(len(words), -1)).logits

    expected = captum.attr.GradientShap(forward).attribute(words, nothing, target=oracle.target, n_samples=samples)
    settings: dict[str, Any] = {"samples": samples, "baseline": model.tokenizer.masking, "special": True}
    found = whence.explain(model, TEXT, "gradient_shap", **settings)
    np.testing.assert_allclose(found.scores[0], summed(expected), **CLOSE)


def test_lime_by_captum_and_scikit_learn(model: whence.LayeredModel) -> None:
    oracle, samples = Captum(model), 40
    question = question_of(model)
    maskings = _maskings(question.inputs.mask[0], samples, None, question.generator(0)).long()
    pending = iter(maskings)

    def similarity(original: object, perturbed: object, presence: torch.Tensor, **others: object) -> torch.Tensor:
        distance = 1 - presence.float().mean(dim=-1).sqrt()
        return (-((distance / 0.25) ** 2) / 2).exp()

    method = captum.attr.Lime(
        oracle.forward,
        interpretable_model=captum._utils.models.linear_model.SkLearnLinearModel("linear_model.Ridge", alpha=1.0),
        similarity_func=similarity,
        perturb_func=lambda original, **others: next(pending)[None],
    )
    expected = method.attribute(oracle.ids, oracle.masked, target=oracle.target, n_samples=samples)
    settings: dict[str, Any] = {"samples": samples, "baseline": model.tokenizer.masking, "special": True}
    found = whence.explain(model, TEXT, "lime", **settings)
    np.testing.assert_allclose(found.scores, expected.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_weighted_ridge_is_scikit_learns() -> None:
    generator = torch.Generator().manual_seed(0)
    design, values, weights = (torch.rand(*shape, generator=generator).double() for shape in ((30, 5), (30,), (30,)))
    for ridge in (0.1, 1.0, 10.0):
        expected = Ridge(alpha=ridge).fit(design, values, sample_weight=weights).coef_
        np.testing.assert_allclose(weighted_ridge(design, values, weights, ridge), expected, rtol=1e-6)


def test_smooth_grad_by_hand(model: whence.LayeredModel) -> None:
    oracle, samples, noise = Captum(model), 5, 0.2
    words = oracle.layers["embeddings"](oracle.ids).detach()
    drawn = torch.randn(samples, *words.shape[1:], generator=question_of(model).generator(0))
    gradients = []
    for sample in drawn:
        noisy = (words + noise * (words.max() - words.min()) * sample).requires_grad_()
        logits = oracle.module(inputs_embeds=noisy, attention_mask=oracle.mask).logits
        gradients.append(torch.autograd.grad(logits[0, oracle.target], noisy)[0])
    expected = torch.stack(gradients).mean(dim=0).norm(dim=-1).numpy()
    found = whence.explain(model, TEXT, "smooth_grad", samples=samples, noise=noise).scores
    np.testing.assert_allclose(found, expected, **CLOSE)


def test_attention_and_rollout_by_loops(model: whence.LayeredModel) -> None:
    oracle = Captum(model)
    oracle.module.set_attn_implementation("eager")
    try:
        weights = [each.detach() for each in oracle.module(oracle.ids, oracle.mask, output_attentions=True).attentions]
    finally:
        oracle.module.set_attn_implementation("sdpa")
    found = whence.explain(model, TEXT, "attention")
    assert found.layers == (1, 2, 3)
    rolled = whence.explain(model, TEXT, "attention_rollout")
    product = torch.eye(oracle.ids.shape[1])
    for layer, layer_weights in enumerate(weights, start=1):
        expected = [max(float(layer_weights[0, h, q, 3]) for h in range(2)) for q in range(oracle.ids.shape[1])]
        assert found.row(layer)[3] == pytest.approx(np.mean(expected), abs=1e-6)
        product = (0.5 * layer_weights[0].mean(dim=0) + 0.5 * torch.eye(len(product))) @ product
        np.testing.assert_allclose(rolled.row(layer), product.mean(dim=0).detach().numpy(), atol=1e-6)
        assert rolled.row(layer).sum() == pytest.approx(1, abs=1e-5)
