"""Explanations of responses: every token in one pass, equal to asking about each by itself."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from quick_probes import quick_shares

import whence
from whence import testing
from whence.models.responses import log_probabilities_without, responding
from whence.testing import METHOD_CHECKS

PROMPT = "the plot was not bad, but it is too long"
RESPONSE = " she could not say why"
SHORT_PROMPT = "a witty film"
AMORTISED = ("one_pass", "amortised_shapley")
TOLD_APART = [name for name, method in whence.METHODS.items() if method.tells_outputs]
QUICK: dict[str, dict[str, Any]] = {
    "integrated_gradients": {"steps": 5},
    "shapley": {"samples": 3},
    "lime": {"samples": 30},
    "kernel_shap": {"samples": 30},
    "gradient_shap": {"samples": 4},
    "smooth_grad": {"samples": 3},
    "information_bottleneck": {"steps": 3},
    "noise_tolerance": {"steps": 3},
}


def decoder(family: str = "gpt2") -> whence.LayeredModel:
    return tiny_models.tiny(family, "causal_lm")


@functools.cache
def quick_told(family: str) -> whence.ShapleyProbes:
    prompts = list(tiny_models.TEXTS) * 4
    return quick_shares(decoder(family), prompts, responses=[testing.PAIR] * len(prompts))


def options_of(method: str, family: str) -> dict[str, Any]:
    """Fewer steps or draws, or probes trained on responses for a moment."""
    return {"probes": quick_told(family)} if method in AMORTISED else QUICK.get(method, {})


def brute_force(model: whence.LayeredModel, text: str, response: str) -> tuple[list[int], list[int], Any]:
    """Prompt ids, response ids, and a function from any ids before to the response's log-probabilities."""
    encoding = responding(model).encode_response(text, response)
    first = encoding.response.start
    prompt, written = encoding.ids[:first], encoding.ids[first:]
    module: Any = model.module

    def scored(before: list[int]) -> np.ndarray:
        with torch.no_grad():
            logits = module(torch.tensor([before + written])).logits[0, len(before) - 1 : -1].double().log_softmax(-1)
        return np.array([float(logits[i, label]) for i, label in enumerate(written)])

    return prompt, written, scored


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "gemma2"])
def test_leave_one_out_is_a_run_without_each_token(family: str) -> None:
    model = decoder(family)
    found = whence.explain(model, PROMPT, response=RESPONSE)
    assert found.method == "leave_one_out"
    assert found.options["baseline"] == "delete"
    prompt, _, scored = brute_force(model, PROMPT, RESPONSE)
    whole = scored(prompt)
    assert found.outputs is not None
    assert found.outputs.values == pytest.approx(whole.tolist(), abs=1e-4)
    assert found.target.value == pytest.approx(whole.sum(), abs=1e-4)
    for position, token in enumerate(found.tokens[: len(prompt)]):
        if not token.special:
            lost = whole - scored(prompt[:position] + prompt[position + 1 :])
            np.testing.assert_allclose(found.outputs.scores[:, 0, position], lost, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found.scores[0, position], lost.sum(), rtol=1e-4, atol=2e-4)
    assert not found.scores[:, len(prompt) :].any()
    assert not found.outputs.scores[:, :, len(prompt) :].any()


@pytest.mark.parametrize("method", ["gradient_x_input", "held_still", "integrated_gradients", "leave_one_out"])
def test_the_whole_alone_is_the_whole_beside_its_tokens(method: str) -> None:
    model = decoder("llama")
    options = {"response": RESPONSE, **QUICK.get(method, {})}
    apart, whole = (whence.explain(model, PROMPT, method, each_token=each, **options) for each in (True, False))
    assert apart.outputs is not None
    assert whole.outputs is None
    np.testing.assert_allclose(whole.scores, apart.scores, rtol=1e-4, atol=1e-6)
    if whence.METHODS[method].differentiable:
        assert apart.cost.backwards >= len(apart.outputs.positions) * whole.cost.backwards


