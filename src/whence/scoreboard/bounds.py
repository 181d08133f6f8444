"""How good any order of a text's tokens can be, and where between the worst and the best each method is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whence.engine.asking import may_go
from whence.engine.bounds import EXACT, ROUNDS_TIMES_TOKENS, best_chain, goals, rounds
from whence.engine.searching import search
from whence.metrics.answered import BOARD_POINTS, AnsweredText, BoundedText
from whence.scoreboard.board import GRID
from whence.scoreboard.chunk import Chunk, Part
from whence.scoreboard.trial import Trial
from whence.store import Piece

GOALS = ("faithfulness", "revealing", "hiding")


def bounds(trial: Trial, width: int) -> Part:
    """The games of every entrant between their bounds; a method that does better than the search found moves them."""

    def run(chunk: Chunk, games: Mapping[str, Sequence[AnsweredText]]) -> Mapping[str, Sequence[BoundedText]]:
        key = chunk.key(grid=GRID, width=width, exact=EXACT, rounds=ROUNDS_TIMES_TOKENS)
        piece = trial.store.kept("bounds", "all", key, lambda: _searched(chunk, width))
        areas = {
            game: np.array([[text.area(game) for text in texts] for texts in games.values()])
            for game in BOARD_POINTS.games
        }
        played = np.concatenate(list(areas.values()))
        best = np.maximum(piece.arrays["faithfulness"], np.abs(areas["revealing"] - areas["hiding"]).max(axis=0))
        # what one order gets in one game its reverse gets in the other, so both games have the same bounds
        highest = np.maximum(piece.arrays["revealing"], played.max(axis=0))
        lowest = np.minimum(-piece.arrays["hiding"], played.min(axis=0))
        limits = np.stack([best, highest, lowest], axis=1).tolist()
        return {
            name: [BoundedText(text, *each) for text, each in zip(texts, limits, strict=True)]
            for name, texts in games.items()
        }

    passes = sum(_passes(int(may_go(encoding).sum()), width) for encoding in trial.encodings)
    return Part("bounded", run, passes)


def _searched(chunk: Chunk, width: int) -> Piece:
    searches = {
        (number, name): best_chain(n_words, goal, width)
        for number, n_words in enumerate(chunk.n_words)
        for name, goal in goals(n_words, GRID).items()
    }
    found = search(chunk.trial.model, chunk.encodings, searches, **chunk.asking)
    return Piece({name: np.array([found[n, name] for n in range(len(chunk.indices))]) for name in GOALS}, {})


def _passes(n_words: int, width: int) -> float:
    """All sets, or four beams in which half of the tokens are left to try on average."""
    if n_words <= EXACT:
        return float(2**n_words)
    return 4 * len(rounds(n_words)) * width * n_words / 2
