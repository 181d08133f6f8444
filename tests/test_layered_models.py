"""Every family with every head: states are the model's own, and the model can be resumed from any of them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from tiny_models import CASES, FAMILIES, LABELS, SHORT, TEXTS, tiny, tiny_plain
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

import whence
from whence.models import layered
from whence.models.inputs import Inputs
from whence.models.joining import Shared, shared_arguments

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
every_case = pytest.mark.parametrize(("family", "head"), CASES, ids=["-".join(case) for case in CASES])
every_plain = pytest.mark.parametrize("name", tiny_models.PLAIN)
every_family = pytest.mark.parametrize("family", FAMILIES)


def batch(model: whence.LayeredModel, texts: list[Any]) -> Inputs:
    pairs = [text if isinstance(text, tuple) else (text, None) for text in texts]
    return model.collate([model.encode(*pair) for pair in pairs])


def all_layers(model: whence.LayeredModel) -> list[whence.Layer]:
    return ["embeddings", *range(model.n_layers + 1)]


def real_blocks(model: whence.LayeredModel, family: str) -> list[nn.Module]:
    """The blocks by their known place, not as whence found them."""
    base: Any = model.module.base_model
    return list(base.get_submodule(FAMILIES[family].blocks))


@contextlib.contextmanager
def counted(blocks: list[nn.Module]) -> Iterator[list[int]]:
    """How often each block really runs: calls of its last matrix, which knows nothing of whence."""
    calls = [0] * len(blocks)

    def count(i: int) -> Any:
        def hook(*_: Any) -> None:
            calls[i] += 1

        return hook

    matrices = [
        [part for part in block.modules() if isinstance(part, (nn.Linear, Conv1D, nn.GRU))][-1] for block in blocks
    ]
    handles = [matrix.register_forward_hook(count(i)) for i, matrix in enumerate(matrices)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def check_resume(model: whence.LayeredModel, inputs: Inputs, blocks: list[nn.Module]) -> None:
    states = model.states(inputs)
    model.resume(model.n_layers, states.hidden[-1], inputs)  # the first resumption may rehearse
    generator = torch.Generator().manual_seed(0)
    for layer in all_layers(model):
        with counted(blocks) as calls:
            logits = model.resume(layer, states.at(layer), inputs)
        torch.testing.assert_close(logits, states.logits, **CLOSE)
        assert sum(calls) == model.n_layers - (0 if isinstance(layer, str) else layer), f"blocks run from layer {layer}"
        h = states.at(layer)
        other = model.resume(layer, h + torch.randn(h.shape, generator=generator), inputs)
        moved = (other - states.logits).abs().flatten(1).amax(dim=1)
        assert (moved > 1e-3).all(), f"a changed state at layer {layer} leaves the output as it was"


def check_resume_each(model: whence.LayeredModel, inputs: Inputs) -> None:
    """Several layers in one pass, also one of them twice, equal each by itself."""
    states = model.states(inputs)
    generator = torch.Generator().manual_seed(0)
    twice: list[whence.Layer] = ["embeddings", "embeddings"]
    for layers in (all_layers(model), twice, all_layers(model)[2:]):
        hidden = [states.at(layer) + torch.randn(states.at(layer).shape, generator=generator) for layer in layers]
        with torch.no_grad():
            together = model.resume_each(layers, hidden, inputs)
            alone = [model.resume(layer, h, inputs) for layer, h in zip(layers, hidden, strict=True)]
        torch.testing.assert_close(together, torch.stack(alone), **CLOSE)
        assert (together[0] - together[-1]).abs().max() > 1e-3


@every_case
def test_many_layers_are_resumed_in_one_pass(family: str, head: str) -> None:
    model = tiny(family, head)
    check_resume_each(model, batch(model, tiny_models.texts_for(family, head)))


@pytest.mark.parametrize(("family", "head"), [("bert", "classification"), ("deberta-v3", "classification"),
                                              ("mpnet", "classification"), ("llama", "causal_lm")])  # fmt: skip
def test_copies_join_a_pass_at_their_own_layer(family: str, head: str) -> None:
    """A block sees the texts of the copies that have come so far, and gradients are those of each copy by itself."""
    model = tiny(family, head)
    inputs = batch(model, TEXTS[:3])
    states, layers = model.states(inputs), all_layers(model)
    model.resume_each(layers, [states.at(layer) for layer in layers], inputs)  # the first time it is looked at
    hidden = [states.at(layer).clone().requires_grad_() for layer in layers]
    seen: list[int] = []

    def look(matrix: nn.Module, args: Any) -> None:
        seen.append(len(args[0]))

    matrices = [[part for part in block.modules() if isinstance(part, nn.Linear)][-1]
                for block in real_blocks(model, family)]  # fmt: skip
    handles = [matrix.register_forward_pre_hook(look) for matrix in matrices]
    with model.held():
        together = model.resume_each(layers, hidden, inputs)
    for handle in handles:
        handle.remove()
    assert seen == [len(inputs) * (layer + 1) for layer in range(1, model.n_layers + 1)]
    gradients = torch.autograd.grad(together.square().sum(), hidden)
    for layer, state, own in zip(layers, hidden, gradients, strict=True):
        alone = torch.autograd.grad(model.resume(layer, state, inputs).square().sum(), state)[0]
        torch.testing.assert_close(own, alone, **CLOSE)


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
def test_what_a_copy_joins_is_believed_only_if_it_says_the_same(
    monkeypatch: pytest.MonkeyPatch, autocast: bool
) -> None:
    model = tiny("bert", "classification")
    inputs = batch(model, TEXTS[:2])
    states, layers = model.states(inputs), all_layers(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        model.resume_each(layers, [states.at(layer) for layer in layers], inputs)
    assert layered._SHARED.pop(model) == Shared(frozenset())

    def first_is_lost(self: Shared, rows: int, of: int, args: Any, kwargs: Any) -> Any:
        args, kwargs = first(self, rows, of, args, kwargs)
        return (torch.zeros_like(args[0]), *args[1:]), kwargs

    first = Shared.first
    monkeypatch.setattr(Shared, "first", first_is_lost)
    model.resume_each(layers, [states.at(layer) for layer in layers], inputs)
    assert layered._SHARED.pop(model) is None


def test_arguments_that_all_texts_share_are_told_from_those_with_a_row_for_each() -> None:
    class Block(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args[0]

    block, table = Block(), torch.ones(5, 2)

    def rows(count: int) -> Tensor:
        return torch.ones(count, 2)

    def told(call: Any) -> Shared | None:
        return shared_arguments([block], call)

    found = told(lambda count: block(rows(count), None, table, both=(rows(count), table[:1])))
    assert found == Shared(frozenset({(2,)}))
    args, named = found.first(3, 5, (rows(5), None, table), {"both": [rows(5), rows(1)]})
    assert [len(args[0]), args[1], len(args[2])] == [3, None, 5]
    assert [len(each) for each in named["both"]] == [3, 1]
    assert told(lambda count: block(rows(count), rows(4 * count))) is None, "such as one row a text and attention head"
    assert told(lambda count: block(rows(count), {"what": "is this"})) is None
    assert told(lambda count: block(rows(count), *[rows(count)] * (count - 2))) is None
    assert told(lambda count: [block(rows(count)), block(rows(count + 1))]) is None


@every_plain
def test_many_layers_of_plain_modules_are_resumed_in_one_pass(name: str) -> None:
    model = tiny_plain(name)
    check_resume_each(model, batch(model, TEXTS))


@every_case
def test_resume_equals_the_full_forward_and_runs_only_the_blocks_above(family: str, head: str) -> None:
    model = tiny(family, head)
    check_resume(model, batch(model, tiny_models.texts_for(family, head)), real_blocks(model, family))


@every_plain
def test_plain_modules_resume_too(name: str) -> None:
    model = tiny_plain(name)
    blocks: list[nn.Module] = [model.module.first, model.module.second]  # type: ignore[list-item]
    check_resume(model, batch(model, TEXTS), blocks)


@every_case
def test_the_logits_are_the_models_own(family: str, head: str) -> None:
    """Padded by whence or by nobody: the same as calling the model on the one text by hand."""
    model, tokenizer = tiny(family, head), tiny_models.tokenizer_of(family)
    for text in tiny_models.texts_for(family, head):
        inputs = batch(model, [text])
        whole = tokenizer(*(text if isinstance(text, tuple) else (text,)), return_tensors="pt")
        taken = inspect.signature(model.module.forward).parameters
        by_hand = {name: value for name, value in whole.items() if name in taken}
        with torch.no_grad():
            output = model.module(**by_hand)
        if head == "question_answering":
            expected = torch.stack([output.start_logits, output.end_logits], dim=-1)
        elif inputs.read_at is not None:
            expected = output.logits[:, int(inputs.read_at)]
        else:
            expected = output.logits
        torch.testing.assert_close(model.states(inputs).logits, expected, **CLOSE)


@every_case
def test_states_are_transformers_own_hidden_states(family: str, head: str) -> None:
    model = tiny(family, head)
    inputs = batch(model, tiny_models.texts_for(family, head)[:1])
    with torch.no_grad():
        output = model.module(
            input_ids=inputs.ids, attention_mask=inputs.mask.long(), **inputs.features, output_hidden_states=True
        )
    states = model.states(inputs)
    assert len(states.hidden) == len(output.hidden_states) == model.n_layers + 1
    for layer in range(model.n_layers):  # the last may come after a final norm
        torch.testing.assert_close(states.hidden[layer], output.hidden_states[layer], **CLOSE)
    embedding: nn.Module = model.module.get_input_embeddings()  # type: ignore[operator]
    torch.testing.assert_close(states.embeddings, embedding(inputs.ids), **CLOSE)


@every_family
def test_the_blocks_found_are_the_blocks(family: str) -> None:
    model = tiny(family)
    assert list(model.stack.blocks) == real_blocks(model, family)
    config: Any = model.module.config
    assert model.n_layers == config.num_hidden_layers


def scored(model: whence.LayeredModel, texts: Any, method: str) -> Any:
    options: dict[str, dict[str, Any]] = {
        "gradient_x_input": {"layers": ["embeddings", "all"]},
        "leave_one_out": {"layers": ["embeddings", 0, 1, -1]},
        "integrated_gradients": {"layers": ["embeddings", 1], "steps": 3},
        "attention": {},
    }
    return whence.explain(model, texts, method, **options[method])


def check_batch_is_single(model: whence.LayeredModel, texts: list[Any]) -> None:
    inputs = batch(model, texts)
    together = model.states(inputs)
    for row, text in enumerate(texts):
        one = batch(model, [text])
        alone = model.states(one)
        length = one.ids.shape[1]
        for layer in all_layers(model):
            torch.testing.assert_close(together.at(layer)[row, :length], alone.at(layer)[0], **CLOSE)
        logits = together.logits[row]
        torch.testing.assert_close(logits[:length] if logits.ndim == 2 else logits, alone.logits[0], **CLOSE)


METHODS = ["gradient_x_input", "leave_one_out", "integrated_gradients"]


def check_scores_in_a_batch(model: whence.LayeredModel, texts: list[Any], method: str) -> None:
    together = scored(model, texts, method)
    assert len({len(explanation.tokens) for explanation in together}) > 1, "no padding, nothing tested"
    for text, inside in zip(texts, together, strict=True):
        alone = scored(model, text, method)
        assert alone.target.description == inside.target.description
        assert alone.target.value == pytest.approx(inside.target.value, rel=1e-5, abs=1e-5)
        assert alone.prediction.label == inside.prediction.label
        np.testing.assert_allclose(inside.scores, alone.scores, **CLOSE)
        assert np.abs(alone.scores).max() > 1e-3, "no score to compare"


@every_case
def test_a_text_alone_and_in_a_batch_have_the_same_states(family: str, head: str) -> None:
    check_batch_is_single(tiny(family, head), tiny_models.texts_for(family, head))


@every_plain
def test_plain_modules_have_the_same_states_in_a_batch(name: str) -> None:
    check_batch_is_single(tiny_plain(name), TEXTS)


@pytest.mark.filterwarnings("ignore::whence.WhenceWarning")  # three steps do not add up
@pytest.mark.parametrize("method", METHODS)
@every_case
def test_a_text_alone_and_in_a_batch_have_the_same_scores(family: str, head: str, method: str) -> None:
    check_scores_in_a_batch(tiny(family, head), tiny_models.texts_for(family, head), method)


@every_family
def test_attention_is_the_same_in_a_batch(family: str) -> None:
    check_scores_in_a_batch(tiny(family), TEXTS, "attention")


@pytest.mark.filterwarnings("ignore::whence.WhenceWarning")
@pytest.mark.parametrize("method", METHODS)
@every_plain
def test_plain_modules_have_the_same_scores_in_a_batch(name: str, method: str) -> None:
    check_scores_in_a_batch(tiny_plain(name), TEXTS, method)


@pytest.mark.parametrize("family", ["bert", "roberta", "llama", "gpt2"])
def test_a_tokenizer_that_pads_left_changes_nothing(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(family)
    before = scored(model, TEXTS, "gradient_x_input")
    monkeypatch.setattr(tiny_models.tokenizer_of(family), "padding_side", "left")
    check_batch_is_single(model, TEXTS)
    for left, right in zip(scored(model, TEXTS, "gradient_x_input"), before, strict=True):
        np.testing.assert_array_equal(left.scores, right.scores)


@every_family
def test_a_token_budget_changes_nothing(family: str) -> None:
    model = tiny(family)
    at_once = whence.explain(model, TEXTS, "leave_one_out", layers=[0, 1])
    bit_by_bit = whence.explain(model, TEXTS, "leave_one_out", layers=[0, 1], batch_tokens=1)
    for one, other in zip(at_once, bit_by_bit, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, **CLOSE)


def check_gradients(model: whence.LayeredModel, inputs: Inputs) -> None:
    states = model.states(inputs, differentiable=True)
    direction = torch.randn(states.logits.shape, generator=torch.Generator().manual_seed(0))
    reached: list[Tensor] = [states.at(layer) for layer in all_layers(model)]
    gradients = torch.autograd.grad((states.logits * direction).sum(), reached)
    for layer, gradient in zip(all_layers(model), gradients, strict=True):
        h = states.at(layer).detach().requires_grad_()
        (resumed,) = torch.autograd.grad((model.resume(layer, h, inputs) * direction).sum(), h)
        real = inputs.mask[..., None]
        torch.testing.assert_close(resumed * real, gradient * real, **CLOSE)
        assert gradient.abs().max() > 1e-3


@every_case
def test_one_backward_pass_gives_the_gradient_of_every_layer(family: str, head: str) -> None:
    model = tiny(family, head)
    check_gradients(model, batch(model, tiny_models.texts_for(family, head)))


@every_plain
def test_gradients_of_plain_modules(name: str) -> None:
    model = tiny_plain(name)
    check_gradients(model, batch(model, TEXTS))


def check_changed(model: whence.LayeredModel, inputs: Inputs, blocks: list[nn.Module]) -> None:
    """A state read and replaced in one pass equals one that was read before and put in its place."""
    states = model.states(inputs)
    for layer in all_layers(model):
        seen: list[Tensor] = []

        def change(h: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(h)
            return h.flip(-1) + 0.5

        with counted(blocks) as calls, torch.no_grad():
            changed = model.changed(layer, change, inputs)
        assert len(seen) == 1
        assert sum(calls) == model.n_layers
        torch.testing.assert_close(seen[0], states.at(layer), **CLOSE)
        resumed = model.resume(layer, states.at(layer).flip(-1) + 0.5, inputs)
        torch.testing.assert_close(changed, resumed, **CLOSE)
        assert (changed - states.logits).abs().max() > 1e-3


@every_case
def test_a_state_can_be_changed_in_the_pass_that_reads_it(family: str, head: str) -> None:
    model = tiny(family, head)
    check_changed(model, batch(model, tiny_models.texts_for(family, head)), real_blocks(model, family))


@every_plain
def test_states_of_plain_modules_can_be_changed_in_one_pass(name: str) -> None:
    model = tiny_plain(name)
    blocks: list[nn.Module] = [model.module.first, model.module.second]  # type: ignore[list-item]
    check_changed(model, batch(model, TEXTS), blocks)


def test_there_is_nothing_to_change_above_the_last_layer(bert: whence.LayeredModel) -> None:
    for layer in (-1, 4):
        with pytest.raises(whence.UnknownNameError, match=f"unknown layer {layer}"):
            bert.changed(layer, lambda h: h, batch(bert, TEXTS))


@every_family
def test_other_word_embeddings_give_other_states(family: str) -> None:
    """What DiffMask needs: states and output when the raw word embeddings are replaced."""
    model = tiny(family)
    inputs = batch(model, TEXTS)
    words = model.embed(inputs.ids.flip(0))
    replaced = model.states(inputs, embeddings=words)
    torch.testing.assert_close(replaced.embeddings, words)
    torch.testing.assert_close(replaced.logits, model.resume("embeddings", words, inputs), **CLOSE)
    assert (replaced.hidden[0] - model.states(inputs).hidden[0]).abs().max() > 1e-3


def test_albert_with_two_blocks_in_a_group() -> None:
    model = whence.load(
        tiny_models.build("albert", num_hidden_layers=2, num_hidden_groups=1, inner_group_num=2),
        tiny_models.wordpiece(),
    )
    assert model.n_layers == 2
    inputs = batch(model, TEXTS)
    states = model.states(inputs)
    for layer in all_layers(model):
        torch.testing.assert_close(model.resume(layer, states.at(layer), inputs), states.logits, **CLOSE)
    check_batch_is_single(model, TEXTS)


def test_the_first_resume_needs_no_states_before(bert: whence.LayeredModel) -> None:
    for model in (bert, whence.load(tiny_models.build("deberta-v2"), tiny_models.wordpiece())):
        inputs = batch(model, TEXTS)
        h = model.module.base_model.embeddings(inputs.ids).detach()  # type: ignore[union-attr,operator]
        fresh = model.resume(model.n_layers, h, inputs)
        torch.testing.assert_close(fresh, model.resume(model.n_layers, h, inputs))


def test_a_compiled_model_is_read_through_its_original(bert: whence.LayeredModel) -> None:
    compiled: Any = torch.compile(bert.module, backend="eager")
    assert compiled is not bert.module
    model = whence.load(compiled, tiny_models.wordpiece())
    assert model.module is bert.module
    check_resume(model, batch(model, TEXTS), real_blocks(model, "bert"))


# Decoders whose config names no padding.


@pytest.mark.parametrize("family", ["gpt2", "gpt-neox", "qwen2", "qwen3", "opt"])
def test_a_decoder_without_padding_classifies_a_batch(family: str) -> None:
    model = tiny(family)
    config: Any = model.module.config
    assert config.pad_token_id is None
    assert model.tokenizer.padding is None
    check_batch_is_single(model, TEXTS)
    same_length = [TEXTS[0], TEXTS[0], TEXTS[0].replace("w", "f")]
    check_batch_is_single(model, same_length)
    assert config.pad_token_id is None


@pytest.mark.parametrize("padding", [None, -1])
def test_a_text_that_ends_in_the_padding_token_is_read_to_its_end(padding: int | None) -> None:
    """`tokenizer.pad_token = tokenizer.eos_token` is common; the config still names no padding, or none that exists."""
    model = whence.load(tiny_models.build("llama"), tiny_models.metaspace())
    config: Any = model.module.config
    config.pad_token_id = padding
    check_batch_is_single(model, [f"{SHORT} <pad>", *TEXTS])
    assert config.pad_token_id == padding


# What cannot be wrapped says so.


class Odd(transformers.PreTrainedModel):
    """A family that transformers does not know, whose config does not say how many layers there are."""

    config_class = transformers.PreTrainedConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.words = nn.Embedding(len(tiny_models.wordpiece()), 8)
        self.backbone = nn.ModuleDict(
            {"steps": nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)])}
        )
        self.out = nn.Linear(8, 3)

    def get_input_embeddings(self) -> nn.Module:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor, return_dict: bool = True) -> Any:
        h = self.words(input_ids)
        for step in self.backbone["steps"]:  # type: ignore[attr-defined]
            h = step(h)
        weights = attention_mask[..., None].to(h)
        logits = self.out((h * weights).sum(dim=1) / weights.sum(dim=1))
        return transformers.modeling_outputs.SequenceClassifierOutput(logits=logits)


class OddForSequenceClassification(Odd):
    pass


def test_an_unknown_architecture_says_what_it_looked_for_found_and_wants() -> None:
    model = tiny_models.shaken(OddForSequenceClassification(transformers.PreTrainedConfig(num_labels=3)))  # type: ignore[call-arg]
    tokenizer = tiny_models.wordpiece()
    with pytest.raises(whence.UnknownArchitectureError) as caught:
        whence.load(model, tokenizer)
    assert str(caught.value).splitlines() == [
        "no stack of blocks found in OddForSequenceClassification",
        "  looked for:  config.num_hidden_layers",
        "  found:       backbone.steps (3 x Sequential)",
        "  next:        whence.load(model, tokenizer, blocks=model.backbone.steps)",
    ]
    call = str(caught.value).split("next:")[1].strip()
    layered = eval(call, {"whence": whence, "model": model, "tokenizer": tokenizer})
    check_resume(layered, batch(layered, TEXTS), list(model.backbone["steps"]))
    check_batch_is_single(layered, TEXTS)


def test_a_wrong_number_of_layers_is_found_out() -> None:
    model = tiny_models.shaken(OddForSequenceClassification(transformers.PreTrainedConfig(num_labels=3)))  # type: ignore[call-arg]
    blocks = [*model.backbone["steps"], nn.Linear(8, 8)]
    layered = whence.load(model, tiny_models.wordpiece(), blocks=blocks)
    with pytest.raises(
        whence.ModelError, match="expected 4 calls of the blocks in a forward pass, counted 3\ngive the blo"
    ):
        whence.explain(layered, SHORT)


def small_t5(kind: str) -> Any:
    config = transformers.T5Config(  # type: ignore[call-arg]
        vocab_size=len(tiny_models.wordpiece()), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        num_labels=3, pad_token_id=0, eos_token_id=3, decoder_start_token_id=0,
    )  # fmt: skip
    return tiny_models.shaken(getattr(transformers, kind)(config))


def test_two_stacks_are_one_too_many() -> None:
    model = small_t5("T5ForSequenceClassification")
    with pytest.raises(whence.UnknownArchitectureError) as caught:
        whence.load(model, tiny_models.wordpiece())
    lines = str(caught.value).splitlines()
    assert lines[0] == "more than one stack of blocks found in T5ForSequenceClassification"
    assert "transformer.encoder.block (2 x T5Block)" in lines[2]
    assert "transformer.decoder.block (2 x T5Block)" in lines[2]
    assert lines[3] == ("  next:        none yet: the blocks hand on position biases, so none can be resumed by itself")


def test_one_of_two_stacks_can_be_chosen() -> None:
    config = transformers.BartConfig(  # type: ignore[call-arg]
        vocab_size=len(tiny_models.wordpiece()), d_model=16, encoder_layers=2, decoder_layers=2, num_labels=3,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
        max_position_embeddings=64, pad_token_id=0, eos_token_id=3, bos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip
    model = tiny_models.shaken(transformers.BartForSequenceClassification(config))
    tokenizer = tiny_models.wordpiece()
    with pytest.raises(whence.UnknownArchitectureError, match="more than one stack of blocks found in Bart") as caught:
        whence.load(model, tokenizer)
    advice = (
        "whence.load(model, tokenizer, blocks=model.model.encoder.layers, embedding=the embedding in front of them)"
    )
    assert advice in str(caught.value)
    encoder = model.model.encoder
    layered = whence.load(model, tokenizer, blocks=encoder.layers, embedding=encoder.embed_tokens)
    check_resume(layered, batch(layered, TEXTS), list(encoder.layers))


def test_blocks_that_hand_on_more_than_a_state_are_refused() -> None:
    """T5's first block computes position biases for all: skipping it would give other numbers without a word."""
    module, tokenizer = small_t5("T5ForTokenClassification"), tiny_models.wordpiece()
    with pytest.raises(
        whence.ModelError, match="the word embedding was not called in the forward pass\ngive it as embedding="
    ):
        whence.explain(whence.load(module, tokenizer), SHORT)
    model = whence.load(module, tokenizer, embedding=module.transformer.encoder.embed_tokens)
    inputs = batch(model, TEXTS)
    h = model.states(inputs).hidden[1]
    with pytest.raises(whence.ModelError) as caught:
        model.resume(1, h, inputs)
    assert str(caught.value).splitlines() == [
        "T5ForTokenClassification cannot be resumed at layer 1: its blocks hand on more",
        "give as blocks= modules whose first output is all that the modules after them read",
    ]


