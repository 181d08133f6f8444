"""`whence.explain`: texts in, explanations out, in the order they came."""

from __future__ import annotations

import math
import time
import warnings as python_warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from whence.errors import NonFiniteError, UnknownNameError, UsageError, WhenceWarning
from whence.explanation import Cost, Explanation, Layer, Meaning, OutputScores, Scale
from whence.methods.baselines import baseline_name
from whence.methods.contrast import Passages, check_contrast, check_contrasted_layers, counterpart, rather_than
from whence.methods.names import method_named
from whence.methods.options import at_least, check_seed
from whence.methods.question import INCOMPLETE, ONE_BY_ONE_TOKENS, Method, Question, Scores
from whence.methods.unit_scores import check_units, kind_of, with_units
from whence.methods.usual import ALWAYS, usual_method
from whence.models.batching import (
    Text,
    batches,
    computed_again,
    encode_each,
    reads_padding,
    shortened,
    usual_batch_tokens,
    usual_kept_tokens,
)
from whence.models.inputs import Encoding, Ids, Inputs, Messages
from whence.models.layered import LayeredModel, Layers
from whence.models.responses import (
    MAX_NEW_TOKENS,
    UNASKED,
    Unasked,
    answered_each,
    asked_view,
    given_texts,
)
from whence.progress import Progress, reporter
from whence.results import Results
from whence.selection import predictions, select
from whence.targets import Contrast, Label, Target
from whence.units import Units

if TYPE_CHECKING:
    from jaxtyping import Float

_version = cache(version)  # it is read from a file


