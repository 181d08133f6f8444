"""What is explained: the number read off the model's output is the one that was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from tiny_models import LABELS, PAIRS, TEXTS, tiny
from torch import Tensor
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.models.vocabulary import VocabularyLabels
from whence.tasks.question_answering import LONGEST_ANSWER

TEXT = TEXTS[1]


def output(model: whence.LayeredModel, *text: str) -> Any:
    """The model's own answer, without whence."""
    tokenizer: Any = model.tokenizer.tokenizer  # type: ignore[attr-defined]
    with torch.no_grad():
        return model.module(**tokenizer(*text, return_tensors="pt"))


def explained(model: whence.LayeredModel, text: Any = TEXT, **settings: Any) -> Any:
    return whence.explain(model, text, "gradient_x_input", **settings).target


def close(value: Any) -> Any:
    return pytest.approx(float(value), rel=1e-5, abs=1e-5)


@pytest.fixture(scope="module")
def classifier() -> whence.LayeredModel:
    return tiny("bert")


@pytest.fixture(scope="module")
def logits(classifier: whence.LayeredModel) -> Tensor:
    found: Tensor = output(classifier, TEXT).logits[0]
    return found


# Classes.


@pytest.mark.parametrize("target", ["predicted", whence.Label(), whence.Label(None)])
def test_the_predicted_class_is_explained_by_default(classifier: Any, logits: Tensor, target: Any) -> None:
    best = int(logits.argmax())
    for found in (explained(classifier), explained(classifier, target=target)):
        assert found.description == LABELS[best]
        assert found.scale == "logit"
        assert found.value == close(logits[best])


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("form", [lambda i: i, lambda i: LABELS[i], whence.Label, lambda i: whence.Label(LABELS[i])])
def test_a_class_by_name_or_id(classifier: Any, logits: Tensor, form: Any, index: int) -> None:
    found = explained(classifier, target=form(index))
    assert found.description == LABELS[index]
    assert found.value == close(logits[index])


def test_a_contrast_is_the_difference(classifier: Any, logits: Tensor) -> None:
    found = explained(classifier, target=whence.Contrast("good", 0))
    assert found.description == "good rather than bad"
    assert found.value == close(logits[2] - logits[0])


def test_the_scores_of_a_contrast_are_the_difference_of_the_scores(classifier: Any) -> None:
    this, that, both = (
        whence.explain(classifier, TEXT, "gradient_x_input", target=target).scores
        for target in ("good", "bad", whence.Contrast("good", "bad"))
    )
    assert both == pytest.approx(this - that, abs=1e-5)


@pytest.mark.parametrize("label", range(3))
def test_scales(classifier: Any, logits: Tensor, label: int) -> None:
    by_hand = logits.exp() / logits.exp().sum()
    assert explained(classifier, target=label, scale="probability").value == close(by_hand[label])
    assert explained(classifier, target=label, scale="log_probability").value == close(by_hand[label].log())
    assert explained(classifier, target=label, scale="logit").value == close(logits[label])


def test_a_contrast_of_log_probabilities_is_that_of_logits(classifier: Any, logits: Tensor) -> None:
    found = explained(classifier, target=whence.Contrast(2, 1), scale="log_probability")
    assert found.value == close(logits[2] - logits[1])


def test_a_contrast_of_probabilities(classifier: Any, logits: Tensor) -> None:
    found = explained(classifier, target=whence.Contrast(2, 1), scale="probability")
    assert found.value == close(logits.softmax(-1)[2] - logits.softmax(-1)[1])


def test_the_prediction_beside_it(classifier: Any, logits: Tensor) -> None:
    prediction = whence.explain(classifier, TEXT, "random", target="bad").prediction
    best = int(logits.argmax())
    assert (prediction.label, prediction.index) == (LABELS[best], best)
    assert prediction.probability == close(logits.softmax(-1)[best])
    assert dict(prediction.probabilities) == {LABELS[i]: close(logits.softmax(-1)[i]) for i in range(3)}


