"""The contract that every method keeps, as checks to run on methods of your own.

>>> import whence
>>> from whence.testing import METHOD_CHECKS
>>> model = whence.load()
>>> for check in METHOD_CHECKS:
...     check("gradient_x_input", model)

Each check raises AssertionError with what was broken. `tests/test_contract.py` runs them over every method of whence,
and over methods that break the contract, to prove that the checks can fail.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from whence.errors import UsageError, WhenceWarning
from whence.explanation import Explanation
from whence.methods.explain import explain
from whence.methods.names import method_named
from whence.methods.question import Method
from whence.models.layered import LayeredModel

TEXTS = ("a good film", "not the worst film of the year , but close to it and far too long", "bad")
PAIR = "the worst film of the year"  # beside each of them, for a task that takes two texts
TOLERANCE = 1e-5

Check = Callable[[str | Method, LayeredModel], None]


def check_has_a_score_for_every_token_and_layer(method: str | Method, model: LayeredModel) -> None:
    """Scores are finite, of the right shape, inside the bounds that the method states."""
    for explanation in _explain(model, TEXTS, method):
        shape = (len(explanation.layers), len(explanation.tokens))
        assert explanation.scores.shape == shape, f"scores have shape {explanation.scores.shape}, expected {shape}"
        assert np.isfinite(explanation.scores).all(), "scores are not finite"
        low, high = explanation.meaning.low, explanation.meaning.high
        assert low is None or explanation.scores.min() >= low - TOLERANCE, f"a score lies below {low}"
        assert high is None or explanation.scores.max() <= high + TOLERANCE, f"a score lies above {high}"
        assert explanation.meaning.signed or explanation.scores.min() >= -TOLERANCE, "an unsigned score is negative"


def check_one_text_alone_equals_the_batch(method: str | Method, model: LayeredModel) -> None:
    """A text has the same scores alone as in a batch with longer and shorter ones, in any order.

    The same means, on a model in float32: apart by no more than 1e-5 of the text's largest score, or of the explained
    number itself where that is larger and scores are parts of it.
    """
    together = _explain(model, TEXTS, method)
    backwards = _explain(model, TEXTS[::-1], method)[::-1]
    for text, in_batch, in_other_order in zip(TEXTS, together, backwards, strict=True):
        alone = _explain(model, [text], method)[0]
        for other in (in_batch, in_other_order):
            distance = _distance(alone, other)
            assert distance <= TOLERANCE, f"alone and in a batch the scores of {text!r} differ by {distance:.1e}"


def check_token_budget_does_not_matter(method: str | Method, model: LayeredModel) -> None:
    """Small micro-batches give the scores of large ones."""
    large, small = _explain(model, TEXTS, method), _explain(model, TEXTS, method, batch_tokens=20)
    for one, other in zip(large, small, strict=True):
        distance = _distance(one, other)
        assert distance <= TOLERANCE, f"with another token budget the scores differ by {distance:.1e}"


def check_same_seed_same_scores(method: str | Method, model: LayeredModel) -> None:
    """The same call gives the same scores to the last bit, whatever the global random state is."""
    torch.manual_seed(1)
    first = _explain(model, TEXTS, method, seed=7)
    torch.manual_seed(2)
    second = _explain(model, TEXTS, method, seed=7)
    assert all((a.scores == b.scores).all() for a, b in zip(first, second, strict=True)), (
        "the same seed gave other scores"
    )


def check_a_layer_alone_equals_the_layer_among_others(method: str | Method, model: LayeredModel) -> None:
    """Asking for one layer gives what asking for several gives there; a method bound to its layers refuses others."""
    layers = [1, model.n_layers]
    if method_named(method).method.only_there:
        try:
            _explain(model, TEXTS[:1], method, layers=layers)
        except UsageError:
            return
        raise AssertionError("a layer of which the method says nothing was not refused")
    both = _explain(model, TEXTS[:2], method, layers=layers)
    for layer in layers:
        for one, other in zip(_explain(model, TEXTS[:2], method, layers=layer), both, strict=True):
            name = model.stack.name(layer)
            distance = float(np.abs(one.row(name) - other.row(name)).max())
            assert distance <= TOLERANCE, f"layer {layer} alone differs by {distance:.1e} from the same among others"


def check_units_have_the_scores_of_their_tokens(method: str | Method, model: LayeredModel) -> None:
    """A word has the sum of its tokens' scores, or the strongest where they do not add up.

    Where words are taken away as a whole, tokens share a word's score evenly, and a text all of whose words are single
    tokens has the scores that it has without units. Presets are other packages' ways with tokens: they are passed over.
    """
    named = method_named(method)
    if named.preset is not None:
        return
    tokens, words = _explain(model, TEXTS, method), _explain(model, TEXTS, method, units="word")
    for alone, together in zip(tokens, words, strict=True):
        assert together.units is not None, "the units were not scored"
        sizes = {len(unit.tokens) for unit in together.units.units}
        if sizes == {1} or not named.method.takes_units:
            distance = _distance(alone, together)
            assert distance <= TOLERANCE, f"with words as units the scores of tokens differ by {distance:.1e}"
        for unit, column in zip(together.units.units, together.units.scores.T, strict=True):
            for row, found in zip(together.scores[:, unit.tokens], column, strict=True):
                expected = together.meaning.gathered(row)
                assert np.isclose(found, expected, atol=1e-6), f"a word has {found}, its tokens {row.tolist()}"
                assert not named.method.takes_units or np.ptp(row) <= 1e-6, "the tokens of a word have unequal shares"


def check_counts_its_passes(method: str | Method, model: LayeredModel) -> None:
    """The forward passes in the record are those that happened."""
    rows = 0

    def count(module: nn.Module, args: Any, output: Any) -> None:
        nonlocal rows
        logits = output if isinstance(output, torch.Tensor) else next(iter(output.values()))
        rows += len(logits)

    _explain(model, TEXTS, method)  # once before, so that nothing is run for the first time while counting
    handle = model.module.register_forward_hook(count)
    try:
        recorded = sum(explanation.cost.forwards for explanation in _explain(model, TEXTS, method))
    finally:
        handle.remove()
    assert recorded == rows, f"the record says {recorded} forward passes, the model saw {rows}"


def check_leaves_the_model_as_found(method: str | Method, model: LayeredModel) -> None:
    """Hooks, forwards, weights, gradients, flags, mode, attention and random state are as before."""
    before = _snapshot(model)
    _explain(model, TEXTS, method)
    _assert_same(before, _snapshot(model))


def check_leaves_the_model_as_found_after_a_crash(method: str | Method, model: LayeredModel) -> None:
    """The same when the model raises in its first or in a later pass, in the middle of a block."""
    for passes in (1, 2):
        calls = 0

        def crash(module: nn.Module, args: Any, output: Any, limit: int = passes) -> None:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise _CrashError

        part = next(part for part in model.stack.blocks[-1].modules() if not list(part.children()))
        handle = part.register_forward_hook(crash)
        before = _snapshot(model)
        try:
            _explain(model, TEXTS, method)
        except _CrashError:
            _assert_same(before, _snapshot(model))
        finally:
            handle.remove()
        assert calls or passes > 1, "the method never ran the model"


METHOD_CHECKS: tuple[Check, ...] = (
    check_has_a_score_for_every_token_and_layer,
    check_one_text_alone_equals_the_batch,
    check_token_budget_does_not_matter,
    check_same_seed_same_scores,
    check_a_layer_alone_equals_the_layer_among_others,
    check_units_have_the_scores_of_their_tokens,
    check_counts_its_passes,
    check_leaves_the_model_as_found,
    check_leaves_the_model_as_found_after_a_crash,
)


class _CrashError(Exception):
    """Raised inside the model, on purpose."""


def _explain(model: LayeredModel, texts: Any, method: str | Method, **settings: Any) -> list[Explanation]:
    given = [(text, PAIR) if model.reading.needs_pair else text for text in texts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WhenceWarning)
        return explain(model, given, method, **settings)


def _distance(one: Explanation, other: Explanation) -> float:
    """The largest difference, as a share of the largest score, or of what is explained where that is larger and scores
    are parts of it: no float32 tells more than that."""
    largest = float(np.abs(one.scores).max())
    size = max(largest, abs(one.target.value)) if one.meaning.additive else largest
    return float(np.abs(one.scores - other.scores).max()) / max(size, float(np.finfo(np.float32).tiny))


def _snapshot(model: LayeredModel) -> dict[str, Any]:
    """Everything about a model that a method might leave changed."""
    module = model.module
    parts = list(module.named_modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    configs = [getattr(part, "config", None) for _, part in parts]
    return {
        "a hook": [(name, kind, tuple(getattr(part, kind))) for name, part in parts for kind in hooks],
        "another forward": [(name, part.__dict__.get("forward")) for name, part in parts],
        "another training mode": [(name, part.training) for name, part in parts],
        "another requires_grad": [(name, weight.requires_grad) for name, weight in module.named_parameters()],
        "a gradient": [(name, _bits(weight.grad)) for name, weight in module.named_parameters()],
        "another weight": [(name, _bits(value)) for name, value in module.state_dict().items()],
        "another attention implementation": [getattr(config, "_attn_implementation", None) for config in configs],
        "another padding token": [getattr(config, "pad_token_id", None) for config in configs],
        "another random state": _bits(torch.get_rng_state()),
        "another gradient mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    }


def _bits(value: torch.Tensor | None) -> bytes | None:
    return None if value is None else value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    for what, value in before.items():
        assert after[what] == value, f"left {what}"