@overload
def explain(
    model: LayeredModel, texts: Text | Ids | Messages, method: str | Method | None = ..., *, target: Target = ...,
    scale: Scale | None = ..., layers: Layers | None = ..., units: Units = ..., seed: int = ...,
    batch_tokens: int | None = ..., progress: Progress = ..., response: str | Ids | Unasked | None = ...,
    foil: str | Ids | None = ..., without: Passages | None = ..., max_new_tokens: int = ..., sample: bool = ...,
    each_token: bool = ..., **options: Any,
) -> Explanation: ...  # fmt: skip
@overload
def explain(
    model: LayeredModel, texts: Iterable[Text | Ids | Messages], method: str | Method | None = ..., *,
    target: Target = ..., scale: Scale | None = ..., layers: Layers | None = ..., units: Units = ..., seed: int = ...,
    batch_tokens: int | None = ..., progress: Progress = ...,
    response: Sequence[str | Ids] | Unasked | None = ..., foil: None = ..., without: None = ...,
    max_new_tokens: int = ..., sample: bool = ..., each_token: bool = ..., **options: Any,
) -> Results[Explanation]: ...  # fmt: skip
def explain(
    model: LayeredModel,
    texts: Text | Ids | Messages | Iterable[Text | Ids | Messages],
    method: str | Method | None = None,
    *,
    target: Target = "predicted",
    scale: Scale | None = None,
    layers: Layers | None = None,
    units: Units = "token",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Progress = None,
    response: str | Ids | Sequence[str | Ids] | Unasked | None = UNASKED,
    foil: str | Ids | None = None,
    without: Passages | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
    sample: bool = False,
    each_token: bool = True,
    **options: Any,
) -> Explanation | Results[Explanation]:
    """Tell which tokens the model's decision, or its response, rests on.

    >>> import whence
    >>> explanation = whence.explain(whence.load(), "not the worst film of the year", method="leave_one_out")
    >>> [word.text for word in explanation.words()]
    ['not', 'the', 'worst', 'film', 'of', 'the', 'year']

    Args:
        model: what `whence.load` gives.
        texts: a text or a pair of texts gives an explanation; several give a list in the same order. A decoder's prompt
            may also be given as token ids, or as the messages of a chat.
        method: a name from `whence methods` (a preset too), or a `Method` of your own; by default the cheapest of the
            most faithful on boards, see `whence.methods.usual`, and a note says why it is that.
        target: what is explained: "predicted", a label by name or id, `Label`, `Span` or `Contrast`. Of a response:
            "all" of it, words as they stand in it, or a `Span` of its characters.
        scale: its unit: "logit", "probability" or "log_probability"; by default what suits the method, mostly "logit".
        layers: "all" (0 … L), "embeddings", a number or several; by default what suits the method. An encoder–decoder's
            are called "encoder 0", … and "decoder 1", …: see `docs/encoder_decoders.md`.
        units: what is scored: "token", "word", "sentence", "paragraph", or spans of characters of one text, such as
            [(0, 12), (13, 40)] (of a pair: one such list for each of the two). Methods that take tokens away take a
            unit away as a whole; of others the scores of its tokens are gathered. See `Explanation.units`.
        seed: makes every random choice repeatable.
        batch_tokens: tokens a forward pass holds at most, padding included; lower it if memory runs out.
        progress: True draws a bar, a function is called with (method, texts done, texts in all) after each batch.
        response: what the model wrote after the prompt, as a text or as token ids (for several prompts a list of
            these); None: it writes one now, the likeliest token each time. The prompt's tokens are scored, for the
            response as a whole and for each of its tokens: see `Explanation.outputs`. Unless a response is asked for,
            a text's next token is explained; a chat is always answered, and so is the source of an encoder–decoder.
        foil: another response: why was the one written rather than this?
        without: parts of the prompt: what does the response rest on with them rather than without them?
        max_new_tokens: how much the model writes at most.
        sample: whether the model draws what it writes, by its own generation config and the seed, in place of the
            likeliest token each time.
        each_token: whether each token of the response is explained by itself, too. If not, methods that take gradients
            need one backward pass for the whole of it, and not one for each.
        options: the method's own; an unknown one is refused with a list of those that exist.
    """
    given, single = given_texts(texts)
    model = asked_view(model, given, response)
    if model.reading.responds:
        responses = [response] if single else response
        encodings = answered_each(model, given, responses, max_new_tokens, seed, sample=sample)
    else:
        encodings = encode_each(model, given)
    check_units(units, encodings)
    why = None
    if method is None and encodings:
        method, why = usual_method(model, min(encodings, key=len), layers, scale, options)
        if model.reading.responds and layers in (None, "embeddings"):
            options.setdefault("baseline", "delete")
    plan = _plan(model, method or ALWAYS, target, scale, layers, units, seed, batch_tokens, each_token, options)
    contrasted = foil is not None or without is not None
    if contrasted:
        check_contrast(plan.name, plan.method, model, encodings, target, foil, without)
        check_contrasted_layers(model, plan.layers)
    with model.held(), torch.inference_mode(plan.method.only_reads), reporter(progress) as report:
        explanations = _explained(model, encodings, plan, report)
        if contrasted:
            other, said, left = counterpart(model, encodings[0], explanations[0], foil, without)
            explanations = [rather_than(explanations[0], _explained(model, [other], plan, report)[0], said, left)]
    explanations = [with_units(one, each, plan.units) for one, each in zip(explanations, encodings, strict=True)]
    if why is not None:
        explanations = [
            replace(each, notes=(f"{each.method} is the usual method: {why}", *each.notes)) for each in explanations
        ]
    for explanation in explanations:
        for warning in explanation.warnings:
            python_warnings.warn(f"{shortened(explanation.text)}: {warning}", WhenceWarning, stacklevel=2)
    return explanations[0] if single else Results(explanations)


