"""`whence.evaluate`: every method over the same texts under one protocol, and which of them to believe."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.masked import Hide, Hiding
from whence.errors import InputError, UsageError
from whence.explanation import Explanation
from whence.methods.options import at_least, check_seed
from whence.models.batching import Text, encode, usual_batch_tokens
from whence.models.fingerprint import fingerprint
from whence.models.layered import LayeredModel
from whence.scoreboard.board import Entry, JudgedText, Scoreboard
from whence.scoreboard.controls import RANDOM
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.layer_choice import choose_layers
from whence.scoreboard.metric_table import chosen_metrics, groups_of
from whence.scoreboard.planning import LayerChoice, Methods, Plan, plan
from whence.scoreboard.protocol import judged_values, scores_and_outcomes
from whence.scoreboard.randomisation import randomise, stages
from whence.scoreboard.rationales import Rationale, marked_share, plausibility
from whence.scoreboard.stability import stability
from whence.scoreboard.trial import Entrant, Report, Step, Trial
from whence.store import Store

if TYPE_CHECKING:
    from jaxtyping import Float

HELD_OUT = 16  # texts to choose layers on
FEWEST_TO_SHARE = 10  # with fewer texts none is set aside for choosing layers


def evaluate(
    model: LayeredModel,
    texts: Iterable[Text],
    labels: Sequence[str | int] | None = None,
    *,
    methods: Methods | None = None,
    metrics: Iterable[str] | None = None,
    explanations: Mapping[str, Sequence[Explanation]] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    layer: LayerChoice = "best",
    held_out: Sequence[Text] | None = None,
    rationales: Sequence[Rationale | None] | None = None,
    checkpoints: Sequence[LayeredModel] = (),
    seeds: int = 3,
    hide: Hide = "auto",
    seed: int = 0,
    batch_tokens: int | None = None,
    folder: str | Path | None = None,
    progress: Report | None = None,
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
        methods: names from `whence methods` or your own; by default every method that the model allows.
        metrics: names or groups from `whence.scoreboard.metric_table.METRICS`; by default all.
        explanations: from elsewhere, by name, one a text each (see `Explanation.from_scores`).
        options: options of methods, by the method's name.
        layer: "best" judges a method of several layers at the one that does best on held-out texts; "each" at each of
            them; else at this layer.
        held_out: texts to choose layers on; by default every fifth text, at most 16, which is then not judged.
        rationales: for each text the spans of characters that people marked, or None.
        checkpoints: the same model trained anew, for stability over retraining.
        seeds: how many seeds are compared for stability.
        hide: how a token is hidden; see `whence.engine.masked.HIDES`.
        seed: makes every random choice repeatable.
        batch_tokens: tokens a forward pass holds at most; lower it if memory runs out.
        folder: where finished work is kept; the same call goes on from there after a kill.
        progress: called with (step, done, in all): with 0 done for every step to come, then as they go on.
    """
    started = time.perf_counter()
    wanted = chosen_metrics(metrics)
    check_seed(seed)
    at_least("seeds", seeds, 1)
    given = _texts(texts)
    for name, column in {"labels": labels, "rationales": rationales}.items():
        if column is not None and len(column) != len(given):
            raise UsageError(f"{len(column)} {name} for {len(given)} texts", "give one a text")
    if not model.reading.decides:
        raise UsageError("the model gives a plain number, so it takes no decision to explain", "give a classifier")
    hiding = Hiding.of(model, hide)
    shortest = min(given, key=lambda text: len(encode(model, text, 0)))
    planned = plan(model, methods, explanations or {}, options or {}, layer, shortest, len(given))
    aside, warnings = _set_aside(planned, len(given), held_out)
    judged = [place for place in range(len(given)) if place not in set(aside)]
    gold = None if labels is None else model.reading.gold([labels[place] for place in judged])
    identity = {
        "model": model.record.id,
        "weights": _weights(model),
        "texts": _digest([given[place] for place in judged]),
        "held_out_texts": _digest([given[place] for place in aside] if held_out is None else list(held_out)),
        "labels": None if gold is None else _digest(gold),
        "way_to_hide": hiding.name,
        "seed": seed,
    }
    store = Store(folder, identity)
    report: Report = progress or (lambda step, done, total: None)
    budget = int(batch_tokens or usual_batch_tokens(model))

    def trial_of(some: Sequence[Text], gold: Sequence[int] | None) -> Trial:
        encodings = [encode(model, text, place) for place, text in enumerate(some)]
        return Trial(model, some, encodings, gold, hiding, seed, budget, store, report)

    entrants = planned.entrants
    choosing = [given[place] for place in aside] if held_out is None else list(held_out)
    planned_stages = stages(model) if "randomisation" in wanted else []
    tries_stability = "stability" in groups_of(wanted)
    for step, total in _steps(entrants, bool(choosing), len(judged), tries_stability, len(planned_stages)).items():
        report(step, 0, total)
    if any(len(entrant.layers) > 1 for entrant in entrants):
        if choosing:
            entrants = choose_layers(trial_of(choosing, None), entrants)
        else:
            entrants = [replace(entrant, layers=entrant.layers[:1]) for entrant in entrants]
    entrants = [
        replace(each, explanations=[each.explanations[place] for place in judged]) if each.kind == "outside" else each
        for each in entrants
    ]
    trial = trial_of([given[place] for place in judged], gold)
    said = explain_quietly(model, trial.texts, Entrant(RANDOM, "control", RANDOM), seed=seed, batch_tokens=budget)
    scored, outcomes = scores_and_outcomes(trial, entrants)
    rows = {name: each.rows for name, each in scored.items()}
    values = {metric: np.full((len(entrants), len(trial.texts)), np.nan) for metric in wanted}
    _fill(values, entrants, judged_values(trial, scored, outcomes))
    targets = None
    if not model.reading.per_token:
        targets = [explanation.prediction.index for explanation in said]
    explaining = [entrant for entrant in entrants if entrant.method is not None]
    if tries_stability:
        for done, entrant in enumerate(explaining, start=1):
            found = stability(trial, entrant, rows[entrant.name], targets, n_seeds=seeds, checkpoints=checkpoints)
            _fill(values, entrants, {entrant.name: found})
            report("stability", done, len(explaining))
    randomised = np.full((len(entrants), len(planned_stages), len(trial.texts)), np.nan)
    notes: dict[str, str] = {}
    if planned_stages:
        control = randomise(trial, explaining, rows, targets)
        for place, entrant in enumerate(entrants):
            if entrant.name in control:
                randomised[place] = control[entrant.name].values
                notes[entrant.name] = control[entrant.name].note
        values["randomisation"] = randomised[:, -1].copy()
    marks = None if rationales is None else [rationales[place] for place in judged]
    board = Scoreboard(
        model=model.record,
        entries=tuple(
            Entry(
                entrant.name, entrant.kind, entrant.layer, entrant.chosen_from,
                {name: str(value) for name, value in entrant.options.items()},
                planned.meanings[entrant.name],
                memory if np.isfinite(memory := scored[entrant.name].memory) else None,
                notes.get(entrant.name, ""),
            )
            for entrant in entrants
        ),
        texts=tuple(_judged_text(trial, said, gold, marks)),
        values=values,
        curves=np.stack([outcomes[entrant.name].curves for entrant in entrants]),
        scores=[rows[entrant.name] for entrant in entrants],
        stages=tuple(stage.name for stage in planned_stages),
        randomised=randomised,
        settings={"hide": hiding.name, "seed": seed, "seeds": seeds, "layer": layer, "target": "predicted",
                  "n_held_out": len(aside) if held_out is None else len(held_out)},
        left_out=planned.left_out,
        seconds=time.perf_counter() - started,
        warnings=(*warnings, *_cut(trial)),
    )  # fmt: skip
    return _with_plausibility(board, marks)


