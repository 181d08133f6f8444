"""Who takes part: methods tried on one text first, so that hours of work do not end in an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from whence.errors import UnknownNameError, UsageError, WhenceError
from whence.explanation import Explanation, Layer, Meaning
from whence.methods import METHODS
from whence.methods.names import method_named
from whence.methods.question import Method
from whence.models.batching import Asked
from whence.models.layered import LayeredModel
from whence.scoreboard.budget import Budget, extrapolated, spending
from whence.scoreboard.controls import RANDOM, SINGLE_EFFECTS
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.trial import Entrant

LayerChoice = Layer | Literal["best", "each"]
Methods = Sequence[str | Method] | Mapping[str, str | Method]

_SINGLE_EFFECTS = Meaning(
    "single effects",
    "what hiding the token alone takes, plus what showing it alone brings",
    signed=True,
    additive=False,
)


@dataclass(frozen=True)
class Plan:
    """The entrants, what their scores mean, and which methods this model does not allow, with the reason."""

    entrants: list[Entrant]
    meanings: dict[str, Meaning]
    left_out: dict[str, str]


def plan(
    model: LayeredModel,
    methods: Methods | None,
    explanations: Mapping[str, Sequence[Explanation]],
    options: Mapping[str, Mapping[str, Any]],
    layer: LayerChoice,
    samples: Sequence[Asked],
    n_texts: int,
    typical: float,
    budget: Budget,
) -> Plan:
    """Entrants in the order given, then what came from elsewhere, then the controls.

    Args:
        methods: None takes every method that the model allows; of named ones none may fail.
        samples: the shortest text, on which each is tried, and perhaps another, to tell what a text of `typical` length
            will cost.
    """
    named = _named(list(METHODS) if methods is None else methods)
    for name in options:
        if name not in named:
            raise UnknownNameError("method with options", name, named)
    found = Plan([], {}, {})
    for name, method in named.items():
        if name == RANDOM:
            continue
        called, settings = spending(name, method, options.get(name, {}), budget)
        try:
            entrant = Entrant(called, "method", _as_judged(method, responds=model.reading.responds), settings)
            tried = [_tried(model, entrant, layer, text) for text in samples]
        except WhenceError as error:
            if methods is not None:
                raise
            found.left_out[name] = error.problem
            continue
        passes = extrapolated(
            [len(each.tokens) for each in (tried[0], tried[-1])],
            [each.cost.forwards + 2 * each.cost.backwards for each in (tried[0], tried[-1])],
            typical,
        )
        entrant = replace(entrant, layers=tried[0].layers, passes=passes)
        _enter(found, entrant, tried[0].meaning, each=layer == "each")
    for name, given in explanations.items():
        if len(given) != n_texts:
            raise UsageError(f"{name} has {len(given)} explanations for {n_texts} texts", "give one per text")
        if name in found.meanings:
            raise UsageError(f"two entrants are called {name!r}", "give the explanations another name")
        layers = (given[0].layers[0],)
        _enter(found, Entrant(name, "outside", layers=layers, explanations=given), given[0].meaning, each=False)
    if not found.entrants:
        raise UsageError("no method is left to evaluate", "name some that this model allows")
    _enter(found, Entrant(RANDOM, "control", RANDOM, passes=1.0), METHODS[RANDOM].meaning, each=False)
    _enter(found, Entrant(SINGLE_EFFECTS, "control", passes=2 * typical), _SINGLE_EFFECTS, each=False)
    return found


def _named(methods: Methods) -> dict[str, str | Method]:
    if isinstance(methods, Mapping):
        found = dict(methods)
    elif isinstance(methods, str):
        raise UsageError(f"methods is {methods!r}", "give a list, such as ['shapley', 'leave_one_out']")
    else:
        names = [each if isinstance(each, str) else each.name for each in methods]
        found = dict(zip(names, methods, strict=True))
        if len(found) < len(names):
            raise UsageError("two methods have one name", "give a mapping from names to methods")
    if SINGLE_EFFECTS in found:
        raise UsageError(f"{SINGLE_EFFECTS!r} is the name of a control", "give the method another name")
    return found


def _as_judged(method: str | Method, *, responds: bool) -> str | Method:
    """Methods that explain takes one text at a time take many here: the board's "change in company" tells what that
    does to their scores, and none is believed that it changes. Of a response only the whole is asked about."""
    _, found, preset = method_named(method)
    whole = responds and preset is None and found.tells_outputs
    if not (found.one_by_one or whole):
        return method
    return replace(found, one_by_one=False, tells_outputs=found.tells_outputs and not whole)


def _tried(model: LayeredModel, entrant: Entrant, layer: LayerChoice, text: Asked) -> Explanation:
    """One explanation, which shows whether the method works here, and at which layers it looks."""
    chosen = None if layer == "best" or layer == "each" else (layer,)
    return explain_quietly(model, [text], entrant, seed=0, layers=chosen, batch_tokens=2_048)[0]


def _enter(found: Plan, entrant: Entrant, meaning: Meaning, *, each: bool) -> None:
    several = [entrant]
    if each and len(entrant.layers) > 1:
        several = [replace(entrant, name=f"{entrant.name}@{layer}", layers=(layer,)) for layer in entrant.layers]
    for one in several:
        found.entrants.append(one)
        found.meanings[one.name] = meaning
