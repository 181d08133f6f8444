"""The protocol: every entrant's scores of every text, then the same games and measures for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.engine.asking import Contestant, answered, may_go
from whence.metrics.answered import BOARD_POINTS, AnsweredText, ScoredText
from whence.metrics.table import Metric
from whence.scoreboard.controls import SINGLE_EFFECTS, single_effects
from whence.scoreboard.explaining import Scored, score
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

_SETS = 2 * BOARD_POINTS.n_points  # that an entrant asks of a text, at most


def explanations(trial: Trial, entrants: Sequence[Entrant], metrics: Sequence[Metric]) -> Step:
    """Every entrant's scores of every text, chunk by chunk, and the metrics of scored texts."""
    of_scores = [metric for metric in metrics if metric.of == "scored"]
    total = len(entrants) * len(trial.texts)

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        parts: dict[str, list[Scored]] = {entrant.name: [] for entrant in findings.entrants}
        for chunk in trial.chunks():
            for number, entrant in enumerate(findings.entrants, start=1):
                single = entrant.kind == "control" and entrant.name == SINGLE_EFFECTS
                scored = _single_effects(trial, chunk, key) if single else score(trial, entrant, chunk)
                parts[entrant.name].append(scored)
                trial.report("explanations", len(entrants) * chunk.start + number * len(chunk), total)
        words = [may_go(encoding) for encoding in trial.encodings]
        for name, several in parts.items():
            scored = findings.scored[name] = Scored.joined(several)
            texts = [
                ScoredText(np.asarray(row, dtype=float)[seen], *costs)
                for row, seen, costs in zip(scored.rows, words, scored.costs.tolist(), strict=True)
            ]
            findings.fill(name, _computed(of_scores, texts))

    passes = len(trial.texts) * sum(entrant.passes for entrant in entrants)
    return Step("explanations", total, [metric.name for metric in of_scores], {"hide": trial.hiding.name}, run, passes)


def _single_effects(trial: Trial, chunk: range, key: Mapping[str, Any]) -> Scored:
    encodings = [trial.encodings[index] for index in chunk]

    def make() -> Piece:
        found = single_effects(trial.model, encodings, hiding=trial.hiding, batch_tokens=trial.batch_tokens)
        return Piece({"scores": np.concatenate(found)}, {})

    piece = trial.store.kept("scores", SINGLE_EFFECTS, trial.key(chunk, **key), make)
    parts = np.split(piece.arrays["scores"], np.cumsum([len(each) for each in encodings])[:-1])
    costs = np.array([[2 * int(may_go(each).sum()) + 2, 0, np.nan] for each in encodings])
    return Scored([part[None] for part in parts], costs, float("nan"))


def games(trial: Trial, entrants: Sequence[Entrant], metrics: Sequence[Metric]) -> Step:
    """What the model says of the texts in the hands of every entrant, and the metrics of answered texts."""
    of_answers = [metric for metric in metrics if metric.of == "answered"]
    key = {"points": BOARD_POINTS, "hide": trial.hiding.name}

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        for chunk in trial.chunks():
            for name, texts in _answers(trial, findings, chunk, key).items():
                findings.answered.setdefault(name, []).extend(texts)
            trial.report("games", chunk.stop, len(trial.texts))
        for name, texts in findings.answered.items():
            findings.fill(name, _computed(of_answers, texts))

    passes = len(entrants) * sum(min(_SETS, 2 * len(encoding)) for encoding in trial.encodings)
    return Step("games", len(trial.texts), [metric.name for metric in of_answers], key, run, passes)


def _answers(trial: Trial, findings: Findings, chunk: range, key: Mapping[str, Any]) -> dict[str, list[AnsweredText]]:
    """The answers about a chunk of texts; those that are not kept yet are asked for together."""
    rows = {name: scored.rows[chunk.start : chunk.stop] for name, scored in findings.scored.items()}
    gold = None if trial.gold is None else [trial.gold[index] for index in chunk]
    keys = {name: trial.key(chunk, scores=of_name, gold=gold, **key) for name, of_name in rows.items()}
    missing = {
        name: Contestant(rows[name], tie_breaks=1) for name in rows if not trial.store.has("answers", name, keys[name])
    }
    asked: dict[str, list[Any]] = {name: [None] * len(chunk) for name in missing}
    if missing:
        for index, texts in answered(
            trial.model, [trial.encodings[index] for index in chunk], missing, BOARD_POINTS,
            hiding=trial.hiding, batch_tokens=trial.batch_tokens, gold=gold, seed=trial.seed,
        ):  # fmt: skip
            for name, text in texts.items():
                asked[name][index] = text
    return {
        name: _unpacked(trial.store.kept("answers", name, keys[name], lambda name=name: _packed(asked[name])))  # type: ignore[misc]
        for name in rows
    }


_FIELDS = ("n_tokens", "whole", "counts", "probability", "same", "right")


def _packed(texts: Sequence[AnsweredText]) -> Piece:
    tables = {name: [getattr(text, name) for text in texts] for name in _FIELDS}
    return Piece({name: np.array(values) for name, values in tables.items() if values[0] is not None}, {})


def _unpacked(piece: Piece) -> list[AnsweredText]:
    tables = [piece.arrays.get(name) for name in _FIELDS]
    return [
        AnsweredText(
            BOARD_POINTS, int(piece.arrays["n_tokens"][row]), float(piece.arrays["whole"][row]),
            *(None if table is None else table[row] for table in tables[2:]),  # type: ignore[arg-type]
        )
        for row in range(len(piece.arrays["whole"]))
    ]  # fmt: skip


def _computed(metrics: Sequence[Metric], texts: Sequence[Any]) -> dict[str, list[float]]:
    return {metric.name: [float(metric.compute(text)) for text in texts] for metric in metrics if metric.compute}