def _explained(
    model: LayeredModel, encodings: Sequence[Encoding], plan: _Plan, report: Callable[[str, int, int], None]
) -> list[Explanation]:
    """The explanation of each text, in their order."""
    found: list[Explanation | None] = [None] * len(encodings)
    done = 0
    alone = ([index] for index in range(len(encodings)))
    for batch in alone if plan.method.one_by_one else batches(model, encodings, plan.batch_tokens):
        for index, explanation in zip(batch, _answer(model, [encodings[i] for i in batch], plan), strict=True):
            found[index] = explanation
        done += len(batch)
        report(plan.name, done, len(encodings))
    return [explanation for explanation in found if explanation is not None]


class _Plan(NamedTuple):
    """Everything about a call but the texts, checked before the model runs."""

    name: str
    method: Method
    meaning: Meaning
    target: Target
    scale: Scale
    layers: tuple[Layer, ...]
    units: Units
    seed: int
    batch_tokens: int
    kept_tokens: int | None  # for methods that take gradients
    each_token: bool
    options: Mapping[str, Any]
    recorded: Mapping[str, Any]
    shares: bool
    whence_version: str


def _plan(
    model: LayeredModel,
    method: str | Method,
    target: Target,
    scale: Scale | None,
    layers: Layers | None,
    units: Units,
    seed: int,
    batch_tokens: int | None,
    each_token: bool,
    options: Mapping[str, Any],
) -> _Plan:
    name, method, preset = method_named(method)
    check_seed(seed)
    if batch_tokens is not None:
        at_least("batch_tokens", batch_tokens, 1)
    given = {**(preset.options if preset else {}), **options}
    known = method.options
    for option in given:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    usual = model.layers(_usual_layers(model, method, {**known, **given}))
    named = preset.layers if layers is None and preset else layers
    asked = usual if named is None else model.layers(named)
    if method.only_there and not set(asked) <= set(usual):
        others = ", ".join(map(str, model.layer_names(layer for layer in asked if layer not in usual)))
        there = ", ".join(map(str, model.layer_names(usual)))
        raise UsageError(f"{name} says nothing of layer {others}", f"it looks at {there}: leave out layers")
    shares = preset.shares if preset else False
    meaning, kind = method.meaning, kind_of(units)
    if method.takes_units:
        meaning = replace(meaning, sentence=meaning.sentence.replace("token", kind))
    if shares:
        meaning = replace(meaning, sentence=f"the share of: {meaning.sentence}", signed=False, low=0.0, high=1.0)
    return _Plan(
        name=name,
        method=method,
        meaning=meaning,
        target=target,
        scale=scale or (preset.scale if preset else _usual_scale(model, method)),
        layers=asked,
        units=units,
        seed=seed,
        batch_tokens=ONE_BY_ONE_TOKENS if method.one_by_one else int(batch_tokens or usual_batch_tokens(model)),
        kept_tokens=usual_kept_tokens(model, batch_tokens) if "gradients" in method.needs else None,
        each_token=each_token and method.tells_outputs,
        options=given,
        recorded={option: _recorded(model, option, given.get(option, value)) for option, value in known.items()},
        shares=shares,
        whence_version=_version("whence"),
    )


def _usual_scale(model: LayeredModel, method: Method) -> Scale:
    if model.reading.responds:
        return "log_probability"
    if model.reading.next_token and method.scale_of_next_token:
        return method.scale_of_next_token
    return method.scale or ("probability" if model.reading.decides else "logit")


def _usual_layers(model: LayeredModel, method: Method, options: Mapping[str, Any]) -> Layers:
    if method.layers_by is not None:
        return method.layers_by(model, options)
    named: dict[str, Layers] = {
        "blocks": range(1, model.n_layers + 1),
        "everywhere": ("embeddings", *range(model.n_layers + 1)),
    }
    return named.get(method.layers, method.layers)


def _recorded(model: LayeredModel, option: str, value: Any) -> Any:
    """An option as it goes into the record: "auto" resolved, tensors and objects in words."""
    if isinstance(value, (list, tuple)):
        return [_recorded(model, option, item) for item in value]
    if option != "baseline":
        return value if isinstance(value, (str, int, float, type(None))) else str(value)
    return value if isinstance(value, int) else baseline_name(model, value)


