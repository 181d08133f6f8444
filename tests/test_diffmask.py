"""Fitting probes."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from quick_probes import KINDS, QUICK, every_kind, quick, same, weights
from tiny_models import TEXTS, tiny
from torch import Tensor, nn

import whence
from whence import DiffMask
from whence.learned.diffmask.learner import DiffMaskLearner
from whence.learned.diffmask.recipes import Recipe
from whence.learned.diffmask.standing import Standing
from whence.learned.diffmask.validation import validate
from whence.learned.schedule import Pace
from whence.learned.texts import Texts
from whence.learned.training import Training
from whence.models.batching import encode
from whence.probes.diffmask import Kind, Probes

# A model whose truth is known

FILLERS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
SIGNALS = ("good", "bad")
VOCABULARY = {word: number for number, word in enumerate(["<pad>", "<unk>", "<mask>", *SIGNALS, *FILLERS])}


class Planted(nn.Module):
    """Decides by the sum of its tokens' first feature, which is zero for all but two words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 6)
        linear = nn.Linear(6, 6)
        self.block = nn.Sequential(linear, nn.Tanh())
        with torch.no_grad():
            self.embedding.weight.normal_(std=0.3, generator=torch.Generator().manual_seed(0))
            self.embedding.weight[:, 0] = 0
            self.embedding.weight[3:5, 0] = torch.tensor([2.0, -2.0])
            self.embedding.weight[3:5, 1] = 3  # both are easily told from the rest
            linear.weight.copy_(torch.eye(6))
            linear.bias.zero_()

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        total = (self.block(self.embedding(ids))[..., 0] * mask).sum(dim=1)
        return 3 * torch.stack([-total, total], dim=-1)


@functools.cache
def planted() -> tuple[whence.LayeredModel, list[str]]:
    module = Planted()
    model = whence.load(module, whence.WordTokenizer(VOCABULARY), blocks=[module.block], labels=["bad", "good"])
    chance = random.Random(0)
    texts = []
    for _ in range(200):
        words = chance.choices(FILLERS, k=chance.randint(3, 7))
        words.insert(chance.randint(0, len(words)), chance.choice(SIGNALS))
        texts.append(" ".join(words))
    return model, texts


@every_kind
def test_probes_keep_what_the_decision_rests_on_and_drop_the_rest(kind: Kind) -> None:
    model, texts = planted()
    probes = DiffMask(
        kind, steps=400, batch_size=32, start=1.0, margin=0.05, learning_rate=0.02, multiplier=1.0, warm_up=20
    )
    probes.fit(model, texts[50:], held_out=texts[:50], validations=4)
    for explanation in probes.explain(model, texts[:20]):
        truth = [token.text in SIGNALS for token in explanation.tokens]
        assert explanation.layers == ("embeddings", 0, 1)
        assert [(row > 0.5).tolist() for row in explanation.scores] == [truth] * 3
    for result in probes.validate(model, texts[:50]):
        assert result.agreement == 1
        assert result.masked == pytest.approx(np.mean([1 - 1 / len(text.split()) for text in texts[:50]]), abs=1e-6)
    assert probes.fitted_ is not None
    assert probes.validate(model, texts[:50]) == list(probes.fitted_.results)


def one_learner(model: whence.LayeredModel, kind: Kind, **changes: Any) -> DiffMaskLearner:
    recipe = Recipe().changed(**{"relative": False, "margin": 0.1, "batch_size": 3, "limit": None, **changes})
    widths: dict[whence.Layer, int] = dict.fromkeys(("embeddings", *range(model.n_layers + 1)), 16)
    torch.manual_seed(0)
    return DiffMaskLearner(model, Probes(kind, recipe.probe, widths, 8, recipe.start), recipe, batch_tokens=100)


def trained(learner: DiffMaskLearner, seed: int = 0) -> DiffMaskLearner:
    recipe = learner.recipe
    encodings = [encode(learner.model, text, 0) for text in TEXTS]
    pace = Pace(
        recipe.steps, recipe.batch_size, recipe.warm_up, recipe.cool_down, validations=1, patience=None, seed=seed
    )
    Training(learner.model, learner, Texts(encodings, encodings), pace, batch_tokens=100).run(None)
    return learner


def begun(learner: DiffMaskLearner) -> DiffMaskLearner:
    with torch.no_grad():
        learner.begin([encode(learner.model, text, 0) for text in TEXTS])
    return learner


