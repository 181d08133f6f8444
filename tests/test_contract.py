"""Every method keeps the contract of `whence.testing`, and methods that break it are found out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import tiny_models
import torch
from quick_probes import quick_shares

import whence
from whence import testing
from whence.testing import METHOD_CHECKS

GRADIENT = whence.METHODS["gradient"]
DESCENTS = ("information_bottleneck", "noise_tolerance")  # one step of them is as good as another here


@functools.cache
def with_probes(name: str, kind: str) -> whence.Method:
    """DiffMask with probes that were trained, if only for a moment, for the tiny model of that name."""
    model = tiny_models.tiny_plain(name) if name in tiny_models.PLAIN else tiny_models.tiny(name)
    probes = whence.DiffMask(kind, steps=3, batch_size=2, start=0.0)  # type: ignore[arg-type]
    probes.fit(model, tiny_models.TEXTS * 2, validations=1)
    method = whence.METHODS["diffmask"]
    return dataclasses.replace(method, compute=functools.partial(method.compute, probes=probes))


@functools.cache
def with_shares(name: str, family: str, head: str = "classification") -> whence.Method:
    """A method of Shapley probes, trained for a moment for the tiny model of that family."""
    model = tiny_models.tiny_plain(family) if family in tiny_models.PLAIN else tiny_models.tiny(family, head)
    probes = quick_shares(model, tiny_models.texts_for(family, head) * 2 if head != "classification" else ())
    method = whence.METHODS[name]
    return dataclasses.replace(method, compute=functools.partial(method.compute, probes=probes))


def with_what_it_needs(method: str) -> str | whence.Method:
    if method == "diffmask":
        return with_probes("bert", "input")
    if method in DESCENTS:
        descent = whence.METHODS[method]
        return dataclasses.replace(descent, compute=functools.partial(descent.compute, steps=5))
    return with_shares(method, "bert") if method in ("one_pass", "amortised_shapley") else method


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", [*whence.METHODS, *whence.PRESETS])
def test_method_keeps_the_contract(method: str, check: testing.Check, bert: whence.LayeredModel) -> None:
    check(with_what_it_needs(method), bert)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("family", [family for family in tiny_models.FAMILIES if family != "bert"])
def test_shapley_probes_keep_the_contract_on_every_family(family: str, check: testing.Check) -> None:
    head = "classification" if (family, "classification") in tiny_models.CASES else "causal_lm"
    check(with_shares("one_pass", family, head), tiny_models.tiny(family, head))


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("model", ["bert", "gpt2", "gru"])
def test_probes_keep_the_contract_on_other_models(model: str, kind: str, check: testing.Check) -> None:
    check(with_probes(model, kind), tiny_models.tiny_plain(model) if model == "gru" else tiny_models.tiny(model))


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", ["gpt2", "gru"])
@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "shapley", "deep_lift_shap", "lime"])
def test_the_contract_holds_on_other_models(method: str, model: str, check: testing.Check) -> None:
    check(method, tiny_models.tiny_plain(model) if model == "gru" else tiny_models.tiny(model))


def literals(annotation: object) -> tuple[object, ...]:
    """The values that an option may have, if its type lists them."""
    if annotation is bool:
        return (True, False)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for part in get_args(annotation) for value in literals(part))


QUICK = {"steps": 3, "samples": 3}
CHOICES = [
    (name, option, value)
    for name, method in whence.METHODS.items()
    if not method.meaning.decoded
    for option, annotation in get_type_hints(method.compute).items()
    if option in method.options
    for value in literals(annotation)
    if value is not method.options[option]
]


def test_choices_are_found_in_the_signatures() -> None:
    assert {("smooth_grad", "reduce", "sum"), ("gradient_shap", "between", "ids")} < set(CHOICES)
    assert ("noise_tolerance", "score", "inverse") in CHOICES
    assert len(CHOICES) > 25


@pytest.mark.parametrize(
    "check",
    [
        testing.check_has_a_score_for_every_token_and_layer,
        testing.check_one_text_alone_equals_the_batch,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize(("name", "option", "value"), CHOICES)
def test_every_choice_keeps_the_contract(
    name: str, option: str, value: object, check: testing.Check, bert: whence.LayeredModel
) -> None:
    method = whence.METHODS[name]
    quick = {each: few for each, few in QUICK.items() if each in method.options and each != option}
    if name == "integrated_gradients" and value == "fejer":
        del quick["steps"]  # so that this is the rule whose points are used again
    needed = with_what_it_needs(name)
    compute = method.compute if isinstance(needed, str) else needed.compute
    chosen = functools.partial(compute, **quick, **{option: value})
    layers = method.layers if method.only_there else "all"
    check(dataclasses.replace(method, compute=chosen, layers=layers), bert)


@functools.cache
def loud(family: str) -> whence.LayeredModel:
    """A tiny model whose logits are hundreds, as those of real decoders are."""
    module = tiny_models.build(family)
    with torch.no_grad():
        list(module.children())[-1].weight.mul_(300)
    return whence.load(module, tiny_models.tokenizer_of(family))


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "leave_one_out", "shapley", "lime"])
def test_scores_of_real_size_are_the_same_alone_and_in_a_batch(method: str, family: str) -> None:
    assert abs(whence.explain(loud(family), testing.TEXTS[1], "leave_one_out").target.value) > 30
    testing.check_one_text_alone_equals_the_batch(method, loud(family))
    testing.check_token_budget_does_not_matter(method, loud(family))


@pytest.mark.parametrize("method", ["noise_tolerance", "information_bottleneck"])
def test_a_descent_does_not_depend_on_neighbours(method: str) -> None:
    """Fifty steps magnify rounding, so a text is always computed by itself: the same to the last bit."""
    model = loud("gpt2")
    together = whence.explain(model, list(testing.TEXTS), method, layers=1, samples=2)
    tight = whence.explain(model, list(testing.TEXTS), method, layers=1, samples=2, batch_tokens=20)
    for text, one, other in zip(testing.TEXTS, together, tight, strict=True):
        alone = whence.explain(model, text, method, layers=1, samples=2)
        assert (one.scores == alone.scores).all()
        assert (other.scores == alone.scores).all()


def test_a_small_difference_of_small_scores_is_seen(bert: whence.LayeredModel) -> None:
    """The promise is relative to the scores: what is small beside one need not be small beside them."""

    def sees_padding_a_little(question: whence.Question) -> whence.Scores:
        scores = GRADIENT.compute(question).values
        return whence.Scores(1e-4 * scores * (1 + 1e-4 * question.inputs.ids.shape[1]))

    with pytest.raises(AssertionError, match="alone and in a batch"):
        testing.check_one_text_alone_equals_the_batch(broken(sees_padding_a_little), bert)


def broken(compute: Callable[..., whence.Scores]) -> whence.Method:
    return dataclasses.replace(GRADIENT, compute=compute)


def leaks_a_hook(question: whence.Question) -> whence.Scores:
    question.model.module.register_forward_hook(lambda *everything: None)
    return GRADIENT.compute(question)


def leaves_a_forward(question: whence.Question) -> whence.Scores:
    block = question.model.stack.blocks[0]
    block.forward = block.forward
    return GRADIENT.compute(question)


def writes_gradients(question: whence.Question) -> whence.Scores:
    weight = next(question.model.module.parameters())
    weight.grad = torch.ones_like(weight)
    return GRADIENT.compute(question)


def changes_a_weight(question: whence.Question) -> whence.Scores:
    with torch.no_grad():
        next(question.model.module.parameters()).add_(1e-3)
    return GRADIENT.compute(question)


def changes_attention(question: whence.Question) -> whence.Scores:
    question.model.module.set_attn_implementation("eager")  # type: ignore[operator]
    return GRADIENT.compute(question)


def draws_from_the_global_generator(question: whence.Question) -> whence.Scores:
    torch.rand(1)
    return GRADIENT.compute(question)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (leaks_a_hook, "left a hook"),
        (leaves_a_forward, "left another forward"),
        (writes_gradients, "left a gradient"),
        (changes_a_weight, "left another weight"),
        (changes_attention, "left another attention implementation"),
        (draws_from_the_global_generator, "left another random state"),
    ],
)
def test_a_leaky_method_fails(compute: Callable[..., whence.Scores], message: str, bert: whence.LayeredModel) -> None:
    with pytest.raises(AssertionError, match=message):
        testing.check_leaves_the_model_as_found(broken(compute), bert)


def test_changed_modes_and_flags_are_seen(bert: whence.LayeredModel) -> None:
    """No method can leave these, since whence puts them back after it: so the check is shown the change itself."""
    before = testing._snapshot(bert)
    testing._assert_same(before, testing._snapshot(bert))
    part = bert.stack.blocks[0]
    part.training = not part.training
    with pytest.raises(AssertionError, match="left another training mode"):
        testing._assert_same(before, testing._snapshot(bert))
    part.training = not part.training
    next(part.parameters()).requires_grad_(False)
    with pytest.raises(AssertionError, match="left another requires_grad"):
        testing._assert_same(before, testing._snapshot(bert))
    next(part.parameters()).requires_grad_(True)
    bert.module.config.pad_token_id = 7  # type: ignore[union-attr]
    with pytest.raises(AssertionError, match="left another padding token"):
        testing._assert_same(before, testing._snapshot(bert))


def test_a_method_that_leaks_only_when_the_model_crashes_fails(bert: whence.LayeredModel) -> None:
    def hooks_for_a_while(question: whence.Question) -> whence.Scores:
        handle = question.model.stack.blocks[0].register_forward_hook(lambda *everything: None)
        question.values(0, torch.arange(len(question.inputs)), lambda chunk: question.states.at(0).detach()[chunk])
        handle.remove()
        return GRADIENT.compute(question)

    testing.check_leaves_the_model_as_found(broken(hooks_for_a_while), bert)
    with pytest.raises(AssertionError, match="left a hook"):
        testing.check_leaves_the_model_as_found_after_a_crash(broken(hooks_for_a_while), bert)


def sees_padding(question: whence.Question) -> whence.Scores:
    scores = GRADIENT.compute(question)
    return whence.Scores(scores.values + question.inputs.ids.shape[1])


def draws_at_random(question: whence.Question) -> whence.Scores:
    return whence.Scores(torch.rand(len(question.inputs), len(question.layers), question.inputs.ids.shape[1]))


def mixes_layers(question: whence.Question) -> whence.Scores:
    return whence.Scores(GRADIENT.compute(question).values * len(question.layers))


def forgets_to_count(question: whence.Question) -> whence.Scores:
    question.model.states(question.inputs)
    return GRADIENT.compute(question)


def looks_at_the_budget(question: whence.Question) -> whence.Scores:
    return whence.Scores(GRADIENT.compute(question).values * question.batch_tokens)


def gives_nan(question: whence.Question) -> whence.Scores:
    return whence.Scores(GRADIENT.compute(question).values * torch.nan)


def goes_below_its_bound(question: whence.Question) -> whence.Scores:
    return whence.Scores(-GRADIENT.compute(question).values)


@pytest.mark.parametrize(
    ("check", "compute"),
    [
        (testing.check_one_text_alone_equals_the_batch, sees_padding),
        (testing.check_same_seed_same_scores, draws_at_random),
        (testing.check_a_layer_alone_equals_the_layer_among_others, mixes_layers),
        (testing.check_counts_its_passes, forgets_to_count),
        (testing.check_token_budget_does_not_matter, looks_at_the_budget),
        (testing.check_has_a_score_for_every_token_and_layer, goes_below_its_bound),
    ],
)
def test_every_check_can_fail(
    check: testing.Check, compute: Callable[..., whence.Scores], bert: whence.LayeredModel
) -> None:
    check("gradient", bert)
    with pytest.raises(AssertionError):
        check(broken(compute), bert)


def test_scores_that_are_not_numbers_are_refused(bert: whence.LayeredModel) -> None:
    with pytest.raises(whence.NonFiniteError, match="not finite"):
        testing.check_has_a_score_for_every_token_and_layer(broken(gives_nan), bert)