def test_a_target_differs_from_text_to_text(classifier: Any) -> None:
    """The predicted class is each text's own, also inside a batch."""
    found = [explanation.target for explanation in whence.explain(classifier, TEXTS, "gradient_x_input")]
    for text, target in zip(TEXTS, found, strict=True):
        own = output(classifier, text).logits[0]
        assert (target.description, target.value) == (LABELS[int(own.argmax())], close(own.max()))


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("god", "unknown label 'god'\ndid you mean 'good (2)'? known: bad (0), fair (1), good (2)"),
        (3, "unknown label 3\nknown: bad (0), fair (1), good (2)"),
        (-1, "unknown label -1\nknown: bad (0), fair (1), good (2)"),
        (whence.Contrast("good", "ugly"), "unknown label 'ugly'\nknown: bad (0), fair (1), good (2)"),
    ],
)
def test_an_unknown_label_lists_those_that_exist(classifier: Any, target: Any, text: str) -> None:
    with pytest.raises(whence.UnknownNameError) as caught:
        explained(classifier, target=target)
    assert str(caught.value).splitlines()[0] == text.splitlines()[0]
    assert text.splitlines()[1].split("known:")[1] in str(caught.value)


def test_a_span_is_no_class(classifier: Any) -> None:
    with pytest.raises(
        whence.UsageError, match="a span is a target of question answering, not of classification\ngive a"
    ):
        explained(classifier, target=whence.Span(0, 3))


def test_a_class_has_no_place_in_the_text(classifier: Any) -> None:
    with pytest.raises(whence.UsageError, match="a class belongs to the whole text, not to a character\nleave out at="):
        explained(classifier, target=whence.Label("good", at=3))


def test_several_labels_at_once() -> None:
    model = whence.load(tiny_models.build("bert", problem_type="multi_label_classification"), tiny_models.wordpiece())
    logits = output(model, TEXT).logits[0]
    for label in range(3):
        chance = 1 / (1 + (-logits[label]).exp())
        assert explained(model, target=label, scale="probability").value == close(chance)
        assert explained(model, target=label, scale="log_probability").value == close(chance.log())
    prediction = whence.explain(model, TEXT, "random").prediction
    assert dict(prediction.probabilities) == {LABELS[i]: close(logits[i].sigmoid()) for i in range(3)}


def test_a_regression_is_a_plain_number() -> None:
    model = whence.load(
        tiny_models.build("bert", id2label={0: "stars"}, label2id={"stars": 0}), tiny_models.wordpiece()
    )
    value = output(model, TEXT).logits[0, 0]
    explanation = whence.explain(model, TEXT, "gradient_x_input")
    assert explanation.target.description == "stars"
    assert explanation.target.value == close(value)
    assert explanation.prediction.probability is None
    assert float(explanation.prediction.label) == pytest.approx(float(value), rel=1e-3)
    for scale in ("probability", "log_probability"):
        with pytest.raises(whence.UsageError) as caught:
            explained(model, scale=scale)
        assert str(caught.value) == "this model's output is a plain number, not a probability\nuse scale='logit'"


@pytest.mark.parametrize("name", tiny_models.PLAIN)
def test_plain_modules_have_the_same_targets(name: str) -> None:
    model = tiny_models.tiny_plain(name)
    tokenizer = tiny_models.word_tokenizer()
    ids = torch.tensor([[tokenizer.vocabulary[word] for word in TEXT.split()]])
    with torch.no_grad():
        logits = model.module(ids, torch.ones_like(ids).bool())[0]
    assert explained(model, target="fair", scale="log_probability").value == close(logits.log_softmax(-1)[1])


# Answers.

QUESTION, CONTEXT = PAIRS[2]