def _answer(model: LayeredModel, encodings: list[Encoding], plan: _Plan) -> list[Explanation]:
    """One batch of texts, explained; on a GPU whose memory runs out, again in two halves."""
    try:
        return _answer_at_once(model, encodings, plan)
    except torch.OutOfMemoryError:
        if len(encodings) == 1 and plan.batch_tokens < len(encodings[0]):
            raise
    torch.cuda.empty_cache()
    kept = plan.kept_tokens and max(1, plan.kept_tokens // 2)
    half = plan._replace(batch_tokens=max(1, plan.batch_tokens // 2), kept_tokens=kept)
    middle = (len(encodings) + 1) // 2
    return [one for part in (encodings[:middle], encodings[middle:]) if part for one in _answer(model, part, half)]


def _answer_at_once(model: LayeredModel, encodings: list[Encoding], plan: _Plan) -> list[Explanation]:
    started = time.perf_counter()
    inputs = model.collate(encodings, at=_character_of(plan.target))
    within = plan.method.within
    lean = computed_again(model, inputs, plan.kept_tokens, within) if plan.kept_tokens else nullcontext()
    with lean, within(model.module) if within else nullcontext():
        states = model.states(inputs, differentiable=bool(plan.method.differentiable))
    selection = select(plan.target, plan.scale, model.reading, states.logits, encodings, each=plan.each_token)
    question = Question(
        model, inputs, states, selection, plan.layers, plan.seed, plan.batch_tokens,
        plan.units if plan.method.takes_units else "token", plan.kept_tokens,
    )  # fmt: skip
    scores = plan.method.compute(question, **plan.options)
    if plan.shares:
        scores = _as_shares(scores, model, inputs, plan.layers)
    told = _array(_by_output(scores.values, 4))
    shown = torch.stack([model.scored(layer, inputs) for layer in plan.layers], dim=1).cpu().numpy()
    told = np.where(shown[:, None], told, np.float32(0))
    values = told[:, 0]
    errors = None if scores.standard_errors is None else _array(_by_output(scores.standard_errors, 4)[:, 0])
    missing = None if scores.completeness_errors is None else _array(_by_output(scores.completeness_errors, 3)[:, 0])
    seconds = time.perf_counter() - started  # a GPU is done only once its numbers are here
    question.check_finite()
    said = predictions(model.reading, states.logits, inputs.mask, encodings)
    targets = selection.records(question.value.detach())
    forwards, backwards = question.forwards.tolist(), question.backwards.tolist()
    lengths = inputs.lengths
    total = sum(lengths)
    layers = model.layer_names(plan.layers)
    warnings = _warnings(layers, encodings, values, missing, reads_padding(model, encodings))
    return [
        Explanation(
            text=encoding.text,
            pair=encoding.pair,
            tokens=encoding.tokens,
            layers=layers,
            scores=_frozen(values[row, :, :length]),
            meaning=scores.meaning or plan.meaning,
            prediction=said[row],
            target=targets[row],
            method=plan.name,
            options=plan.recorded,
            model=model.record,
            seed=plan.seed,
            cost=Cost(forwards[row], backwards[row], seconds * length / total),
            standard_errors=None if errors is None else _frozen(errors[row, :, :length]),
            completeness_errors=None if missing is None else tuple(missing[row].tolist()),
            whence_version=plan.whence_version,
            warnings=(*(() if scores.warnings is None else scores.warnings[row]), *warnings[row]),
            notes=(
                *(() if scores.notes is None else scores.notes[row]),
                *(_share_of_source(model, plan.layers, encoding, values[row]) if model.encoder_decoder else ()),
            ),
            outputs=_outputs(question, row, told[row]) if selection.each else None,
        )
        for row, (encoding, length) in enumerate(zip(encodings, lengths, strict=True))
    ]


def _by_output(values: Tensor, axes: int) -> Tensor:
    """An answer with the axis of outputs that `Scores` may leave out."""
    return values if values.ndim == axes else values[:, None]


def _outputs(question: Question, row: int, told: Float[np.ndarray, "output layer token"]) -> OutputScores:
    """The scores of each token of a response; where it is but one, they are those of the whole."""
    selection, encoding = question.selection, question.inputs.encodings[row]
    indices = selection.indices[row, 0, :, 0]
    if selection.counted is not None:
        indices = indices[selection.counted[row, 0]]
    first = 0 if selection.n_outputs == 1 else 1
    own = slice(first, first + len(indices))
    return OutputScores(
        tuple(encoding.response.start + index for index in indices.tolist()),
        tuple(question.outputs[row, own].tolist()),
        _frozen(told[own, :, : len(encoding)]),
    )


def _character_of(target: Target) -> int | None:
    """The character at which a language model is read, if the target says."""
    if isinstance(target, Contrast):
        target = target.this
    return target.at if isinstance(target, Label) else None


def _as_shares(scores: Scores, model: LayeredModel, inputs: Inputs, layers: Sequence[Layer]) -> Scores:
    shown = torch.stack([model.scored(layer, inputs) for layer in layers], dim=1)
    sizes = _by_output(scores.values.abs(), 4) * shown[:, None].to(scores.values)
    shares = sizes / sizes.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    return Scores(shares, warnings=scores.warnings, notes=scores.notes)


def _array(values: Tensor) -> np.ndarray:
    array: np.ndarray = values.detach().float().cpu().numpy()
    return array


def _frozen(values: np.ndarray) -> np.ndarray:
    values = np.array(values)
    values.setflags(write=False)
    return values


def _share_of_source(
    model: LayeredModel, layers: Sequence[Layer], encoding: Encoding, values: Float[np.ndarray, "layer token"]
) -> list[str]:
    """At the layers of an encoder–decoder's decoder, how much rests on the source and not on the decoder's states."""
    told = []
    for layer, row in zip(layers, np.abs(values), strict=True):
        if model.in_decoder(layer) and row.any():
            share = row[: len(encoding.prompt_ids)].sum() / row[: len(encoding)].sum()
            told.append(f"{model.stack.name(layer)} {share:.0%}")
    said = "so much of the scores' size lies on what is still read of the source, the rest on states of the decoder"
    return [f"{said}: {', '.join(told)}"] if told else []


def _warnings(
    layers: Sequence[Layer],
    encodings: Sequence[Encoding],
    values: Float[np.ndarray, "batch layer token"],
    missing: Float[np.ndarray, "batch layer"] | None,
    padding_read: bool,
) -> list[list[str]]:
    """What a reader of each explanation must know before believing it."""
    found: list[list[str]] = [[] for _ in encodings]
    for said, encoding in zip(found, encodings, strict=True):
        if encoding.cut:
            said.append(f"truncated: the model reads {len(encoding)} tokens, {encoding.cut} of the text were not seen")
        if padding_read:
            said.append("the model reads its padding, so it was given texts of one length at a time")
    strongest: Any = np.abs(values).max(axis=2)
    for said, row in zip(found, strongest.tolist(), strict=True):
        if not all(map(math.isfinite, row)):
            raise NonFiniteError("some scores are not finite numbers", "the model's numbers overflow; try float32")
        if not all(row):
            silent = ", ".join(str(layer) for layer, something in zip(layers, row, strict=True) if not something)
            said.append(f"all scores are zero at layer {silent}")
    if missing is not None:
        explained = np.abs(values.sum(axis=2))
        for row, index in np.argwhere(missing > np.maximum(INCOMPLETE * (explained + missing), 1e-3)):
            layer, error = layers[index], missing[row, index]
            found[row].append(f"scores at layer {layer} miss {error:.3f} of the difference they should add up to")
    return found