def test_shapley_values_of_words_are_those_of_all_orders() -> None:
    model = decoder()
    found = whence.explain(model, SHORT_PROMPT, "shapley", response=RESPONSE, units="word", baseline="delete")
    encoding = responding(model).encode_response(SHORT_PROMPT, RESPONSE)
    assert found.units is not None
    assert found.outputs is not None
    players = [unit.tokens for unit in found.units.units]
    earned = {}
    for size in range(len(players) + 1):
        for members in itertools.combinations(range(len(players)), size):
            keep = torch.zeros(1, len(encoding), dtype=torch.bool)
            for member in members:
                keep[0, list(players[member])] = True
            earned[frozenset(members)] = log_probabilities_without(model, encoding, keep)[0].double().numpy()
    for player in range(len(players)):
        expected = np.zeros(len(encoding.response))
        for coalition, value in earned.items():
            if player not in coalition:
                orders = (
                    factorial(len(coalition)) * factorial(len(players) - len(coalition) - 1) / factorial(len(players))
                )
                expected += orders * (earned[coalition | {player}] - value)
        own = found.outputs.scores[:, 0, list(players[player])].sum(axis=1)
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-4)
        assert found.units.scores[0, player] == pytest.approx(expected.sum(), abs=2e-4)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("method", TOLD_APART)
def test_all_tokens_at_once_are_each_by_itself(method: str, family: str) -> None:
    """The scores of every token are those of a target that is this token alone."""
    model = decoder(family)
    layers: Any = "all" if whence.METHODS[method].layers == "all" else ["embeddings", 1]
    if whence.METHODS[method].only_there:
        layers = "embeddings"
    options = {"layers": layers, **options_of(method, family)}
    together = whence.explain(model, PROMPT, method, response=RESPONSE, **options)
    assert together.outputs is not None
    assert together.scores.shape == together.outputs.scores.shape[1:]
    for number, position in enumerate(together.outputs.positions):
        token = together.tokens[position]
        alone = whence.explain(
            model, PROMPT, method, response=RESPONSE, target=whence.Span(token.start, token.end), **options
        )
        assert alone.outputs is not None
        assert alone.outputs.positions == (position,)
        scale = np.abs(alone.scores).max()
        np.testing.assert_allclose(together.outputs.scores[number], alone.scores, rtol=1e-3, atol=1e-4 * scale)
        np.testing.assert_allclose(alone.outputs.scores[0], alone.scores)
        assert together.outputs.values[number] == pytest.approx(alone.target.value, abs=1e-4)
    if whence.METHODS[method].linear:
        size = np.abs(together.scores).max()
        np.testing.assert_allclose(together.outputs.scores.sum(axis=0), together.scores, rtol=1e-3, atol=1e-4 * size)


@pytest.mark.parametrize("method", ["gradient_x_input", "attn_lrp", "integrated_gradients", "gradient"])
def test_batched_backwards_are_a_loop_over_tokens(method: str) -> None:
    """With a token budget that holds one text, every token's backward pass is one of its own."""
    options = QUICK.get(method, {})
    many = whence.explain(decoder(), PROMPT, method, response=RESPONSE, batch_tokens=10_000, **options)
    one = whence.explain(decoder(), PROMPT, method, response=RESPONSE, batch_tokens=1, **options)
    assert many.outputs is not None
    assert one.outputs is not None
    np.testing.assert_allclose(many.outputs.scores, one.outputs.scores, rtol=1e-4, atol=1e-5)
    assert many.cost.backwards == one.cost.backwards
    assert many.cost.forwards == one.cost.forwards


def test_a_gradient_is_that_of_the_models_own_loss() -> None:
    """An independent route: transformers' own loss of the response, and its gradient at the word embeddings."""
    model = decoder("llama")
    prompt, written, _ = brute_force(model, PROMPT, RESPONSE)
    module: Any = model.module
    words = model.embed(torch.tensor([prompt + written])).requires_grad_()
    labels = torch.tensor([[-100] * len(prompt) + written])
    loss = module(inputs_embeds=words, labels=labels).loss * len(written)
    (gradient,) = torch.autograd.grad(-loss, words)
    expected = (words.detach() * gradient).sum(dim=-1)[0, : len(prompt)]
    found = whence.explain(model, PROMPT, "gradient_x_input", response=RESPONSE, layers="embeddings")
    np.testing.assert_allclose(found.scores[0, : len(prompt)], expected, rtol=1e-3, atol=1e-4)
    assert found.target.value == pytest.approx(-float(loss.detach()), rel=1e-5)