@pytest.fixture(scope="module", params=["bert", "roberta", "llama", "gpt2"])
def answerer(request: pytest.FixtureRequest) -> whence.LayeredModel:
    return tiny(request.param, "question_answering")


def ends(model: whence.LayeredModel, question: str = QUESTION, context: str = CONTEXT) -> tuple[Tensor, Tensor]:
    found = output(model, question, context)
    return found.start_logits[0], found.end_logits[0]


def covering(model: whence.LayeredModel, character: int) -> int:
    """The token of the context over a character, by the tokenizer's own word."""
    tokenizer: Any = model.tokenizer.tokenizer  # type: ignore[attr-defined]
    position: int = tokenizer(QUESTION, CONTEXT).char_to_token(character, sequence_index=1)
    return position


def test_the_best_answer_by_trying_all(answerer: whence.LayeredModel) -> None:
    for question, context in PAIRS:
        starts, stops = ends(answerer, question, context)
        tokens = answerer.encode(question, context).tokens
        inside = [i for i, token in enumerate(tokens) if token.segment == 1 and not token.special]
        spans = [(i, j) for i in inside for j in inside if i <= j < i + LONGEST_ANSWER]
        first, last = max(spans, key=lambda span: float(starts[span[0]] + stops[span[1]]))
        explanation = whence.explain(answerer, (question, context), "gradient_x_input")
        assert explanation.target.value == close(starts[first] + stops[last])
        assert explanation.target.description.startswith(f"answer tokens {first} to {last} (")
        assert explanation.prediction.label == context[tokens[first].start : tokens[last].end].strip()
        chance = starts.softmax(-1)[first] * stops.softmax(-1)[last]
        assert explanation.prediction.probability == close(chance)


@pytest.mark.parametrize("answer", ["the end", "worst time of the year", "sad", "the worst", "hope"])
def test_an_answer_by_its_characters(answerer: whence.LayeredModel, answer: str) -> None:
    start = CONTEXT.index(answer)
    target = whence.Span(start, start + len(answer))
    first, last = covering(answerer, start), covering(answerer, start + len(answer) - 1)
    starts, stops = ends(answerer)
    assert explained(answerer, (QUESTION, CONTEXT), target=target).value == close(starts[first] + stops[last])
    both = explained(answerer, (QUESTION, CONTEXT), target=target, scale="log_probability").value
    assert both == close(starts.log_softmax(-1)[first] + stops.log_softmax(-1)[last])
    chance = explained(answerer, (QUESTION, CONTEXT), target=target, scale="probability").value
    assert chance == close(starts.softmax(-1)[first] * stops.softmax(-1)[last])


def test_one_answer_rather_than_another(answerer: whence.LayeredModel) -> None:
    this, that = (whence.Span(CONTEXT.index(word), CONTEXT.index(word) + len(word)) for word in ("sad", "hope"))
    apart = [explained(answerer, (QUESTION, CONTEXT), target=target).value for target in (this, that)]
    found = explained(answerer, (QUESTION, CONTEXT), target=whence.Contrast(this, that))
    assert found.value == close(apart[0] - apart[1])
    assert " rather than " in found.description


@pytest.mark.parametrize("scale", ["probability", "log_probability"])
def test_padding_gets_no_share_of_an_answers_probability(answerer: whence.LayeredModel, scale: Any) -> None:
    together = whence.explain(answerer, PAIRS, "gradient_x_input", scale=scale)
    for pair, explanation in zip(PAIRS, together, strict=True):
        assert explanation.target.value == close(explained(answerer, pair, scale=scale).value)


