"""What is known of scores, methods and models is a field of them, never a part of a name."""

from __future__ import annotations

import json

import pytest
import tiny_models
import torch

import whence
from whence.explanation import Meaning
from whence.methods import DECODED

MINE = Meaning("mine", "what I say", signed=False, additive=False, low=0.0)


def sensitivity(question: whence.Question) -> whence.Scores:
    return whence.Scores(torch.stack([each.norm(dim=-1) for each in question.state_gradients()], dim=1))


@pytest.mark.parametrize("needs", ["gradients", "a baseline, gradients", ("gradients",)])
def test_a_method_that_needs_gradients_gets_them(needs: str | tuple[str, ...], bert: whence.LayeredModel) -> None:
    mine = whence.explain(bert, "a good film", whence.Method(sensitivity, MINE, needs=needs, cost=""), layers="all")
    assert (mine.scores == whence.explain(bert, "a good film", "gradient", layers="all").scores).all()
    assert mine.scores.any()


def test_needs_are_facts_however_they_are_written() -> None:
    assert whence.Method(sensitivity, MINE, needs="gradients, a baseline", cost="").needs == ("gradients", "a baseline")
    assert whence.Method(sensitivity, MINE, needs="nothing", cost="").needs == ()
    assert not whence.Method(sensitivity, MINE, needs="no gradients at all", cost="").differentiable
    assert not whence.METHODS["integrated_gradients"].differentiable, "it resumes the model, the first graph is saved"
    assert "gradients" in whence.METHODS["integrated_gradients"].needs


def test_decoded_scores_say_that_they_are_decoded_and_no_keep_probabilities() -> None:
    assert whence.METHODS["diffmask"].meaning.keep_probability
    meaning = DECODED["decoded_diffmask"].meaning
    assert "keep" in meaning.name
    assert (meaning.keep_probability, meaning.decoded, meaning.high) == (False, True, None)
    assert [name for name, method in whence.METHODS.items() if method.meaning.keep_probability] == ["diffmask"]
    assert [name for name, method in whence.METHODS.items() if method.meaning.decoded] == ["decoded_grad_cam"]
    assert "a head" in whence.METHODS["decoded_grad_cam"].needs


def test_a_model_knows_whether_it_is_embedded(bert: whence.LayeredModel) -> None:
    assert whence.load("topic").record.embedded == "topic"
    assert bert.record.embedded is None


def test_a_file_without_the_newer_fields_loads() -> None:
    explanation = whence.explain(whence.load(), "a fine film", "diffmask")
    assert explanation.meaning.keep_probability
    assert explanation.model.embedded == "sentiment"
    data = explanation.to_dict()
    assert whence.Explanation.from_dict(json.loads(json.dumps(data))) == explanation
    del data["meaning"]["keep_probability"], data["meaning"]["decoded"], data["model"]["embedded"]
    del data["notes"], data["units"]
    old = whence.Explanation.from_dict(data)
    assert old.meaning == explanation.meaning
    assert (old.model.embedded, old.notes, old.units) == (None, (), None)
    data["meaning"]["name"] = "decoded keep probability"
    assert whence.Explanation.from_dict(data).meaning.decoded
    assert not whence.Explanation.from_dict(data).meaning.keep_probability


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_rounding_is_told_from_what_is_small(dtype: torch.dtype) -> None:
    """An RMSNorm does not see the length of a state, so just below it gradient x input is zero in theory."""
    model = whence.load(tiny_models.build("llama").to(dtype), tiny_models.tokenizer_of("llama"))
    top = model.n_layers
    for method in ("gradient_x_input", "grad_cam"):
        found = whence.explain(model, ["a good film", "not the best movie of the year"], method, layers=[0, top])
        for one in found:
            assert not one.row(top).any()
            assert one.row(0).any()
            assert one.warnings == (
                f"nothing but rounding was left of the scores at layer {top}: a norm follows that does not see such a "
                "change of a state",
                f"all scores are zero at layer {top}",
            )
    assert whence.explain(model, "a good film", "gradient", layers=top).scores.any(), "the gradient itself is not zero"
