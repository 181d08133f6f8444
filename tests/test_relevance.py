"""Relevance: the authors' own numbers, a network made linear by hand, and what has no rule."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from complaints import complaint
from torch import Tensor, nn

import whence
from whence.models.held_still import Products, check_ruled, held_still, is_activation

BY_LXT = json.loads((Path(__file__).parent / "golden" / "relevance_by_lxt.json").read_text())["methods"]


@pytest.mark.parametrize(("method", "family"), [(method, family) for method in BY_LXT for family in BY_LXT[method]])
def test_relevance_equals_that_of_the_authors_package(method: str, family: str) -> None:
    theirs = BY_LXT[method][family]
    ours = whence.explain(
        tiny_models.tiny(family, theirs["head"]),
        tiny_models.LONG,
        method,
        layers="embeddings",
        target=theirs["label"],
        scale="logit",
    )
    assert ours.target.value == pytest.approx(theirs["value"], abs=1e-5)
    np.testing.assert_allclose(ours.scores[0], theirs["scores"], atol=1e-5)


def fixed_norm(norm: Any, seen: Tensor) -> Callable[[Tensor], Tensor]:
    """A LayerNorm or RMSNorm whose scale is that of the state seen."""
    if isinstance(norm, nn.LayerNorm):
        scale = (seen.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).rsqrt()
        return lambda x: norm.weight * (x - x.mean(dim=-1, keepdim=True)) * scale + norm.bias
    scale = (seen.pow(2).mean(dim=-1, keepdim=True) + norm.variance_epsilon).rsqrt()
    return lambda x: norm.weight * x * scale


def inputs_seen(model: nn.Module, ids: Tensor) -> dict[nn.Module, Tensor]:
    """What every module of the model was given in a plain pass."""
    seen: dict[nn.Module, Tensor] = {}
    hooks = [
        part.register_forward_pre_hook(lambda part, args: seen.__setitem__(part, args[0].detach()) if args else None)
        for part in model.modules()
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return seen


def by_heads(x: Tensor, n_heads: int) -> Tensor:
    return x.view(x.shape[0], n_heads, -1).transpose(0, 1)


def linear_bert(model: Any, ids: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The word embeddings of a BERT classifier, and its logits as a linear function of them."""
    seen, bert = inputs_seen(model, ids), model.bert
    attentions = model(ids, output_attentions=True).attentions

    def logits(words: Tensor) -> Tensor:
        table = bert.embeddings
        x = words + table.position_embeddings.weight[: ids.shape[1]] + table.token_type_embeddings.weight[0]
        x = fixed_norm(table.LayerNorm, seen[table.LayerNorm][0])(x)
        for block, weights in zip(bert.encoder.layer, attentions, strict=True):
            values = by_heads(block.attention.self.value(x), weights.shape[1])
            mixed = (weights[0] @ values).transpose(0, 1).reshape(x.shape)
            out = block.attention.output
            x = fixed_norm(out.LayerNorm, seen[out.LayerNorm][0])(out.dense(mixed) + x)
            before = seen[block.intermediate.intermediate_act_fn][0]
            inner = block.intermediate.dense(x) * (nn.functional.gelu(before) / before)
            x = fixed_norm(block.output.LayerNorm, seen[block.output.LayerNorm][0])(block.output.dense(inner) + x)
        before = bert.pooler.dense(x[0])
        fixed = seen[bert.pooler.activation][0]
        return model.classifier(before * (fixed.tanh() / fixed))

    return bert.embeddings.word_embeddings(ids)[0].detach(), logits


