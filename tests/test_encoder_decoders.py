"""Encoder–decoders: what a translation or a summary rests on, against plain calls of transformers and captum."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import captum.attr
import numpy as np
import pytest
import tiny_models
import torch
import transformers
from torch import Tensor
from typer.testing import CliRunner

import whence
from whence import testing
from whence.cli import app
from whence.models.deletion import Deletion
from whence.models.inputs import Inputs
from whence.models.responses import log_probabilities_without
from whence.testing import METHOD_CHECKS

FAMILIES = list(tiny_models.WRITERS)
READ, WROTE = 3, 2  # blocks of the encoder and of the decoder
LAYERS = ("encoder 0", "encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2")
SOURCE, RESPONSE = "the plot was not bad , but too long", "she could say no"
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> whence.LayeredModel:
    return tiny_models.tiny_writer(request.param)


class Plain:
    """A source and a response as plain transformers is given them."""

    def __init__(self, model: whence.LayeredModel, source: str = SOURCE, response: str = RESPONSE) -> None:
        self.model = cast(Any, model.module)
        tokenizer: Any = model.tokenizer.tokenizer  # type: ignore[attr-defined]
        self.ids = tokenizer(source, return_tensors="pt")["input_ids"]
        self.labels = tokenizer(response, add_special_tokens=False, return_tensors="pt")["input_ids"]
        start = torch.tensor([[self.model.config.decoder_start_token_id]])
        self.given = torch.cat([start, self.labels[:, :-1]], dim=1)
        self.n_source = self.ids.shape[1]
        encoder, decoder = self.model.get_encoder(), self.model.get_decoder()
        self.blocks = [*getattr(encoder, "layers", getattr(encoder, "block", ()))]
        self.upper = [*getattr(decoder, "layers", getattr(decoder, "block", ()))]

    def words(self, ids: Tensor) -> Tensor:
        """The word embeddings as whence holds them: what the table gives."""
        return self.model.get_encoder().get_input_embeddings()(ids).detach()

    def of_each(self, logits: Tensor) -> Tensor:
        chances = logits[:, : self.labels.shape[1]].log_softmax(dim=-1)
        return chances.gather(2, self.labels.expand(len(logits), -1)[..., None])[..., 0]

    def log_probabilities(self, ids: Tensor) -> Tensor:
        """Of each token of the response after these ids."""
        with torch.no_grad():
            return self.of_each(self.model(input_ids=ids, decoder_input_ids=self.given).logits)[0]

    @contextmanager
    def instead(self, module: Any, value: Tensor) -> Iterator[None]:
        """What a module gives the first time it is called is this."""
        calls = 0

        def put(part: Any, args: Any, output: Any) -> Any:
            nonlocal calls
            calls += 1
            return None if calls > 1 else value if isinstance(output, Tensor) else (value, *output[1:])

        handle = module.register_forward_hook(put)
        try:
            yield
        finally:
            handle.remove()

    def from_words(self, words: Tensor) -> Tensor:
        """The response's log-probability, all of it, with other word embeddings of the source."""
        ids = self.ids.expand(len(words), -1)
        with self.instead(self.model.get_encoder().get_input_embeddings(), words):
            logits = self.model(input_ids=ids, decoder_input_ids=self.given.expand(len(words), -1)).logits
        return self.of_each(logits).sum(dim=1)


def explain(model: whence.LayeredModel, method: str | None, **settings: Any) -> whence.Explanation:
    return whence.explain(model, SOURCE, method, **{"response": RESPONSE, **settings})


def batch(model: whence.LayeredModel, *pairs: tuple[str, str]) -> Inputs:
    return model.collate([model.encode(*pair) for pair in pairs])


PAIRS = [(SOURCE, RESPONSE), ("a witty film", "they made it , so it is very good !"), ("sad", "no")]


