"""What metrics are computed from: a text of which the model was asked in parts, its scores, and people's marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from whence.errors import UnknownNameError, UsageError
from whence.metrics.curves import GAMES, GRID, Game, Rounding, area_under, hidden_counts
from whence.metrics.eraser import BINS, MASSES, bin_counts, mass_counts

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Real

Measure = Literal["accuracy", "agreement", "probability"]
"""What is measured at each point: whether the model gives the gold label, whether it says what it says of the whole
text, or the probability of the latter."""


@dataclass(frozen=True)
class Points:
    """Where a game is stopped and the model is asked: at shares of the tokens, and at shares of the scores' mass.

    The points come in this order: those of `grid` (rounded by `rounding`, see `hidden_counts`), of `bins` (rounded up)
    and of `masses`.
    """

    grid: tuple[float, ...] = GRID
    bins: tuple[float, ...] = ()
    masses: tuple[float, ...] = ()
    rounding: Rounding = "half_up"
    games: tuple[Game, ...] = GAMES

    @property
    def n_points(self) -> int:
        return len(self.grid) + len(self.bins) + len(self.masses)

    def counts(self, ordered: Real[np.ndarray, " token"]) -> Int[np.ndarray, "game point"]:
        """How many of the first tokens are hidden, or shown by revealing; `ordered` are scores in their order."""
        n_tokens = len(ordered)
        further = [bin_counts(n_tokens, self.bins)] if self.bins else []
        further += [mass_counts(ordered, self.masses)] if self.masses else []
        on_grid = [hidden_counts(n_tokens, self.grid, game, self.rounding) for game in self.games]
        taken = [
            n_tokens - each if game == "revealing" else each for game, each in zip(self.games, on_grid, strict=True)
        ]
        return np.stack([np.concatenate([each, *further]) for each in taken])


BOARD_POINTS = Points(tuple(percent / 100 for percent in range(0, 101, 10)), BINS, MASSES)
"""Where the scoreboard asks: half as many points as a game played by itself, for half the cost."""

LAYER_POINTS = Points(tuple(percent / 100 for percent in range(0, 101, 20)))
"""Where layers are compared: coarser than for the judgement, as there are many of them."""


@dataclass(frozen=True, eq=False)
class AnsweredText:
    """What the model says of one text with the first tokens of a method hidden, and with them alone shown.

    `counts[i, j]` is how many tokens game i of `points.games` has hidden, or shows, at point j. There, `probability` is
    that of what the model says of the whole text, where it is `whole`; `same` says whether it still says so, `right`
    whether it gives the gold label (None without one): shares where several orders of equal scores were averaged.
    """

    points: Points
    n_tokens: int
    whole: float
    counts: Int[np.ndarray, "game point"]
    probability: Float[np.ndarray, "game point"]
    same: Float[np.ndarray, "game point"]
    right: Float[np.ndarray, "game point"] | None = None

    def curve(self, game: Game, measure: Measure = "probability") -> Float[np.ndarray, " point"]:
        """A measure at the points of the grid."""
        return self._of(game, measure)[: len(self.points.grid)]

    def area(self, game: Game, measure: Measure = "probability") -> float:
        """The area under a curve; NaN for accuracy without a gold label."""
        if measure == "accuracy" and self.right is None:
            return float("nan")
        return float(area_under(self.points.grid, self.curve(game, measure)))

    def at_bins(self, game: Game) -> Float[np.ndarray, " bin"]:
        """The probability with the first tokens of each bin hidden, or shown alone."""
        start = len(self.points.grid)
        return self._of(game, "probability")[start : start + len(self.points.bins)]

    def at_masses(self, game: Game) -> Float[np.ndarray, " bin"]:
        """The probability with the first tokens that hold each share of the mass hidden, or shown alone."""
        return self._of(game, "probability")[len(self.points.grid) + len(self.points.bins) :]

    def taken(self, game: Game) -> Int[np.ndarray, " point"]:
        """How many tokens are hidden, or shown, at the points of the grid."""
        taken: Int[np.ndarray, " point"] = self.counts[self._row(game)][: len(self.points.grid)]
        return taken

    def _of(self, game: Game, measure: Measure) -> Float[np.ndarray, " point"]:
        tables = {"accuracy": self.right, "agreement": self.same, "probability": self.probability}
        if measure not in tables:
            raise UnknownNameError("measure", measure, tables)
        table = tables[measure]
        if table is None:
            raise UsageError("without a gold label there is no accuracy", "give labels=")
        row: Float[np.ndarray, " point"] = table[self._row(game)]
        return row

    def _row(self, game: Game) -> int:
        if game not in self.points.games:
            raise UnknownNameError("game", game, self.points.games)
        return self.points.games.index(game)


@dataclass(frozen=True, eq=False)
class BoundedText:
    """A text's games beside the best that any order of its tokens can get in them.

    `best` is the highest faithfulness (the worst is its negative), `highest` and `lowest` are the areas between which
    every order's area lies, in both games. They are exact, or the best that a search or a method found.
    """

    answered: AnsweredText
    best: float
    highest: float
    lowest: float


@dataclass(frozen=True, eq=False)
class SetText:
    """The set of tokens that a method chooses by its own threshold, shown alone, beside others of its size.

    `probability` and `same` are as for an `AnsweredText`; `random` and `best` are the probability with random sets of
    that size, on average, and with the best one that was found.
    """

    n_tokens: int
    n_kept: int
    probability: float
    same: float
    random: float
    best: float


@dataclass(frozen=True, eq=False)
class PredictedText:
    """What the scores of random sets of tokens add up to, beside the probability of the decision with them alone.

    `halves` are sets of half the tokens, `drawn` sets of any size, each a row of a sum of scores and a probability;
    `additive` says whether the scores are meant to be added up.
    """

    halves: Float[np.ndarray, "half 2"]
    drawn: Float[np.ndarray, "set 2"]
    additive: bool


@dataclass(frozen=True, eq=False)
class ScoredText:
    """The scores of one text's tokens, special ones left out, and what they cost (NaN where unknown)."""

    scores: Float[np.ndarray, " token"]
    forwards: float
    backwards: float
    seconds: float


@dataclass(frozen=True, eq=False)
class MarkedText:
    """The scores of one text's words beside people's marks; `share` is the share of words marked in all the texts."""

    scores: Float[np.ndarray, " word"]
    marked: Bool[np.ndarray, " word"]
    share: float
