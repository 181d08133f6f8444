"""Models that come wrapped: with adapters of PEFT, or as a pipeline of transformers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import peft
import pytest
import tiny_models
import torch
from complaints import complaint
from quick_probes import quick
from tiny_models import LONG, SHORT, TEXTS
from transformers import pipeline

import whence
from whence.models.fingerprint import fingerprint, weights_key
from whence.testing import METHOD_CHECKS

METHODS = ("gradient_x_input", "integrated_gradients", "held_still", "attn_lrp", "leave_one_out", "attention")


def with_lora(family: str, task: str) -> peft.PeftModel:
    """A tiny model with an adapter that does something: as it begins, LoRA adds nothing."""
    module = tiny_models.build(family, task)
    kind = {"classification": "SEQ_CLS", "causal_lm": "CAUSAL_LM"}[task]
    config = peft.LoraConfig(task_type=kind, r=2, lora_alpha=8, target_modules="all-linear", lora_dropout=0.5)
    wrapped = peft.get_peft_model(module, config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_" in name:
                weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
    return wrapped.eval()


@pytest.fixture(scope="module")
def classifier() -> peft.PeftModel:
    return with_lora("bert", "classification")


def test_the_adapter_matters(classifier: peft.PeftModel) -> None:
    with_it = whence.explain(whence.load(classifier, tiny_models.wordpiece()), SHORT, "leave_one_out")
    with classifier.disable_adapter():
        without = whence.explain(whence.load(classifier, tiny_models.wordpiece()), SHORT, "leave_one_out")
    assert np.abs(with_it.scores - without.scores).max() > 0.01


@pytest.mark.parametrize("method", METHODS)
def test_a_classifier_with_an_adapter_scores_as_the_merged_one(classifier: peft.PeftModel, method: str) -> None:
    merged = copy.deepcopy(classifier).merge_and_unload()
    models = [whence.load(each, tiny_models.wordpiece()) for each in (classifier, merged)]
    layers = None if method == "attention" else "all"
    one, other = (whence.explain(model, TEXTS, method, layers=layers) for model in models)
    for mine, theirs in zip(one, other, strict=True):
        assert mine.layers == theirs.layers
        np.testing.assert_allclose(mine.scores, theirs.scores, atol=1e-5)
        assert mine.prediction.label == theirs.prediction.label


def test_a_decoder_with_an_adapter_scores_as_the_merged_one() -> None:
    wrapped = with_lora("llama", "causal_lm")
    merged = copy.deepcopy(wrapped).merge_and_unload()
    one, other = (whence.load(each, tiny_models.metaspace()) for each in (wrapped, merged))
    for method in ("integrated_gradients", "leave_one_out"):
        mine, merged_scores = (whence.explain(model, LONG, method).scores for model in (one, other))
        np.testing.assert_allclose(mine, merged_scores, atol=1e-5)
    written = [whence.explain(model, SHORT, response=None, max_new_tokens=4) for model in (one, other)]
    assert written[0].response == written[1].response
    np.testing.assert_allclose(written[0].scores, written[1].scores, atol=1e-5)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_a_model_with_an_adapter_keeps_the_contract(check: Any, classifier: peft.PeftModel) -> None:
    check("gradient_x_input", whence.load(classifier, tiny_models.wordpiece()))


def test_the_record_says_which_adapter_is_active(classifier: peft.PeftModel) -> None:
    record = whence.load(classifier, tiny_models.wordpiece()).record
    assert record.id.endswith(" with adapter default")
    assert record.architecture == "BertForSequenceClassification"


def test_probes_and_finished_work_know_the_adapter() -> None:
    """The weights are the same with either adapter switched on; what the model computes is not."""
    wrapped = with_lora("bert", "classification")
    wrapped.add_adapter("other", peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules="all-linear"))
    model = whence.load(wrapped, tiny_models.wordpiece())
    probes = quick("input", model)
    probes.explain(model, SHORT)
    key, found = weights_key(model.module), fingerprint(model.module)
    wrapped.set_adapter("other")
    assert weights_key(model.module) != key
    assert not any(".default." in name or ".other." in name for name in found.keys() & fingerprint(model.module).keys())
    problem, _ = complaint(whence.ModelError, probes.explain, model, SHORT)
    assert problem.startswith("these probes were trained for")
    wrapped.set_adapter("default")
    assert weights_key(model.module) == key
    probes.explain(model, SHORT)
    parts: list[Any] = [part for part in model.module.modules() if hasattr(part, "set_scale")]
    for part in parts:
        part.set_scale("default", 0.5)
    assert weights_key(model.module) != key, "scaled down it is another model"


def test_adapters_outside_the_layers_are_refused() -> None:
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    wrapped = peft.get_peft_model(tiny_models.build("llama", "causal_lm"), config)
    problem, advice = complaint(whence.ModelError, whence.load, wrapped, tiny_models.metaspace())
    assert problem.startswith("the adapter 'default' (PROMPT_TUNING) works outside the model's own layers")
    assert "LoRA" in advice


def test_a_pipeline_is_a_model_with_its_tokenizer() -> None:
    module = tiny_models.build("bert")
    given = pipeline("text-classification", model=module, tokenizer=tiny_models.wordpiece())
    found, same = (whence.explain(whence.load(*each), SHORT) for each in ((given,), (module, tiny_models.wordpiece())))
    np.testing.assert_array_equal(found.scores, same.scores)
    label = found.prediction.label
    assert given(SHORT)[0]["label"] == label
    np.testing.assert_allclose(given(SHORT)[0]["score"], found.prediction.probabilities[label], atol=1e-6)
    assert (
        whence.load(
            pipeline("text-generation", model=tiny_models.build("gpt2", "causal_lm"), tokenizer=tiny_models.bare())
        ).record.task
        == "causal_lm"
    )


def test_a_pipeline_of_a_model_with_an_adapter(classifier: peft.PeftModel) -> None:
    wrapped: Any = classifier
    given = pipeline("text-classification", model=wrapped, tokenizer=tiny_models.wordpiece())
    assert whence.load(given).record.id.endswith(" with adapter default")


def test_options_of_a_pipeline_are_those_of_a_loaded_model() -> None:
    given = pipeline("text-classification", model=tiny_models.build("bert"), tokenizer=tiny_models.wordpiece())
    problem, _ = complaint(whence.UnknownNameError, whence.load, given, dtype="float16")
    assert problem.startswith("unknown option for a loaded model")