def test_layers_are_those_of_both_stacks(model: whence.LayeredModel) -> None:
    assert model.n_layers == READ + WROTE
    assert model.layer_names(model.layers("all")) == LAYERS
    assert model.layers(["decoder 2", "encoder 1", "embeddings"]) == ("embeddings", 1, 5)
    assert model.layers(-1) == model.layers("decoder 2") == (5,)
    for wrong in ("decoder 3", "decoder 0", "encoder 4", "encoder"):
        with pytest.raises(whence.UnknownNameError, match="unknown layer") as caught:
            model.layers(wrong)
        assert "embeddings, encoder 0, encoder 1" in str(caught.value)
        assert "decoder 2" in str(caught.value)


def test_states_are_the_models_own_and_logits_too(model: whence.LayeredModel) -> None:
    plain, inputs = Plain(model), batch(model, PAIRS[0])
    states = model.states(inputs)
    with torch.no_grad():
        output = plain.model(input_ids=plain.ids, decoder_input_ids=plain.given, output_hidden_states=True)
    n, given = plain.n_source, plain.given.shape[1]
    torch.testing.assert_close(states.logits, output.logits[:, :given])
    torch.testing.assert_close(states.embeddings[:, :n], plain.words(plain.ids))
    for layer in range(READ):
        torch.testing.assert_close(states.at(layer)[:, :n], output.encoder_hidden_states[layer])
        assert not states.at(layer)[:, n:].any(), "below the decoder what was written has no state"
    for layer in (1, 2):
        torch.testing.assert_close(states.at(READ + layer)[:, :n], output.encoder_last_hidden_state)
    torch.testing.assert_close(states.at(READ + 1)[:, n : n + given], output.decoder_hidden_states[1])


@contextmanager
def at_work(blocks: list[Any]) -> Iterator[set[int]]:
    """The numbers of the blocks of which a matrix is used."""
    used: set[int] = set()
    handles = [
        part.register_forward_hook(lambda *call, number=number: used.add(number))
        for number, block in enumerate(blocks)
        for part in block.modules()
        if isinstance(part, torch.nn.Linear)
    ]
    yield used
    for handle in handles:
        handle.remove()


def test_resuming_gives_the_same_and_runs_only_the_blocks_above(model: whence.LayeredModel) -> None:
    plain, inputs = Plain(model), batch(model, *PAIRS)
    states = model.states(inputs)
    model.resume(0, states.at(0), inputs)  # the first time it is tried whether that can be
    biases = "t5" in plain.model.config.model_type  # the first block of each stack makes those of all
    for layer in model.layers(["embeddings", "all"]):
        with at_work([*plain.blocks, *plain.upper]) as used:
            logits = model.resume(layer, states.at(layer), inputs)
        torch.testing.assert_close(logits, states.logits, rtol=0, atol=0)
        number = 0 if isinstance(layer, str) else layer
        first = {0} if 0 < number < READ else {READ} if READ < number < READ + WROTE else set()
        assert used == set(range(number, READ + WROTE)) | (first if biases else set()), layer


def test_changed_states_change_what_comes_after(model: whence.LayeredModel) -> None:
    """At every layer other states of either side change the output as a plain hook on the block does."""
    plain, inputs = Plain(model), batch(model, PAIRS[0])
    states = model.states(inputs)
    n, n_given = plain.n_source, plain.given.shape[1]
    for layer in range(READ + WROTE + 1):
        side = slice(0, n) if layer <= READ else slice(n, n + n_given)
        hidden = states.at(layer).clone()
        hidden[:, side] += torch.randn(hidden[:, side].shape, generator=torch.Generator().manual_seed(layer))
        found = model.resume(layer, hidden, inputs)
        if layer == 0:
            continue
        block = [*plain.blocks, *plain.upper][layer - 1]
        with torch.no_grad(), plain.instead(block, hidden[:, side]):
            expected = plain.model(input_ids=plain.ids, decoder_input_ids=plain.given).logits
        torch.testing.assert_close(found, expected, **CLOSE)


def test_several_layers_in_one_pass(model: whence.LayeredModel) -> None:
    inputs = batch(model, *PAIRS[:2])
    states = model.states(inputs)
    layers = model.layers(["embeddings", 1, 3, 4, 5])
    hidden = [states.at(layer) * 0.9 for layer in layers]
    together = model.resume_each(layers, hidden, inputs)
    for layer, state, logits in zip(layers, hidden, together, strict=True):
        torch.testing.assert_close(logits, model.resume(layer, state, inputs), **CLOSE)