class LastState(tiny_models.GRUClassifier):
    """Bare GRUs, and a head that reads what the last one returns beside its states."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = self.first.cell, self.second.cell  # type: ignore[assignment]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        h, _ = self.first(self.embedding(ids))
        _, last = self.second(h)
        logits: Tensor = self.head(last[-1])
        return logits


def test_a_head_that_reads_more_than_the_last_state_is_refused() -> None:
    module = tiny_models.shaken(LastState())
    model = whence.load(module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=LABELS)
    with pytest.raises(whence.ModelError, match="LastState cannot be resumed at layer 2: its blocks hand on more"):
        whence.explain(model, SHORT, "leave_one_out", layers=[2])


def test_a_tokenizer_without_character_offsets_is_refused() -> None:
    slow = transformers.CanineTokenizer()
    with pytest.raises(whence.UsageError) as caught:
        whence.load(tiny_models.build("bert"), slow)
    assert str(caught.value).splitlines() == [
        "CanineTokenizer does not say which characters a token comes from",
        "load a fast tokenizer: AutoTokenizer.from_pretrained(...)",
    ]


def test_plain_modules_must_be_told() -> None:
    module, tokenizer = tiny_models.build_plain("mlp"), tiny_models.word_tokenizer()
    with pytest.raises(whence.UsageError, match="MLPClassifier is a plain module: whence must be told its layers and"):
        whence.load(module, tokenizer)
    with pytest.raises(whence.UsageError, match="a loaded model needs its tokenizer\n"):
        whence.load(module)
    blocks: list[Any] = [module.first, module.second]
    with pytest.raises(whence.UsageError, match=r"returned logits of shape \(1, 3\)\nexpected \(1, 2\)"):
        whence.explain(whence.load(module, tokenizer, blocks=blocks, labels=["no", "yes"]), SHORT)
    with pytest.raises(whence.UsageError, match="str is no tokenizer for a plain module: it lacks id_of\n"):
        whence.load(module, "a tokenizer", blocks=blocks, labels=LABELS)  # type: ignore[arg-type]
    module.other = nn.Embedding(3, 3)
    with pytest.raises(whence.UsageError, match="has 2 embedding tables\nsay which reads the words: embedding="):
        whence.load(module, tokenizer, blocks=blocks, labels=LABELS)
    told = whence.load(module, tokenizer, blocks=blocks, labels=LABELS, embedding=module.embedding)
    assert whence.explain(told, SHORT, "leave_one_out").scores.shape == (1, 3)


@pytest.mark.parametrize("name", tiny_models.TOKENIZERS)
def test_a_plain_module_with_a_hugging_face_tokenizer(name: str) -> None:
    """The module sees the tokenizer's ids, and the explanation its tokens."""
    tokenizer: Any = tiny_models.TOKENIZERS[name]()
    module: Any = tiny_models.build_plain("mlp")
    module.embedding = nn.Embedding(len(tokenizer), 12)
    tiny_models.shaken(module)
    model = whence.load(module, tokenizer, blocks=[module.first, module.second], labels=LABELS)
    explanations = whence.explain(model, TEXTS, "gradient_x_input", layers="all")
    for text, explanation in zip(TEXTS, explanations, strict=True):
        ids = tokenizer(text)["input_ids"]
        assert [token.id for token in explanation.tokens] == ids
        with torch.no_grad():
            logits = module(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))[0]
        assert explanation.target.value == pytest.approx(float(logits.max()), abs=1e-5)
    small: Any = tiny_models.build_plain("mlp")
    small.embedding = nn.Embedding(10, 12)
    model = whence.load(small, tokenizer, blocks=[small.first, small.second], labels=LABELS)
    with pytest.raises(whence.UsageError, match="the model knows ids up to 9\nload the tokenizer that belongs to the"):
        whence.explain(model, SHORT)


