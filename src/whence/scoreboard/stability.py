"""Stability: does a method give the same answer for another seed, in other company, and on a retrained model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.metrics.rank_correlation import kendall_tau
from whence.metrics.table import METRICS, Metric
from whence.models.fingerprint import weights_key
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.trial import Entrant, Findings, Step, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

STABILITY = ("seed_stability", "batch_difference", "checkpoint_stability")
MOST_TEXTS = 6  # explained again for each seed, alone, and by each checkpoint


def stability(
    trial: Trial,
    entrants: Sequence[Entrant],
    targets: Sequence[int] | None,
    metrics: Sequence[Metric],
    *,
    n_seeds: int,
    checkpoints: Sequence[LayeredModel],
) -> Step:
    """The stability metrics of some texts, of every entrant that can be asked again."""
    asked = [metric for metric in metrics if metric.name in STABILITY]
    key = {
        "metrics": [(METRICS[name].name, METRICS[name].version) for name in STABILITY],
        "n_seeds": n_seeds,
        "checkpoints": [weights_key(model.module) for model in checkpoints] if asked else [],
    }

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        indices = trial.some(MOST_TEXTS)
        for done, entrant in enumerate(findings.explaining, start=1):
            rows = [findings.scored[entrant.name].rows[index] for index in indices]
            piece = trial.store.kept(
                "stability", entrant.name, trial.key(indices, **entrant.key, **key),
                lambda entrant=entrant, rows=rows: _tried(trial, entrant, indices, rows, targets, n_seeds, checkpoints),  # type: ignore[misc]
            )  # fmt: skip
            spread = np.full((len(STABILITY), len(trial.texts)), np.nan)
            spread[:, indices] = [piece.arrays[name] for name in STABILITY]
            findings.fill(entrant.name, dict(zip(STABILITY, spread, strict=True)))
            trial.report("stability", done, len(entrants))

    again = len(trial.some(MOST_TEXTS)) * (1 + n_seeds + len(checkpoints))
    passes = again * sum(entrant.passes for entrant in entrants) if asked else 0.0
    return Step("stability", len(entrants) if asked else 0, STABILITY, key, run, passes)


def _tried(
    trial: Trial,
    entrant: Entrant,
    indices: Sequence[int],
    rows: Sequence[Float[np.ndarray, " token"]],
    targets: Sequence[int] | None,
    n_seeds: int,
    checkpoints: Sequence[LayeredModel],
) -> Piece:
    alone = [_rows(trial, entrant, trial.model, [index])[0] for index in indices]
    again = [rows]
    uses_seeds = n_seeds > 1 and _uses_seeds(trial, entrant, indices, alone)
    for seed in range(trial.seed + 1, trial.seed + n_seeds):
        again.append(_rows(trial, entrant, trial.model, indices, seed=seed) if uses_seeds else rows)
    retrained = [_rows(trial, entrant, model, indices, targets=targets) for model in checkpoints]
    encodings = [trial.encodings[index] for index in indices]
    found = (
        _rank_correlations(again, encodings),
        np.array([_difference(*pair) for pair in zip(rows, alone, strict=True)]),
        _rank_correlations([rows, *retrained], encodings),
    )
    return Piece(dict(zip(STABILITY, found, strict=True)), {})


def _uses_seeds(
    trial: Trial, entrant: Entrant, indices: Sequence[int], alone: Sequence[Float[np.ndarray, " token"]]
) -> bool:
    """Whether another seed changes the scores of the longest text: if any is sampled, that one is.

    Most methods draw nothing; explaining all the texts again would only show it.
    """
    longest = max(range(len(indices)), key=lambda number: len(trial.encodings[indices[number]]))
    other = _rows(trial, entrant, trial.model, [indices[longest]], seed=trial.seed + 1)[0]
    return not np.array_equal(other, alone[longest])


def _rows(
    trial: Trial,
    entrant: Entrant,
    model: LayeredModel,
    indices: Sequence[int],
    *,
    seed: int | None = None,
    targets: Sequence[int] | None = None,
) -> list[Float[np.ndarray, " token"]]:
    explained = explain_quietly(
        model,
        [trial.texts[index] for index in indices],
        entrant,
        seed=trial.seed if seed is None else seed,
        batch_tokens=trial.batch_tokens,
        targets=None if targets is None else [targets[index] for index in indices],
    )
    return [each.row() for each in explained]


def _rank_correlations(
    several: Sequence[Sequence[Float[np.ndarray, " token"]]], encodings: Sequence[Encoding]
) -> Float[np.ndarray, " text"]:
    """For each text the mean τ-b between the orders of its words in every two of several runs; NaN for one run."""
    return np.array(
        [
            np.mean([rank_correlation(several[i][number], several[j][number], encoding) for i, j in pairs])
            if pairs
            else np.nan
            for number, encoding in enumerate(encodings)
            for pairs in [list(combinations(range(len(several)), 2))]
        ]
    )


def rank_correlation(one: Float[np.ndarray, " token"], other: Float[np.ndarray, " token"], encoding: Encoding) -> float:
    """τ-b between two rows of scores over the tokens that are not special; 1 for equal rows, even of one score."""
    words = [not token.special for token in encoding.tokens]
    one, other = np.asarray(one, dtype=float)[words], np.asarray(other, dtype=float)[words]
    if np.array_equal(one, other):
        return 1.0
    return float(kendall_tau(one[None], other[None])[0, 0])


def _difference(one: Float[np.ndarray, " token"], other: Float[np.ndarray, " token"]) -> float:
    largest = np.abs(one).max()
    return float(np.abs(one - other).max() / largest) if largest > 0 else 0.0