@pytest.mark.parametrize("units", ["token", "word"])
def test_leave_one_out_by_deletion_is_a_fresh_run(model: whence.LayeredModel, units: Any) -> None:
    plain = Plain(model)
    found = explain(model, None, units=units)
    assert (found.method, found.options["baseline"], found.response) == ("leave_one_out", "delete", RESPONSE)
    assert found.outputs is not None
    whole = plain.log_probabilities(plain.ids)
    np.testing.assert_allclose(found.outputs.values, whole, **CLOSE)
    assert found.target.value == pytest.approx(float(whole.sum()), abs=1e-4)
    if units == "word":
        return
    for position, token in enumerate(found.tokens[: plain.n_source]):
        kept = [place for place in range(plain.n_source) if place != position]
        expected = torch.zeros(len(whole)) if token.special else whole - plain.log_probabilities(plain.ids[:, kept])
        np.testing.assert_allclose(found.outputs.scores[:, 0, position], expected, **CLOSE)
    assert not found.scores[0, plain.n_source :].any(), "what was written is no reason for itself"


def test_deleting_every_word_of_the_source_leaves_something_to_read() -> None:
    """A tokenizer that adds nothing: of a source of which all is gone, the token stays that texts end with."""
    model = tiny_models.build_writer("t5", vocab_size=len(tiny_models.metaspace()))
    layered = whence.load(model, tiny_models.metaspace())
    inputs = layered.collate([layered.encode("bad film", "no")])
    keep = layered.scored("embeddings", inputs).logical_not()
    with torch.no_grad():
        (_, logits), = Deletion(layered, inputs, 100).logits(torch.tensor([0]), keep)  # fmt: skip
        beginning = torch.tensor([[tiny_models.metaspace().bos_token_id]])
        expected = model(input_ids=beginning, decoder_input_ids=torch.tensor([[0]])).logits
    torch.testing.assert_close(logits, expected)


def test_gradients_at_every_layer_are_those_of_plain_autograd(model: whence.LayeredModel) -> None:
    plain = Plain(model)
    found = explain(model, "gradient_x_input", layers=["embeddings", "all"])
    assert found.layers == ("embeddings", *LAYERS)
    assert found.cost.forwards == 1, "all layers and all outputs from one forward pass"
    n, given = plain.n_source, plain.given.shape[1]
    words = plain.words(plain.ids).requires_grad_()
    expected = torch.autograd.grad(plain.from_words(words).sum(), words)[0] * words
    np.testing.assert_allclose(found.row("embeddings")[:n], expected.sum(dim=-1)[0].detach(), **CLOSE)
    output = plain.model(input_ids=plain.ids, decoder_input_ids=plain.given, output_hidden_states=True)
    below = [*output.encoder_hidden_states[:READ], output.decoder_hidden_states[1]]
    gradients = torch.autograd.grad(plain.of_each(output.logits).sum(), below)
    products = [(state * gradient).sum(dim=-1)[0].detach() for state, gradient in zip(below, gradients, strict=True)]
    for layer in range(READ):
        np.testing.assert_allclose(found.row(f"encoder {layer}")[:n], products[layer], **CLOSE)
        assert not found.row(f"encoder {layer}")[n:].any()
    np.testing.assert_allclose(found.row("decoder 1")[n : n + given], products[-1], **CLOSE)
    expected_source = _read_above(plain, output.encoder_last_hidden_state.detach())
    np.testing.assert_allclose(found.row("decoder 1")[:n], expected_source, **CLOSE)
    assert not found.row("decoder 2")[:n].any(), "above the last block nothing is read of the source any more"
    moved = found.row("decoder 2").any()  # or a norm follows that does not see a state shrink
    assert any("decoder 1" in note and ("decoder 2 0%" in note) == moved for note in found.notes)