@pytest.mark.parametrize(("margin", "way"), [(1e-6, 1), (1e3, -1)])
@pytest.mark.parametrize("optimiser", ["adam", "lookahead_rmsprop"])
def test_acceptance_5_multipliers_rise_above_the_margin_and_fall_below_it(
    margin: float, way: int, optimiser: str
) -> None:
    settings = {"start": 0.0, "steps": 12, "multiplier": 5.0, "optimiser": optimiser}
    learner = trained(one_learner(tiny("bert"), "hidden", margin=margin, **settings))
    moved = [float(multiplier) - 5 for multiplier in learner.multipliers]
    assert any(moved)
    assert all(change * way >= 0 for change in moved)


def test_multipliers_stay_between_zero_and_their_limit() -> None:
    for margin, end in ((1e-6, 5.5), (1e3, 0.0)):
        learner = one_learner(
            tiny("bert"), "input", margin=margin, start=0.0, steps=20, multiplier=5.0, multiplier_learning_rate=9.0,
            multiplier_limit=5.5,
        )  # fmt: skip
        assert {float(multiplier) for multiplier in trained(learner).multipliers} == {end}


def test_a_margin_may_rise_over_the_layers() -> None:
    learner = one_learner(tiny("bert"), "input", margin=0.4, first_margin=0.25)
    assert [learner.margin(index) for index in range(5)] == pytest.approx([0.1, 0.175, 0.25, 0.325, 0.4])


def test_a_relative_margin_is_a_share_of_masking_every_word() -> None:
    model, texts = planted()
    probes = quick("input", model, texts[:20], held_out=texts[:10], margin=0.3)
    inputs = model.collate([model.encode(text) for text in texts[:10]])
    masked = torch.where(inputs.mask, VOCABULARY["<mask>"], inputs.ids)
    with torch.no_grad():
        p, q = (torch.distributions.Categorical(logits=model.module(ids, inputs.mask)) for ids in (inputs.ids, masked))
    expected = 0.3 * float(torch.distributions.kl_divergence(p, q).mean())
    assert probes.fitted_ is not None
    assert probes.fitted_.margin == pytest.approx(expected, rel=1e-5)


def test_baselines_start_at_the_mask_and_at_mean_states() -> None:
    model = tiny("bert")
    inputs = model.collate([model.encode(text) for text in TEXTS])
    mask = model.module.get_input_embeddings().weight[tiny_models.wordpiece().mask_token_id]  # type: ignore[operator]
    for kind in KINDS:
        probes = begun(one_learner(model, kind)).probe
        torch.testing.assert_close(probes.baseline("embeddings"), mask)
    states = model.states(inputs)
    for layer in range(4):
        torch.testing.assert_close(probes.baseline(layer).detach(), states.at(layer)[inputs.mask].mean(dim=0))
    learner = one_learner(model, "hidden", baseline="released")
    noise = learner.probe.baseline(2).detach().clone()
    begun(learner)
    torch.testing.assert_close(learner.probe.baseline(2).detach(), noise)  # the released code leaves it to chance


def test_the_width_of_a_probe_may_be_chosen(tmp_path: Path) -> None:
    probes = quick("hidden", tiny("bert"), width=5, folder=tmp_path)
    assert weights(probes)["of_layer.0.inner.bias"].shape == (5,)
    assert same(DiffMask.load(tmp_path), probes)
    assert weights(quick("hidden", tiny("bert")))["of_layer.0.inner.bias"].shape == (32,)


# Seeds


@every_kind
@pytest.mark.parametrize("recipe", ["whence", "released", "paper"])
def test_the_same_seed_gives_the_same_probes_to_the_last_bit(kind: Kind, recipe: str) -> None:
    def fit(seed: int, global_seed: int) -> DiffMask:
        torch.manual_seed(global_seed)
        probes = DiffMask(kind, recipe, **{**QUICK, "steps": 8})
        return probes.fit(tiny("bert"), TEXTS * 3, seed=seed, validations=2)

    first = fit(seed=3, global_seed=1)
    assert same(first, fit(seed=3, global_seed=2))
    assert not same(first, fit(seed=4, global_seed=1))