@pytest.mark.parametrize(
    ("target", "problem", "advice"),
    [
        (whence.Span(3, 4), "no token covers character 3", "it is a space, lies outside the text, or was cut off"),
        (whence.Span(5, 500), "no token covers character 499", "it is a space, lies outside the text"),
        (whence.Span(5, 5), "an answer span must not be empty, got 5:5", "give whence.Span(start, end) with end after"),
        ("good", "'good' is no target of question answering", "use 'predicted' or whence.Span(start, end)"),
        (1, "1 is no target of question answering", "use 'predicted' or whence.Span(start, end)"),
    ],
)
def test_no_such_answer(target: Any, problem: str, advice: str) -> None:
    with pytest.raises(whence.UsageError) as caught:
        explained(tiny("bert", "question_answering"), (QUESTION, CONTEXT), target=target)
    first, second = str(caught.value).splitlines()
    assert first == problem
    assert second.startswith(advice)


# Tags.


@pytest.fixture(scope="module", params=["bert", "roberta", "llama"])
def tagger(request: pytest.FixtureRequest) -> whence.LayeredModel:
    return tiny(request.param, "token_classification")


@pytest.mark.parametrize("word", ["best", "movie", "year"])
def test_the_tag_at_a_character(tagger: whence.LayeredModel, word: str) -> None:
    at = TEXT.index(word) + 1
    tokenizer: Any = tagger.tokenizer.tokenizer  # type: ignore[attr-defined]
    position = tokenizer(TEXT).char_to_token(at)
    logits = output(tagger, TEXT).logits[0, position]
    found = explained(tagger, target=whence.Label(at=at))
    assert found.value == close(logits.max())
    assert found.description.startswith(f"{LABELS[int(logits.argmax())]} at token {position} (")
    named = explained(tagger, target=whence.Label("bad", at=at), scale="log_probability")
    assert named.value == close(logits.log_softmax(-1)[0])
    rather = explained(tagger, target=whence.Contrast(whence.Label("good", at=at), whence.Label("bad", at=at)))
    assert rather.value == close(logits[2] - logits[0])


def test_the_surest_tag_by_default(tagger: whence.LayeredModel) -> None:
    """Among real tokens, tag 0 ("outside") only if there is nothing else."""
    logits = output(tagger, TEXT).logits[0]
    tokens = tagger.encode(TEXT).tokens
    chances = logits.softmax(-1)
    tagged = [i for i, token in enumerate(tokens) if not token.special and int(chances[i].argmax()) != 0]
    assert tagged, "the tiny model tags nothing"
    surest = max(tagged, key=lambda i: float(chances[i].max()))
    found = explained(tagger)
    assert found.value == close(logits[surest].max())
    assert f" at token {surest} (" in found.description


def test_a_character_without_a_token(tagger: whence.LayeredModel) -> None:
    with pytest.raises(whence.UsageError, match="no token covers character 900\nit is a space, lies outside the text"):
        explained(tagger, target=whence.Label(at=900))


# Words of a language model.


@pytest.fixture(scope="module", params=["bert", "roberta", "modernbert", "deberta-v3"])
def filler(request: pytest.FixtureRequest) -> whence.LayeredModel:
    return tiny(request.param, "masked_lm")


def masked(model: whence.LayeredModel) -> tuple[str, Any]:
    tokenizer: Any = model.tokenizer.tokenizer  # type: ignore[attr-defined]
    return f"not the best {tokenizer.mask_token} of the year", tokenizer


def test_the_word_at_the_mask(filler: whence.LayeredModel) -> None:
    text, tokenizer = masked(filler)
    position = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
    logits = output(filler, text).logits[0, position]
    best = int(logits.argmax())
    found = explained(filler, text)
    assert (found.description, found.value) == (filler.reading.labels.name(best), close(logits[best]))
    for label in (17, tokenizer.convert_ids_to_tokens(17)):
        named = explained(filler, text, target=label, scale="log_probability")
        assert named.value == close(logits.log_softmax(-1)[17])
    assert explained(filler, text, target=whence.Contrast(20, 30)).value == close(logits[20] - logits[30])
    assert whence.explain(filler, text, "random").prediction.probability == close(logits.softmax(-1).max())