def _read_above(plain: Plain, source: Tensor) -> Tensor:
    """Gradient x input of what the last block of the decoder alone reads of the source."""
    leaf = source.clone().requires_grad_()

    def other(block: Any, args: tuple[Any, ...]) -> Any:
        return tuple(leaf if isinstance(each, Tensor) and torch.equal(each, source) else each for each in args)

    handle = plain.upper[-1].register_forward_pre_hook(other)
    try:
        logits = plain.model(input_ids=plain.ids, decoder_input_ids=plain.given).logits
    finally:
        handle.remove()
    gradient = torch.autograd.grad(plain.of_each(logits).sum(), leaf)[0]
    return (gradient * leaf).sum(dim=-1)[0].detach()


@pytest.mark.parametrize("family", ["t5", "bart", "marian"])
def test_integrated_gradients_and_ablation_are_captums(family: str) -> None:
    model = tiny_models.tiny_writer(family)
    plain = Plain(model)
    padding = model.tokenizer.padding
    words, nothing = plain.words(plain.ids), plain.words(torch.full_like(plain.ids, padding or 0))
    method = captum.attr.IntegratedGradients(plain.from_words)
    expected = method.attribute(words, nothing, n_steps=20, method="gausslegendre").sum(dim=-1)[0]
    settings: dict[str, Any] = {"baseline": padding, "special": True, "layers": "embeddings"}
    found = explain(model, "integrated_gradients", steps=20, rule="gauss_legendre", **settings)
    np.testing.assert_allclose(found.scores[0, : plain.n_source], expected.detach(), **CLOSE)
    ablation = captum.attr.FeatureAblation(plain.from_words)
    groups = torch.arange(plain.n_source)[None, :, None].expand_as(words)
    with torch.no_grad():
        expected = ablation.attribute(words, nothing, feature_mask=groups)[0, :, 0]
    found = explain(model, "leave_one_out", **settings)
    np.testing.assert_allclose(found.scores[0, : plain.n_source], expected, **CLOSE)


def test_scores_at_the_decoders_layers_add_up(model: whence.LayeredModel) -> None:
    """A layer's states are all that lies above depends on: shares of source and response add up to the difference."""
    found = explain(model, "integrated_gradients", layers=["decoder 1", "decoder 2"], steps=100)
    assert found.completeness_errors is not None
    assert max(found.completeness_errors) < 1e-2 * max(1.0, abs(found.scores).sum())
    assert found.scores[0, : Plain(model).n_source].any()
    assert found.scores[0, Plain(model).n_source :].any()


@pytest.mark.parametrize("method", ["held_still", "attn_lrp"])
def test_every_operation_has_a_rule(model: whence.LayeredModel, method: str) -> None:
    found = explain(model, method, layers="all", scale="logit")
    assert np.isfinite(found.scores).all()
    if method == "held_still" and Plain(model).model.config.model_type in ("t5", "mt5"):  # without a bias anywhere
        for layer in ("decoder 1", "decoder 2"):
            assert found.row(layer).sum() == pytest.approx(found.target.value, rel=1e-3)


def test_attention_is_read_off_both_stacks(model: whence.LayeredModel) -> None:
    plain = Plain(model)
    found = explain(model, "attention")
    assert found.layers == LAYERS[1:]
    eager = type(plain.model)(copy.deepcopy(plain.model.config))
    eager.load_state_dict(plain.model.state_dict())
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        output = eager.eval()(input_ids=plain.ids, decoder_input_ids=plain.given, output_attentions=True)
    n, given = plain.n_source, plain.given.shape[1]
    for block in range(READ):
        expected = output.encoder_attentions[block].amax(dim=1).mean(dim=1)[0]
        np.testing.assert_allclose(found.row(f"encoder {block + 1}")[:n], expected, **CLOSE)
    for block in range(WROTE):
        row = found.row(f"decoder {block + 1}")
        np.testing.assert_allclose(row[:n], output.cross_attentions[block].amax(dim=1).mean(dim=1)[0], **CLOSE)
        own = output.decoder_attentions[block].amax(dim=1).mean(dim=1)[0]
        np.testing.assert_allclose(row[n : n + given], own, **CLOSE)
    rolled = explain(model, "attention_rollout")
    np.testing.assert_allclose(rolled.scores.sum(axis=1), 1.0, rtol=1e-5)


