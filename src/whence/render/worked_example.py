"""One text of a board, word by word: what the model says as the words go, in a method's order and in a random one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.asking import generator_of
from whence.metrics.curves import area_under, hidden_counts, orders
from whence.metrics.table import HEADLINE
from whence.models.inputs import Encoding
from whence.render.shell import finite
from whence.render.visible import visible
from whence.render.wording import running
from whence.scoreboard.board import CURVES, GRID, JudgedText, Scoreboard
from whence.scoreboard.controls import RANDOM

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

FEWEST, MOST = 4, 40  # tokens of a text that can be followed
ONE_BY_ONE = len(GRID) - 1  # as many as the board asks about one after another


def worked_example(board: Scoreboard) -> dict[str, Any] | None:
    """The game on a middling text: the one on which the method to believe is nearest to its mean faithfulness.

    It must be short; None where there is no such text.
    """
    believed = board.verdict.believe
    name = believed[0] if believed else next(each.name for each in board.ranking().standings if each.ranks != (0, 0))
    index = board.index(name)
    values, mean = board.per_text(HEADLINE)[index], board.interval(name)
    lengths = {number: int(_words(text).sum()) for number, text in enumerate(board.texts)}
    able = [number for number, length in lengths.items() if FEWEST <= length <= MOST]
    able = [number for number in able if lengths[number] <= ONE_BY_ONE] or able
    if not able or mean is None:
        return None
    chosen = min(able, key=lambda number: abs(values[number] - mean.mean))
    text = board.texts[chosen]
    words = _words(text)
    encoding = Encoding(text.text, text.pair, text.tokens, {})
    by_chance = generator_of(encoding, int(board.settings.get("seed", 0)))  # as in the game, where scores are equal
    order = orders(np.asarray(board.scores[index][chosen])[words], tie_breaks=1, generator=by_chance)[0]
    hiding, revealing = (
        board.curves[index, chosen, CURVES.index(f"{game}_probability")] for game in ("hiding", "revealing")
    )
    return {
        "method": visible(name),
        "pieces": _pieces(text, np.flatnonzero(words)[order].tolist()),
        "says": visible(text.prediction),
        "probability": finite(text.probability, 4),
        "steps": _steps(len(order), hiding, _of_random(board, chosen)),
        "areas": {
            "hiding": finite(float(area_under(GRID, hiding)), 4),
            "revealing": finite(float(area_under(GRID, revealing)), 4),
        },
        "faithfulness": finite(values[chosen], 4),
        "mean": finite(mean.mean, 4),
    }


def _words(text: JudgedText) -> Bool[np.ndarray, " token"]:
    return np.array([not token.special for token in text.tokens])


def _of_random(board: Scoreboard, chosen: int) -> Float[np.ndarray, " point"] | None:
    """The hiding game in the order of random scores, if they take part."""
    if all(entry.name != RANDOM for entry in board.entries):
        return None
    curve: Float[np.ndarray, " point"] = board.curves[board.index(RANDOM), chosen, CURVES.index("hiding_probability")]
    return curve


def _steps(
    n_tokens: int, curve: Float[np.ndarray, " point"], random: Float[np.ndarray, " point"] | None
) -> list[list[float | None]]:
    """How many tokens are hidden, the probability then, and that in random order; each number of tokens once."""
    counts = hidden_counts(n_tokens, GRID, "hiding").tolist()
    return [
        [count, finite(curve[point], 4), None if random is None else finite(random[point], 4)]
        for point, count in enumerate(counts)
        if not point or count != counts[point - 1]
    ]


def _pieces(text: JudgedText, order: Sequence[int]) -> list[list[Any]]:
    """The text in pieces: each with its place in the order of the method, or null for what stands between tokens."""
    place = {position: number for number, position in enumerate(order)}
    pieces: list[list[Any]] = []
    for segment, source in enumerate(part for part in (text.text, text.pair) if part is not None):
        end = 0
        if segment:
            pieces.append([" / ", None])
        for position, token in enumerate(text.tokens):
            if position not in place or token.segment != segment:
                continue
            start = max(end, token.start)
            blank = len(source[start : token.end]) - len(source[start : token.end].lstrip())
            pieces.append([running(source[end : start + blank]), None])
            pieces.append([running(source[start + blank : token.end]), place[position]])
            end = max(end, token.end)
        pieces.append([running(source[end:]), None])
    return [piece for piece in pieces if piece[0]]