def test_one_stack_of_an_encoder_decoder_that_writes_is_not_enough() -> None:
    model = small_t5("T5ForConditionalGeneration")
    for settings in ({"blocks": model.encoder.block}, {"embedding": model.encoder.embed_tokens}):
        with pytest.raises(whence.UsageError) as caught:
            whence.load(model, tiny_models.wordpiece(), **settings)
        assert str(caught.value).splitlines() == [
            "T5ForConditionalGeneration is an encoder-decoder that writes: both of its stacks are explained",
            "leave out blocks= and embedding=",
        ]


def test_what_does_not_go_with_a_loaded_model_is_refused(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.UsageError, match="labels= goes with a plain module\n"):
        whence.load(bert.module, tiny_models.wordpiece(), labels=LABELS)
    with pytest.raises(whence.UnknownNameError, match="unknown option for a loaded model 'dtype'\n"):
        whence.load(bert.module, tiny_models.wordpiece(), dtype="float16")
    with pytest.raises(whence.UsageError, match=r"expected \(model, tokenizer\)\n"):
        whence.load((bert.module, tiny_models.wordpiece()), tiny_models.wordpiece())
    assert whence.load((bert.module, tiny_models.wordpiece())).module is bert.module


def test_the_same_seed_builds_the_same_model() -> None:
    """The tests stand on repeatable models."""
    first, second = (tiny_models.build("bert").state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
