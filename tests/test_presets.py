"""Other packages' settings, worked out again from their definitions."""

from __future__ import annotations

from typing import Any

import captum.attr
import numpy as np
import pytest
import tiny_models
import torch
from sklearn.linear_model import Ridge
from test_captum import question_of

import whence
from whence.methods.lime import _maskings

TEXT = "not the best movie of the year"


@pytest.fixture(scope="module")
def model() -> whence.LayeredModel:
    return tiny_models.tiny("bert")


@pytest.fixture(scope="module")
def decoder() -> whence.LayeredModel:
    """Llama's norms do not subtract the mean, so that sums of gradients over features are not zero."""
    return tiny_models.tiny("llama")


def loss_gradient(model: whence.LayeredModel, words: torch.Tensor, mask: torch.Tensor, label: int) -> torch.Tensor:
    words = words.detach().requires_grad_()
    logits = model.module(inputs_embeds=words, attention_mask=mask).logits
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([label]))
    return torch.autograd.grad(loss, words)[0]


def embedded(model: whence.LayeredModel) -> tuple[torch.Tensor, torch.Tensor, int]:
    inputs = model.collate([model.encode(TEXT)])
    words = model.embed(inputs.ids)
    logits = model.module(input_ids=inputs.ids, attention_mask=inputs.mask.long()).logits
    return words, inputs.mask.long(), int(logits.argmax())


def shares(scores: torch.Tensor) -> np.ndarray:
    scores = scores.abs()
    return (scores / scores.sum()).detach().numpy()


def test_allennlp_simple(model: whence.LayeredModel) -> None:
    words, mask, label = embedded(model)
    expected = shares((loss_gradient(model, words, mask, label) * words).sum(dim=-1))
    np.testing.assert_allclose(whence.explain(model, TEXT, "allennlp_simple").scores, expected, rtol=1e-3, atol=1e-5)


def test_allennlp_integrated(model: whence.LayeredModel) -> None:
    words, mask, label = embedded(model)
    total = sum(loss_gradient(model, words * step / 10, mask, label) for step in range(10)) / 10
    expected = shares((total * words).sum(dim=-1))
    np.testing.assert_allclose(
        whence.explain(model, TEXT, "allennlp_integrated").scores, expected, rtol=1e-3, atol=1e-5
    )


def test_allennlp_smooth(decoder: whence.LayeredModel) -> None:
    words, mask, label = embedded(decoder)
    noise = torch.randn(10, *words.shape[1:], generator=question_of(decoder).generator(0))
    spread = 0.01 * (words.max() - words.min())
    total: Any = sum(loss_gradient(decoder, words + spread * drawn, mask, label) for drawn in noise) / 10
    found = whence.explain(decoder, TEXT, "allennlp_smooth").scores
    np.testing.assert_allclose(found, shares(total.sum(dim=-1)), rtol=1e-3, atol=1e-5)


def test_allennlp_smooth_below_a_layer_norm_is_said_to_be_nothing(model: whence.LayeredModel) -> None:
    words, mask, label = embedded(model)
    gradient = loss_gradient(model, words, mask, label)
    assert gradient.abs().sum() > 1e-3
    assert gradient.sum(dim=-1).abs().max() < 1e-5, "a LayerNorm takes every shift of all features away"
    with pytest.warns(whence.WhenceWarning, match="all scores are zero"):
        assert not whence.explain(model, TEXT, "allennlp_smooth").scores.any()


PADDED = 24


