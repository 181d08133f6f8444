"""Facts of decoders that would spoil an answer without a word: padding, tied heads, windows, norms, narrow numbers."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from complaints import complaint
from tiny_models import LONG, SHORT, TEXTS, tokenizer_of

import whence
from whence.models.hiding import Hiding, stand_in_word, usual_stand_in

ONE_PASS = ["gradient", "gradient_x_input", "attn_lrp", "held_still", "attention"]
MANY_PASSES = ["leave_one_out", "integrated_gradients"]


def scores(model: whence.LayeredModel, texts: list[str], method: str, **settings: Any) -> list[np.ndarray]:
    options: dict[str, Any] = {"steps": 5} if method == "integrated_gradients" else {}
    return [each.scores for each in whence.explain(model, texts, method, **options, **settings)]


def assert_alike(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize("method", [*ONE_PASS, *MANY_PASSES])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_tokenizer_that_pads_on_the_left_changes_nothing(family: str, method: str) -> None:
    """whence pads by itself, on the right, where positions stay what they are."""
    module = tiny_models.build(family, "causal_lm")
    lefty = copy.deepcopy(tokenizer_of(family))
    lefty.padding_side = lefty.truncation_side = "left"
    model = whence.load(module, lefty)
    expected = [scores(whence.load(module, tokenizer_of(family)), [text], method)[0] for text in TEXTS]
    assert_alike(scores(model, TEXTS, method), expected)
    assert lefty.padding_side == "left"


@pytest.mark.parametrize("method", [*ONE_PASS, *MANY_PASSES])
def test_without_a_padding_token_a_batch_gives_what_each_text_gives_alone(method: str) -> None:
    model = whence.load(tiny_models.build("qwen2", "causal_lm"), tiny_models.bare())
    assert model.tokenizer.padding is None
    assert_alike(scores(model, TEXTS, method), [scores(model, [text], method)[0] for text in TEXTS])


@pytest.mark.parametrize("method", [*ONE_PASS, *MANY_PASSES])
def test_a_tied_head_gets_no_share_of_the_words_gradients(method: str) -> None:
    """The table is read twice, below and above; only what the words do below is explained."""
    tied = tiny_models.build("llama", "causal_lm", tie_word_embeddings=True)
    apart = tiny_models.build("llama", "causal_lm", tie_word_embeddings=False)
    apart.load_state_dict({**tied.state_dict(), "lm_head.weight": tied.get_input_embeddings().weight})
    found = [scores(whence.load(module, tokenizer_of("llama")), TEXTS, method) for module in (tied, apart)]
    assert_alike(*found)
    assert tied.lm_head.weight is tied.get_input_embeddings().weight, "still tied"


def mistral(**settings: Any) -> whence.LayeredModel:
    known = {**tiny_models.GROUPED, "num_hidden_layers": 1, "sliding_window": 4, **settings}
    config = transformers.MistralConfig(vocab_size=len(tiny_models.metaspace()), pad_token_id=0, **known)
    torch.manual_seed(0)
    return whence.load(tiny_models.shaken(transformers.MistralForCausalLM(config)), tiny_models.metaspace())


@pytest.mark.parametrize("method", ["gradient", "attn_lrp", "held_still", "attention", "leave_one_out"])
@pytest.mark.parametrize("budget", [1, 2_048])
def test_what_lies_outside_the_window_has_no_share(method: str, budget: int) -> None:
    layers: Any = 1 if method == "attention" else "embeddings"
    settings: dict[str, Any] = {"baseline": "zero"} if method == "leave_one_out" else {}
    (found,) = scores(mistral(), [LONG], method, layers=layers, batch_tokens=budget, **settings)
    np.testing.assert_allclose(found[0, :-4], 0, atol=1e-6)
    assert np.abs(found[0, -4:]).min() > 1e-5
    (wide,) = scores(mistral(sliding_window=None), [LONG], method, layers=layers, batch_tokens=budget, **settings)
    assert np.abs(wide[0, :-4]).max() > 1e-4


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3", "mistral"])
def test_shares_of_the_network_held_still_add_up_whatever_norms_queries_and_keys_pass(family: str) -> None:
    """None of these has a bias, so that nothing of the logit is left over."""
    if family == "mistral":
        model = mistral(num_hidden_layers=3)
    else:
        model = whence.load(tiny_models.build(family, "causal_lm"), tokenizer_of(family))
    normed = any(name.endswith("q_norm") for name, _ in model.module.named_modules())
    assert normed == (family in ("qwen3", "gemma3"))
    for found in whence.explain(model, TEXTS, "held_still", layers="all", scale="logit"):
        np.testing.assert_allclose(found.scores.sum(axis=1), found.target.value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", [*ONE_PASS, *MANY_PASSES])
def test_bfloat16_on_a_cpu_says_what_float32_says(method: str) -> None:
    module = tiny_models.build("llama", "causal_lm")
    narrow = whence.load(copy.deepcopy(module).bfloat16(), tokenizer_of("llama"))
    said = said_by(module)
    (found,) = scores(narrow, [LONG], method, target=said)
    (expected,) = scores(whence.load(module, tokenizer_of("llama")), [LONG], method, target=said)
    assert np.isfinite(found).all()
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98
    assert next(narrow.module.parameters()).dtype == torch.bfloat16, "the model keeps its numbers"


def said_by(module: Any) -> int:
    """What the model says after the text, by transformers alone."""
    ids = tokenizer_of("llama")(LONG, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return int(module(ids).logits[0, -1].argmax())


def test_a_target_after_a_text_has_the_space_that_is_written_there() -> None:
    model = whence.load(tiny_models.build("gpt2", "causal_lm"), tokenizer_of("gpt2"))
    named, exact = (whence.explain(model, SHORT, "gradient", target=label).target for label in ("the", " the"))
    assert named == exact
    joined = whence.explain(model, f"{SHORT} ", "gradient", target="the").target
    assert (joined.description, exact.description) == ("the", '" the"')


def write_gguf(file: Path) -> Any:
    """A tiny Llama and a byte-level tokenizer as a GGUF file, written by the format's own package."""
    gguf = pytest.importorskip("gguf", reason="no package to write GGUF files with: pip install gguf")
    backend = tiny_models.bare().backend_tokenizer
    told = json.loads(backend.to_str())["model"]
    module = tiny_models.build(
        "llama", "causal_lm", vocab_size=len(told["vocab"]), hidden_size=32, head_dim=16, intermediate_size=32,
        pad_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    config, writer = module.config, gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(told["vocab"]))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(told["vocab"], key=told["vocab"].get))
    writer.add_token_types([1] * len(told["vocab"]))
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in told["merges"]])
    writer.add_eos_token_id(0)
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
        "model.layers": "blk",
    }  # fmt: skip
    for name, weight in module.state_dict().items():
        values = weight.float().numpy()
        for heads, part in ((config.num_attention_heads, "q_proj"), (config.num_key_value_heads, "k_proj")):
            if part in name:  # the format turns pairs of neighbours, transformers halves
                values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        for long, short in names.items():
            name = name.replace(long, short)
        writer.add_tensor(name, values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return module


def test_a_folder_with_one_gguf_file_is_a_model(tmp_path: Path) -> None:
    module = write_gguf(tmp_path / "tiny.gguf")
    model = whence.load(tmp_path)
    assert (model.record.task, model.n_layers) == ("causal_lm", 3)
    expected = whence.explain(whence.load(module, tiny_models.bare()), TEXTS, "gradient", layers="all")
    for one, other in zip(whence.explain(model, TEXTS, "gradient", layers="all"), expected, strict=True):
        assert [token.id for token in one.tokens] == [token.id for token in other.tokens]
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-3, atol=1e-4)