def _texts(texts: Iterable[Text]) -> list[Text]:
    if isinstance(texts, (str, tuple)) or not isinstance(texts, Iterable):
        raise InputError(f"texts is {type(texts).__name__}, not several texts", "give a list of strings or of pairs")
    given = list(texts)
    if not given:
        raise InputError("there is no text to evaluate on", "give some hundred of the kind the model is used on")
    return given


def _set_aside(planned: Plan, n_texts: int, held_out: Sequence[Text] | None) -> tuple[list[int], list[str]]:
    """Places of the texts on which layers are chosen, and what is to be said of that."""
    several = [entrant.name for entrant in planned.entrants if len(entrant.layers) > 1]
    if not several or held_out is not None:
        return [], []
    if n_texts < FEWEST_TO_SHARE:
        return [], [f"too few texts to choose layers on: {', '.join(several)} judged at the layer nearest the input"]
    return list(range(0, n_texts, 5))[:HELD_OUT], []


def _steps(
    entrants: Sequence[Entrant], chooses: bool, n_texts: int, tries_stability: bool, n_stages: int
) -> dict[Step, int]:
    """The steps of this run with how much there is to do in each; one with nothing to do is none."""
    n_explaining = sum(entrant.method is not None for entrant in entrants)
    found: dict[Step, int] = {
        "choosing layers": chooses * sum(len(entrant.layers) > 1 for entrant in entrants),
        "explanations": len(entrants) * n_texts,
        "games": n_texts,
        "stability": tries_stability * n_explaining,
        "random weights": n_stages * n_explaining,
    }
    return {step: total for step, total in found.items() if total}