@pytest.fixture
def padded(model: whence.LayeredModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ThermoStat pads every text (to 512; here to 24); its reference has padding in place of all but special tokens."""
    inputs = model.collate([model.encode(TEXT)])
    length = inputs.ids.shape[1]
    ids = torch.nn.functional.pad(inputs.ids, (0, PADDED - length))
    mask = torch.nn.functional.pad(inputs.mask.long(), (0, PADDED - length))
    special = torch.tensor([token.special for token in inputs.encodings[0].tokens])
    reference = ids.clone()
    reference[0, :length][~special] = 0
    return ids, mask, reference


def test_thermostat_by_captum(model: whence.LayeredModel, padded: tuple[torch.Tensor, ...]) -> None:
    ids, mask, reference = padded
    embeddings: Any = model.module.base_model.embeddings  # type: ignore[union-attr]

    class Forward(torch.nn.Module):
        """Takes ids or, since captum's DeepLift wants floats, their embeddings."""

        def __init__(self) -> None:
            super().__init__()
            self.module = model.module

        def forward(self, texts: torch.Tensor) -> torch.Tensor:
            name = "inputs_embeds" if texts.is_floating_point() else "input_ids"
            return self.module(**{name: texts}, attention_mask=mask.expand(len(texts), -1)).logits

    forward, settings = Forward(), {"target": int(Forward()(ids).argmax())}
    both = torch.cat([torch.zeros_like(ids), reference])
    expected = {
        "thermostat_gradient_x_activation": captum.attr.LayerGradientXActivation(forward, embeddings)
        .attribute(ids, **settings).sum(dim=-1),
        "thermostat_integrated_gradients": captum.attr.LayerIntegratedGradients(forward, embeddings)
        .attribute(ids, reference, n_steps=25, **settings).sum(dim=-1),
        "thermostat_occlusion": captum.attr.Occlusion(forward).attribute(ids, (3,), **settings),
        "thermostat_deep_lift_shap": captum.attr.LayerDeepLiftShap(forward, embeddings)
        .attribute(model.embed(ids), model.embed(both), **settings).sum(dim=-1),
    }  # fmt: skip
    for name, scores in expected.items():
        found = whence.explain(model, TEXT, name).scores
        np.testing.assert_allclose(
            found, scores[:, : found.shape[1]].detach().numpy(), rtol=1e-3, atol=1e-4, err_msg=name
        )


def test_thermostat_lime(model: whence.LayeredModel, padded: tuple[torch.Tensor, ...]) -> None:
    ids, mask, reference = padded
    question = question_of(model)
    players = question.inputs.mask[0] & ~question.inputs.special[0]
    keep = _maskings(players, 25, 0.7, question.generator(0))
    length = keep.shape[1]
    samples = ids.repeat(25, 1)
    samples[:, :length] = torch.where(keep, ids[:, :length], reference[:, :length])
    with torch.no_grad():
        logits = model.module(samples, mask.expand(25, -1)).logits
    target = int(question.states.logits.argmax())
    similarity = (512 - (samples != ids).sum(dim=1)) / 512
    expected = Ridge(alpha=1.0).fit(samples.double(), logits[:, target].double(), sample_weight=similarity).coef_
    found = whence.explain(model, TEXT, "thermostat_lime").scores[0]
    np.testing.assert_allclose(found, expected[:length], rtol=1e-3, atol=1e-6)


def test_thermostat_gradient_shap_goes_between_ids(
    model: whence.LayeredModel, padded: tuple[torch.Tensor, ...]
) -> None:
    ids, mask, reference = padded
    embeddings: Any = model.module.base_model.embeddings  # type: ignore[union-attr]
    target = int(model.module(ids, mask).logits.argmax())
    drawn = torch.rand(5, generator=question_of(model).generator(0))
    whole, nothing = (embeddings(input_ids=each).detach() for each in (ids, reference))
    expected = torch.zeros(PADDED)
    for share in drawn:
        between = (share.double() * ids + (1 - share.double()) * reference).long()
        held: list[torch.Tensor] = []
        handle = embeddings.register_forward_hook(lambda module, args, output, held=held: held.append(output))
        logits = model.module(between, mask).logits
        handle.remove()
        gradient = torch.autograd.grad(logits[0, target], held[0])[0]
        expected += ((whole - nothing) * gradient).sum(dim=-1)[0] / 5
    found = whence.explain(model, TEXT, "thermostat_gradient_shap").scores[0]
    np.testing.assert_allclose(found, expected[: len(found)].detach().numpy(), rtol=1e-3, atol=1e-5)


def test_a_preset_is_its_method_with_settings(model: whence.LayeredModel) -> None:
    preset = whence.explain(model, TEXT, "thermostat_shapley", seed=3)
    same = whence.explain(model, TEXT, "shapley", samples=25, baseline="pad", seed=3)
    assert (preset.scores == same.scores).all()
    assert preset.method == "thermostat_shapley"
    assert preset.options == same.options
    assert whence.explain(model, TEXT, "thermostat_shapley", samples=2).options["samples"] == 2, (
        "settings can be changed"
    )
