"""Responses: prompts and what was written after them, as token ids, scored in one pass and with tokens deleted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch

import whence
from whence import testing
from whence.models import shared_beginning
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.models.responses import generate, generate_each, log_probabilities_without, responding
from whence.selection import select

DECODERS = ("gpt2", "llama", "qwen3", "gemma2", "opt", "gpt-neox")
PROMPT = "the plot was not bad, but it is too long and so very dull in the end!"
RESPONSE = " she could not say why the film was so sad"


def view(family: str) -> LayeredModel:
    return responding(tiny_models.tiny(family, "causal_lm"))


def fresh(model: LayeredModel, prompt: list[int], response: list[int]) -> list[float]:
    """The log-probability of each token of the response, each by a run of its own on all that stands before it."""
    module: Any = model.module
    found = []
    for number, label in enumerate(response):
        ids = torch.tensor([prompt + response[:number]])
        with torch.no_grad():
            found.append(float(module(ids).logits[0, -1].double().log_softmax(-1)[label]))
    return found


def halves(encoding: Encoding) -> tuple[list[int], list[int]]:
    first = encoding.response.start
    return encoding.ids[:first], encoding.ids[first:]


@pytest.mark.parametrize("family", DECODERS)
def test_one_pass_scores_every_token_of_a_response(family: str) -> None:
    model = view(family)
    encoding = model.encode(PROMPT, RESPONSE)
    inputs = model.collate([encoding])
    with torch.no_grad():
        logits = model.run(inputs)
    assert logits.shape == (1, len(encoding.response), logits.shape[-1])
    found = select("all", "log_probability", model.reading, logits, [encoding])
    expected = fresh(model, *halves(encoding))
    assert float(found.of(logits, inputs.mask)[0]) == pytest.approx(sum(expected), abs=1e-4)


def test_logits_are_made_only_where_a_response_is_read() -> None:
    model = view("gpt2")
    head = model.module.get_output_embeddings()  # type: ignore[operator]
    seen: list[int] = []
    handle = head.register_forward_hook(lambda module, args, output: seen.append(output.shape[:2].numel()))
    try:
        encodings = [model.encode(PROMPT, RESPONSE), model.encode("a film", " the end")]
        model.run(model.collate(encodings))
    finally:
        handle.remove()
    assert seen == [2 * len(encodings[0].response)]


@pytest.mark.parametrize("family", DECODERS)
def test_a_response_in_a_batch_is_scored_as_alone(family: str) -> None:
    model = view(family)
    encodings = [model.encode(PROMPT, RESPONSE), model.encode("a witty film", " too long"), model.encode("no", " plot")]
    together = model.run(model.collate(encodings))
    for row, encoding in enumerate(encodings):
        alone = model.run(model.collate([encoding]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-5, atol=1e-5)


def test_a_response_goes_on_from_any_layer() -> None:
    model = view("llama")
    inputs = model.collate([model.encode(PROMPT, RESPONSE), model.encode("a witty film", " too long")])
    states = model.states(inputs)
    for layer in ("embeddings", 0, 1, model.n_layers):
        resumed = model.resume(layer, states.at(layer), inputs)
        torch.testing.assert_close(resumed, states.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("family", DECODERS)
def test_deleting_from_the_prompt_is_a_fresh_run_on_what_is_left(
    family: str, sharing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sharing:
        monkeypatch.setattr(shared_beginning, "_WORTH_A_PASS", 1e9)
    model = view(family)
    encoding = model.encode(PROMPT, RESPONSE)
    prompt, response = halves(encoding)
    draw = random.Random(0)
    rows = [[True] * len(prompt)]
    rows += [[i != gone for i in range(len(prompt))] for gone in range(len(prompt))]
    rows += [[i == 0 or draw.random() < 0.5 for i in range(len(prompt))] for _ in range(8)]
    keep = torch.tensor([[*row, *[False] * len(response)] for row in rows])
    found = log_probabilities_without(model, encoding, keep, batch_tokens=100)
    for row, told in zip(rows, found.tolist(), strict=True):
        left = [number for number, kept in zip(prompt, row, strict=True) if kept]
        assert told == pytest.approx(fresh(model, left, response), rel=1e-5, abs=1e-5)


def test_a_response_of_which_the_whole_prompt_is_gone_follows_the_beginning() -> None:
    model = view("llama")
    encoding = model.encode("<s> " + PROMPT, RESPONSE)
    prompt, response = halves(encoding)
    told = log_probabilities_without(model, encoding, torch.zeros(1, len(encoding), dtype=torch.bool))
    assert told[0].tolist() == pytest.approx(fresh(model, [prompt[0]], response), abs=1e-4)
    bare = view("gpt2")  # which has no token to begin with: a position of zeros stands for it
    encoding = bare.encode(PROMPT, RESPONSE)
    told = log_probabilities_without(bare, encoding, torch.zeros(1, len(encoding), dtype=torch.bool))
    response = halves(encoding)[1]
    words = bare.embed(torch.tensor([[0, *response]]))
    words[0, 0] = 0
    with torch.no_grad():
        logits = bare.module(inputs_embeds=words).logits[0, :-1].log_softmax(-1)
    expected = logits.gather(1, torch.tensor(response)[:, None])[:, 0]
    torch.testing.assert_close(told[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_token_ids_are_taken_as_they_are(family: str) -> None:
    """Of ids that no tokenizer would give for the text, none changes."""
    model = view(family)
    size = 60
    for seed in range(20):
        draw = random.Random(seed)
        prompt, response = ([draw.randrange(5, size) for _ in range(7)] for _ in range(2))
        try:
            encoding = model.encode_response(prompt, response)
        except whence.InputError:
            continue  # nothing visible
        assert encoding.ids == prompt + response
        assert all(token.segment == (i >= 7) for i, token in enumerate(encoding.tokens))
        assert all(token.special for token in encoding.tokens[7:])


def test_a_response_of_ids_has_the_text_they_stand_for() -> None:
    model = view("gpt2")
    written = model.encode_response("a film", " ist das schön? 👍🏽 日本語 end")
    again = model.encode_response("a film", halves(written)[1])
    assert again.pair == written.pair == " ist das schön? 👍🏽 日本語 end"
    pieces = {(token.start, token.end) for token in again.tokens[again.response.start :]}
    assert "".join(again.pair[start:end] for start, end in sorted(pieces)) == again.pair
    bytes_of_a_letter = [token for token in again.tokens[again.response.start :] if again.pair[token.start] == "日"]
    assert len(bytes_of_a_letter) > 1
    assert {(token.start, token.end) for token in bytes_of_a_letter} == {
        (again.pair.index("日"), again.pair.index("日") + 1)
    }


def test_a_space_that_the_tokenizer_puts_in_front_is_not_put_there_twice() -> None:
    model = view("llama")
    assert halves(model.encode_response("the", " plot"))[1] == halves(model.encode_response("the", "plot"))[1]
    encoding = model.encode_response("the", " plot was")
    assert encoding.pair is not None
    assert [encoding.pair[token.start : token.end] for token in encoding.tokens[encoding.response.start :]] == [
        " plot",
        " was",
    ]  # fmt: skip


@pytest.mark.parametrize("family", DECODERS)
def test_greedy_writing_is_the_likeliest_token_each_time(family: str) -> None:
    model = tiny_models.tiny(family, "causal_lm")
    module: Any = model.module
    prompt = model.encode("a witty film").ids
    written = generate(model, prompt, max_new_tokens=6)
    expected = list(prompt)
    for _ in range(6):
        with torch.no_grad():
            expected.append(int(module(torch.tensor([expected])).logits[0, -1].argmax()))
    assert written == expected[len(prompt) :]


def test_writing_leaves_the_model_as_found_and_repeats_with_a_seed() -> None:
    model = tiny_models.tiny("gpt2", "causal_lm")
    prompt = model.encode("a witty film").ids
    module: Any = model.module
    before, config = testing._snapshot(model), module.generation_config.to_dict()
    drawn = [generate(model, prompt, max_new_tokens=8, sample=True, seed=seed) for seed in (1, 1, 2)]
    testing._assert_same(before, testing._snapshot(model))
    assert module.generation_config.to_dict() == config
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_is_drawn_for_a_prompt_does_not_depend_on_the_others() -> None:
    model = tiny_models.tiny("gpt2", "causal_lm")
    prompts = [model.encode(text).ids for text in ("a witty film", "a witty plot", "why so sad")]
    together = generate_each(model, prompts, max_new_tokens=8, sample=True, seed=3)
    assert together == [generate(model, prompt, max_new_tokens=8, sample=True, seed=3) for prompt in prompts]
    assert together != generate_each(model, prompts, max_new_tokens=8)


def test_arrays_tensors_and_tuples_of_ids_are_ids() -> None:
    model = view("gpt2")
    expected = model.encode_response([5, 6, 7], [8, 9])
    makers: tuple[Any, ...] = (np.array, torch.tensor, tuple)
    for made in makers:
        assert model.encode_response(made([5, 6, 7]), made([8, 9])) == expected


def test_the_token_that_ends_a_response_is_no_part_of_it() -> None:
    model = tiny_models.tiny("gpt2", "causal_lm")
    module: Any = model.module
    prompt = model.encode("a witty film").ids
    written = generate(model, prompt, max_new_tokens=6)
    end = written[3]
    module.generation_config.eos_token_id = [end]
    try:
        assert generate(model, prompt, max_new_tokens=6) == written[: written.index(end)]
    finally:
        module.generation_config.eos_token_id = None


@pytest.mark.parametrize(
    ("prompt", "response", "complaint"),
    [
        ("a film", "", "the response is empty"),
        ("a film", " \n ", "the response is empty"),
        ("a film", [], "the response is empty"),
        ("", " a film", "the prompt is empty"),
        ("the plot " * 20, " was dull" * 30, "prompt and response take \\d+ tokens, the model reads 64"),
        ("a film", [5, 99_999], "the model has no token with id 99999"),
        ("a film", [5, -1], "the model has no token with id -1"),
        ([1.5], " end", "the model has no token with id 1.5"),
        (np.array([1.5]), " end", "the model has no token with id 1.5"),
        ("a film", 5, "5 is neither a text nor token ids"),
        ("a film", {5, 6}, "is neither a text nor token ids"),
        ([5] * 65, " end", "the prompt takes 65 tokens, the model reads 64"),
    ],
)
def test_what_cannot_be_a_response_is_refused(prompt: Any, response: Any, complaint: str) -> None:
    with pytest.raises(whence.UsageError, match=complaint):
        view("gpt2").encode_response(prompt, response)


def test_a_model_that_does_not_write_is_refused(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.ModelError, match="is a model for classification: it writes no response"):
        responding(bert)
    with pytest.raises(whence.UsageError, match="max_new_tokens must be a number of at least 1"):
        generate(tiny_models.tiny("gpt2", "causal_lm"), [5], max_new_tokens=0)
    with pytest.raises(whence.InputError, match="the prompt takes 64 tokens, the model reads 64"):
        generate(tiny_models.tiny("gpt2", "causal_lm"), [5] * 64)


def test_a_model_loaded_for_responses_takes_them_as_pairs() -> None:
    model = whence.load(tiny_models.build("gpt2", "causal_lm"), tiny_models.tokenizer_of("gpt2"), task="response")
    assert model.encode(PROMPT, RESPONSE) == view("gpt2").encode(PROMPT, RESPONSE)
    assert model.head is not None
    with pytest.raises(whence.InputError, match="response takes two texts"):
        model.encode(PROMPT)
