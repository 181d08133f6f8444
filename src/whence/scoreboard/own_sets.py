"""The set that each method chooses by its own threshold, beside random sets of its size and the best that is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.asking import Told, ask, generator_of
from whence.engine.bounds import rounds
from whence.engine.greedy import best_sets
from whence.engine.searching import search
from whence.metrics.answered import AnsweredText, SetText
from whence.metrics.own_sets import own_set
from whence.scoreboard.chunk import Chunk, Part
from whence.scoreboard.trial import Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Bool

DRAWS = 10  # random sets of a size
_FIELDS = ("n_tokens", "n_kept", "probability", "same", "random", "best")


def own_sets(trial: Trial) -> Part:
    def run(chunk: Chunk, games: Mapping[str, Sequence[AnsweredText]]) -> Mapping[str, Sequence[SetText]]:
        numbers = range(len(chunk.indices))
        chosen = {
            name: [own_set(chunk.scores(name, n), chunk.order(name, n), chunk.meanings[name]) for n in numbers]
            for name in games
        }
        keys = {name: chunk.key(sets=sets, draws=DRAWS) for name, sets in chosen.items()}
        missing = [name for name in chosen if not trial.store.has("sets", name, keys[name])]
        made = _asked(chunk, {name: chosen[name] for name in missing}) if missing else {}
        found = {}
        for name, key in keys.items():
            piece = trial.store.kept("sets", name, key, lambda name=name: made[name])  # type: ignore[misc]
            columns = [piece.arrays[field].tolist() for field in _FIELDS]
            found[name] = [SetText(*each) for each in zip(*columns, strict=True)]
        return found

    lengths = [len(encoding) for encoding in trial.encodings]
    passes = sum(len(rounds(length)) * length / 2 + 5 * DRAWS for length in lengths)
    return Part("set", run, passes)


def _asked(chunk: Chunk, chosen: Mapping[str, Sequence[Bool[np.ndarray, " token"]]]) -> dict[str, Piece]:
    numbers, n_words = range(len(chunk.indices)), chunk.n_words
    sizes = [sorted({int(sets[number].sum()) for sets in chosen.values()}) for number in numbers]
    draws = [_drawn(chunk, number, sizes[number]) for number in numbers]

    def sets(number: int) -> Bool[np.ndarray, "set word"]:
        return np.concatenate([np.stack([of_name[number] for of_name in chosen.values()]), *draws[number]])

    told: dict[int, Told] = dict(ask(chunk.trial.model, chunk.encodings, sets, **chunk.asking))
    searches = {(number, ""): best_sets(n_words[number], sizes[number]) for number in numbers}
    greedy = search(chunk.trial.model, chunk.encodings, searches, **chunk.asking)
    found: dict[str, list[SetText]] = {name: [] for name in chosen}
    for number in numbers:
        own = told[number].probability[: len(chosen)]
        random = told[number].probability[len(chosen) :].reshape(len(sizes[number]), DRAWS).mean(axis=1)
        for place, name in enumerate(chosen):
            n_kept, probability = int(chosen[name][number].sum()), float(own[place])
            best = max(greedy[number, ""][n_kept], probability)
            by_chance = float(random[sizes[number].index(n_kept)])
            same = float(told[number].same[place])
            found[name].append(SetText(n_words[number], n_kept, probability, same, by_chance, best))
    return {
        name: Piece({field: np.array([getattr(text, field) for text in texts]) for field in _FIELDS}, {})
        for name, texts in found.items()
    }


def _drawn(chunk: Chunk, number: int, sizes: Sequence[int]) -> list[Bool[np.ndarray, "draw word"]]:
    """Random sets of each size, whichever other sizes there are."""
    n_words, encoding = chunk.n_words[number], chunk.encodings[number]
    found = []
    for size in sizes:
        ranks = generator_of(encoding, chunk.trial.seed * 10_000 + size).random((DRAWS, n_words)).argsort(axis=1)
        found.append(ranks < size)
    return found
