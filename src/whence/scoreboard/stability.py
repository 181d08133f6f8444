"""Stability: does a method give the same answer for another seed, in other company, and on a retrained model?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from whence.metrics.rank_correlation import kendall_tau
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.scoreboard.explaining import explain_quietly
from whence.scoreboard.trial import Entrant, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_TEXTS = 6  # explained again for each seed, alone, and by each checkpoint


def stability(
    trial: Trial,
    entrant: Entrant,
    rows: Sequence[Float[np.ndarray, " token"]],
    targets: Sequence[int] | None,
    *,
    n_seeds: int,
    checkpoints: Sequence[LayeredModel],
) -> dict[str, Float[np.ndarray, " text"]]:
    """The stability metrics of each text, NaN for the texts that were not tried; `rows` are the entrant's scores."""
    places = trial.some(MOST_TEXTS)

    def make() -> Piece:
        alone = [_rows(trial, entrant, trial.model, [place])[0] for place in places]
        again = [[rows[place] for place in places]]
        uses_seeds = n_seeds > 1 and _uses_seeds(trial, entrant, places, alone)
        for seed in range(trial.seed + 1, trial.seed + n_seeds):
            again.append(_rows(trial, entrant, trial.model, places, seed=seed) if uses_seeds else again[0])
        retrained = [_rows(trial, entrant, model, places, targets=targets) for model in checkpoints]
        encodings = [trial.encodings[place] for place in places]
        found = {
            "seed_stability": _agreement(again, encodings),
            "batch_difference": np.array([_difference(*pair) for pair in zip(again[0], alone, strict=True)]),
            "checkpoint_stability": _agreement([again[0], *retrained], encodings),
        }
        return Piece(found, {})

    key = {"options": {name: str(value) for name, value in entrant.options.items()}, "layers": list(entrant.layers),
           "n_seeds": n_seeds, "checkpoints": [model.record.id for model in checkpoints]}  # fmt: skip
    piece = trial.store.kept("stability", entrant.name, key, make)
    spread = {}
    for name, values in piece.arrays.items():
        spread[name] = np.full(len(trial.texts), np.nan)
        spread[name][places] = values
    return spread


def _uses_seeds(
    trial: Trial, entrant: Entrant, places: Sequence[int], alone: Sequence[Float[np.ndarray, " token"]]
) -> bool:
    """Whether another seed changes the scores of the longest text: if any is sampled, that one is.

    Most methods draw nothing; explaining all the texts again would only show it.
    """
    longest = max(range(len(places)), key=lambda number: len(trial.encodings[places[number]]))
    other = _rows(trial, entrant, trial.model, [places[longest]], seed=trial.seed + 1)[0]
    return not np.array_equal(other, alone[longest])


def _rows(
    trial: Trial,
    entrant: Entrant,
    model: LayeredModel,
    places: Sequence[int],
    *,
    seed: int | None = None,
    targets: Sequence[int] | None = None,
) -> list[Float[np.ndarray, " token"]]:
    explained = explain_quietly(
        model,
        [trial.texts[place] for place in places],
        entrant,
        seed=trial.seed if seed is None else seed,
        batch_tokens=trial.batch_tokens,
        targets=None if targets is None else [targets[place] for place in places],
    )
    return [each.row() for each in explained]


def _agreement(
    several: Sequence[Sequence[Float[np.ndarray, " token"]]], encodings: Sequence[Encoding]
) -> Float[np.ndarray, " text"]:
    """For each text the mean τ-b between the orders of its words in every two of several runs; NaN for one run."""
    return np.array(
        [
            np.mean([order_agreement(several[i][place], several[j][place], encoding) for i, j in pairs])
            if pairs
            else np.nan
            for place, encoding in enumerate(encodings)
            for pairs in [list(combinations(range(len(several)), 2))]
        ]
    )


def order_agreement(one: Float[np.ndarray, " token"], other: Float[np.ndarray, " token"], encoding: Encoding) -> float:
    """τ-b between two rows of scores over the tokens that are not special; 1 for equal rows, even of one score."""
    words = [not token.special for token in encoding.tokens]
    one, other = np.asarray(one, dtype=float)[words], np.asarray(other, dtype=float)[words]
    if np.array_equal(one, other):
        return 1.0
    return float(kendall_tau(one[None], other[None])[0, 0])


def _difference(one: Float[np.ndarray, " token"], other: Float[np.ndarray, " token"]) -> float:
    largest = np.abs(one).max()
    return float(np.abs(one - other).max() / largest) if largest > 0 else 0.0