def test_a_seed_decides_batches_layers_and_noise_too() -> None:
    model = tiny("bert")
    # the same start of the probes
    one, other = (trained(one_learner(model, "hidden", steps=6, start=0.0), seed) for seed in (0, 1))
    pairs = zip(one.probe.parameters(), other.probe.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


# Every task and model


def headed(head: str) -> whence.LayeredModel:
    if head == "sigmoid":
        return whence.load(
            tiny_models.build("bert", problem_type="multi_label_classification"), tiny_models.wordpiece()
        )
    if head == "regression":
        names: dict[str, Any] = {"id2label": {0: "value"}, "label2id": {"value": 0}, "problem_type": "regression"}
        return whence.load(tiny_models.build("bert", **names), tiny_models.wordpiece())
    return tiny(*head.split("-"))


HEADS = ["bert-classification", "bert-question_answering", "bert-token_classification", "roberta-masked_lm",
         "gpt2-causal_lm", "gpt2-classification", "electra-classification", "sigmoid", "regression"]  # fmt: skip


@every_kind
@pytest.mark.parametrize("head", HEADS)
def test_a_fit_runs_on_every_task(head: str, kind: Kind) -> None:
    model = headed(head)
    texts = tiny_models.texts_for(*head.split("-")) if "-" in head else TEXTS
    probes = quick(kind, model, texts * 2)
    assert probes.fitted_ is not None
    assert all(value.isfinite().all() for value in weights(probes).values())
    assert [result.layer for result in probes.fitted_.results] == ["embeddings", 0, 1, 2, 3]
    for result in probes.fitted_.results:
        assert np.isfinite([result.masked, result.divergence]).all()
        assert (result.agreement is None) == (head == "regression")
    explanations = probes.explain(model, texts)
    for explanation in explanations:
        assert ((explanation.scores >= 0) & (explanation.scores <= 1)).all()
        assert explanation.cost.forwards == 1
        assert explanation.cost.backwards == 0


def test_pairs_of_texts_are_fitted_too() -> None:
    model = tiny("bert")
    probes = quick("input", model, tiny_models.PAIRS * 2)
    assert probes.explain(model, tiny_models.PAIRS[0]).pair == tiny_models.PAIRS[0][1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision(dtype: torch.dtype) -> None:
    model = whence.load(tiny_models.build("bert").to(dtype), tiny_models.wordpiece())
    probes = quick("hidden", model)
    assert {value.dtype for value in weights(probes).values()} == {torch.float32}
    assert probes.explain(model, TEXTS[0]).scores.dtype == np.float32


def test_special_tokens_that_are_never_masked_are_always_kept() -> None:
    model = tiny("bert")
    for special in (True, False):
        explanation = quick("input", model, special=special).explain(model, TEXTS[2])
        flags = np.array([token.special for token in explanation.tokens])
        assert (explanation.scores[:, flags] == 1).all() == (not special)
        assert (explanation.scores[:, ~flags] < 1).all()


def test_validation_by_hand() -> None:
    """At each layer: tokens whose keep probability is at most one half become the baseline, the rest stays."""
    model = tiny("bert")
    probes = quick("hidden", model)
    keep = [probes.explain(model, text) for text in TEXTS]
    assert probes.fitted_ is not None
    inner = probes.fitted_.probes
    results = probes.validate(model, TEXTS)
    assert results == probes.validate(model, TEXTS, batch_tokens=1) or all(
        one.divergence == pytest.approx(other.divergence, abs=1e-6)
        for one, other in zip(results, probes.validate(model, TEXTS, batch_tokens=1), strict=True)
    )
    for index, result in enumerate(results):
        masked, moved, agreed = [], [], []
        for text, explanation in zip(TEXTS, keep, strict=True):
            inputs = model.collate([model.encode(text)])
            states = model.states(inputs)
            shut = torch.tensor(explanation.scores[index] <= 0.5)
            hidden = torch.where(shut[None, :, None], inner.baseline(result.layer), states.at(result.layer))
            logits = model.resume(result.layer, hidden, inputs).log_softmax(dim=-1)
            before = states.logits.log_softmax(dim=-1)
            masked.append(float(shut.float().mean()))
            moved.append(float((before.exp() * (before - logits)).sum()))
            agreed.append(float(before.argmax() == logits.argmax()))
        assert result.masked == pytest.approx(np.mean(masked), abs=1e-6)
        assert result.divergence == pytest.approx(np.mean(moved), abs=1e-5)
        assert result.agreement == pytest.approx(np.mean(agreed))
        assert result.n_texts == len(TEXTS)
    assert any(0 < result.masked < 1 for result in results)


def test_a_token_budget_changes_no_validation() -> None:
    model = tiny("gpt2")
    probes = one_learner(model, "input").probe
    encodings = [encode(model, text, 0) for text in TEXTS]
    together, apart = (validate(model, probes, batches) for batches in ([encodings], [[e] for e in encodings]))
    for one, other in zip(together, apart, strict=True):
        assert asdict(one) == pytest.approx(asdict(other), abs=1e-5)


# Progress and the end of a run


def test_progress_is_told_after_every_step() -> None:
    told: list[Standing] = []
    reported: list[tuple[str, int, int]] = []
    quick("hidden", tiny("bert"), steps=4, watch=told.append, progress=lambda *call: reported.append(call))
    assert reported == [("fit", 1, 4), ("fit", 2, 4), ("fit", 3, 4), ("fit", 4, 4)]
    assert [each.step for each in told] == [1, 2, 3, 4]
    assert {each.steps for each in told} == {4}
    assert told[-2].validation is None
    assert told[-1].validation is not None
    assert all(0 <= each.kept <= 1 and each.divergence >= 0 and each.margin > 0 for each in told)


@pytest.mark.parametrize("penalty", ["log", "share", "count"])
def test_the_share_kept_is_a_share_whatever_the_penalty(penalty: str) -> None:
    told: list[Standing] = []
    quick("hidden", tiny("bert"), steps=4, penalty=penalty, watch=told.append)
    assert 0.5 < told[-1].kept < 1


@pytest.mark.parametrize(
    ("start", "patience", "last_step"),
    [(-3.0, 3, 30), (-3.0, None, 40), (3.0, 3, 40)],
    ids=["standing still", "patient for ever", "nothing masked yet"],
)
def test_standing_still_ends_a_run_but_not_in_its_first_half_or_with_nothing_masked(
    start: float, patience: int | None, last_step: int
) -> None:
    still: dict[str, Any] = {"learning_rate": 1e-9, "baseline_learning_rate": 1e-9, "multiplier": 0.0}
    probes = DiffMask("hidden", steps=40, batch_size=2, cool_down=0.25, start=start, **still)
    probes.fit(tiny("bert"), TEXTS * 2, validations=20, patience=patience)
    assert probes.fitted_ is not None
    assert probes.fitted_.history[-1]["step"] == last_step


# What cannot be fitted

UNKNOWN: Any = "inputs"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: DiffMask().fit(model, ["a film"]), whence.InputError, "1 texts are too few to train on"),
        (lambda model: DiffMask().fit(model, []), whence.InputError, "0 texts are too few to train on"),
        (lambda model: DiffMask().fit(model, TEXTS, held_out=[]), whence.InputError, "no held-out text to judge by"),
        (lambda model: DiffMask().fit(model, "a film"), whence.InputError, "texts is str, not several texts"),
        (lambda model: DiffMask().fit(model, ["a film", ""]), whence.InputError, "text 1 is empty"),
        (lambda model: DiffMask().fit(model, [*TEXTS, 3]), whence.InputError, "text 3 is int"),  # type: ignore[list-item]
        (lambda model: DiffMask().fit(model, TEXTS, seed=-1), whence.UsageError, "seed must be a whole number"),
        (lambda model: DiffMask().fit(model, TEXTS, validations=0), whence.UsageError, "validations must be"),
        (lambda model: DiffMask().fit(model, TEXTS, patience=0), whence.UsageError, "patience must be"),
        (lambda model: DiffMask(UNKNOWN), whence.UnknownNameError, "unknown kind 'inputs'\ndid you mean 'input'"),
        (lambda model: DiffMask(recipe="x"), whence.UnknownNameError, "unknown recipe 'x'"),
        (lambda model: DiffMask(step=3), whence.UnknownNameError, "unknown setting of a recipe 'step'"),
        (lambda model: DiffMask().explain(model, "a film"), whence.UsageError, "these probes are not trained yet"),
        (lambda model: DiffMask().save("x"), whence.UsageError, "these probes are not trained yet"),
    ],
)
def test_wrong_calls_are_refused(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call(tiny("bert"))
    assert message in str(caught.value)


@pytest.mark.parametrize("changes", [{}, {"relative": False}])
def test_nan_weights_are_told(bert: whence.LayeredModel, changes: dict[str, Any]) -> None:
    with torch.no_grad():
        next(bert.stack.blocks[1].parameters())[0] = torch.nan
    with pytest.raises(whence.NonFiniteError, match="not finite"):
        quick("hidden", bert, **changes)


def test_a_model_that_does_not_read_is_told(bert: whence.LayeredModel) -> None:
    with torch.no_grad():
        bert.module.classifier.weight.zero_()  # type: ignore[union-attr,operator]
    with pytest.raises(whence.UsageError, match="says the same whatever the text is"):
        quick("input", bert)


def test_probes_that_learned_nothing_are_told_and_kept(bert: whence.LayeredModel, tmp_path: Path) -> None:
    with pytest.warns(whence.WhenceWarning, match="nothing learned: .* less than 5% of the tokens .* after 3 steps"):
        quick("hidden", bert, start=9.0, learning_rate=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        quick("hidden", bert, start=-3.0)
        with pytest.raises(whence.WhenceWarning):
            quick("hidden", bert, start=9.0, learning_rate=1e-4, folder=tmp_path / "it")
    assert DiffMask.load(tmp_path / "it").fitted_ is not None, "saved before it was told"


def test_masked_texts_that_hold_no_mask_are_refused() -> None:
    with pytest.raises(whence.InputError, match="holds no mask"):
        quick("input", tiny("bert", "masked_lm"), TEXTS)


# Of the nine acceptance checks of the method, 1 is in test_gates.py, 2 and 8 (the toy task) in test_toy_experiment.py,
# 3 in test_probes.py, 4, 7 and 9 in test_objective.py, 5 above


def test_acceptance_6_integrated_gradients_are_complete_on_a_linear_model() -> None:
    """All of f(x) - f(b), each token its own share; the released code gives half."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(VOCABULARY), 4)
            self.block = nn.Identity()
            self.head = nn.Linear(4, 2)

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            logits: Tensor = self.head((self.block(self.embedding(ids)) * mask[..., None]).sum(dim=1))
            return logits

    torch.manual_seed(0)
    module = Linear()
    model = whence.load(module, whence.WordTokenizer(VOCABULARY), blocks=[module.block], labels=["no", "yes"])
    explanation = whence.explain(
        model, "good alpha beta", "integrated_gradients", target="yes", baseline="zero", steps=3
    )
    words = module.embedding(torch.tensor([3, 5, 6]))
    expected = (words @ module.head.weight[1]).detach().numpy()
    np.testing.assert_allclose(explanation.scores[0], expected, rtol=1e-5)
    assert explanation.completeness_errors == pytest.approx((0.0,), abs=1e-5)


@every_kind
def test_probes_of_few_layers(kind: Kind, tmp_path: Path) -> None:
    """A deep model need not have probes everywhere: those asked for are spread over it, the words and the top in."""
    model = tiny("llama", "causal_lm")
    probes = quick(kind, model, layers=3, folder=tmp_path / "probes")
    found = probes.explain(model, TEXTS[0])
    assert found.layers == ("embeddings", 1, 3)
    loaded = DiffMask.load(tmp_path / "probes")
    assert loaded.recipe.layers == 3
    assert (loaded.explain(model, TEXTS[0]).scores == found.scores).all()
    one = whence.explain(model, TEXTS[0], "diffmask", probes=tmp_path / "probes", layers=[1, 3])
    assert (one.scores == found.scores[1:]).all()
    for given in (probes, tmp_path / "probes"):
        assert whence.explain(model, TEXTS[0], "diffmask", probes=given).layers == found.layers, "where they look"
    with pytest.raises(whence.UsageError, match="these probes know nothing of layer 0, 2\nask for: embeddings, 1, 3"):
        whence.explain(model, TEXTS[0], "diffmask", probes=probes, layers=[0, 1, 2])


def test_a_recipe_for_few_cores_takes_fewer_layers_texts_and_steps() -> None:
    ours, sparing = DiffMask().recipe, DiffMask(recipe="sparing").recipe
    assert (sparing.layers, ours.layers) == (5, None)
    assert sparing.batch_size * sparing.steps < ours.batch_size * ours.steps / 10
    assert "layers" not in ours.told(), "what was told before there were few layers is told alike"
    assert sparing.told()["layers"] == 5
    few, many = whence.ShapleyProbes("sparing").recipe, whence.ShapleyProbes("quick").recipe
    assert few.step_tokens * few.pairs * few.steps < many.step_tokens * many.pairs * many.steps / 10
