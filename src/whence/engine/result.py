"""The outcome of a game: what the model said of each text at each point, and the curves, areas and intervals of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import FileError, UnknownNameError, UsageError
from whence.files import write_whole
from whence.metrics.answered import Measure
from whence.metrics.confidence import (
    LEVEL,
    RESAMPLES,
    Difference,
    Interval,
    bootstrap,
    mean_interval,
    paired_difference,
)
from whence.metrics.curves import Game, area_under

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float
    from matplotlib.axes import Axes

SCHEMA = "whence.game/1"


@dataclass(frozen=True, eq=False)
class Curve:
    """A game's mean over texts at each point, with its band, and the area under it, with its interval."""

    measure: Measure
    grid: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    auc: Interval
    n_texts: int


@dataclass(frozen=True, eq=False)
class GameResult:
    """What became of each text at each point of a game.

    `outcomes` holds, for each measure, a row per text and a column per point of the grid (a share between 0 and 1 where
    several orders were averaged). `measure` is the one meant if none is named: accuracy with gold labels, else
    agreement. `n_without_order` counts the texts whose scores are all equal, so that only the tie rule orders them.

    >>> import whence
    >>> model = whence.load()
    >>> explanations = whence.explain(model, ["a gorgeous, witty film", "a dull plot"], "leave_one_out")
    >>> from whence.engine.play import revealing_game
    >>> result = revealing_game(model, explanations, ["positive", "negative"], grid=[0, 0.5, 1])
    >>> result.curve().mean[-1]
    1.0
    """

    game: Game
    grid: tuple[float, ...]
    measure: Measure
    outcomes: Mapping[str, Float[np.ndarray, "text point"]]
    n_without_order: int
    settings: Mapping[str, Any]

    @property
    def n_texts(self) -> int:
        return len(self.outcomes[self.measure])

    def per_text(self, measure: Measure | None = None) -> Float[np.ndarray, "text point"]:
        """A row per text, a column per point."""
        measure = measure or self.measure
        if measure not in self.outcomes:
            raise UnknownNameError("measure", measure, self.outcomes)
        return self.outcomes[measure]

    def areas(self, measure: Measure | None = None) -> Float[np.ndarray, " text"]:
        """The area under each text's own curve; their mean is the area under the mean curve."""
        return area_under(self.grid, self.per_text(measure))

    def auc(
        self, measure: Measure | None = None, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
    ) -> Interval:
        """The area under the curve with its bootstrap interval over texts."""
        return mean_interval(self.areas(measure), level=level, resamples=resamples, seed=seed)

    def curve(
        self, measure: Measure | None = None, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
    ) -> Curve:
        """The mean over texts at each point with its bootstrap band."""
        outcomes = self.per_text(measure)
        low, high = bootstrap(outcomes, level=level, resamples=resamples, seed=seed)
        mean, lows, highs = (tuple(float(value) for value in row) for row in (outcomes.mean(axis=0), low, high))
        auc = self.auc(measure, level=level, resamples=resamples, seed=seed)
        return Curve(measure or self.measure, self.grid, mean, lows, highs, auc, self.n_texts)

    def minus(self, other: GameResult, measure: Measure | None = None, **settings: Any) -> Difference:
        """How much larger this area is than that of another method in the same game on the same texts."""
        if (self.game, self.grid, self.n_texts) != (other.game, other.grid, other.n_texts):
            raise UsageError(
                "the two results are not of one game on the same grid and texts", "play both with the same settings"
            )
        measure = measure or self.measure
        return paired_difference(self.areas(measure), other.areas(measure), **settings)

    def to_dict(self, *, outcomes: bool = False) -> dict[str, Any]:
        """Curves, areas and settings as plain JSON types; with `outcomes`, those of every text too."""
        curves = [self.curve(measure) for measure in self.outcomes]  # type: ignore[arg-type]
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "game": self.game,
            "grid": list(self.grid),
            "measure": self.measure,
            "n_texts": self.n_texts,
            "n_without_order": self.n_without_order,
            "settings": dict(self.settings),
            "curves": {
                curve.measure: {
                    "mean": list(curve.mean),
                    "low": list(curve.low),
                    "high": list(curve.high),
                    "auc": curve.auc.mean,
                    "auc_low": curve.auc.low,
                    "auc_high": curve.auc.high,
                }
                for curve in curves
            },
        }
        if outcomes:
            data["outcomes"] = {measure: values.tolist() for measure, values in self.outcomes.items()}
        return data

    def save(self, path: str | Path) -> None:
        """Write everything as JSON; a file already there is replaced only once the new one is whole."""
        write_whole(json.dumps(self.to_dict(outcomes=True), ensure_ascii=False) + "\n", path)

    @classmethod
    def load(cls, path: str | Path) -> GameResult:
        """Read what `save` wrote."""
        advice = "give a file that GameResult.save wrote"
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(f"{str(path)!r} cannot be read: {error}", advice) from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise FileError(f"{str(path)!r} is no {SCHEMA}", advice)
        try:
            grid, n_texts = tuple(float(point) for point in data["grid"]), int(data["n_texts"])
            outcomes = {
                str(measure): np.array(rows, dtype=np.float32).reshape(n_texts, len(grid))
                for measure, rows in data["outcomes"].items()
            }
            found = cls(data["game"], grid, data["measure"], outcomes, int(data["n_without_order"]), data["settings"])
            found.per_text()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"the game in {str(path)!r} is broken: {error!r}", advice) from error
        return found

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per text and point: text, share, and a column per measure."""
        import pandas

        return pandas.DataFrame(
            {
                "text": np.repeat(np.arange(self.n_texts), len(self.grid)),
                "share": np.tile(self.grid, self.n_texts),
                **{measure: rows.ravel() for measure, rows in self.outcomes.items()},
            }
        )

    def _repr_html_(self) -> str:
        curves = [self.curve(measure) for measure in self.outcomes]  # type: ignore[arg-type]
        heads = "".join(f"<th>{100 * point:.0f} %</th>" for point in self.grid)
        rows = "".join(
            f"<tr><th>{curve.measure}</th>{''.join(f'<td>{mean:.2f}</td>' for mean in curve.mean)}"
            f"<td>{escape(str(curve.auc))}</td></tr>"
            for curve in curves
        )
        title = f"{self.game} game, {self.settings.get('method', '')}, {self.n_texts} texts"
        return (
            f"<table><caption>{escape(title)}</caption><thead><tr><th></th>{heads}<th>area</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def plot(self, ax: Axes | None = None, *, measure: Measure | None = None, label: str | None = None) -> Axes:
        """Draw the curve with its band on matplotlib axes (new ones if none are given) and return them."""
        from whence.render.game_figure import plot_curve

        return plot_curve(self, ax, measure=measure, label=label)

    def __repr__(self) -> str:
        return f"<GameResult {self.game}: {self.measure} area {self.areas().mean():.3f} over {self.n_texts} texts>"
