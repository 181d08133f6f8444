"""Every entrant's scores of every text, and the metrics of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.engine.asking import may_go
from whence.metrics.answered import ScoredText
from whence.metrics.table import Metric
from whence.scoreboard.controls import SINGLE_EFFECTS, single_effects
from whence.scoreboard.explaining import Scored, score
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece


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
            findings.fill(
                name,
                {each.name: [float(each.compute(text)) for text in texts] for each in of_scores if each.compute},
            )

    passes = len(trial.texts) * sum(entrant.passes for entrant in entrants)
    return Step("explanations", total, [metric.name for metric in of_scores], {"hide": trial.hiding.told}, run, passes)


def _single_effects(trial: Trial, chunk: range, key: Mapping[str, Any]) -> Scored:
    encodings = [trial.encodings[index] for index in chunk]

    def make() -> Piece:
        found = single_effects(trial.model, encodings, hiding=trial.hiding, batch_tokens=trial.batch_tokens)
        return Piece({"scores": np.concatenate(found)}, {})

    piece = trial.store.kept("scores", SINGLE_EFFECTS, trial.key(chunk, **key), make)
    parts = np.split(piece.arrays["scores"], np.cumsum([len(each) for each in encodings])[:-1])
    costs = np.array([[2 * int(may_go(each).sum()) + 2, 0, np.nan] for each in encodings])
    return Scored([part[None] for part in parts], costs, float("nan"))