def test_which_of_two_masks(filler: whence.LayeredModel) -> None:
    _, tokenizer = masked(filler)
    mask = tokenizer.mask_token
    text = f"a {mask} film of {mask}"
    ids = tokenizer(text)["input_ids"]
    positions = [i for i, number in enumerate(ids) if number == tokenizer.mask_token_id]
    logits = output(filler, text).logits[0]
    assert explained(filler, text).value == close(logits[positions[0]].max())
    first, second = text.index(mask), text.rindex(mask)
    assert explained(filler, text, target=whence.Label(at=first)).value == close(logits[positions[0]].max())
    assert explained(filler, text, target=whence.Label(at=second)).value == close(logits[positions[1]].max())


def test_a_contrast_is_read_at_one_place(filler: whence.LayeredModel) -> None:
    _, tokenizer = masked(filler)
    text = f"a {tokenizer.mask_token} film of {tokenizer.mask_token}"
    position = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
    logits = output(filler, text).logits[0, position]
    both = explained(filler, text, target=whence.Contrast(whence.Label(7, at=2), 8))
    assert both.value == close(logits[7] - logits[8])
    for this in (7, whence.Label(7, at=2)):
        with pytest.raises(whence.UsageError, match="a language model is read at one character of the text\ngive both"):
            explained(filler, text, target=whence.Contrast(this, whence.Label(8, at=text.rindex(tokenizer.mask_token))))


def test_a_word_that_is_there(filler: whence.LayeredModel) -> None:
    at = TEXT.index("year")
    tokenizer: Any = filler.tokenizer.tokenizer  # type: ignore[attr-defined]
    logits = output(filler, TEXT).logits[0, tokenizer(TEXT).char_to_token(at)]
    assert explained(filler, target=whence.Label(9, at=at)).value == close(logits[9])


def test_a_text_without_a_mask(filler: whence.LayeredModel) -> None:
    _, tokenizer = masked(filler)
    with pytest.raises(whence.InputError) as caught:
        explained(filler)
    assert str(caught.value).splitlines() == [
        "the text holds no mask for the model to fill",
        f"write {tokenizer.mask_token} where a word is wanted, or give target=Label(at=CHARACTER)",
    ]


@pytest.fixture(scope="module", params=["gpt2", "llama", "gemma3", "opt"])
def writer(request: pytest.FixtureRequest) -> whence.LayeredModel:
    return tiny(request.param, "causal_lm")


def test_the_next_token(writer: whence.LayeredModel) -> None:
    logits = output(writer, TEXT).logits[0, -1]
    tokenizer: Any = writer.tokenizer.tokenizer  # type: ignore[attr-defined]
    best = int(logits.argmax())
    found = explained(writer)
    assert (found.description, found.value) == (writer.reading.labels.name(best), close(logits[best]))
    name = f'"{tokenizer.convert_ids_to_tokens(40)}"'.replace("▁", " ")
    assert explained(writer, target=name, scale="log_probability").value == close(logits.log_softmax(-1)[40])
    assert explained(writer, target=whence.Contrast(40, 50)).value == close(logits[40] - logits[50])
    assert len(whence.explain(writer, TEXT, "random").prediction.probabilities) == 10


def test_the_token_at_a_character_is_predicted_from_what_stands_before(writer: whence.LayeredModel) -> None:
    at = TEXT.index("movie")
    tokenizer: Any = writer.tokenizer.tokenizer  # type: ignore[attr-defined]
    position = tokenizer(TEXT).char_to_token(at)
    own = tokenizer(TEXT)["input_ids"][position]
    logits = output(writer, TEXT).logits[0, position - 1]
    assert explained(writer, target=whence.Label(own, at=at)).value == close(logits[own])
    assert explained(writer, target=whence.Label(at=at)).value == close(logits.max())
    both = explained(writer, target=whence.Contrast(whence.Label(own, at=at), 12))
    assert both.value == close(logits[own] - logits[12])