NEEDS_TRAINING = ("diffmask", "one_pass", "amortised_shapley")


def everywhere(name: str) -> whence.Method:
    """A method at every layer that it can look at, with few samples."""
    method = whence.METHODS[name]
    few = {option: 3 for option in ("steps", "samples") if option in method.options}
    layers = method.layers if method.layers == "blocks" else "everywhere"
    return dataclasses.replace(method, compute=functools.partial(method.compute, **few), layers=layers)


OF_ALL = [name for name, method in whence.METHODS.items() if name not in NEEDS_TRAINING and not method.meaning.decoded]
OF_EACH = (testing.check_has_a_score_for_every_token_and_layer, testing.check_leaves_the_model_as_found)
OTHERS = [check for check in METHOD_CHECKS if check not in OF_EACH]


@pytest.mark.parametrize("check", OF_EACH, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", OF_ALL)
def test_every_method_keeps_the_contract(method: str, check: testing.Check) -> None:
    check(everywhere(method), tiny_models.tiny_writer("t5"))


@pytest.mark.parametrize(
    "check", [check for check in METHOD_CHECKS if check not in OF_EACH], ids=lambda check: check.__name__
)
@pytest.mark.parametrize("method", ["gradient_x_input", "leave_one_out", "held_still", "attention", "lime"])
def test_methods_of_each_kind_keep_all_of_it(method: str, check: testing.Check) -> None:
    check(everywhere(method), tiny_models.tiny_writer("bart" if method == "lime" else "t5"))


@pytest.mark.parametrize("method", ["gradient_x_input", "leave_one_out", "shapley", "held_still"])
def test_a_batch_gives_what_each_text_gives_alone(model: whence.LayeredModel, method: str) -> None:
    settings: dict[str, Any] = {"layers": ["embeddings", "all"], **({"samples": 3} if method == "shapley" else {})}
    together = whence.explain(
        model, [pair[0] for pair in PAIRS], method, response=[pair[1] for pair in PAIRS], **settings
    )
    for (source, response), found in zip(PAIRS, together, strict=True):
        alone = whence.explain(model, source, method, response=response, **settings)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-4, atol=2e-5)


def test_the_side_on_which_a_tokenizer_pads_does_not_matter(model: whence.LayeredModel) -> None:
    tokenizer: Any = model.tokenizer.tokenizer  # type: ignore[attr-defined]
    before = explain(model, "gradient_x_input", layers="all")
    side = tokenizer.padding_side
    tokenizer.padding_side = "left"
    try:
        sources, responses = map(list, zip(*PAIRS, strict=True))
        found = whence.explain(model, sources, "gradient_x_input", response=responses, layers="all")
    finally:
        tokenizer.padding_side = side
    np.testing.assert_allclose(found[0].scores, before.scores, rtol=1e-4, atol=2e-5)


def test_one_table_of_words_for_both_sides() -> None:
    """After its vocabulary was resized, a model reads source and response through one and the same module."""
    for family in ("t5", "bart"):
        module = tiny_models.build_writer(family)
        expected = explain(whence.load(module, tiny_models.tiny_writer(family).tokenizer.tokenizer), "gradient_x_input")  # type: ignore[attr-defined]
        module.set_input_embeddings(module.get_input_embeddings())
        assert module.get_encoder().get_input_embeddings() is module.get_decoder().get_input_embeddings()
        shared = whence.load(module, tiny_models.tiny_writer(family).tokenizer.tokenizer)  # type: ignore[attr-defined]
        found = explain(shared, "gradient_x_input", layers=["embeddings", "all"])
        np.testing.assert_allclose(found.scores[1:], expected.scores, **CLOSE)
        assert found.row("embeddings").any()


