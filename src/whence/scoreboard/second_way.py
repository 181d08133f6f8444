"""The games once more with words hidden in another way, and how far the two rankings of methods go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from whence.errors import UsageError, WhenceError
from whence.metrics.answered import AnsweredText, Points
from whence.metrics.confidence import Interval, percentile_ends, resampling_weights
from whence.metrics.rank_correlation import kendall_tau
from whence.metrics.table import HEADLINE
from whence.models.hiding import HIDES, Hide, Hiding
from whence.models.layered import LayeredModel
from whence.scoreboard.board import GRID, Scoreboard
from whence.scoreboard.chunk import Chunk, Part
from whence.scoreboard.games import played
from whence.scoreboard.trial import Entrant, Trial

SECOND = "second_faithfulness"
_POINTS = Points(GRID)
WAYS = {
    "mask_and_attention": "mask and attention", "attention": "attention alone", "mask": "the mask alone",
    "pad": "padding", "zero": "zeros", "delete": "deletion",
}  # fmt: skip
"""What words are hidden by, in words."""
_MARKS = "Ġ▁ "  # by which tokens say that a space comes before them
_PREFERRED = ("delete", "mask", "attention", "pad", "zero")


def in_words(way: str) -> str:
    """A way to hide as `Hiding.told` has it, with the word that stands in a hidden one's place, if any.

    >>> in_words("mask_and_attention, Ġthe")
    'mask and attention ("the" in their place)'
    """
    name, _, word = way.partition(", ")
    return WAYS.get(name, name) + (f' ("{word.strip(_MARKS)}" in their place)' if word else "")


def second_hiding(model: LayeredModel, hide: Hide, first: Hiding) -> Hiding | None:
    """Another way to hide than the first: the one asked for, or the first of `_PREFERRED` that this model allows."""
    if hide != "auto":
        asked = Hiding.of(model, hide)
        if asked.name == first.name:
            raise UsageError(f"words are hidden by {hide!r} already", "give another second_hide")
        return asked
    for name in _PREFERRED:
        if name in HIDES and name != first.name:
            try:
                return Hiding.of(model, name)
            except WhenceError:
                continue
    return None


def second_way(trial: Trial, entrants: Sequence[Entrant], hiding: Hiding) -> Part:
    def run(chunk: Chunk, games: Mapping[str, Sequence[AnsweredText]]) -> Mapping[str, Sequence[AnsweredText]]:
        return played(chunk, _POINTS, hiding, memory=None)

    passes = len(entrants) * sum(min(2 * _POINTS.n_points, 2 * len(encoding)) for encoding in trial.encodings)
    return Part("answered otherwise", run, passes)


@dataclass(frozen=True)
class TwoRankings:
    """τ-b between the methods' mean faithfulness under the two ways of hiding, and who comes first in each."""

    tau: Interval
    first: str
    second: str


def two_rankings(board: Scoreboard) -> TwoRankings | None:
    """How far the two rankings of methods (controls left out) go together, with an interval over resampled texts.

    None where the second way was not tried or there is nothing to rank.
    """
    own = [index for index, entry in enumerate(board.entries) if entry.kind != "control"]
    if SECOND not in board.metrics or len(own) < 2:
        return None
    tables = [board.per_text(metric)[own] for metric in (HEADLINE, SECOND)]
    known = np.isfinite(np.concatenate(tables)).all(axis=0)
    if not known.any():
        return None
    weights = resampling_weights(int(known.sum()), seed=int(board.settings.get("seed", 0)))
    means = [table[:, known].mean(axis=1) for table in tables]
    tau = float(kendall_tau(means[0][None], means[1][None])[0, 0])
    resampled = [weights @ table[:, known].T for table in tables]
    taus = np.array([kendall_tau(one[None], other[None])[0, 0] for one, other in zip(*resampled, strict=True)])
    low, high = percentile_ends(taus[np.isfinite(taus)]) if np.isfinite(taus).any() else (tau, tau)
    first, second = (board.entries[own[int(np.argmax(mean))]].name for mean in means)
    return TwoRankings(Interval(tau, float(low), float(high)), first, second)