def test_the_first_token_is_predicted_from_nothing() -> None:
    with pytest.raises(whence.UsageError) as caught:
        explained(tiny("gpt2", "causal_lm"), target=whence.Label(at=0))
    assert str(caught.value).splitlines() == [
        "character 0 is in the first token, which a decoder predicts from nothing",
        "ask about a later character",
    ]
    after_start = tiny("llama", "causal_lm")  # its tokenizer puts <s> in front
    assert explained(after_start, target=whence.Label(at=0)).value == close(
        output(after_start, TEXT).logits[0, 0].max()
    )


def test_a_label_is_the_form_that_the_model_would_write_next() -> None:
    model, tokenizer = tiny("gpt2", "causal_lm"), tiny_models.bare()
    apart, glued = (tokenizer.convert_tokens_to_ids(piece) for piece in ("Ġthe", "the"))
    for text, number, name in [(TEXT, apart, '" the"'), (f"{TEXT} ", glued, "the")]:
        logits = output(model, text).logits[0, -1]
        assert logits[apart] != logits[glued]
        found = explained(model, text, target="the")
        assert (found.description, found.value) == (name, close(logits[number]))
    logits = output(model, TEXT).logits[0, -1]
    for label, number in [(" the", apart), ('" the"', apart), ("Ġthe", apart), ('"the"', glued), (glued, glued)]:
        assert explained(model, target=label).value == close(logits[number]), label
    inside = whence.Label("the", at=TEXT.index("best"))
    assert explained(model, target=inside).description == '" the"'


def test_a_filled_mask_is_written_as_it_would_stand_there() -> None:
    model, tokenizer = tiny("roberta", "masked_lm"), tiny_models.byte_level()
    glued, apart = f"a {tokenizer.mask_token}", f"a{tokenizer.mask_token}"
    assert explained(model, glued, target="the").description == "the"
    assert explained(model, apart, target="the").description == '" the"'
    assert explained(tiny("bert", "masked_lm"), "a [MASK] film", target="Good").description == "good"
    assert explained(tiny("bert", "masked_lm"), "a [MASK] film", target="…ness").description == "…ness"


@pytest.mark.parametrize("name", tiny_models.TOKENIZERS)
def test_what_a_person_reads_is_text(name: str) -> None:
    """No mark of a tokenizer in any name, and every token is found by its text again."""
    tokenizer = tiny_models.TOKENIZERS[name]()
    labels = VocabularyLabels(tokenizer)
    texts = [labels.text(index) for index in range(len(tokenizer))]
    for index, text in enumerate(texts):
        assert not any(mark in labels.name(index) for mark in ("Ġ", "Ċ", "▁", "##"))
        if text != f"<{index}>" and texts.count(text) == 1:
            assert labels.index(json.dumps(text)) == index
    assert sum(text != f"<{index}>" for index, text in enumerate(texts)) > len(texts) / 2


@pytest.mark.parametrize(("family", "head"), [("roberta", "masked_lm"), ("gpt2", "causal_lm"), ("llama", "causal_lm")])
def test_predictions_are_text(family: str, head: str) -> None:
    for explanation in whence.explain(tiny(family, head), tiny_models.texts_for(family, head), "random"):
        shown = [str(explanation.prediction), str(explanation.target), *explanation.prediction.probabilities]
        assert not any(mark in each for each in shown for mark in ("Ġ", "Ċ", "▁"))


@pytest.mark.parametrize("head", ["question_answering", "token_classification"])
@pytest.mark.parametrize("family", ["roberta", "llama", "bert"])
def test_what_is_explained_is_said_in_the_users_words(family: str, head: str) -> None:
    texts = [("why so sad", "an unhappiness that is unfunny")] if head == "question_answering" else ["an unhappiness"]
    description = whence.explain(tiny(family, head), texts, "random")[0].target.description
    assert not any(mark in description for mark in ("Ġ", "▁", "##"))
    assert description.split("(")[1].rstrip(")") in str(texts)