@pytest.mark.parametrize("in_tokens", [True, False])
def test_leave_one_out_is_captums(in_tokens: bool) -> None:
    """captum asks with `use_cached_outputs=False`: its default cache is wrong after the first token of a response."""
    from captum.attr import FeatureAblation, LLMAttribution

    model = decoder("llama")
    attribution = LLMAttribution(FeatureAblation(model.module), tiny_models.tokenizer_of("llama"))
    prompt, written, _ = brute_force(model, PROMPT, RESPONSE)
    theirs = attribution.attribute(
        as_captum_reads(prompt), target=torch.tensor(written), use_cached_outputs=False, forward_in_tokens=in_tokens
    )
    found = whence.explain(model, prompt, "leave_one_out", response=written, baseline=7, special=True)
    assert found.outputs is not None
    ours = found.outputs.scores[:, 0, : len(prompt)]
    np.testing.assert_allclose(ours, np.asarray(theirs.token_attr), rtol=1e-4, atol=1e-5)


def test_gradient_x_input_is_captums() -> None:
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution

    model = decoder("llama")
    module: Any = model.module
    inner = LayerGradientXActivation(module, module.get_input_embeddings())
    prompt, written, _ = brute_force(model, PROMPT, RESPONSE)
    theirs = LLMGradientAttribution(inner, tiny_models.tokenizer_of("llama")).attribute(
        as_captum_reads(prompt), target=torch.tensor(written)
    )
    found = whence.explain(model, prompt, "gradient_x_input", response=written, layers="embeddings")
    assert found.outputs is not None
    ours = found.outputs.scores[:, 0, : len(prompt)]
    np.testing.assert_allclose(ours, np.asarray(theirs.token_attr), rtol=1e-4, atol=1e-5)


def as_captum_reads(ids: list[int]) -> Any:
    """The ids themselves as captum's input, with token 7 as the baseline: it would tokenise a text again."""
    from captum.attr import TextTokenInput

    made = TextTokenInput("a", tiny_models.tokenizer_of("llama"), baselines=7)
    made.inp_tensor = made.itp_tensor = torch.tensor([ids])
    made.values = [str(number) for number in ids]
    made.n_itp_features = len(ids)
    return made


def test_several_prompts_are_explained_as_each_alone() -> None:
    model = decoder("llama")
    prompts, responses = [PROMPT, SHORT_PROMPT, "why so sad"], [RESPONSE, " too long, in the end", " no"]
    together = whence.explain(model, prompts, "integrated_gradients", response=responses, steps=4)
    for prompt, response, found in zip(prompts, responses, together, strict=True):
        alone = whence.explain(model, prompt, "integrated_gradients", response=response, steps=4)
        assert found.outputs is not None
        assert alone.outputs is not None
        assert found.outputs.positions == alone.outputs.positions
        np.testing.assert_allclose(found.outputs.scores, alone.outputs.scores, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-4, atol=1e-5)


def test_without_a_response_the_model_writes_one_first() -> None:
    model = decoder()
    found = whence.explain(model, PROMPT, "gradient", response=None, max_new_tokens=5)
    assert found.outputs is not None
    assert len(found.outputs.positions) == 5
    ids = [token.id for token in found.tokens]
    module: Any = model.module
    with torch.no_grad():
        likeliest = module(torch.tensor([ids])).logits[0].argmax(-1).tolist()
    first = found.outputs.positions[0]
    assert ids[first:] == likeliest[first - 1 : -1]
    assert found.prediction.label == (found.pair or "").strip()
    again = whence.explain(model, PROMPT, "gradient", response=ids[first:])
    np.testing.assert_array_equal(again.scores, found.scores)


