"""`whence.evaluate`: every method over the same texts under one protocol, and which of them to believe."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whence.engine.asking import gold_ids
from whence.engine.bounds import WIDTH
from whence.errors import InputError, UsageError, WhenceWarning
from whence.explanation import Explanation, Meaning
from whence.methods.options import at_least, check_seed
from whence.metrics.table import Metric, chosen_metrics
from whence.models.batching import Asked, encode, usual_batch_tokens
from whence.models.fingerprint import weights_key
from whence.models.hiding import Hide, Hiding
from whence.models.inputs import Encoding, Ids, Messages
from whence.models.layered import LayeredModel
from whence.models.responses import MAX_NEW_TOKENS, UNASKED, Unasked, asked_view, responding, with_responses
from whence.progress import Progress, reporter
from whence.scoreboard.additivity import additivity
from whence.scoreboard.board import Entry, JudgedText, Scoreboard, curve_points
from whence.scoreboard.bounds import bounds
from whence.scoreboard.budget import FEW, Budget, Estimate, seconds_of_a_pass
from whence.scoreboard.controls import RANDOM
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.games import games
from whence.scoreboard.layer_choice import AT_FIRST, SETTLED, choice_of_layers
from whence.scoreboard.own_sets import own_sets
from whence.scoreboard.planning import LayerChoice, Methods, plan
from whence.scoreboard.protocol import explanations as explanation_of_texts
from whence.scoreboard.randomisation import randomisation
from whence.scoreboard.rationales import Rationale, marked_share, plausibility
from whence.scoreboard.second_way import second_hiding, second_way
from whence.scoreboard.stability import stability
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Store, content_key

HELD_OUT = 64  # texts to choose layers on, at most
EVERY = 5  # of so many texts one
TRIED = 32  # tokens of a text on which a method is tried to tell its cost, at most: trying must not take long
FEWEST_TO_SHARE = 10  # with fewer texts none is set aside for choosing layers


def evaluate(
    model: LayeredModel,
    texts: Iterable[Asked | Messages],
    labels: Sequence[str | int] | None = None,
    *,
    responses: Sequence[str | Ids] | Unasked | None = UNASKED,
    methods: Methods | None = None,
    metrics: Iterable[str | Metric | Callable[[Any], float]] | None = None,
    explanations: Mapping[str, Sequence[Explanation]] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    layer: LayerChoice = "best",
    held_out: Sequence[Asked] | None = None,
    limit: int | None = None,
    rationales: Sequence[Rationale | None] | None = None,
    checkpoints: Sequence[LayeredModel] = (),
    seeds: int = 3,
    budget: Budget = "full",
    hide: Hide = "auto",
    second_hide: Hide = "auto",
    beam: int | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
    folder: str | Path | None = None,
    progress: Progress = None,
    announce: Callable[[str], None] | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> Scoreboard:
    """Tell which explanation to believe, for this model, on these texts.

    Every method explains the model's own decision on every text; the same tests then judge all of them, beside a
    control that knows nothing and one that has seen the test.

    >>> import whence
    >>> texts = ["a gorgeous, witty film", "the story never comes alive", "a dull plot", "fine actors"]
    >>> board = evaluate(whence.load(), texts, methods=["leave_one_out", "gradient"], metrics=["sufficiency"])
    >>> board.interval("leave_one_out", "sufficiency").mean < board.interval("random", "sufficiency").mean
    True

    Args:
        model: what `whence.load` gives. It is left as it was.
        texts: some hundred texts, or pairs, of the kind that the model is used on.
        labels: gold labels by name or id, for accuracy under masking; nothing else needs them.
        responses: what a decoder wrote after each text, as texts or as token ids; None: it writes them now, the
            likeliest token each time. What is explained is then the response (Σ log p), and what games measure is the
            geometric mean of its tokens' probabilities; the model says the same as long as it would write the same.
            Unless responses are asked for, a text's next token is explained; chats are always answered.
        methods: names from `whence methods` or your own; by default every method that the model allows.
        metrics: names or groups from `whence.metrics.table.METRICS` (by default all), or metrics of your own.
        explanations: from elsewhere, by name, one per text each (see `Explanation.from_scores`).
        options: options of methods, by the method's name.
        layer: "best" judges a method of several layers at the one that does best on held-out texts; "each" at each of
            them; else at this layer.
        held_out: texts to choose layers on (with responses: prompts, or pairs of a prompt and a response); by default
            every fifth text, at most 64, which is then not judged.
        limit: judge at most so many of the texts.
        rationales: for each text the spans of characters that people marked, or None.
        checkpoints: the same model trained anew, for stability over retraining.
        seeds: how many seeds are compared for stability.
        budget: "full" runs every method at its own defaults; "small" gives the dear ones less, under names that say
            so (see `whence.scoreboard.budget.SMALL`).
        hide: how a token is hidden; see `whence.models.hiding.HIDES`.
        second_hide: how tokens are hidden for the second opinion on the ranking; by default deleted, where the model
            allows it.
        beam: sets that the search for the best order of a text's words carries on, where there are too many orders to
            try all; by default 3, and 1 with the small budget.
        seed: makes every random choice repeatable.
        batch_tokens: tokens a forward pass holds at most; lower it if memory runs out.
        folder: where finished work is kept; the same call goes on from there after a kill.
        progress: True shows bars; a function is called with (step, done, in all): with 0 done for every step to come,
            then as they go on.
        announce: called, before work starts, with a sentence on what the board will cost; by default a warning says
            so where it takes more than five minutes on a CPU. Fewer than 30 texts are not worth the reckoning.
        max_new_tokens: how much the model writes at most, where it writes the responses.
    """
    started = time.perf_counter()
    wanted = chosen_metrics(metrics)
    check_seed(seed)
    at_least("seeds", seeds, 1)
    width = (WIDTH if budget == "full" else 1) if beam is None else beam
    at_least("beam", width, 1)
    given = _texts(texts)
    for name, column in {"labels": labels, "rationales": rationales}.items():
        if column is not None and len(column) != len(given):
            raise UsageError(f"{len(column)} {name} for {len(given)} texts", "give one per text")
    if not model.reading.decides:
        raise UsageError("the model gives a plain number, so it takes no decision to explain", "give a classifier")
    model = asked_view(model, given, responses)
    if model.reading.responds:
        checkpoints = [responding(each) for each in checkpoints]
        given = with_responses(model, given, responses, max_new_tokens, seed)
        held_out = None if held_out is None else with_responses(model, held_out, UNASKED, max_new_tokens, seed)
    hiding = Hiding.of(model, hide)
    encodings = [encode(model, text, index) for index, text in enumerate(given)]
    samples, typical = _samples(encodings)
    planned = plan(
        model, methods, explanations or {}, options or {}, layer, [given[index] for index in samples], len(given),
        len(encodings[typical]), budget,
    )  # fmt: skip
    several = [entrant.name for entrant in planned.entrants if len(entrant.layers) > 1]
    aside = [] if held_out is not None else set_aside(len(given), limit, layer, chooses=bool(several))
    judged = [index for index in range(len(given)) if index not in set(aside)][:limit]
    choosing = [given[index] for index in aside] if held_out is None else list(held_out)
    gold = None if labels is None else gold_ids(model, [labels[index] for index in judged], len(judged))
    weights = "" if folder is None else weights_key(model.module)
    identity = {
        "model": weights,
        "texts": content_key([given[index] for index in judged]),
        "held_out_texts": content_key(choosing),
        "labels": None if gold is None else content_key(gold),
        "way_to_hide": hiding.told,
        "seed": seed,
    }
    with reporter(progress) as report, Store(folder, identity) as store:
        tokens = int(batch_tokens or usual_batch_tokens(model))
        trial = Trial(
            model, [given[index] for index in judged], [encodings[index] for index in judged], gold, hiding, seed,
            tokens, store, report, weights,
        )  # fmt: skip
        held = [encode(model, text, index) for index, text in enumerate(choosing)]
        before = replace(trial, texts=choosing, encodings=held, gold=None)
        said = explain_quietly(model, trial.texts, Entrant(RANDOM, "control", RANDOM), seed=seed, batch_tokens=tokens)
        whole = model.reading.per_token or model.reading.responds  # then no label says what is explained
        targets = None if whole else [explanation.prediction.index for explanation in said]
        marks = None if rationales is None else [rationales[index] for index in judged]
        share = marked_share(said, marks)
        second = second_hiding(model, second_hide, hiding)
        lacking = {"marked": share is None, "answered otherwise": second is None}
        wanted = {name: metric for name, metric in wanted.items() if not lacking.get(metric.of)}
        entrants = [_ready(entrant, judged, chosen=bool(choosing)) for entrant in planned.entrants]
        findings = Findings(entrants, {name: np.full((len(entrants), len(judged)), np.nan) for name in wanted})
        asked, explaining = list(wanted.values()), findings.explaining
        parts = [bounds(trial, width), own_sets(trial), additivity(trial)]
        if second is not None:
            parts.append(second_way(trial, entrants, second))
        control, planned_stages = randomisation(trial, explaining, targets, asked)
        steps = [
            choice_of_layers(before, entrants),
            explanation_of_texts(trial, entrants, asked),
            games(trial, entrants, planned.meanings, parts, asked),
            stability(trial, explaining, targets, asked, n_seeds=seeds, checkpoints=checkpoints),
            control,
            plausibility(trial, planned.meanings, marks, share, asked),
        ]
        _check_all_computed(wanted, steps)
        steps = [step for step in steps if step.total]
        passes = sum(step.passes for step in steps) if len(given) >= FEW else None
        if passes is not None:
            each = seconds_of_a_pass(model, encodings[typical], hiding, tokens)
            _announce(Estimate(passes, passes * each, model.device.type), budget, announce)
        for step in steps:
            report(step.name, 0, step.total)
        for step in steps:
            step.run(findings, step.key)
    settings = {
        "hide": hiding.told, "second_hide": None if second is None else second.told, "beam": width, "budget": budget,
        "seed": seed, "seeds": seeds, "layer": layer,
        "target": "response" if model.reading.responds else "predicted", "n_held_out": len(choosing),
        **({} if share is None else {"marked_share": share}),
        **({} if passes is None else {"planned_passes": round(passes)}),
    }  # fmt: skip
    unsettled = [each.name for each in findings.entrants if each.stability is not None and each.stability < SETTLED]
    unclear = f"{len(choosing)} held-out texts do not settle which layer is best: {', '.join(unsettled)}"
    n_cut = sum(encoding.cut > 0 for encoding in trial.encodings)
    few = f"too few texts to choose layers on: {', '.join(several)} judged at the layer nearest the input"
    cut = f"{n_cut} texts were truncated: the model does not read their ends"
    return Scoreboard(
        model=model.record,
        entries=tuple(_entry(entrant, planned.meanings[entrant.name], findings) for entrant in findings.entrants),
        texts=tuple(_judged_texts(trial, said, marks)),
        kinds=wanted,
        values=findings.values,
        curves=np.array(
            [[curve_points(text) for text in findings.answered[each.name]] for each in findings.entrants],
            dtype=np.float32,
        ),
        scores=[findings.scored[entrant.name].rows for entrant in findings.entrants],
        stages=tuple(stage.name for stage in planned_stages),
        randomised=np.array(
            [
                findings.randomised[each.name].values
                if each.name in findings.randomised
                else np.full((len(planned_stages), len(judged)), np.nan)
                for each in findings.entrants
            ]
        ),
        settings=settings,
        left_out=planned.left_out,
        seconds=time.perf_counter() - started,
        warnings=(
            *([few] if several and not choosing else []),
            *([unclear] if unsettled else []),
            *([cut] if n_cut else []),
        ),
    )


def _samples(encodings: Sequence[Encoding]) -> tuple[list[int], int]:
    """Texts on which methods are tried: the shortest and, to tell the cost of many, another short one; and a text of
    typical length."""
    by_length = sorted(range(len(encodings)), key=lambda index: len(encodings[index]))
    half = by_length[: len(encodings) // 2 + 1]
    short = [index for index in half if len(encodings[index]) <= TRIED] if len(encodings) >= FEW else []
    return [by_length[0], *short[-1:]], half[-1]


def _announce(estimate: Estimate, budget: Budget, announce: Callable[[str], None] | None) -> None:
    if announce is not None:
        announce(estimate.sentence(budget))
    elif estimate.long:
        warnings.warn(estimate.sentence(budget), WhenceWarning, stacklevel=3)


def _texts(texts: Iterable[Any]) -> list[Any]:
    if isinstance(texts, (str, tuple)) or not isinstance(texts, Iterable):
        raise InputError(f"texts is {type(texts).__name__}, not several texts", "give a list of strings or of pairs")
    given = list(texts)
    if not given:
        raise InputError("there is no text to evaluate on", "give some hundred of the kind the model is used on")
    return given


def set_aside(n_texts: int, limit: int | None, layer: LayerChoice, *, chooses: bool) -> list[int]:
    """Indices of the texts on which layers are chosen, spread evenly: every fifth, up to 64; with a limit all above it,
    up to 64, and at least 16, or every fifth, if they are fewer.

    They are set aside where layers are to be chosen; and, so that methods can be added to a run later, also where there
    are so many texts that as many as the limit are left.
    """
    if layer != "best" or n_texts < FEWEST_TO_SHARE:
        return []
    fifths = -(-n_texts // EVERY)
    spare = 0 if limit is None else n_texts - limit
    n_aside = min(HELD_OUT, fifths if limit is None else max(spare, min(AT_FIRST, fifths)))
    apart = EVERY if n_aside == fifths else n_texts / n_aside
    enough = limit is not None and n_texts - n_aside >= limit
    return [int(number * apart) for number in range(n_aside)] if chooses or enough else []


def _ready(entrant: Entrant, judged: Sequence[int], *, chosen: bool) -> Entrant:
    """An entrant on the judged texts; where no layer is chosen, at the one nearest the input."""
    layers = entrant.layers if chosen else entrant.layers[:1]
    explanations = [entrant.explanations[index] for index in judged] if entrant.kind == "outside" else ()
    return replace(entrant, layers=layers, explanations=explanations)


def _check_all_computed(wanted: Mapping[str, Metric], steps: Sequence[Step]) -> None:
    given = {name for step in steps for name in step.gives}
    for name in wanted:
        if name not in given:
            raise UsageError(f"nobody computes the metric {name!r}", "give it a compute= of a text that a step makes")


def _entry(entrant: Entrant, meaning: Meaning, findings: Findings) -> Entry:
    memory = findings.scored[entrant.name].memory
    control = findings.randomised.get(entrant.name)
    return Entry(
        entrant.name, entrant.kind, entrant.layer, entrant.chosen_from,
        {name: str(value) for name, value in entrant.options.items()}, meaning,
        memory if np.isfinite(memory) else None, "" if control is None else control.note, entrant.chosen_on,
        entrant.stability,
    )  # fmt: skip


def _judged_texts(
    trial: Trial, said: Sequence[Explanation], marks: Sequence[Rationale | None] | None
) -> Iterable[JudgedText]:
    for index, (encoding, explanation) in enumerate(zip(trial.encodings, said, strict=True)):
        prediction = explanation.prediction
        rationale = None if marks is None else marks[index]
        yield JudgedText(
            encoding.text,
            encoding.pair,
            encoding.tokens,
            prediction.label,
            float(prediction.probability or 0.0),
            explanation.target,
            None if trial.gold is None else trial.model.reading.labels.name(trial.gold[index]),
            None if rationale is None else tuple((int(start), int(end)) for start, end in rationale),
        )
