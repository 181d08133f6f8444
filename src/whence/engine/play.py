"""The hiding and the revealing game: what the model says while the most important tokens go, or come, first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from whence.engine.masked import Hide, Hiding, MaskedTexts
from whence.engine.result import GameResult
from whence.engine.sets import AskedSets, Contestant
from whence.errors import UsageError
from whence.explanation import Explanation, Layer
from whence.methods.options import at_least
from whence.metrics.curves import GAMES, GRID, By, Game, Rounding, checked_grid
from whence.models.batching import Text, encode, usual_batch_tokens
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

_MICRO_BATCHES_AT_A_TIME = 32  # texts are taken together until their maskings fill so many: enough to sort by length


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
    progress: Callable[[int, int], None] | None = None,
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
        explanations: one a text, by one method.
        labels: the gold labels, by name or id; without them the model is held to what it says of the whole text.
        layer: the layer whose scores are played; by default the one nearest the input.
        grid: the shares of tokens at which the model is asked.
        rounding: how a share becomes a number of tokens; see `whence.metrics.curves.hidden_counts`.
        by: "signed" puts what speaks most for the target first, "absolute" what matters most either way.
        tie_breaks: 0 takes equal scores in the order of the text, r averages over r random orders of them.
        hide: how a token is hidden; see `whence.engine.masked.HIDES`.
        seed: makes the random orders repeatable.
        batch_tokens: tokens a forward pass holds at most.
        progress: called with (texts done, texts in all).
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
    progress: Callable[[int, int], None] | None = None,
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
    texts: Sequence[Text],
    contestants: Mapping[str, Contestant],
    labels: Sequence[str | int] | None = None,
    *,
    games: Sequence[Game] = GAMES,
    grid: Sequence[float] = GRID,
    rounding: Rounding = "half_up",
    hide: Hide = "auto",
    seed: int = 0,
    batch_tokens: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[Game, GameResult]]:
    """Play the games with many methods at once: a set of tokens that several of them leave is evaluated once.

    For the arguments see `hiding_game`; `contestants` holds the scores of each method by name.
    """
    grid = checked_grid(grid)
    hiding = Hiding.of(model, hide)
    if not model.reading.decides:
        raise UsageError(
            "the model gives a plain number, so there is no answer to hold it to", "play with a classifier"
        )
    if not len(texts) or not contestants:
        raise UsageError("there is nothing to play with", "give at least one text and one contestant")
    encodings = [encode(model, text, place) for place, text in enumerate(texts)]
    gold = None if labels is None else _gold(model, labels, len(encodings))
    for name, contestant in contestants.items():
        _check_contestant(name, contestant, encodings)
    shape = (len(contestants), len(games), len(encodings), len(grid))
    agreement, probability = (np.zeros(shape, dtype=np.float32) for _ in range(2))
    accuracy = None if gold is None else np.zeros(shape, dtype=np.float32)
    without_order = dict.fromkeys(contestants, 0)
    budget = int(batch_tokens or usual_batch_tokens(model))
    done = 0
    for batch in _batches_of_texts(encodings, contestants.values(), len(games) * len(grid), budget):
        batch_encodings = [encodings[place] for place in batch]
        asked = MaskedTexts(model, batch_encodings, hiding, budget)
        sets = [AskedSets.of(encodings[place], place, contestants, games, grid, rounding, seed) for place in batch]
        width = max(len(encoding) for encoding in batch_encodings)
        rows = np.repeat(np.arange(len(batch)), [len(part.keep) for part in sets])
        keep = np.concatenate([np.pad(part.keep, ((0, 0), (0, width - part.keep.shape[1]))) for part in sets])
        answers = asked.answers(rows, keep)
        start = 0
        for row, (place, part) in enumerate(zip(batch, sets, strict=True)):
            of_text = slice(start, start + len(part.keep))
            start = of_text.stop
            said, whole = answers.said[of_text], asked.whole.said[row]
            agreement[:, :, place] = part.averaged((said == whole).all(axis=1))
            probability[:, :, place] = part.averaged(answers.probability[of_text])
            if accuracy is not None and gold is not None:
                accuracy[:, :, place] = part.averaged(said[:, 0] == gold[place])
            for name in part.without_order:
                without_order[name] += 1
        done += len(batch)
        if progress is not None:
            progress(done, len(encodings))
    measures = {"agreement": agreement, "probability": probability}
    if accuracy is not None:
        measures = {"accuracy": accuracy, **measures}
    settings = {"hide": hiding.name, "rounding": rounding, "seed": seed, "model": model.record.id}
    return {
        name: {
            game: GameResult(
                game, grid, next(iter(measures)),  # type: ignore[arg-type]
                {measure: values[i, j] for measure, values in measures.items()},
                without_order[name],
                {"method": name, "by": contestant.by, "tie_breaks": contestant.tie_breaks, **settings},
            )
            for j, game in enumerate(games)
        }
        for i, (name, contestant) in enumerate(contestants.items())
    }  # fmt: skip


def _gold(model: LayeredModel, labels: Sequence[str | int], n_texts: int) -> list[int]:
    if len(labels) != n_texts:
        raise UsageError(f"{len(labels)} labels for {n_texts} texts", "give one label a text")
    return model.reading.gold(labels)


def _check_contestant(name: str, contestant: Contestant, encodings: Sequence[Encoding]) -> None:
    at_least("tie_breaks", contestant.tie_breaks, 0)
    if len(contestant.scores) != len(encodings):
        raise UsageError(
            f"{name} has scores of {len(contestant.scores)} texts, the games are played on {len(encodings)}",
            "give one row of scores a text",
        )
    for place, (row, encoding) in enumerate(zip(contestant.scores, encodings, strict=True)):
        if np.shape(row) != (len(encoding),):
            raise UsageError(
                f"{name} has scores of shape {np.shape(row)} for text {place}, which has {len(encoding)} tokens",
                "give one score a token, special tokens too",
            )


def _batches_of_texts(
    encodings: Sequence[Encoding], contestants: Any, n_points: int, batch_tokens: int
) -> Iterator[list[int]]:
    """Places of texts of similar length, as many at a time as give enough maskings to fill the micro-batches."""
    orders_each = sum(max(1, contestant.tie_breaks) for contestant in contestants)
    most = batch_tokens * _MICRO_BATCHES_AT_A_TIME
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(encodings)), key=lambda place: len(encodings[place])):
        length = len(encodings[place])
        needed = length * orders_each * min(n_points, 2 * length)
        if batch and tokens + needed > most:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += needed
    if batch:
        yield batch
