"""Who is better than whom, as far as the texts can tell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UsageError, warn_of_old_name
from whence.metrics.confidence import Interval
from whence.metrics.many_comparisons import holm, rank_ranges, sign_flip_p_values
from whence.scoreboard.board import Scoreboard

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

SURE = 0.05  # the chance of one wrong claim among all comparisons of a ranking


@dataclass(frozen=True)
class Standing:
    """An entry's mean and the ranks it may have; controls have none, and (0, 0) stands for that."""

    name: str
    mean: Interval
    ranks: tuple[int, int]
    n_texts: int

    @property
    def tied(self) -> bool:
        return self.ranks[0] != self.ranks[1]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Entries from best to worst on one metric.

    `p_values[i, j]` compares standings i and j: two-sided, by random signs over the texts, corrected after Holm for all
    comparisons made; `better[i, j]` says that i is surely better than j.
    """

    metric: str
    standings: tuple[Standing, ...]
    p_values: Float[np.ndarray, "standing other"]
    better: Bool[np.ndarray, "standing other"]

    @property
    def places(self) -> tuple[Standing, ...]:
        """The old name of `standings`."""
        warn_of_old_name("Ranking.places", "Ranking.standings")
        return self.standings

    @property
    def first(self) -> tuple[Standing, ...]:
        """The best entry and all from which it cannot be told apart, controls left out."""
        own = [number for number, each in enumerate(self.standings) if each.ranks != (0, 0)]
        return tuple(self.standings[number] for number in own if number == own[0] or not self.better[own[0], number])

    def of(self, name: str) -> Standing:
        return next(each for each in self.standings if each.name == name)

    def surely_better(self, name: str, other: str) -> bool:
        names = [each.name for each in self.standings]
        return bool(self.better[names.index(name), names.index(other)])


def rank(board: Scoreboard, metric: str) -> Ranking:
    """Entries that have the metric on at least one text, from best to worst; equal ones in the order given."""
    values = board.per_text(metric)
    better = board.kinds[metric].better
    if better is None:
        raise UsageError(f"neither more nor less {metric} is better, so it gives no ranking", "rank by another metric")
    sign = 1.0 if better == "higher" else -1.0
    known = [
        (entry, interval, row)
        for entry, row in zip(board.entries, values, strict=True)
        if (interval := board.interval(entry.name, metric)) is not None
    ]
    known.sort(key=lambda item: -sign * item[1].mean)
    n_known = len(known)
    pairs = list(combinations(range(n_known), 2))
    p_values = np.ones((n_known, n_known))
    surely = np.zeros((n_known, n_known), dtype=bool)
    if pairs:
        differences = np.stack([sign * (known[i][2] - known[j][2]) for i, j in pairs], axis=1)
        corrected = holm(sign_flip_p_values(differences, seed=int(board.settings.get("seed", 0))))
        for (i, j), p_value, mean in zip(pairs, corrected, np.nan_to_num(differences).mean(axis=0), strict=True):
            p_values[i, j] = p_values[j, i] = p_value
            surely[i, j], surely[j, i] = p_value < SURE and mean > 0, p_value < SURE and mean < 0
    own = [number for number, (entry, _, _) in enumerate(known) if entry.kind != "control"]
    ranges = dict(zip(own, rank_ranges(surely[np.ix_(own, own)]), strict=True))
    standings = tuple(
        Standing(entry.name, interval, ranges.get(number, (0, 0)), int(np.isfinite(row).sum()))
        for number, (entry, interval, row) in enumerate(known)
    )
    return Ranking(metric, standings, p_values, surely)