def test_without_the_package_that_reads_gguf_files_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").touch()

    def missing(*_: Any, **__: Any) -> Any:
        raise ImportError("Please install torch and gguf>=0.10.0 to load a GGUF checkpoint in PyTorch.")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", missing)
    problem, advice = complaint(whence.FileError, whence.load, tmp_path)
    assert "gguf>=0.10.0" in problem
    assert advice == "GGUF files are read by a package of their own: pip install gguf"


@pytest.mark.parametrize(("family", "word"), [("llama", "▁the"), ("gpt2", "Ġthe"), ("gemma3", "▁the")])
def test_a_common_word_stands_in_for_a_token_of_a_prompt(family: str, word: str) -> None:
    """Not a control token, which would say more than the absence of the word; and the record tells which."""
    model = whence.load(tiny_models.build(family, "causal_lm"), tokenizer_of(family))
    for method in ("leave_one_out", "integrated_gradients"):
        options: dict[str, Any] = {"steps": 4} if method == "integrated_gradients" else {}
        usual = whence.explain(model, LONG, method, **options)
        assert usual.options["baseline"] == word
        given = whence.explain(model, LONG, method, baseline=model.tokenizer.id_of(word), special=False, **options)
        assert usual.tokens[0].special == (family != "gpt2")
        free = [not token.special for token in usual.tokens]
        np.testing.assert_allclose(usual.scores[:, free], given.scores[:, free], atol=1e-5)
    hiding = Hiding.of(model, "auto")
    assert (hiding.stand_in, hiding.told) == (word, f"mask_and_attention, {word}")
    np.testing.assert_array_equal(
        stand_in_word(model, word), model.embed(torch.tensor([[model.tokenizer.id_of(word)]]))[0, 0]
    )


def test_who_does_not_say_the_next_token_keeps_the_usual_stand_in() -> None:
    classifier, filler = tiny_models.tiny("llama"), tiny_models.tiny("bert", "masked_lm")
    assert [Hiding.of(model, "auto").told for model in (classifier, filler)] == ["mask_and_attention"] * 2
    assert [usual_stand_in(model) for model in (classifier, filler)] == ["pad", "mask"]


def test_where_no_common_word_is_a_token_the_padding_stands_in() -> None:
    tokenizer = copy.deepcopy(tokenizer_of("llama"))
    model = whence.load(tiny_models.build("llama", "causal_lm"), tokenizer)
    object.__setattr__(model.tokenizer, "id_of", lambda token: None)
    assert usual_stand_in(model) == "pad"