def test_written_by_the_models_own_config(model: whence.LayeredModel) -> None:
    plain = Plain(model)
    with torch.no_grad():
        written = plain.model.generate(plain.ids, max_new_tokens=6, do_sample=False)[0].tolist()
    found = whence.explain(model, SOURCE, "gradient_x_input", max_new_tokens=6)
    assert found.response
    starts = [token for token in found.tokens if token.segment == 0][plain.n_source :]
    assert [token.id for token in starts] == [plain.model.config.decoder_start_token_id]
    assert all(token.special and token.start == token.end == len(SOURCE) for token in starts)
    ids = [token.id for token in found.tokens if token.segment == 1]
    assert [starts[0].id, *ids] == written[: len(ids) + 1]
    assert set(written[len(ids) + 1 :]) <= {plain.model.config.eos_token_id}
    again = whence.explain(model, SOURCE, "gradient_x_input", response=ids)
    np.testing.assert_array_equal(found.scores, again.scores)
    assert explain(model, "gradient_x_input").response == RESPONSE


def test_a_forced_language_is_no_part_of_the_response() -> None:
    module = tiny_models.build_writer("mbart")
    language = 40
    module.generation_config.forced_bos_token_id = language
    model = whence.load(module, tiny_models.byte_level())
    found = whence.explain(model, SOURCE, "gradient_x_input", max_new_tokens=3)
    begun = [token.id for token in found.tokens if token.segment == 0][-2:]
    assert begun == [2, language]
    with torch.no_grad():
        written = module.generate(Plain(model).ids, max_new_tokens=4, do_sample=False)[0].tolist()
    ids = [token.id for token in found.tokens if token.segment == 1]
    assert [*begun, *ids] == written[: 2 + len(ids)]
    assert len(ids) == 3
    given = torch.tensor([[*begun, *ids[:-1]]])
    with torch.no_grad():
        logits = module(input_ids=Plain(model).ids, decoder_input_ids=given).logits[0, 1:].log_softmax(dim=-1)
    expected = logits.gather(1, torch.tensor(ids)[:, None])[:, 0]
    assert found.outputs is not None
    np.testing.assert_allclose(found.outputs.values, expected, **CLOSE)


def test_special_tokens_of_a_response_stand_for_themselves() -> None:
    model = tiny_models.tiny_writer("t5")
    ids = [*tiny_models.sentences()("she could", add_special_tokens=False)["input_ids"], 1]
    found = whence.explain(model, SOURCE, "gradient_x_input", response=ids)
    assert [(token.text, token.word) for token in found.tokens[-3:]] == [("▁she", 0), ("▁could", 1), ("</s>", None)]
    assert found.response == "she could</s>"


def test_a_foil_and_a_part_of_the_source() -> None:
    model = tiny_models.tiny_writer("t5")
    this, that = explain(model, "leave_one_out"), explain(model, "leave_one_out", response="no film")
    n = len(this.tokens) - sum(token.segment for token in this.tokens)
    found = explain(model, "leave_one_out", foil="no film")
    np.testing.assert_allclose(found.scores[0, :n], this.scores[0, :n] - that.scores[0, :n], **CLOSE)
    less = explain(model, "leave_one_out", without="but too long", baseline="delete")
    assert less.target.value != this.target.value
    with pytest.raises(whence.UsageError, match="a contrast is told of the source's tokens"):
        explain(model, "gradient_x_input", foil="no film", layers="decoder 1")


def test_parts_of_the_source_gone_in_one_call(model: whence.LayeredModel) -> None:
    plain, encoding = Plain(model), model.encode(SOURCE, RESPONSE)
    keep = torch.ones(2, len(encoding), dtype=torch.bool)
    keep[1, :2] = False
    keep[:, plain.n_source :] = False  # what was written stays
    found = log_probabilities_without(model, encoding, keep)
    np.testing.assert_allclose(found[0], plain.log_probabilities(plain.ids), **CLOSE)
    np.testing.assert_allclose(found[1], plain.log_probabilities(plain.ids[:, 2:]), **CLOSE)


def test_the_head_reads_the_decoders_states() -> None:
    for family in ("t5", "bart"):
        model = tiny_models.tiny_writer(family)
        inputs = batch(model, PAIRS[0])
        states = model.states(inputs)
        assert model.head is not None
        n = Plain(model).n_source
        read = model.head(states.at(READ + WROTE)[0, n : n + states.logits.shape[1]])
        torch.testing.assert_close(read, states.logits[0], **CLOSE)