def test_a_name_of_several_pieces(writer: whence.LayeredModel) -> None:
    with pytest.raises(whence.UsageError) as caught:
        explained(writer, target="unhappiness")
    first, second = str(caught.value).splitlines()
    assert first == '" unhappiness" is not one token of the vocabulary'
    tokenizer: Any = writer.tokenizer.tokenizer  # type: ignore[attr-defined]
    pieces = [piece.replace("Ġ", " ").replace("▁", " ") for piece in tokenizer.tokenize(" unhappiness")]
    assert len(pieces) > 1
    assert second.startswith("it is cut into ")
    assert second.endswith(": name one of these")
    shown = second.removeprefix("it is cut into ").removesuffix(": name one of these")
    assert shown == ", ".join(f'"{piece}"' for piece in pieces)


def test_a_form_that_is_several_tokens_is_no_guess() -> None:
    """After a word "ly" would be written with a space, which is two tokens here: the user says which is meant."""
    model = tiny("gpt2", "causal_lm")
    labels: Any = model.reading.labels
    glued = next(
        name
        for name in (labels.name(index) for index in range(len(tiny_models.bare())))
        if name.isalpha() and name.isascii() and len(name) > 1 and labels._token(f" {name}") is None
    )
    with pytest.raises(whence.UsageError) as caught:
        explained(model, target=glued)
    assert f'" {glued}" is not one token' in str(caught.value)
    assert f'"{glued}", exactly so with the quotes, is one token' in str(caught.value)
    assert explained(model, target=f'"{glued}"').description == glued


@pytest.mark.parametrize("number", [-1, 10_000])
def test_an_id_that_no_token_has(writer: whence.LayeredModel, number: int) -> None:
    tokenizer: Any = writer.tokenizer.tokenizer  # type: ignore[attr-defined]
    with pytest.raises(whence.UsageError) as caught:
        explained(writer, target=number)
    assert str(caught.value) == f"no token has id {number}\nids go from 0 to {len(tokenizer) - 1}"


def test_no_more_logits_than_asked_for(writer: whence.LayeredModel) -> None:
    """A language model's last matrix sees one token a row, so that no micro-batch holds a whole table of logits."""
    seen = []
    head: Any = writer.module.get_output_embeddings()  # type: ignore[operator]
    handle = head.register_forward_hook(lambda module, args, logits: seen.append(tuple(logits.shape)))
    try:
        whence.explain(writer, TEXTS, "leave_one_out", layers=[0, 2])
    finally:
        handle.remove()
    assert seen
    assert {shape[1] for shape in seen} == {1}


def test_the_command_takes_the_form_that_the_model_would_write(tmp_path: Path) -> None:
    tiny_models.build("gpt2", "causal_lm").save_pretrained(tmp_path)
    tiny_models.bare().save_pretrained(tmp_path)
    model = tiny("gpt2", "causal_lm")
    command = ["explain", TEXT, "-m", str(tmp_path), "--method", "gradient_x_input", "--json"]
    result = CliRunner().invoke(app, [*command, "--target", "the", "--against", "so"])
    assert result.exit_code == 0, result.output
    target = json.loads(result.stdout)["target"]
    assert target["description"] == '" the" rather than " so"'
    assert target["value"] == close(explained(model, target=whence.Contrast(" the", " so")).value)
    result = CliRunner().invoke(app, [*command, "--target", "the", "--at", str(TEXT.index("best"))])
    assert json.loads(result.stdout)["target"]["value"] == close(
        explained(model, target=whence.Label(" the", at=TEXT.index("best"))).value
    )
    several = CliRunner().invoke(app, [*command, "--target", "unhappiness"])
    assert several.exit_code == 2
    assert not any(mark in several.output for mark in ("Ġ", "Ċ"))
