"""The curves of the games: how many tokens are hidden at each point, in which order, and the area under a curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from whence.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Real

Game = Literal["hiding", "revealing"]
GAMES: tuple[Game, ...] = ("hiding", "revealing")
Rounding = Literal["half_up", "floor"]
ROUNDINGS: tuple[Rounding, ...] = ("half_up", "floor")
By = Literal["signed", "absolute"]
ORDERS: tuple[By, ...] = ("signed", "absolute")
GRID: tuple[float, ...] = tuple(percent / 100 for percent in range(0, 101, 5))


def checked_grid(grid: Sequence[float]) -> tuple[float, ...]:
    """The shares of tokens at which a game is stopped: at least two, rising, from 0 to 1 at the widest."""
    points = tuple(float(point) for point in grid)
    rising = all(low < high for low, high in pairwise(points))
    if len(points) < 2 or not rising or not (points[0] >= 0 and points[-1] <= 1):
        raise UsageError(
            "a grid is made of at least two shares of tokens, rising, from 0 to 1", "give grid=[0, 0.1, 0.5, 1]"
        )
    return points


def hidden_counts(
    n_tokens: int, grid: Sequence[float], game: Game, rounding: Rounding = "half_up"
) -> Int[np.ndarray, " point"]:
    """How many of `n_tokens` tokens are hidden at each point of a game.

    Hiding hides a share p of the tokens; revealing shows a share p and hides the rest. With "half_up" the number of
    *hidden* tokens is rounded, half a token up, in both games, so that what is hidden at p in one is hidden at 1 - p
    in the other, and a random order gets the same area in both. With "floor" the share p itself is cut off, in both
    games: fewer tokens hidden in one, fewer shown in the other.

    >>> hidden_counts(5, (0, 0.1, 0.5, 1), "hiding").tolist()
    [0, 1, 3, 5]
    >>> hidden_counts(5, (0, 0.5, 0.9, 1), "revealing").tolist()
    [5, 3, 1, 0]
    """
    if game not in GAMES:
        raise UnknownNameError("game", game, GAMES)
    if rounding not in ROUNDINGS:
        raise UnknownNameError("rounding", rounding, ROUNDINGS)
    shares = np.asarray(grid, dtype=float)
    hidden = shares if game == "hiding" else 1 - shares
    if rounding == "half_up":
        counts = np.floor(_exact(hidden * n_tokens) + 0.5)
    else:
        taken = np.floor(_exact(shares * n_tokens))
        counts = taken if game == "hiding" else n_tokens - taken
    whole: Int[np.ndarray, " point"] = counts.astype(int)
    return whole


def _exact(products: Float[np.ndarray, " point"]) -> Float[np.ndarray, " point"]:
    """0.29 * 50 is 14.499999999999998 in binary, and would be rounded the wrong way."""
    return np.round(products, 9)


def orders(
    scores: Real[np.ndarray, " token"],
    *,
    by: By = "signed",
    tie_breaks: int = 0,
    generator: np.random.Generator | None = None,
) -> Int[np.ndarray, "order token"]:
    """The tokens from the most to the least important, as indices.

    Tokens with equal scores come in the order of the text (`tie_breaks=0`, one order), or in `tie_breaks` random
    orders, which need a generator.

    >>> orders(np.array([0.1, -0.9, 0.5, 0.1])).tolist()
    [[2, 0, 3, 1]]
    >>> orders(np.array([0.1, -0.9, 0.5, 0.1]), by="absolute").tolist()
    [[1, 2, 0, 3]]
    """
    if by not in ORDERS:
        raise UnknownNameError("order", by, ORDERS)
    scores = np.asarray(scores, dtype=float)
    if not np.isfinite(scores).all():
        raise UsageError("some scores are not finite numbers, so they give no order", "look for NaN in the scores")
    keys = -np.abs(scores) if by == "absolute" else -scores
    if tie_breaks == 0:
        return np.argsort(keys, kind="stable")[None]
    if generator is None:
        raise UsageError("ties cannot be broken at random without a generator", "give numpy.random.default_rng(0)")
    draws = generator.random((tie_breaks, len(keys)))
    return np.stack([np.lexsort((draw, keys)) for draw in draws])


def kept_sets(
    order: Int[np.ndarray, " token"], hidden: Int[np.ndarray, " point"], game: Game
) -> Bool[np.ndarray, "point token"]:
    """Which tokens are seen at each point: hiding takes the most important away, revealing shows them first."""
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    if game == "hiding":
        return rank[None, :] >= hidden[:, None]
    return rank[None, :] < (len(order) - hidden)[:, None]


def area_under(
    grid: Sequence[float] | Float[np.ndarray, " point"], curves: Float[np.ndarray, "*text point"]
) -> Float[np.ndarray, "*text"]:
    """The area under each curve by the trapezoid rule, over the width of the grid: a mean height.

    >>> float(area_under((0, 0.5, 1), np.array([1.0, 1.0, 0.0])))
    0.75
    """
    area: Float[np.ndarray, "*text"] = np.asarray(curves, dtype=float) @ area_weights(grid)
    return area


def area_weights(grid: Sequence[float] | Float[np.ndarray, " point"]) -> Float[np.ndarray, " point"]:
    """How much each point counts in the area.

    >>> area_weights((0, 0.5, 1)).tolist()
    [0.25, 0.5, 0.25]
    """
    widths = np.diff(np.asarray(grid, dtype=float))
    weights: Float[np.ndarray, " point"] = (np.append(widths, 0) + np.append(0, widths)) / (2 * widths.sum())
    return weights