def test_the_lens_reads_the_decoders_layers(tmp_path: Path) -> None:
    model = tiny_models.tiny_writer("t5")
    with pytest.warns(whence.WhenceWarning, match="the head reads the encoder's output"):
        lens = whence.decode_layers(model, (SOURCE, RESPONSE), k=3)
    assert lens.layers == ("decoder 1", "decoder 2")
    plain = Plain(model)
    with torch.no_grad():
        logits = plain.model(input_ids=plain.ids, decoder_input_ids=plain.given).logits[0]
    np.testing.assert_array_equal(lens.ids[1, plain.n_source : -1], logits.topk(3).indices)
    lens.save(tmp_path / "lens.json")
    assert whence.Lens.load(tmp_path / "lens.json").layers == lens.layers
    with pytest.raises(whence.UsageError, match="reads its decoder's states, not embeddings, encoder 3"):
        whence.decode_layers(model, (SOURCE, RESPONSE), layers=["embeddings", "encoder 3", "decoder 1"])


def test_diffmask_is_trained_on_sources_and_responses() -> None:
    model = tiny_models.tiny_writer("t5")
    probes = whence.DiffMask("hidden", steps=2, batch_size=2, start=0.0).fit(model, PAIRS * 2, validations=1)
    found = whence.explain(model, SOURCE, "diffmask", response=RESPONSE, probes=probes)
    assert found.layers == ("embeddings", *LAYERS)
    assert found.scores[:, : Plain(model).n_source].min() >= 0.0
    assert found.scores.max() <= 1.0


def test_files_hold_the_names_of_layers(tmp_path: Path) -> None:
    found = explain(tiny_models.tiny_writer("t5"), "gradient_x_input", layers=["embeddings", "all"])
    found.save(tmp_path / "explanation.json")
    assert whence.Explanation.load(tmp_path / "explanation.json") == found
    data = found.to_dict()
    for wrong in ("decoder 0", "decoder", "encoder -1", "second 1"):
        with pytest.raises(whence.FileError, match="layers"):
            whence.Explanation.from_dict({**data, "layers": [wrong, *data["layers"][1:]]})
    frame = found.to_dataframe()
    assert set(frame["layer"]) == {"embeddings", *LAYERS}
    assert "decoder 2" in found.to_html()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("writer")
    tiny_models.build_writer("t5").save_pretrained(path)
    tiny_models.sentences().save_pretrained(path)
    return str(path)


def test_a_folder_is_loaded_and_explained(folder: str) -> None:
    model = whence.load(folder)
    assert model.record.task == "response"
    assert model.record.architecture == "T5ForConditionalGeneration"
    np.testing.assert_allclose(
        explain(model, "gradient_x_input").scores,
        explain(tiny_models.tiny_writer("t5"), "gradient_x_input").scores,
        **CLOSE,
    )


@pytest.mark.usefixtures("quiet_only_here")
def test_the_command(folder: str) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["explain", SOURCE, "--model", folder, *arguments], prog_name="whence")

    shown = run("--response", RESPONSE)
    assert shown.exit_code == 0, (shown.stderr, shown.exception)
    assert RESPONSE in shown.stdout
    assert "rests on" in shown.stdout
    written = run("--generate", "--max-new-tokens", "5", "--json")
    assert written.exit_code == 0, (written.stderr, written.exception)
    assert json.loads(written.stdout)["pair"]
    layers = run("--response", RESPONSE, "--method", "gradient_x_input", "--layers", "encoder 1,decoder 2", "--json")
    assert layers.exit_code == 0, (layers.stderr, layers.exception)
    assert json.loads(layers.stdout)["layers"] == ["encoder 1", "decoder 2"]
    wrong = run("--response", RESPONSE, "--method", "gradient_x_input", "--layers", "decoder 7")
    assert wrong.exit_code == 2
    assert "unknown layer 'decoder 7'" in wrong.stderr