def test_a_text_without_a_word_about_responses_is_asked_for_its_next_token() -> None:
    found = whence.explain(decoder(), PROMPT, "gradient")
    assert (found.pair, found.outputs, found.model.task) == (None, None, "causal_lm")
    ids = [token.id for token in found.tokens]
    shapes: tuple[Any, ...] = (ids, tuple(ids), np.array(ids), torch.tensor(ids))
    for given in shapes:
        np.testing.assert_array_equal(whence.explain(decoder(), given, "gradient").scores, found.scores)
    mixed: Any = [ids, PROMPT, torch.tensor(ids)]
    several: Any = whence.explain(decoder(), mixed, "gradient")
    for each in several:
        np.testing.assert_allclose(each.scores, found.scores, rtol=1e-4, atol=1e-6)
    both = whence.explain(decoder(), torch.tensor([ids, ids]), "gradient")
    np.testing.assert_allclose(both[1].scores, found.scores, rtol=1e-4, atol=1e-6)


def test_a_response_may_be_drawn() -> None:
    drawn = [
        whence.explain(decoder(), PROMPT, "random", response=None, max_new_tokens=8, sample=True, seed=seed).response
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("texts", [{"role": "user", "content": "why"}, 5, None])
def test_what_is_no_text_at_all_is_refused(texts: Any) -> None:
    with pytest.raises(whence.InputError, match=f"texts is {type(texts).__name__}"):
        whence.explain(decoder(), texts, "gradient", response=None)


def test_targets_are_characters_words_or_all() -> None:
    model = decoder()
    explain = functools.partial(whence.explain, model, PROMPT, "gradient_x_input", response=RESPONSE)
    words = explain(target="could not")
    span = explain(target=whence.Span(RESPONSE.index("could"), RESPONSE.index("could") + 9))
    assert words.to_dict() | {"cost": 0} == span.to_dict() | {"cost": 0}
    assert words.target.description == "could not"
    np.testing.assert_allclose(explain(target="all").scores, explain().scores)
    part = explain().part("could not")
    np.testing.assert_allclose(part.scores, words.scores, rtol=1e-3, atol=1e-4)
    assert part.target.value == pytest.approx(words.target.value, abs=1e-4)
    later = explain(target=whence.Label("s", at=RESPONSE.index("say")))
    assert later.outputs is not None
    assert later.outputs.positions[0] > words.outputs.positions[0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"target": whence.Span(3, 99)}, "characters 3 to 99 are not in the response, which has 22"),
        ({"target": whence.Span(5, 5)}, "characters 5 to 5 are not in the response"),
        ({"target": "nowhere"}, "'nowhere' is not in the response"),
        ({"target": 3}, "'3' is not in the response"),
        ({"response": ""}, "the response is empty"),
        ({"response": " film" * 80}, "prompt and response take"),
        ({"response": [" a", " b"]}, "the model has no token with id ' a'"),
        ({"foil": " a", "without": (0, 3)}, "a contrast is that of one response"),
        ({"foil": " a", "target": "could"}, "a foil takes the place of the whole response"),
        ({"foil": " a", "method": "gradient"}, "gradient cannot say why one response rather than another"),
        ({"without": (500, 600)}, "no token of the prompt lies in these passages"),
        ({"without": "unheard"}, "'unheard' is not in the prompt"),
        ({"without": ["it is", "unheard"]}, "'unheard' is not in the prompt"),
        ({"without": 5}, "5 is no part of a prompt"),
        ({"without": [(1, 2, 3)]}, r"\(1, 2, 3\) is no part of a prompt"),
        ({"without": PROMPT}, "without these passages nothing of the prompt is left"),
    ],
)
def test_what_cannot_be_asked_about_a_response_is_refused(settings: dict[str, Any], complaint: str) -> None:
    given = {"method": "gradient_x_input", "response": RESPONSE, **settings}
    with pytest.raises(whence.UsageError, match=complaint):
        whence.explain(decoder(), PROMPT, **given)


