"""The games: what the model says of the texts in the hands of every entrant, and what else is asked of their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.engine.asking import Contestant, Memory, answered
from whence.explanation import Meaning
from whence.metrics.answered import BOARD_POINTS, AnsweredText, Points
from whence.metrics.table import Metric
from whence.models.hiding import Hiding
from whence.scoreboard.chunk import Chunk, Part
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

_SETS = 2 * BOARD_POINTS.n_points  # that an entrant asks of a text, at most


def games(
    trial: Trial,
    entrants: Sequence[Entrant],
    meanings: Mapping[str, Meaning],
    parts: Sequence[Part],
    metrics: Sequence[Metric],
) -> Step:
    """The games of every text, then the parts that some metric asks for, chunk by chunk, and the metrics of all."""
    wanted = [part for part in parts if any(metric.of == part.of for metric in metrics)]
    n_texts = len(trial.texts)

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        records: dict[str, dict[str, list[Any]]] = {of: {} for of in ("answered", *(part.of for part in wanted))}
        for indices in trial.chunks():
            rows = {name: scored.rows[indices.start : indices.stop] for name, scored in findings.scored.items()}
            chunk = Chunk(trial, indices, rows, meanings, [{} for _ in indices])
            done = played(chunk, BOARD_POINTS, trial.hiding, memory=chunk.memory)
            found: list[tuple[str, Mapping[str, Sequence[Any]]]] = [("answered", done)]
            for number, part in enumerate(wanted, start=1):
                trial.report("games", indices.start + number * len(indices) // (1 + len(wanted)), n_texts)
                found.append((part.of, part.run(chunk, done)))
            trial.report("games", indices.stop, n_texts)
            for of, by_name in found:
                for name, texts in by_name.items():
                    records[of].setdefault(name, []).extend(texts)
        findings.answered.update(records["answered"])
        for of, by_name in records.items():
            asked = [metric for metric in metrics if metric.of == of and metric.compute is not None]
            for name, texts in by_name.items():
                findings.fill(name, {each.name: [float(each.compute(text)) for text in texts] for each in asked})  # type: ignore[misc]

    of_games = len(entrants) * sum(min(_SETS, 2 * len(encoding)) for encoding in trial.encodings)
    passes = of_games + sum(part.passes for part in wanted)
    gives = [metric.name for metric in metrics if metric.of in ("answered", *(part.of for part in wanted))]
    return Step("games", n_texts, gives, {}, run, passes)


def played(chunk: Chunk, points: Points, hiding: Hiding, memory: Memory | None) -> dict[str, list[AnsweredText]]:
    """Every entrant's games of a chunk; those that are not kept yet are played together."""
    trial = chunk.trial
    gold = None if trial.gold is None else [trial.gold[index] for index in chunk.indices]
    keys = {
        name: trial.key(chunk.indices, scores=rows, gold=gold, points=points, hide=hiding.told)
        for name, rows in chunk.rows.items()
    }
    missing = {
        name: Contestant(rows, tie_breaks=1)
        for name, rows in chunk.rows.items()
        if not trial.store.has("answers", name, keys[name])
    }
    asked: dict[str, list[Any]] = {name: [None] * len(chunk.indices) for name in missing}
    if missing:
        for index, texts in answered(
            trial.model, chunk.encodings, missing, points, hiding=hiding, batch_tokens=trial.batch_tokens, gold=gold,
            seed=trial.seed, memory=memory,
        ):  # fmt: skip
            for name, text in texts.items():
                asked[name][index] = text
    return {
        name: _unpacked(trial.store.kept("answers", name, key, lambda name=name: _packed(asked[name])), points)  # type: ignore[misc]
        for name, key in keys.items()
    }


_FIELDS = ("n_tokens", "whole", "counts", "probability", "same", "right")


def _packed(texts: Sequence[AnsweredText]) -> Piece:
    tables = {name: [getattr(text, name) for text in texts] for name in _FIELDS}
    return Piece({name: np.array(values) for name, values in tables.items() if values[0] is not None}, {})


def _unpacked(piece: Piece, points: Points) -> list[AnsweredText]:
    tables = [piece.arrays.get(name) for name in _FIELDS]
    return [
        AnsweredText(
            points, int(piece.arrays["n_tokens"][row]), float(piece.arrays["whole"][row]),
            *(None if table is None else table[row] for table in tables[2:]),  # type: ignore[arg-type]
        )
        for row in range(len(piece.arrays["whole"]))
    ]  # fmt: skip
