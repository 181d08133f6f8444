"""The scoreboard: what every entrant got on every text, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import UnknownNameError, warn_of_old_name
from whence.explanation import Cost, ExplainedTarget, Explanation, Layer, Meaning, ModelRecord, Prediction, Token
from whence.files import written
from whence.metrics.answered import BOARD_POINTS, AnsweredText
from whence.metrics.confidence import Interval, mean_interval
from whence.metrics.rank_correlation import kendall_tau
from whence.metrics.table import HEADLINE, Metric
from whence.results import Shown
from whence.scoreboard.randomisation import UNMOVED

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float
    from rich.console import Console, ConsoleOptions, RenderResult

    from whence.metrics.answered import Measure
    from whence.scoreboard.ranking import Ranking
    from whence.scoreboard.second_way import TwoRankings
    from whence.scoreboard.trial import Kind
    from whence.scoreboard.verdict import Verdict

GRID = BOARD_POINTS.grid
CURVES = ("hiding_probability", "hiding_agreement", "revealing_probability", "revealing_agreement")


def curve_points(text: AnsweredText) -> Float[np.ndarray, "curve point"]:
    """The curves of `CURVES` over `GRID` for one text."""
    measures: tuple[Measure, ...] = ("probability", "agreement")
    return np.stack([text.curve(game, measure) for game in text.points.games for measure in measures])


@dataclass(frozen=True)
class Entry:
    """One that took part. `chosen_from` are the layers among which its layer was chosen on held-out texts, `chosen_on`
    how many of these, and `stability` the share of resamples of them in which that layer is the best, or as good;
    `memory` is in bytes; `note` says why a step could not be done."""

    name: str
    kind: Kind
    layer: Layer
    chosen_from: tuple[Layer, ...]
    options: Mapping[str, str]
    meaning: Meaning
    memory: float | None = None
    note: str = ""
    chosen_on: int = 0
    stability: float | None = None


@dataclass(frozen=True)
class JudgedText:
    """A text as the model reads it, what the model says of it (`target` is the number explained), and people's view."""

    text: str
    pair: str | None
    tokens: tuple[Token, ...]
    prediction: str
    probability: float
    target: ExplainedTarget
    gold: str | None = None
    rationale: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, eq=False)