def test_a_classifier_has_no_response(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.ModelError, match="is a model for classification: it writes no response"):
        whence.explain(bert, PROMPT, response=RESPONSE)
    with pytest.raises(whence.UsageError, match="a contrast is that of one response"):
        whence.explain(bert, PROMPT, "gradient_x_input", foil="good")


@pytest.mark.parametrize("method", [name for name in TOLD_APART if whence.METHODS[name].linear])
def test_rather_than_a_foil_is_the_difference_of_two_brute_forces(method: str) -> None:
    model, foil = decoder(), " they made one"
    options = options_of(method, "gpt2")
    this, that = (whence.explain(model, PROMPT, method, response=each, **options) for each in (RESPONSE, foil))
    found = whence.explain(model, PROMPT, method, response=RESPONSE, foil=foil, **options)
    n = sum(token.segment == 0 for token in found.tokens)
    np.testing.assert_allclose(found.scores[:, :n], this.scores[:, :n] - that.scores[:, :n], rtol=1e-4, atol=1e-5)
    assert found.target.value == pytest.approx(this.target.value - that.target.value)
    assert found.target.description == "she could not say why rather than they made one"
    assert found.cost.forwards == this.cost.forwards + that.cost.forwards


def test_a_foil_by_leave_one_out_is_a_run_of_both_without_each_token() -> None:
    model, foil = decoder(), " they made one"
    found = whence.explain(model, PROMPT, response=RESPONSE, foil=foil)
    prompt, _, this = brute_force(model, PROMPT, RESPONSE)
    that = brute_force(model, PROMPT, foil)[2]
    for position in range(len(prompt)):
        left = prompt[:position] + prompt[position + 1 :]
        lost = this(prompt).sum() - that(prompt).sum() - this(left).sum() + that(left).sum()
        assert found.scores[0, position] == pytest.approx(lost, abs=3e-4)


def test_with_context_rather_than_without() -> None:
    model = decoder()
    context = "it is too long"
    found = whence.explain(model, PROMPT, response=RESPONSE, without=context)
    prompt, _, scored = brute_force(model, PROMPT, RESPONSE)
    start = PROMPT.index(context)
    gone = {i for i, token in enumerate(found.tokens[: len(prompt)]) if token.end > start}
    rest = [number for i, number in enumerate(prompt) if i not in gone]
    assert found.target.value == pytest.approx(scored(prompt).sum() - scored(rest).sum(), abs=1e-4)
    assert found.outputs is not None
    for position in range(len(prompt)):
        left = prompt[:position] + prompt[position + 1 :]
        lost = scored(prompt) - scored(left)
        if position not in gone:
            shorter = [number for i, number in enumerate(prompt) if i not in gone | {position}]
            lost = lost - (scored(rest) - scored(shorter))
        np.testing.assert_allclose(found.outputs.scores[:, 0, position], lost, rtol=1e-3, atol=3e-4)


def test_several_passages_go_by_their_words_or_characters() -> None:
    explain = functools.partial(whence.explain, decoder(), PROMPT, response=RESPONSE)
    words = explain(without=["too long", "the plot"])
    start = PROMPT.index("too long")
    np.testing.assert_array_equal(words.scores, explain(without=["the plot", (start, start + 8)]).scores)
    assert words.target.value != explain(without="too long").target.value


def test_a_prompt_that_is_empty_is_not_answered() -> None:
    for prompt in ("", " ", [{"role": "user", "content": ""}]):
        with pytest.raises(whence.UsageError, match=r"the prompt is empty|the model has no chat template"):
            whence.explain(decoder(), prompt, response=None)
    with pytest.raises(whence.InputError, match="a tuple of 3 is no prompt with its response"):
        whence.explain(decoder(), ("a", "b", "c"), response=None)