def linear_llama(model: Any, ids: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The same of a Llama, with its logits at the last token."""
    seen, llama = inputs_seen(model, ids), model.model
    attentions = model(ids, output_attentions=True).attentions

    def logits(words: Tensor) -> Tensor:
        x = words
        for block, weights in zip(llama.layers, attentions, strict=True):
            normed = fixed_norm(block.input_layernorm, seen[block.input_layernorm][0])(x)
            values = by_heads(block.self_attn.v_proj(normed), model.config.num_key_value_heads)
            values = values.repeat_interleave(weights.shape[1] // len(values), dim=0)
            x = x + block.self_attn.o_proj((weights[0] @ values).transpose(0, 1).flatten(1))
            normed = fixed_norm(block.post_attention_layernorm, seen[block.post_attention_layernorm][0])(x)
            gate = nn.functional.silu(block.mlp.gate_proj(seen[block.mlp.gate_proj][0]))
            x = x + block.mlp.down_proj(gate * block.mlp.up_proj(normed))
        return model.lm_head(fixed_norm(llama.norm, seen[llama.norm][0])(x)[-1])

    return llama.embed_tokens(ids)[0].detach(), logits


@pytest.mark.parametrize(
    ("family", "head", "linear"), [("bert", "classification", linear_bert), ("llama", "causal_lm", linear_llama)]
)
def test_held_still_is_the_jacobian_of_the_linear_network(family: str, head: str, linear: Any) -> None:
    model = tiny_models.build(family, head, attn_implementation="eager")
    ids = torch.tensor([tiny_models.tokenizer_of(family)(tiny_models.LONG)["input_ids"]])
    words, logits = linear(model, ids)
    plain = model(ids).logits[0] if head == "classification" else model(ids).logits[0, -1]
    torch.testing.assert_close(logits(words), plain, atol=1e-5, rtol=1e-5)  # it is that network
    label = int(plain.argmax())
    jacobian = torch.autograd.functional.jacobian(lambda x: logits(x)[label], words)
    found = whence.explain(
        whence.load(model, tiny_models.tokenizer_of(family)), tiny_models.LONG, "held_still", layers="embeddings"
    )
    np.testing.assert_allclose(found.scores[0], (words * jacobian).sum(dim=-1).detach(), atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2"])
def test_without_biases_the_shares_add_up_to_the_logit_at_every_layer(family: str) -> None:
    found = whence.explain(
        tiny_models.tiny(family, "causal_lm"), tiny_models.TEXTS, "held_still", layers=["embeddings", "all"]
    )
    for explanation in found:
        np.testing.assert_allclose(explanation.scores.sum(axis=1), explanation.target.value, rtol=1e-4, atol=1e-5)
        assert "add up to" in explanation.notes[0]


@pytest.mark.parametrize(
    ("family", "experts"),
    [
        ("Mixtral", {"num_local_experts": 4}),
        ("Qwen3Moe", {"num_experts": 4, "moe_intermediate_size": 24}),
        ("Olmoe", {"num_experts": 4}),
    ],
)
def test_a_mixture_of_experts_is_ruled_and_its_shares_add_up(family: str, experts: dict[str, int]) -> None:
    tokenizer = tiny_models.metaspace()
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, bos_token_id=None, eos_token_id=None,
        num_experts_per_tok=2, **experts,
    )  # fmt: skip
    model = whence.load(tiny_models.shaken(getattr(transformers, f"{family}ForCausalLM")(config)), tokenizer)
    found = whence.explain(model, tiny_models.SHORT, "held_still", layers=["embeddings", "all"])
    np.testing.assert_allclose(found.scores.sum(axis=1), found.target.value, rtol=1e-4)
    assert whence.explain(model, tiny_models.SHORT, "attn_lrp").scores.any()


@pytest.mark.parametrize("products", ["shared", "gated"])
@pytest.mark.parametrize(("family", "head"), tiny_models.CASES)
def test_values_stay_and_every_operation_is_ruled(family: str, head: str, products: Products) -> None:
    model = tiny_models.tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    inputs = model.collate([model.encode(*text) if isinstance(text, tuple) else model.encode(text) for text in texts])
    plain = model.states(inputs).logits
    with model.held(), held_still(model.module, products) as mode:
        still = model.states(inputs, differentiable=True).logits
    torch.testing.assert_close(still, plain, atol=1e-6, rtol=0)
    check_ruled(still)
    assert mode.ruled


def test_what_has_no_rule_is_named() -> None:
    problem, advice = complaint(
        whence.ModelError, whence.explain, tiny_models.tiny_plain("gru"), "a good film", "held_still"
    )
    assert problem.startswith("the model does something that relevance has no rule for: ")
    assert "of two states" in problem
    assert "integrated_gradients" in advice


def test_a_pass_outside_is_found_unruled() -> None:
    model = tiny_models.tiny("bert")
    logits = model.states(model.collate([model.encode(tiny_models.SHORT)]), differentiable=True).logits
    with pytest.raises(whence.ModelError, match="NativeLayerNorm"):
        check_ruled(logits)


def test_activations_are_told_by_what_they_do() -> None:
    assert all(map(is_activation, (nn.GELU().eval(), nn.Tanh().eval(), nn.SiLU().eval(), nn.ReLU().eval())))
    others = (nn.Softmax(dim=-1), nn.LayerNorm(2), nn.Identity(), nn.Dropout(), nn.Sequential(nn.Tanh()))
    assert not any(is_activation(part.eval()) for part in others)


def test_another_thread_sees_the_plain_model() -> None:
    model = tiny_models.tiny("bert")
    inputs = model.collate([model.encode(tiny_models.SHORT)])
    words = model.embed(inputs.ids).clone()

    def gradient() -> Tensor:
        given = words.clone().requires_grad_()
        return torch.autograd.grad(model.module(inputs_embeds=given).logits[0, 0], given)[0]

    quiet, found = gradient(), []
    with model.held(), held_still(model.module, "gated"):
        other = threading.Thread(target=lambda: found.append(gradient()))
        other.start()
        other.join()
    torch.testing.assert_close(found[0], quiet)


@pytest.mark.parametrize("method", ["held_still", "attn_lrp"])
@pytest.mark.parametrize(("family", "soaked"), [("bert", True), ("llama", False)])
def test_what_is_conserved_and_what_the_first_token_holds_are_told(family: str, soaked: bool, method: str) -> None:
    told = whence.explain(tiny_models.tiny(family), tiny_models.LONG, method, layers="embeddings")
    row = told.scores[0]
    first = abs(row[0]) / np.abs(row).sum()
    assert (first > 0.5) == soaked
    value = f"{row.sum():.3f} of {told.target.value:.3f}"
    assert told.notes == (f"scores at the embeddings add up to {value}; the first token holds {first:.0%}",)
    assert told.warnings == ((f"the first token ([CLS]) holds {first:.0%} of the scores' size",) if soaked else ())


@pytest.mark.parametrize("method", ["held_still", "attn_lrp"])
def test_a_contrast_and_a_log_probability_are_sums_of_logits(method: str) -> None:
    """One network held still gives the shares of every output, so those of a sum of outputs are their sum."""
    model = tiny_models.tiny("bert")
    of_each = [
        whence.explain(model, tiny_models.SHORT, method, target=label, scale="logit") for label in tiny_models.LABELS
    ]
    rather = whence.explain(model, tiny_models.SHORT, method, target=whence.Contrast("good", "bad"))
    np.testing.assert_allclose(rather.scores, of_each[2].scores - of_each[0].scores, atol=1e-6)
    log = whence.explain(model, tiny_models.SHORT, method, target="good", scale="log_probability")
    chances = torch.softmax(torch.tensor([each.target.value for each in of_each]), dim=0).tolist()
    mean = sum(chance * each.scores for chance, each in zip(chances, of_each, strict=True))
    np.testing.assert_allclose(log.scores, of_each[2].scores - mean, atol=1e-6)


def test_the_paper_s_name_is_an_alias() -> None:
    model = tiny_models.tiny("bert")
    one, other = (whence.explain(model, tiny_models.SHORT, name) for name in ("cp_lrp", "held_still"))
    assert np.array_equal(one.scores, other.scores)
    assert one.method == other.method == "held_still"


def test_the_usual_scale_of_a_next_token_is_the_more_faithful_one() -> None:
    decoder = tiny_models.tiny("gpt2", "causal_lm")
    text = tiny_models.TEXTS[1]
    for method, scale in {"attn_lrp": "log_probability", "held_still": "logit"}.items():
        assert whence.explain(decoder, text, method).target.scale == scale
        assert whence.explain(decoder, text, method, scale="probability").target.scale != scale
        assert whence.explain(tiny_models.tiny("gpt2"), text, method).target.scale == "logit"
