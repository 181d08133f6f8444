"""The hiding and the revealing game: what the model says while the most important tokens go, or come, first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.asking import Contestant, answered, gold_ids, may_go
from whence.engine.result import GameResult
from whence.errors import UsageError
from whence.explanation import Explanation, Layer
from whence.metrics.answered import Measure, Points
from whence.metrics.curves import GAMES, GRID, By, Game, Rounding, checked_grid
from whence.models.batching import Asked, Text, encode, usual_batch_tokens
from whence.models.hiding import Hide, Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.progress import Progress, reporter

if TYPE_CHECKING:
    from jaxtyping import Real


def hiding_game(
    model: LayeredModel,
    explanations: Sequence[Explanation],
    labels: Sequence[str | int] | None = None,
    *,
    layer: Layer | None = None,
    grid: Sequence[float] = GRID,
    rounding: Rounding = "half_up",
    by: By = "signed",
    tie_breaks: int = 0,
    hide: Hide = "auto",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Progress = None,
) -> GameResult:
    """Hide the most important tokens first: the sooner the model loses what it said, the better the explanation.

    >>> import whence
    >>> from whence.engine.play import hiding_game
    >>> model = whence.load()
    >>> explanations = whence.explain(model, ["a gorgeous, witty film", "a dull plot"], "leave_one_out")
    >>> hiding_game(model, explanations, grid=[0, 0.5, 1]).curve().mean[0]
    1.0

    Args:
        model: the model that was explained.
        explanations: one per text, by one method.
        labels: the gold labels, by name or id; without them the model is held to what it says of the whole text.
        layer: the layer whose scores are played; by default the one nearest the input.
        grid: the shares of tokens at which the model is asked.
        rounding: how a share becomes a number of tokens; see `whence.metrics.curves.hidden_counts`.
        by: "signed" puts what speaks most for the target first, "absolute" what matters most either way.
        tie_breaks: 0 takes equal scores in the order of the text, r averages over r random orders of them.
        hide: how a token is hidden; see `whence.models.hiding.HIDES`.
        seed: makes the random orders repeatable.
        batch_tokens: tokens a forward pass holds at most.
        progress: True shows a bar, a function is called with ("games", texts done, texts in all).
    """
    return _play_explanations(
        "hiding", model, explanations, labels, layer, by, tie_breaks,
        grid=grid, rounding=rounding, hide=hide, seed=seed, batch_tokens=batch_tokens, progress=progress,
    )  # fmt: skip


def revealing_game(
    model: LayeredModel,
    explanations: Sequence[Explanation],
    labels: Sequence[str | int] | None = None,
    *,
    layer: Layer | None = None,
    grid: Sequence[float] = GRID,
    rounding: Rounding = "half_up",
    by: By = "signed",
    tie_breaks: int = 0,
    hide: Hide = "auto",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Progress = None,
) -> GameResult:
    """Start with all tokens hidden and reveal the most important first: the sooner the model gets it, the better.

    For the arguments see `hiding_game`.
    """
    return _play_explanations(
        "revealing", model, explanations, labels, layer, by, tie_breaks,
        grid=grid, rounding=rounding, hide=hide, seed=seed, batch_tokens=batch_tokens, progress=progress,
    )  # fmt: skip


def _play_explanations(
    game: Game,
    model: LayeredModel,
    explanations: Sequence[Explanation],
    labels: Sequence[str | int] | None,
    layer: Layer | None,
    by: By,
    tie_breaks: int,
    **settings: Any,
) -> GameResult:
    if not explanations:
        raise UsageError("there are no explanations to play with", "give at least one")
    for explanation in explanations:
        encoding = model.encode(explanation.text, explanation.pair)
        if encoding.ids != [token.id for token in explanation.tokens]:
            raise UsageError(
                "an explanation has other tokens than the model gives its text",
                "play with the model that was explained",
            )
    texts: list[Text] = [each.text if each.pair is None else (each.text, each.pair) for each in explanations]
    contestant = Contestant([each.row(layer) for each in explanations], by, tie_breaks)
    name = explanations[0].method
    return play(model, texts, {name: contestant}, labels, games=(game,), **settings)[name][game]


def play(
    model: LayeredModel,
    texts: Sequence[Asked],
    contestants: Mapping[str, Contestant],
    labels: Sequence[str | int] | None = None,
    *,
    games: Sequence[Game] = GAMES,
    grid: Sequence[float] = GRID,
    rounding: Rounding = "half_up",
    hide: Hide = "auto",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Progress = None,
) -> dict[str, dict[Game, GameResult]]:
    """Play the games with many methods at once: a set of tokens that several of them leave is evaluated once.

    For the arguments see `hiding_game`; `contestants` holds the scores of each method by name.
    """
    points = Points(checked_grid(grid), rounding=rounding, games=tuple(games))
    hiding = Hiding.of(model, hide)
    if not model.reading.decides:
        raise UsageError(
            "the model gives a plain number, so there is no answer to hold it to", "play with a classifier"
        )
    if not len(texts) or not contestants:
        raise UsageError("there is nothing to play with", "give at least one text and one contestant")
    encodings = [encode(model, text, index) for index, text in enumerate(texts)]
    gold = None if labels is None else gold_ids(model, labels, len(encodings))
    measures: tuple[Measure, ...] = (
        ("agreement", "probability") if gold is None else ("accuracy", "agreement", "probability")
    )
    shape = (len(games), len(measures), len(encodings), len(points.grid))
    outcomes = {name: np.zeros(shape, dtype=np.float32) for name in contestants}
    asked = answered(
        model, encodings, contestants, points,
        hiding=hiding, batch_tokens=int(batch_tokens or usual_batch_tokens(model)), gold=gold, seed=seed,
    )  # fmt: skip
    with reporter(progress) as report:
        for done, (index, found) in enumerate(asked, start=1):
            for name, text in found.items():
                outcomes[name][:, :, index] = [[text.curve(game, measure) for measure in measures] for game in games]
            report("games", done, len(encodings))
    settings = {"hide": hiding.told, "rounding": rounding, "seed": seed, "model": model.record.id}
    return {
        name: {
            game: GameResult(
                game, points.grid, measures[0], dict(zip(measures, of_game, strict=True)),
                sum(_without_order(row, encoding, contestant.by)
                    for row, encoding in zip(contestant.scores, encodings, strict=True)),
                {"method": name, "by": contestant.by, "tie_breaks": contestant.tie_breaks, **settings},
            )
            for game, of_game in zip(games, outcomes[name], strict=True)
        }
        for name, contestant in contestants.items()
    }  # fmt: skip


def _without_order(row: Real[np.ndarray, " token"], encoding: Encoding, by: By) -> bool:
    scores = np.asarray(row)[may_go(encoding)]
    return bool(np.ptp(np.abs(scores) if by == "absolute" else scores) == 0)