def _digest(values: Sequence[Any]) -> str:
    return hashlib.sha256(repr(list(values)).encode("utf-8", "surrogatepass")).hexdigest()


def _weights(model: LayeredModel) -> str:
    digest = hashlib.sha256()
    for name, sample in fingerprint(model.module).items():
        digest.update(name.encode() + sample.numpy().tobytes())
    return digest.hexdigest()


def _fill(
    values: Mapping[str, Float[np.ndarray, "entry text"]],
    entrants: Sequence[Entrant],
    found: Mapping[str, Mapping[str, Float[np.ndarray, " text"]]],
) -> None:
    """Write what was found into the tables of the metrics that were asked for."""
    for place, entrant in enumerate(entrants):
        for metric, row in found.get(entrant.name, {}).items():
            if metric in values:
                values[metric][place] = row


def _judged_text(
    trial: Trial, said: Sequence[Explanation], gold: Sequence[int] | None, marks: Sequence[Rationale | None] | None
) -> Iterable[JudgedText]:
    for place, (encoding, explanation) in enumerate(zip(trial.encodings, said, strict=True)):
        prediction = explanation.prediction
        rationale = None if marks is None else marks[place]
        yield JudgedText(
            encoding.text,
            encoding.pair,
            encoding.tokens,
            prediction.label,
            float(prediction.probability or 0.0),
            None if gold is None else trial.model.reading.labels.name(gold[place]),
            None if rationale is None else tuple((int(start), int(end)) for start, end in rationale),
        )


def _with_plausibility(board: Scoreboard, marks: Sequence[Rationale | None] | None) -> Scoreboard:
    asked = [name for name in ("auprc", "token_f1") if name in board.values]
    if not asked:
        return board
    share = None if marks is None else marked_share(board.explanations(board.entries[0].name), marks)
    if marks is None or share is None:
        return replace(board, values={name: rows for name, rows in board.values.items() if name not in asked})
    for place, entry in enumerate(board.entries):
        for metric, row in plausibility(board.explanations(entry.name), marks, share).items():
            if metric in board.values:
                board.values[metric][place] = row
    return replace(board, settings={**board.settings, "marked_share": share})


def _cut(trial: Trial) -> list[str]:
    cut = sum(encoding.cut > 0 for encoding in trial.encodings)
    return [f"{cut} texts were truncated: the model does not read their ends"] if cut else []
