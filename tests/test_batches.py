"""How texts are put into batches: by a token budget, shortest first, and back in the order they came."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.overrides import TorchFunctionMode

import whence
from whence.engine.play import hiding_game, revealing_game
from whence.learned.diffmask.erasure import smallest_kept_sets
from whence.methods.state_statistics import StateStatistics
from whence.models import batching
from whence.models.batching import batches, consecutive, micro_batches, reads_padding, tokens_that_fit
from whence.models.hiding import Hide
from whence.scoreboard.evaluate import evaluate


def test_batches_keep_within_the_budget_and_lose_nothing() -> None:
    model = tiny_models.tiny("bert")
    texts = [" ".join(["film"] * length) for length in (9, 1, 4, 30, 2, 2, 7)]
    encodings = [model.encode(text) for text in texts]
    found = list(batches(model, encodings, 24))
    assert sorted(index for batch in found for index in batch) == list(range(len(texts)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(len(encodings[index]) for index in batch) <= 24
    assert len(found) < len(texts), "texts share batches"
    assert len(found[-1]) == 1, "a text longer than the budget comes alone"


def test_a_long_text_does_not_fill_a_batch_with_padding() -> None:
    model = tiny_models.tiny("bert")
    encodings = [model.encode(" ".join(["film"] * (n_tokens - 2))) for n_tokens in (10, 10, 10, 11, 40, 40)]
    assert list(batches(model, encodings, 1_000)) == [[0, 1, 2, 3, 4, 5]], "a small batch costs more than its padding"
    assert list(batches(model, encodings, 160)) == [[0, 1, 2, 3], [4, 5]]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_texts_encoded_at_once_are_what_the_tokenizer_says_of_each(family: str) -> None:
    model, tokenizer = tiny_models.tiny(family), tiny_models.tokenizer_of(family)
    too_long = " ".join(["unhappiness"] * 70)
    texts = [(tiny_models.SHORT, None), (too_long, None), (tiny_models.LONG, tiny_models.SHORT), ("a film", too_long)]
    found = model.encode_each(texts)
    for (text, pair), encoding in zip(texts, found, strict=True):
        whole = tokenizer(text, pair, truncation=True, max_length=64, return_offsets_mapping=True)
        assert (encoding.text, encoding.pair) == (text, pair)
        assert encoding.ids == whole["input_ids"]
        assert [(token.start, token.end) for token in encoding.tokens] == whole["offset_mapping"]
        assert [token.text for token in encoding.tokens] == tokenizer.convert_ids_to_tokens(whole["input_ids"])
        assert encoding.cut == len(tokenizer(text, pair, verbose=False)["input_ids"]) - len(encoding)
    assert [bool(encoding.cut) for encoding in found] == [False, True, False, True]


class Waits(TorchFunctionMode):
    """Counts what would make Python wait for a GPU: numbers of a tensor that are asked for."""

    asked = ("tolist", "item", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__")

    def __init__(self) -> None:
        super().__init__()
        self.counted = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counted += getattr(func, "__name__", "") in self.asked
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "method",
    ["integrated_gradients", "occlusion", "leave_one_out", "shapley", "smooth_grad", "lime", "kernel_shap",
     "gradient_shap"],
)  # fmt: skip
def test_a_gpu_is_waited_for_once_a_call_and_not_once_a_forward(method: str) -> None:
    model, text = tiny_models.tiny("bert"), tiny_models.TEXTS[1]
    whence.explain(model, text, method)  # what is looked at the first time is known then
    inputs = model.collate([model.encode(text)])
    with Waits() as own:
        model.run(inputs)
    forwards, waits = [], []
    for batch_tokens in (4_096, len(inputs.encodings[0])):
        calls: list[None] = []
        hook = model.module.register_forward_hook(lambda *_, calls=calls: calls.append(None))
        with Waits() as found:
            whence.explain(model, text, method, batch_tokens=batch_tokens)
        hook.remove()
        forwards.append(len(calls))
        waits.append(found.counted - own.counted * len(calls))
    assert forwards[1] > forwards[0] + 3
    assert waits[1] == waits[0]


@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "occlusion", "leave_one_out"])
def test_a_gpu_is_waited_for_as_often_for_many_texts_as_for_two(method: str) -> None:
    model, texts = tiny_models.tiny("bert"), texts_of_many_lengths()
    options: dict[str, Any] = {"steps": 5} if method == "integrated_gradients" else {}
    whence.explain(model, texts, method, **options)  # what is looked at the first time is known then
    waits = []
    for some in (texts[:2], texts):
        with Waits() as found:
            whence.explain(model, some, method, batch_tokens=4_096, **options)
        waits.append(found.counted)
    assert waits[0] == waits[1]


@settings(deadline=None)
@given(st.lists(st.integers(1, 40)), st.integers(1, 200), st.booleans())
def test_micro_batches_lose_nothing_and_keep_order(lengths: list[int], budget: int, equal: bool) -> None:
    found = list(micro_batches(iter(range(len(lengths))), lengths.__getitem__, budget, equal=equal))
    slices = consecutive(np.array(lengths, dtype=int), budget, equal=equal)
    assert found == [list(range(len(lengths)))[some] for some in slices], "the same where lengths are known"
    assert [index for batch in found for index in batch] == list(range(len(lengths)))
    for batch in found:
        sizes = [lengths[index] for index in batch]
        assert len(batch) == 1 or max(sizes) * len(batch) <= budget
        assert not equal or len(set(sizes)) == 1


def mobilebert(head: str = "ForTokenClassification", task: str | None = None) -> whence.LayeredModel:
    """A model that reads its padding: each token is embedded together with its two neighbours."""
    config = transformers.MobileBertConfig(  # type: ignore[call-arg]
        vocab_size=len(tiny_models.wordpiece()), hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, embedding_size=8, max_position_embeddings=64, intra_bottleneck_size=16,
        trigram_input=True, num_feedforward_networks=2, num_labels=3, classifier_activation=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = tiny_models.shaken(getattr(transformers, f"MobileBert{head}")(config))
    return whence.load(model, tiny_models.wordpiece(), task=task)


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForSequenceClassification"])
@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "leave_one_out"])
def test_a_model_that_reads_its_padding_is_never_padded(method: str, head: str) -> None:
    model = mobilebert(head)
    texts = [*tiny_models.TEXTS, "a fine story"]
    padded = model.collate([model.encode(text) for text in texts])
    alone = model.collate([model.encode(texts[0])])
    apart = model.states(padded).logits[0].flatten()[:9] - model.states(alone).logits[0].flatten()[:9]
    assert apart.abs().max() > 1e-3, "padding does matter here"
    with pytest.warns(whence.WhenceWarning, match="reads its padding"):
        together = whence.explain(model, texts, method)
    for text, found in zip(texts, together, strict=True):
        assert any("reads its padding" in warning for warning in found.warnings)
        own = whence.explain(mobilebert(head), text, method)
        assert not any("padding" in warning for warning in own.warnings), "one text alone is never padded"
        assert abs(own.scores - found.scores).max() <= 1e-5 * abs(own.scores).max()


def test_statistics_of_a_model_that_reads_its_padding() -> None:
    model, texts = mobilebert(), [*tiny_models.TEXTS, "a fine story"]
    together, one_by_one = StateStatistics().fit(model, texts), StateStatistics(batch_tokens=1).fit(mobilebert(), texts)
    for layer, moments in one_by_one.moments_.items():
        torch.testing.assert_close(together.moments_[layer].mean, moments.mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("family", "head"), tiny_models.CASES)
def test_no_family_but_mobilebert_is_taken_to_read_its_padding(family: str, head: str) -> None:
    model = tiny_models.tiny(family, head)
    encodings = [
        model.encode(*([text] if isinstance(text, str) else text)) for text in tiny_models.texts_for(family, head)
    ]
    assert not reads_padding(model, encodings)


def test_whether_padding_is_read_is_asked_once(bert: whence.LayeredModel) -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    bert.module.register_forward_hook(count)
    encodings = [bert.encode(text) for text in tiny_models.TEXTS]
    assert not reads_padding(bert, encodings[:1])
    assert calls == 0, "one text needs no padding"
    for _ in range(3):
        assert not reads_padding(bert, encodings)
    assert calls == 2


def test_explanations_come_back_in_order(bert: whence.LayeredModel) -> None:
    texts = ["a very long film that is not so good", "bad", "a good film", "bad"]
    seen: list[tuple[str, int, int]] = []
    found = whence.explain(bert, iter(texts), "random", batch_tokens=8, progress=lambda *step: seen.append(step))
    assert [each.text for each in found] == texts
    assert (found[1].scores == found[3].scores).all()
    assert seen[-1] == ("random", 4, 4)
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_a_large_model_gets_small_batches() -> None:
    model = tiny_models.tiny("bert")
    assert tokens_that_fit(80 * 2**30, model) == 65_536
    # 34 numbers of 4 bytes for 16 features in 3 + 1 layers
    assert tokens_that_fit(2 * 1000 * 34 * 4 * 16 * 4, model) == 1000
    assert tokens_that_fit(0, model) == 256


def test_out_of_memory_is_met_with_smaller_batches(bert: whence.LayeredModel, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a good film", "bad", "not the worst film of the year"]
    expected = whence.explain(bert, texts, "leave_one_out")
    sizes = []

    def small_memory(module: torch.nn.Module, args: object, output: object) -> None:
        sizes.append(output.logits.shape[0])  # type: ignore[attr-defined]
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("pretended")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    handle = bert.module.register_forward_hook(small_memory)
    try:
        found = whence.explain(bert, texts, "leave_one_out")
    finally:
        handle.remove()
    assert max(sizes) > 2, "memory ran out at first"
    for one, other in zip(expected, found, strict=True):
        assert abs(one.scores - other.scores).max() < 1e-5


def texts_of_many_lengths() -> list[str]:
    return [*tiny_models.TEXTS, "a fine story", "a good film"]


@pytest.mark.filterwarnings("ignore:.*reads its padding")
@pytest.mark.parametrize("hide", ["auto", "mask", "delete"])
def test_games_and_boards_of_a_model_that_reads_its_padding(hide: Hide) -> None:
    model, texts = mobilebert("ForSequenceClassification"), texts_of_many_lengths()
    found = whence.explain(model, texts, "leave_one_out")
    games = [hiding_game(model, found, hide=hide), revealing_game(model, found, hide=hide)]
    board = evaluate(model, texts, methods=["leave_one_out"], metrics=["comprehensiveness", "sufficiency"], hide=hide)
    for index, text in enumerate(texts):
        own = mobilebert("ForSequenceClassification")
        for play, together in zip((hiding_game, revealing_game), games, strict=True):
            alone = play(own, found[index : index + 1], hide=hide)
            for measure, outcomes in together.outcomes.items():
                np.testing.assert_allclose(outcomes[index], alone.outcomes[measure][0], rtol=1e-5)
        judged = evaluate(own, [text], methods=["leave_one_out"], metrics=[*board.metrics], hide=hide)
        for metric, values in board.values.items():
            np.testing.assert_allclose(values[:, index], judged.values[metric][:, 0], atol=1e-5)


def lengths_seen(model: whence.LayeredModel) -> list[set[int]]:
    """Will hold, for each pass through the model, how long the texts in it are."""
    seen: list[set[int]] = []

    def look(_: object, __: object, given: dict[str, torch.Tensor]) -> None:
        seen.append({int(length) for length in given["attention_mask"].sum(dim=-1).flatten()})

    model.module.register_forward_pre_hook(look, with_kwargs=True)
    return seen


def test_the_search_never_pads_a_model_that_reads_its_padding() -> None:
    model = mobilebert("ForSequenceClassification")
    seen = lengths_seen(model)
    smallest_kept_sets(model, texts_of_many_lengths(), constraint="divergence", margin=1e-3)
    assert len(set.union(*seen)) > 2
    assert sum(len(each) > 1 for each in seen) == 1, "after one look at padding, nothing is padded"


def test_training_on_a_model_that_reads_its_padding() -> None:
    """A step over texts of many lengths takes the gradients of texts that are seen alone."""
    model, texts = mobilebert("ForSequenceClassification"), texts_of_many_lengths()
    seen = lengths_seen(model)
    probes = whence.DiffMask(steps=2, batch_size=len(texts), start=0.0)
    probes.fit(model, texts, held_out=texts, validations=1, progress=False)
    assert len(set.union(*seen)) > 2
    assert sum(len(each) > 1 for each in seen) == 1, "after one look at padding, nothing is padded"
    results = probes.validate(model, texts)
    own = [probes.validate(model, [text]) for text in texts]
    for layer, result in enumerate(results):
        mean = sum(each[layer].divergence for each in own) / len(own)
        assert result.divergence == pytest.approx(mean, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*reads its padding")
def test_similarity_by_a_model_that_reads_its_padding() -> None:
    """The texts that others are compared with are not padded either."""
    pairs = [("a good film", text) for text in texts_of_many_lengths()]
    together = whence.explain(mobilebert("Model", "similarity"), pairs, "gradient_x_input")
    for pair, found in zip(pairs, together, strict=True):
        own = whence.explain(mobilebert("Model", "similarity"), pair, "gradient_x_input")
        assert found.target.value == pytest.approx(own.target.value, rel=1e-5)


class _OnGpu(torch.Tensor):
    is_cuda = True


@pytest.mark.parametrize(("precision", "bits"), [("highest", 23), ("high", 10), ("medium", 7)])
def test_what_a_gpu_rounds_in_its_products_is_no_difference(precision: str, bits: int) -> None:
    on_gpu = torch.ones(1).as_subclass(_OnGpu)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        assert batching._rounding(on_gpu) == 2.0**-bits
        assert batching._rounding(torch.ones(1)) == torch.finfo(torch.float32).eps, "a CPU rounds as it always did"
    finally:
        torch.set_float32_matmul_precision(before)


def test_what_is_kept_in_memory_is_what_the_batch_holds() -> None:
    model = whence.load()
    inputs = model.collate([model.encode(text) for text in ("a film", "a gorgeous and witty film", "so dull")])
    assert inputs._tables is not None
    moved_on = replace(inputs, ids=inputs.ids + 1)
    for batch in (inputs, inputs.rows(torch.tensor([2, 0, 2])), inputs.beginning(3), moved_on):
        tables = batch.in_memory
        assert (tables.ids == batch.ids.numpy()).all()
        assert (tables.special == batch.special.numpy()).all()
        for own, other in zip(tables.features, batch.features.values(), strict=True):
            assert (own == other.numpy()).all()
        assert tables.lengths == [len(encoding) for encoding in batch.encodings]
        assert batch is inputs or batch._tables is None