class Scoreboard(Shown):
    """Which explanation should I believe, for this model, on these texts?

    `kinds` are the metrics by name; `values[metric][i, j]` is what entry i got on text j, NaN where it is undefined or
    was not tried; `curves` follows `CURVES` and `GRID`; `randomised[i, s, j]` is the τ-b left at stage s of the
    weight-randomisation control.

    >>> import whence
    >>> from whence.scoreboard.evaluate import evaluate
    >>> board = evaluate(whence.load(), ["a gorgeous, witty film", "a dull plot"], methods=["leave_one_out"],
    ...                  metrics=["comprehensiveness"])
    >>> [entry.name for entry in board.entries]
    ['leave_one_out', 'random', 'single_effects']
    """

    model: ModelRecord
    entries: tuple[Entry, ...]
    texts: tuple[JudgedText, ...]
    kinds: Mapping[str, Metric]
    values: Mapping[str, Float[np.ndarray, "entry text"]]
    curves: Float[np.ndarray, "entry text curve point"]
    scores: Sequence[Sequence[Float[np.ndarray, " token"]]]
    stages: tuple[str, ...]
    randomised: Float[np.ndarray, "entry stage text"]
    settings: Mapping[str, Any]
    left_out: Mapping[str, str]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def n_texts(self) -> int:
        return len(self.texts)

    def index(self, name: str) -> int:
        """Which of the entries has this name."""
        names = [entry.name for entry in self.entries]
        if name not in names:
            raise UnknownNameError("entry", name, names)
        return names.index(name)

    def place(self, name: str) -> int:
        """The old name of `index`."""
        warn_of_old_name("Scoreboard.place", "Scoreboard.index")
        return self.index(name)

    def per_text(self, metric: str) -> Float[np.ndarray, "entry text"]:
        if metric not in self.values:
            raise UnknownNameError("metric", metric, self.values)
        return self.values[metric]

    def interval(self, name: str, metric: str = HEADLINE) -> Interval | None:
        """The mean over texts with its bootstrap interval; None where the metric is defined on no text."""
        row = self.per_text(metric)[self.index(name)]
        known = row[np.isfinite(row)]
        return mean_interval(known, seed=int(self.settings.get("seed", 0))) if len(known) else None

    def ranking(self, metric: str = HEADLINE) -> Ranking:
        """The entries from best to worst, with the ranks that the texts leave open."""
        from whence.scoreboard.ranking import rank

        if metric not in self._rankings:
            self._rankings[metric] = rank(self, metric)
        return self._rankings[metric]

    @cached_property
    def _rankings(self) -> dict[str, Ranking]:
        """Those asked for so far: each takes thousands of random signs for every two entries."""
        return {}

    @property
    def verdict(self) -> Verdict:
        """The answer in plain words, with its evidence."""
        from whence.scoreboard.verdict import judge

        return judge(self)

    @cached_property
    def two_rankings(self) -> TwoRankings | None:
        """How far the rankings of the methods under the two ways of hiding go together; None without a second way."""
        from whence.scoreboard.second_way import two_rankings

        return two_rankings(self)

    @cached_property
    def flagged(self) -> tuple[str, ...]:
        """Entries whose order of words stays much the same when all weights are random: they ignore the model."""
        found = []
        for entry in self.entries:
            kept = self.interval(entry.name, "randomisation") if "randomisation" in self.values else None
            if kept is not None and kept.low > UNMOVED:
                found.append(entry.name)
        return tuple(found)

    @cached_property
    def text_rank_correlation(self) -> Float[np.ndarray, "text entry other"]:
        """τ-b between the orders in which every two entries put the words of each text; NaN where undefined."""
        found = np.full((self.n_texts, len(self.entries), len(self.entries)), np.nan)
        for number, text in enumerate(self.texts):
            words = np.array([not token.special for token in text.tokens])
            rows = np.stack([np.asarray(of_entry[number], dtype=float)[words] for of_entry in self.scores])
            found[number] = kendall_tau(rows, rows)
        return found

    @cached_property
    def rank_correlation(self) -> Float[np.ndarray, "entry other"]:
        """The mean of `text_rank_correlation` over texts."""
        return _known_mean(self.text_rank_correlation)

    @property
    def agreement(self) -> Float[np.ndarray, "entry other"]:
        """The old name of `rank_correlation`."""
        warn_of_old_name("Scoreboard.agreement", "Scoreboard.rank_correlation")
        return self.rank_correlation

    @property
    def text_agreement(self) -> Float[np.ndarray, "text entry other"]:
        """The old name of `text_rank_correlation`."""
        warn_of_old_name("Scoreboard.text_agreement", "Scoreboard.text_rank_correlation")
        return self.text_rank_correlation

    @cached_property
    def discord(self) -> Float[np.ndarray, " text"]:
        """How little the orders of the methods (controls left out) go together on each text: 1 less the mean τ-b."""
        own = [number for number, entry in enumerate(self.entries) if entry.kind != "control"]
        upper = np.triu_indices(len(own), 1)
        taus = self.text_rank_correlation[:, own][:, :, own][:, upper[0], upper[1]]
        return 1 - _known_mean(taus.T)

    def curve(self, name: str, which: str) -> tuple[tuple[float, ...], Float[np.ndarray, " point"]]:
        """A game's mean over texts: the shares of tokens, and the means there; `which` is one of `CURVES`."""
        if which not in CURVES:
            raise UnknownNameError("curve", which, CURVES)
        return GRID, self.curves[self.index(name), :, CURVES.index(which)].mean(axis=0)

    def explanations(self, name: str) -> list[Explanation]:
        """The explanations of an entry, one per text, to look at."""
        index = self.index(name)
        entry = self.entries[index]
        found = []
        for number, text in enumerate(self.texts):
            costs = [float(self.values[each][index, number]) if each in self.values else 0.0
                     for each in ("forwards", "backwards", "seconds")]  # fmt: skip
            known = [cost if np.isfinite(cost) else 0.0 for cost in costs]
            made = Explanation.from_scores(
                text.text, text.tokens, self.scores[index][number], pair=text.pair, method=name,
                layers=(entry.layer,), meaning=entry.meaning, model=self.model,
                prediction=Prediction(text.prediction, 0, text.probability, {text.prediction: text.probability}),
                cost=Cost(int(known[0]), int(known[1]), known[2]),
            )  # fmt: skip
            found.append(replace(made, target=text.target))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Means, intervals, ranks, controls and verdict as plain JSON types."""
        from whence.scoreboard.saving import to_dict

        return to_dict(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per entry and text, a column per metric."""
        import pandas

        return pandas.DataFrame(
            {
                "entry": entry.name,
                "text": number,
                **{metric: float(values[index, number]) for metric, values in self.values.items()},
            }
            for index, entry in enumerate(self.entries)
            for number in range(self.n_texts)
        )

    def save(self, folder: str | Path) -> None:
        """Write scoreboard.json, and Parquet tables of every text's values, curves and scores."""
        from whence.scoreboard.saving import save

        save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Scoreboard:
        """Read what `save` wrote."""
        from whence.scoreboard.saving import load

        return load(folder)

    def to_html(self, path: str | Path | None = None, *, texts: str | None = None) -> str:
        """The board as one self-contained page, returned and, if a path is given, written there.

        Args:
            texts: the address of the page with the texts (see `whence.render.scoreboard_page`), to link to.
        """
        from whence.render.scoreboard_page import scoreboard_page

        return written(scoreboard_page(self, texts=texts), path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.scoreboard import board_view

        yield board_view(self)

    def __repr__(self) -> str:
        return f"<Scoreboard of {self.model.id}: {len(self.entries)} entries on {self.n_texts} texts>"


def _known_mean(values: Float[np.ndarray, " item *rest"]) -> Float[np.ndarray, "*rest"]:
    """The mean over the first axis of what is not NaN; NaN where all is."""
    with np.errstate(invalid="ignore"):
        mean: Float[np.ndarray, "*rest"] = np.nansum(values, axis=0) / np.isfinite(values).sum(axis=0)
    return mean
