"""Which method explains when none is named, and that the explanation says why."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from tiny_models import TEXTS, tiny, tiny_plain

import whence


def usual(model: whence.LayeredModel, **settings: object) -> whence.Explanation:
    found: whence.Explanation = whence.explain(model, TEXTS[2], **settings)  # type: ignore[call-overload]
    assert found.notes[0].startswith(f"{found.method} is the usual method: ")
    return found


@pytest.mark.parametrize("name", ["sentiment", "topic"])
def test_a_model_that_comes_with_probes_is_explained_by_them(name: str) -> None:
    model = whence.load(name)
    assert usual(model).method == "one_pass"
    assert usual(model, part="shapley").meaning.name == "learned Shapley value"


def test_what_probes_cannot_tell_is_told_by_others() -> None:
    model = whence.load()
    assert usual(model, layers="all").method == "held_still"
    assert usual(model, scale="logit").method == "held_still"
    assert usual(model, steps=5).method == "integrated_gradients"


def test_other_models_are_held_still_where_they_can_be() -> None:
    assert usual(tiny("bert")).method == "held_still"
    assert usual(tiny("llama")).method == "held_still"
    assert usual(tiny_plain("gru")).method == "integrated_gradients"


class Sine(torch.nn.Module):
    """An activation that relevance has no rule for."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.sin()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_next_words_are_explained_by_relevance_or_else_by_leaving_words_out(family: str) -> None:
    assert usual(tiny(family, "causal_lm")).method == "attn_lrp"
    assert usual(tiny(family, "causal_lm"), layers=1).method == "attn_lrp"
    assert usual(tiny(family, "causal_lm"), steps=5).method == "integrated_gradients"


def test_next_words_of_a_model_without_rules_are_left_out_one_by_one() -> None:
    module = tiny_models.build("gpt2", "causal_lm")
    module.transformer.h[0].mlp.act = Sine()
    assert usual(whence.load(module, tiny_models.tokenizer_of("gpt2"))).method == "leave_one_out"


def test_a_model_that_hides_its_gradients_is_refused_as_before() -> None:
    module = tiny_models.build("bert")
    cut = module.bert.embeddings.register_forward_hook(lambda module, args, output: output.detach())
    try:
        with pytest.raises(whence.WhenceError):
            whence.explain(whence.load(module, tiny_models.wordpiece()), TEXTS[0])
    finally:
        cut.remove()


def test_who_names_a_method_is_told_nothing_of_the_usual_one() -> None:
    assert not any("usual" in note for note in whence.explain(tiny("bert"), TEXTS[0], "held_still").notes)
    assert whence.explain(tiny("bert"), []) == []
    with torch.inference_mode():
        assert usual(tiny("bert")).method == "held_still"