@pytest.mark.parametrize("units", ["word", "sentence", "paragraph", [(0, 20), (22, 41)]])
def test_units_of_a_prompt_go_as_a_whole(units: Any) -> None:
    model = decoder()
    text = "the plot was bad. but why? \n\n it is too long."
    found = whence.explain(model, text, response=RESPONSE, units=units)
    assert found.units is not None
    assert found.outputs is not None
    prompt, _, scored = brute_force(model, text, RESPONSE)
    for unit, score in zip(found.units.units, found.units.scores[0], strict=True):
        left = [number for i, number in enumerate(prompt) if i not in unit.tokens]
        lost = scored(prompt) - scored(left)
        assert score == pytest.approx(lost.sum(), abs=3e-4)
        np.testing.assert_allclose(
            found.outputs.scores[:, 0, list(unit.tokens)].sum(axis=1), lost, rtol=1e-3, atol=3e-4
        )


def test_an_explanation_of_a_response_is_written_and_read(tmp_path: Path) -> None:
    found = whence.explain(decoder(), PROMPT, "shapley", response=RESPONSE, samples=2, units="word")
    found.save(tmp_path / "e.json")
    again = whence.Explanation.load(tmp_path / "e.json")
    assert again == found
    assert again.outputs is not None
    assert found.outputs is not None
    np.testing.assert_array_equal(again.outputs.scores, found.outputs.scores)
    table = found.to_dataframe()
    assert len(table) == (1 + len(found.outputs.positions)) * len(found.tokens)
    assert set(table["output"]) == {-1, *found.outputs.positions}
    wrong = found.to_dict()
    wrong["outputs"]["values"] = wrong["outputs"]["values"][1:]
    with pytest.raises(whence.FileError, match="outputs: expected 11 tables of 1 x 30 numbers and as many values"):
        whence.Explanation.from_dict(wrong)
    wrong = found.to_dict()
    wrong["outputs"]["positions"][0] = 99
    with pytest.raises(whence.FileError, match=r"outputs\.positions: expected positions of some of 30 tokens"):
        whence.Explanation.from_dict(wrong)


def test_a_file_of_schema_1_still_loads() -> None:
    found = whence.Explanation.load(Path(__file__).parent / "golden" / "explanation_schema_1.json")
    assert (found.text, found.method, found.outputs) == ("not the worst film", "shapley", None)
    assert found.units is not None
    assert found.scores.shape == (2, 6)
    assert found.to_dict()["schema"] == "whence.explanation/2"


def for_responses(family: str) -> whence.LayeredModel:
    """A model of its own that takes (prompt, response) as a pair, as the contract gives texts."""
    return whence.load(tiny_models.build(family, "causal_lm"), tiny_models.tokenizer_of(family), task="response")


def quick(name: str) -> str | whence.Method:
    """The method with fewer steps or draws, or with probes trained on responses for a moment."""
    method = whence.METHODS[name]
    options = {"probes": quick_masks()} if name == "diffmask" else options_of(name, "llama")
    if not options:
        return name
    return dataclasses.replace(method, compute=functools.partial(method.compute, **options))


@functools.cache
def quick_masks() -> whence.DiffMask:
    probes = whence.DiffMask("input", steps=3, batch_size=2, start=0.0)
    return probes.fit(for_responses("llama"), [(text, testing.PAIR) for text in tiny_models.TEXTS] * 2, validations=1)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", whence.METHODS)
def test_methods_keep_the_contract_on_responses(method: str, check: testing.Check) -> None:
    check(quick(method), for_responses("llama"))


@pytest.mark.parametrize("method", AMORTISED)
def test_probes_of_one_answer_and_of_responses_are_told_apart(method: str) -> None:
    probes = quick_shares(decoder(), scale="log_probability")
    with pytest.raises(whence.UsageError, match="trained on one answer, not on all the tokens of a response"):
        whence.explain(decoder(), PROMPT, method, response=RESPONSE, probes=probes)
    probes = quick_shares(decoder(), [PROMPT, "a film"] * 4, responses=[RESPONSE, " it was"] * 4)
    with pytest.raises(whence.UsageError, match="trained on responses, not on the next token"):
        whence.explain(decoder(), PROMPT, method, probes=probes, scale="log_probability")
