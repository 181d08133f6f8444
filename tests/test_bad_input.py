"""Bad input gets a clear message: first what is wrong, then what to do. Odd input is taken literally."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from complaints import complaint
from tiny_models import SHORT, TEXTS, tiny, tiny_plain
from torch.ao.quantization import quantize_dynamic

import whence

KINDS = {"wordpiece": "bert", "byte_level": "roberta", "bare": "gpt2", "metaspace": "llama"}
every_kind = pytest.mark.parametrize("family", KINDS.values(), ids=KINDS)


# Texts.


@every_kind
@pytest.mark.parametrize("text", ["", " ", " \n\t ", "\u00a0", "\u3000"], ids=repr)
def test_nothing_to_explain(family: str, text: str) -> None:
    problem, advice = complaint(whence.InputError, whence.explain, tiny(family), text)
    assert problem == "text 0 is empty: there is nothing to explain"
    assert advice == "give a text with at least one word"


@pytest.mark.parametrize("name", tiny_models.PLAIN)
@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_to_explain_to_a_plain_module(name: str, text: str) -> None:
    problem, _ = complaint(whence.InputError, whence.explain, tiny_plain(name), text)
    assert problem == "text 0 is empty: there is nothing to explain"


def test_the_empty_text_among_others_is_named() -> None:
    problem, _ = complaint(whence.InputError, whence.explain, tiny("bert"), [SHORT, "", SHORT])
    assert problem == "text 1 is empty: there is nothing to explain"


def test_a_text_of_special_tokens_only() -> None:
    problem, advice = complaint(whence.InputError, whence.explain, tiny("bert"), "[SEP] [MASK]")
    assert problem == "text 0 is '[SEP] [MASK]', of which no token is left: there is nothing to explain"
    assert advice == "give a text with at least one word"


def test_no_texts_no_explanations() -> None:
    assert whence.explain(tiny("bert"), []) == []
    assert whence.explain(tiny("bert"), iter(())) == []


@pytest.mark.parametrize(
    ("texts", "place", "kind"),
    [(5, 0, None), (None, 0, None), ([SHORT, 3], 1, "int"), ([None], 0, "NoneType"), ([b"film"], 0, "bytes"),
     (("a", "b", "c"), 0, "tuple"), (("a", 3), 0, "tuple"), ([["a"]], 0, "list")],
    ids=repr,
)  # fmt: skip
def test_a_text_must_be_a_text(texts: Any, place: int, kind: str | None) -> None:
    with pytest.raises(whence.InputError) as caught:
        whence.explain(tiny("bert"), texts)
    if kind:
        assert caught.value.problem == f"text {place} is {kind}, not a string or a pair of strings"
    assert "string" in caught.value.advice


def test_a_generator_of_texts() -> None:
    assert [e.text for e in whence.explain(tiny("bert"), (text for text in TEXTS), "random")] == TEXTS


HOSTILE = {
    "script": "<script>alert('film')</script> good",
    "end of script": "a film</script> good",
    "rich markup": "a [red]good[/red] film [/red]",
    "ansi": "a \x1b[31mgood\x1b[0m film",
    "null bytes": "a \x00good\x00 film",
    "emoji": "a good 👍🏽 film 👨‍👩‍👧🏳️‍🌈",
    "combining marks": "a go\u0308o\u0301d film z\u0351\u036b\u0343a\u0349\u0349",
    "right to left": "فيلم جيد good סרט טוב",
    "bidi controls": "a \u202egood\u202c film \u2067x\u2069",
    "zero width": "go\u200bod fi\u200dlm\ufeff",
    "formula": "=CMD('good')",
    "line ends": "a\r\ngood\u2028film\u2029x\x0b\x0c\x85end",
    "quotes": "\"good\" 'film' `a` \\n %s {x} $x",
    "ligatures": "ﬁlm İstanbul ß ǆ Å",
    "private use": "good \ue000\uf8ff \U0010ffff film",
}


@every_kind
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_taken_literally(family: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        explanation = whence.explain(tiny(family), text, "gradient_x_input", layers=[0, 1])
    check_spans(explanation, text)
    assert np.isfinite(explanation.scores).all()
    back = whence.Explanation.from_dict(explanation.to_dict())
    assert back == explanation
    assert back.text == text


def check_spans(explanation: whence.Explanation, text: str) -> None:
    """Every token lies in the text, in order, and every word is what the text has there."""
    assert explanation.text == text
    for token in explanation.tokens:
        assert 0 <= token.start <= token.end <= len(text)
        assert token.word is None or token.start < token.end
    starts = [token.start for token in explanation.tokens if not token.special]
    assert starts == sorted(starts)
    assert explanation.words()
    for word in explanation.words():
        assert word.text == text[word.start : word.end]
        assert word.text


@pytest.mark.parametrize("name", tiny_models.PLAIN)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_for_a_plain_module(name: str, text: str) -> None:
    check_spans(whence.explain(tiny_plain(name), text, "gradient_x_input"), text)


@every_kind
def test_half_a_character(family: str) -> None:
    problem, advice = complaint(whence.InputError, whence.explain, tiny(family), "a \ud83d film")
    assert problem == "character 2 of the text is half a character (a lone surrogate)"
    assert advice == "read the file with its right encoding"


# Long texts.

WORDY = " ".join(tiny_models.WORDS[i % len(tiny_models.WORDS)] for i in range(10_000))


@every_kind
def test_ten_thousand_words_are_cut_aloud(family: str) -> None:
    model = tiny(family)
    tokenizer = tiny_models.tokenizer_of(family)
    whole = len(tokenizer(WORDY, verbose=False)["input_ids"])
    with pytest.warns(whence.WhenceWarning) as caught:
        explanation = whence.explain(model, WORDY, "gradient_x_input", layers=[0, 1])
    read = len(explanation.tokens)
    assert 60 <= read <= 64
    (warning,) = explanation.warnings
    assert warning == f"truncated: the model reads {read} tokens, {whole - read} of the text were not seen"
    (said,) = caught
    assert warning in str(said.message)
    check_spans(explanation, WORDY)
    seen = [word for word in explanation.words() if not WORDY.startswith(word.text, word.start)]
    assert seen == []
    assert np.abs(explanation.scores).max() > 0


def test_a_short_text_is_not_said_to_be_cut() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        (one, two) = whence.explain(tiny("bert"), TEXTS[:2], "gradient_x_input")
    assert one.warnings == two.warnings == ()


def test_the_longest_text_that_fits_is_not_cut() -> None:
    fits, over = " ".join(["film"] * 62), " ".join(["film"] * 63)
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        assert len(whence.explain(tiny("bert"), fits, "random").tokens) == 64
    with pytest.warns(whence.WhenceWarning, match="tokens, 1 of the text were not seen"):
        assert len(whence.explain(tiny("bert"), over, "random").tokens) == 64


def test_the_tokenizers_own_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_models.wordpiece(), "model_max_length", 10)
    model = whence.load(tiny_models.build("bert"), tiny_models.wordpiece())
    whole = len(tiny_models.wordpiece()(tiny_models.LONG)["input_ids"])
    with pytest.warns(whence.WhenceWarning, match=f"the model reads 10 tokens, {whole - 10} of"):
        whence.explain(model, tiny_models.LONG, "random")


def test_a_long_context_is_cut_and_its_question_is_not() -> None:
    question = "who made it"
    with pytest.warns(whence.WhenceWarning, match="truncated: the model reads 64 tokens"):
        explanation = whence.explain(tiny("bert", "question_answering"), (question, WORDY), "random")
    words = explanation.words()
    assert [word.text for word in words if word.segment == 0] == question.split()
    context = [word for word in words if word.segment == 1]
    assert [word.text for word in context] == WORDY.split()[: len(context)]
    assert len(context) == 64 - 3 - 3


def test_a_question_longer_than_the_model_reads() -> None:
    problem, advice = complaint(
        whence.InputError, whence.explain, tiny("bert", "question_answering"), (WORDY[:1000], "she made it")
    )
    assert problem.startswith("the question alone takes ")
    assert problem.endswith(" tokens, the model reads 64")
    assert advice == "shorten the question"


# Models.


def test_without_padding_and_mask_the_baseline_is_zero_and_recorded() -> None:
    for family, meant in (("bert", "mask"), ("llama", "pad"), ("gpt2", "zero")):
        explanation = whence.explain(tiny(family), SHORT, "leave_one_out")
        assert explanation.options["baseline"] == meant
        given = whence.explain(tiny(family), SHORT, "leave_one_out", baseline=meant)
        np.testing.assert_array_equal(explanation.scores, given.scores)


@pytest.mark.parametrize(("family", "baseline"), [("gpt2", "mask"), ("gpt2", "pad"), ("llama", "mask")])
def test_a_baseline_that_the_model_lacks(family: str, baseline: str) -> None:
    for method in ("leave_one_out", "integrated_gradients"):
        problem, advice = complaint(whence.UsageError, whence.explain, tiny(family), SHORT, method, baseline=baseline)
        assert problem == f"the model has no {baseline} token to use as a baseline"
        assert advice == "use baseline='zero' or a token"


@pytest.mark.parametrize("where", ["embedding", "head"])
@pytest.mark.parametrize("method", ["gradient_x_input", "leave_one_out", "attention", "held_still", "random"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_weights(bert: whence.LayeredModel, where: str, method: str) -> None:
    module: Any = bert.module
    with torch.no_grad():
        part = module.get_input_embeddings() if where == "embedding" else module.classifier
        part.weight.fill_(float("nan"))
    problem, advice = complaint(whence.NonFiniteError, whence.explain, bert, SHORT, method)
    assert problem == "the model's output is NaN, so nothing can be explained"
    assert advice.startswith("look for NaN weights")


@pytest.mark.parametrize("method", ["gradient_x_input", "leave_one_out", "held_still", "random"])
def test_infinite_weights(bert: whence.LayeredModel, method: str) -> None:
    module: Any = bert.module
    with torch.no_grad():
        module.classifier.bias[0] = float("inf")
    problem, advice = complaint(whence.NonFiniteError, whence.explain, bert, SHORT, method)
    assert problem == "the target is not a finite number"
    assert advice == "look for infinite weights or another target"
    assert np.isfinite(whence.explain(bert, SHORT, method, target="good").scores).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_other_dtypes(family: str, dtype: torch.dtype) -> None:
    model = whence.load(tiny_models.build(family).to(dtype), tiny_models.tokenizer_of(family))
    inputs = model.collate([model.encode(SHORT)])
    assert model.states(inputs).hidden[1].dtype == dtype
    for method in ("gradient_x_input", "leave_one_out", "integrated_gradients"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", whence.WhenceWarning)
            explanation = whence.explain(model, TEXTS, method)[0]
            full = whence.explain(tiny(family), SHORT, method, target=explanation.target.description)
        assert explanation.scores.dtype == np.float32
        np.testing.assert_allclose(explanation.scores, full.scores, atol=0.1, rtol=0.2)
    assert next(model.module.parameters()).dtype == dtype


def test_a_tokenizer_of_another_model() -> None:
    model = whence.load(tiny_models.build("bert", vocab_size=50), tiny_models.wordpiece())
    problem, advice = complaint(whence.UsageError, whence.explain, model, "witty")
    number = tiny_models.wordpiece().convert_tokens_to_ids("witty")
    assert problem == f"the tokenizer gives 'witty' the id {number}, the model knows ids up to 49"
    assert advice == "load the tokenizer that belongs to the model"


def test_a_word_that_the_vocabulary_lacks() -> None:
    model = whence.load(
        tiny_models.build_plain("mlp"),
        whence.WordTokenizer({"film": 0}),
        blocks=[tiny_models.build_plain("mlp")],
        labels=["no"],
    )
    assert complaint(whence.UsageError, whence.explain, model, "good film") == (
        "'good' is not in the vocabulary",
        "add '<unk>' to the vocabulary",
    )


def test_a_pair_for_a_word_tokenizer() -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny_plain("mlp"), ("a", "film"))
    assert problem == "a WordTokenizer reads one text, not a pair"
    assert advice == "join the two texts into one"


def test_attention_where_there_is_none() -> None:
    problem, advice = complaint(whence.ModelError, whence.explain, tiny_plain("gru"), SHORT, "attention")
    assert problem == "GRUClassifier has no attention weights to read"
    assert advice == "choose another method"


# Names.


def test_an_unknown_method() -> None:
    problem, advice = complaint(whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, "integrated_gradient")
    assert problem == "unknown method 'integrated_gradient'"
    assert advice.startswith("did you mean 'integrated_gradients'? known: gradient, gradient_x_input, ")
    for name in (*whence.METHODS, *whence.PRESETS):
        assert name in advice


@pytest.mark.parametrize("layers", [4, -5, "3", "last", [0, 9], True, 1.0, [None]])
def test_an_unknown_layer(layers: Any) -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny("bert"), SHORT, layers=layers)
    shown = layers[-1] if isinstance(layers, list) else layers
    assert problem == f"unknown layer {shown!r}"
    assert advice.endswith("known: all, embeddings, 0, 1, 2, 3")


def test_no_layer() -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny("bert"), SHORT, layers=[])
    assert problem == "no layer was asked for"
    assert advice == "give layers='all' or a list such as [0, 3]"


def test_layers_from_the_top_and_in_any_order() -> None:
    assert whence.explain(tiny("bert"), SHORT, "random", layers=[2, -1, 2, "embeddings", 0]).layers == (
        "embeddings",
        0,
        2,
        3,
    )
    assert whence.explain(tiny("bert"), SHORT, "random", layers=np.arange(2)).layers == (0, 1)


@pytest.mark.parametrize("layer", [4, -1])
def test_resume_from_a_layer_that_is_not_there(bert: whence.LayeredModel, layer: int) -> None:
    inputs = bert.collate([bert.encode(SHORT)])
    problem, advice = complaint(whence.UnknownNameError, bert.resume, layer, bert.states(inputs).embeddings, inputs)
    assert problem == f"unknown layer {layer}"
    assert advice.endswith("known: embeddings, 0, 1, 2, 3")


def test_an_unknown_label() -> None:
    problem, advice = complaint(whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, target="excellent")
    assert problem == "unknown label 'excellent'"
    assert advice == "known: bad (0), fair (1), good (2)"


def test_an_unknown_option() -> None:
    problem, advice = complaint(
        whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, "integrated_gradients", step=5
    )
    assert problem == "unknown option of integrated_gradients 'step'"
    assert advice.startswith("did you mean 'steps'? known: steps, rule, baseline, special")


def test_an_option_of_a_method_that_has_none() -> None:
    problem, advice = complaint(
        whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, "gradient_x_input", steps=5
    )
    assert problem == "unknown option of gradient_x_input 'steps'"
    assert advice == "known: none"


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [
        ("integrated_gradients", "steps", 0),
        ("integrated_gradients", "steps", "many"),
        ("integrated_gradients", "steps", float("nan")),
        ("occlusion", "window", 0),
        ("occlusion", "stride", -1),
    ],
)
def test_a_number_that_is_too_small(method: str, option: str, value: Any) -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny("bert"), SHORT, method, **{option: value})
    assert problem == f"{option} must be a number of at least 1, got {value!r}"
    assert advice == f"give {option}=1 or more"


def test_an_unknown_value_of_an_option() -> None:
    problem, advice = complaint(
        whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, "integrated_gradients", rule="simpson"
    )
    assert problem == "unknown rule 'simpson'"
    assert advice.endswith("known: fejer, gauss_legendre, left, right, middle, trapezoid")
    problem, advice = complaint(
        whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, "leave_one_out", baseline="[NOPE]"
    )
    assert problem == "unknown baseline '[NOPE]'"
    assert advice.endswith("known: auto, zero, pad, mask, delete, a token of the vocabulary")


def test_a_baseline_vector_of_another_size() -> None:
    problem, advice = complaint(
        whence.UsageError, whence.explain, tiny("bert"), SHORT, "leave_one_out", baseline=torch.zeros(5)
    )
    assert problem == "a baseline of shape (5,) does not fit layer embeddings"
    assert advice == "give a vector of 16 numbers"


@pytest.mark.parametrize("number", [-1, 100_000])
def test_a_baseline_id_that_no_token_has(number: int) -> None:
    problem, advice = complaint(
        whence.UsageError, whence.explain, tiny("bert"), SHORT, "leave_one_out", baseline=number
    )
    assert problem == f"the model has no token with id {number}"
    assert advice == f"ids go from 0 to {len(tiny_models.wordpiece()) - 1}"


def test_an_unknown_scale() -> None:
    problem, advice = complaint(whence.UnknownNameError, whence.explain, tiny("bert"), SHORT, scale="percent")
    assert problem == "unknown scale 'percent'"
    assert advice.endswith("known: logit, probability, log_probability")


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, "0", True, None])
def test_a_seed_must_be_a_number(seed: Any) -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny("bert"), SHORT, "random", seed=seed)
    assert problem == f"seed must be a whole number from 0 to 2147483647, got {seed!r}"
    assert advice == "give seed=0"


@pytest.mark.parametrize("budget", [0, -5, "many"])
def test_a_token_budget_must_be_a_number(budget: Any) -> None:
    problem, advice = complaint(whence.UsageError, whence.explain, tiny("bert"), SHORT, batch_tokens=budget)
    assert problem == f"batch_tokens must be a number of at least 1, got {budget!r}"
    assert advice == "give batch_tokens=1 or more"


def test_an_unknown_task(tmp_path: Path) -> None:
    known = (
        "known: classification, question_answering, token_classification, masked_lm, causal_lm, response, similarity"
    )
    for source in (tmp_path, (tiny_models.build("bert"), tiny_models.wordpiece())):
        problem, advice = complaint(whence.UnknownNameError, whence.load, source, task="sentiment")
        assert problem == "unknown task 'sentiment'"
        assert advice.endswith(known)


def test_a_model_without_a_head() -> None:
    module = tiny_models.build("bert").base_model
    problem, advice = complaint(whence.UsageError, whence.load, module, tiny_models.wordpiece())
    assert problem == "the head of BertModel does not tell what the model is for"
    assert advice.startswith("load a class with a head, or say task= one of: classification, ")


GRADIENT_METHODS = [
    "gradient", "gradient_x_input", "grad_cam", "smooth_grad", "integrated_gradients", "gradient_shap",
    "deep_lift_shap", "information_bottleneck", "noise_tolerance",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_a_quantised_model_has_no_gradients_to_believe(method: str) -> None:
    module = quantize_dynamic(tiny_models.build("bert"), {torch.nn.Linear}, dtype=torch.qint8)
    model = whence.load(module, tiny_models.wordpiece())
    for _ in range(2):  # a refusal is not forgotten
        with pytest.raises(whence.ModelError, match="gradients are wrong") as caught:
            whence.explain(model, tiny_models.TEXTS, method)
        assert "leave_one_out" in str(caught.value)
    assert whence.explain(model, tiny_models.SHORT, "leave_one_out").scores.any()


def test_gradients_that_miss_a_part_of_the_model_are_refused() -> None:
    """Here all attention but for the way around it: such gradients are not zero, and wrong."""
    module: Any = tiny_models.build("bert")
    for block in module.bert.encoder.layer:
        block.attention.self.register_forward_hook(lambda part, args, output: (output[0].detach(), *output[1:]))
    for method in ("gradient_x_input", "integrated_gradients"):
        with pytest.raises(whence.ModelError, match="times the change"):
            whence.explain(whence.load(module, tiny_models.wordpiece()), tiny_models.TEXTS, method)


def test_a_target_that_does_not_move_may_have_no_gradient() -> None:
    """A model whose answer depends on nothing: zero is the right answer, and no reason to refuse."""
    module: Any = tiny_models.build_plain("mlp")
    module.head.weight.data.zero_()
    model = whence.load(
        module, tiny_models.word_tokenizer(), blocks=[module.first, module.second], labels=tiny_models.LABELS
    )
    for method in ("gradient_x_input", "integrated_gradients"):
        with pytest.warns(whence.WhenceWarning, match="all scores are zero"):
            assert not whence.explain(model, tiny_models.SHORT, method).scores.any()


@pytest.mark.parametrize("whole", [True, False], ids=["the model", "its blocks"])
def test_a_model_compiled_in_place_is_explained_as_it_is_written(whole: bool, bert: whence.LayeredModel) -> None:
    model = tiny_models.build("bert")
    parts = [model] if whole else list(model.bert.encoder.layer)
    for part in parts:
        part.compile(backend="aot_eager")
    compiled = [part._compiled_call_impl for part in parts]
    layered = whence.load(model, tiny_models.wordpiece())
    for method in ("gradient_x_input", "integrated_gradients", "leave_one_out"):
        expected = whence.explain(bert, tiny_models.LONG, method, layers="all").scores
        assert (whence.explain(layered, tiny_models.LONG, method, layers="all").scores == expected).all()
    assert [part._compiled_call_impl for part in parts] == compiled


def test_a_model_loaded_in_inference_mode() -> None:
    with torch.inference_mode():
        ours, theirs = whence.load(), whence.load(tiny_models.build("bert"), tiny_models.wordpiece())
        assert whence.explain(ours, "a witty film", "gradient_x_input").scores.any()
        assert whence.explain(theirs, tiny_models.SHORT, "leave_one_out").scores.any()
        for method in ("gradient_x_input", "integrated_gradients"):
            with pytest.raises(whence.ModelError, match="inference_mode"):
                whence.explain(theirs, tiny_models.SHORT, method)


@pytest.mark.parametrize("method", ["leave_one_out", "occlusion", "integrated_gradients", "gradient_x_input"])
def test_autocast_around_a_call_changes_nothing(method: str, bert: whence.LayeredModel) -> None:
    expected = whence.explain(bert, tiny_models.TEXTS, method)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = whence.explain(bert, tiny_models.TEXTS, method)
        assert torch.is_autocast_enabled("cpu")
    assert all((one.scores == other.scores).all() for one, other in zip(found, expected, strict=True))


def test_data_parallel_is_told_to_unwrap() -> None:
    with pytest.raises(whence.UsageError, match=r"whence\.load\(model\.module, tokenizer\)"):
        whence.load(torch.nn.DataParallel(tiny_models.build("bert")), tiny_models.wordpiece())