class TwoLanguages(transformers.PreTrainedTokenizer):
    """As Marian's: slow, with </s> behind, and a text that is written is cut by other rules than a source."""

    def __init__(self) -> None:
        self.pieces = tiny_models.sentences().get_vocab()
        self.writes = False
        super().__init__(pad_token="<pad>", eos_token="</s>", unk_token="<unk>")

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.pieces)

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        words = text.replace("½", "1/2").split()
        if self.writes:
            return [piece for word in words for piece in ("▁", *word)]
        return [f"▁{word}" for word in words]

    def _convert_token_to_id(self, token: str) -> int:
        return self.pieces.get(token, self.pieces["<unk>"])

    def _convert_id_to_token(self, index: int) -> str:
        return next(piece for piece, number in self.pieces.items() if number == index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens).replace("▁", " ").strip()

    def build_inputs_with_special_tokens(self, token_ids_0: list[int], token_ids_1: Any = None) -> list[int]:
        return [*token_ids_0, self.pieces["</s>"]]

    def num_special_tokens_to_add(self, *args: Any, **kwargs: Any) -> int:
        return 1

    def _switch_to_target_mode(self) -> None:
        self.writes = True

    def _switch_to_input_mode(self) -> None:
        self.writes = False


def test_a_tokenizer_that_does_not_say_where_its_tokens_stand() -> None:
    tokenizer = TwoLanguages()
    model = whence.load(tiny_models.build_writer("marian"), tokenizer)
    source = "the ½  worst  film"
    found = whence.explain(model, source, "gradient_x_input", response="so sad")
    read = [token for token in found.tokens if token.segment == 0]
    assert [source[token.start : token.end] for token in read[:4]] == ["the", "½", "worst", "film"]
    assert [token.special for token in read] == [False] * 4 + [True, True]
    assert [token.text for token in found.tokens[6:]] == ["▁", "s", "o", "▁", "s", "a", "d"]
    assert [word.text for word in found.words()] == ["the", "½", "worst", "film"]
    assert found.response == "so sad"
    assert not tokenizer.writes
    with pytest.raises(whence.UsageError, match="does not say which characters a token comes from"):
        whence.load(tiny_models.build("gpt2", vocab_size=400), tokenizer)
    with pytest.raises(whence.InputError, match="the source takes 101 tokens, the model reads 64"):
        whence.explain(model, "good " * 100, response="sad")


def test_what_cannot_be_said_is_refused() -> None:
    model = tiny_models.tiny_writer("bart")
    with pytest.raises(whence.InputError, match="the response is empty"):
        explain(model, None, response=" ")
    with pytest.raises(whence.InputError, match="the prompt is empty"):
        whence.explain(model, "", response=RESPONSE)
    with pytest.raises(whence.InputError, match="the source takes 303 tokens, the model reads 64"):
        whence.explain(model, "good " * 100, response=RESPONSE)
    with pytest.raises(whence.InputError, match=r"the response takes \d+ tokens, the model reads 64"):
        explain(model, None, response="good " * 100)
    with pytest.raises(whence.UsageError, match="'dull' is not in the response"):
        explain(model, "gradient_x_input", target="dull")
    with pytest.raises(whence.UsageError, match="which are no words of the source"):
        explain(model, "decoded_grad_cam")
    with pytest.raises(whence.UsageError, match="attention belongs to blocks"):
        explain(model, "attention", layers="encoder 0")
    module = tiny_models.build_writer("t5")
    with pytest.raises(whence.UsageError, match="writes a text of its own: its task is response, not causal_lm"):
        whence.load(module, tiny_models.sentences(), task="causal_lm")
    module.config.decoder_start_token_id = module.generation_config.decoder_start_token_id = None
    with pytest.raises(whence.ModelError, match="does not say with which token it begins to write"):
        whence.load(module, tiny_models.sentences())


def test_what_reads_no_text_is_refused() -> None:
    config = transformers.WhisperConfig(
        vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, pad_token_id=0, bos_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    module: Any = transformers.WhisperForConditionalGeneration(config)
    with pytest.raises(whence.ModelError, match="WhisperForConditionalGeneration reads input_features, no text"):
        whence.load(module, tiny_models.sentences())
