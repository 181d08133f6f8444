"""What the model says of random sets of words, beside what every method's scores of them add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.asking import ask, generator_of
from whence.metrics.answered import AnsweredText, PredictedText
from whence.scoreboard.chunk import Chunk, Part
from whence.scoreboard.trial import Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Bool

SETS = 64  # of each kind: of half the words, and of any number of them
_SEED = 7  # so that these sets are not those of other parts


def additivity(trial: Trial) -> Part:
    def run(chunk: Chunk, games: Mapping[str, Sequence[AnsweredText]]) -> Mapping[str, Sequence[PredictedText]]:
        sets = [_drawn(chunk, number) for number in range(len(chunk.indices))]
        piece = trial.store.kept("values", "all", chunk.key(sets=SETS), lambda: _asked(chunk, sets))
        values = piece.arrays["values"]
        found: dict[str, list[PredictedText]] = {}
        for name in games:
            sums = [of_text @ chunk.scores(name, number) for number, of_text in enumerate(sets)]
            both = np.stack([np.stack(sums), values], axis=2)
            additive = chunk.meanings[name].additive
            found[name] = [PredictedText(of_text[:SETS], of_text[SETS:], additive) for of_text in both]
        return found

    return Part("predicted", run, 2.0 * SETS * len(trial.texts))


def _asked(chunk: Chunk, sets: Sequence[Bool[np.ndarray, "set word"]]) -> Piece:
    told = dict(ask(chunk.trial.model, chunk.encodings, sets.__getitem__, **chunk.asking))
    return Piece({"values": np.stack([told[number].probability for number in range(len(sets))])}, {})


def _drawn(chunk: Chunk, number: int) -> Bool[np.ndarray, "set word"]:
    """Halves of the words, then sets of any size, each as likely; the same for every method."""
    n_words = chunk.n_words[number]
    generator = generator_of(chunk.encodings[number], chunk.trial.seed * 10_000 + _SEED)
    ranks = generator.random((2 * SETS, n_words)).argsort(axis=1)
    sizes = np.concatenate([np.full(SETS, n_words // 2), generator.integers(0, n_words + 1, SETS)])
    chosen: Bool[np.ndarray, "set word"] = ranks < sizes[:, None]
    return chosen
