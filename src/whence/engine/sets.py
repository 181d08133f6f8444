"""Which sets of a text's tokens the games ask about: for every contestant, game, order and point, each set once."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.metrics.curves import By, Game, Rounding, hidden_counts, kept_sets, orders
from whence.models.inputs import Encoding

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Contestant:
    """Scores that take part in the games: a row of scores, one a token, for each text.

    `by` orders them by their value or by their size. Equal scores come in the order of the text, or, with
    `tie_breaks`, the outcome is averaged over so many random orders of them; scores that are all equal then give the
    random baseline.
    """

    scores: Sequence[Float[np.ndarray, " token"]]
    by: By = "signed"
    tie_breaks: int = 0


@dataclass(frozen=True)
class AskedSets:
    """The distinct sets of tokens of one text that the games ask about.

    `place[i][game, order, point]` says which set contestant i needs.
    """

    keep: Bool[np.ndarray, "set token"]
    place: list[Int[np.ndarray, "game order point"]]
    without_order: list[str]

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        text: int,
        contestants: Mapping[str, Contestant],
        games: Sequence[Game],
        grid: Sequence[float],
        rounding: Rounding,
        seed: int,
    ) -> AskedSets:
        may_go = np.array([not token.special for token in encoding.tokens])
        fingerprint = (seed, zlib.crc32(repr(encoding.ids).encode()))
        counts = {game: hidden_counts(int(may_go.sum()), grid, game, rounding) for game in games}
        sets, sizes, without_order = [], [], []
        for name, contestant in contestants.items():
            scores = np.asarray(contestant.scores[text])[may_go]
            generator = np.random.default_rng(fingerprint)  # the same for all contestants: ties are broken alike
            ordered = orders(scores, by=contestant.by, tie_breaks=contestant.tie_breaks, generator=generator)
            if (np.abs(scores) == np.abs(scores[0])).all() if contestant.by == "absolute" else np.ptp(scores) == 0:
                without_order.append(name)
            sets += [kept_sets(order, counts[game], game) for game in games for order in ordered]
            sizes.append((len(games), len(ordered), len(grid)))
        every = np.concatenate(sets)
        _, first, inverse = np.unique(np.packbits(every, axis=1), axis=0, return_index=True, return_inverse=True)
        keep = np.repeat(~may_go[None], len(first), axis=0)
        keep[:, may_go] = every[first]
        ends = np.cumsum([int(np.prod(size)) for size in sizes])[:-1]
        parts = np.split(inverse.reshape(-1), ends)
        return cls(keep, [part.reshape(size) for part, size in zip(parts, sizes, strict=True)], without_order)

    def averaged(self, values: Float[np.ndarray, " set"]) -> Float[np.ndarray, "contestant game point"]:
        """Each contestant's outcome at each point, the mean over its orders."""
        return np.stack([values[place].mean(axis=1) for place in self.place])
