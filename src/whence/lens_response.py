"""A response followed through the layers: what each would have written in the place of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.explanation import Layer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class WrittenByLayer:
    """What a head that says the next token would have written at each layer, after all that was written before.

    `positions` are those of the response's tokens. `words[i][j]` are the likeliest in the place of the j-th of them at
    the i-th layer, likeliest first; `probabilities[i, j]` and `ranks[i, j]` (1 is the likeliest) are those of the token
    that was written. `settled[j]` is the first layer from which on it stays the likeliest; None: it never does.
    """

    positions: range
    words: tuple[tuple[tuple[str, ...], ...], ...]
    probabilities: Float[np.ndarray, "layer response"]
    ranks: Int[np.ndarray, "layer response"]
    settled: tuple[Layer | None, ...]

    @property
    def shares(self) -> Float[np.ndarray, " layer"]:
        """At each layer the share of the response's tokens that it would have written."""
        shares: Float[np.ndarray, " layer"] = (self.ranks == 1).mean(axis=1)
        return shares

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "positions": list(self.positions),
            "words": [[list(words) for words in layer] for layer in self.words],
            "probabilities": self.probabilities.tolist(),
            "ranks": self.ranks.tolist(),
            "settled": list(self.settled),
        }


def settled_layers(ranks: Int[np.ndarray, "layer response"], layers: Sequence[Layer]) -> tuple[Layer | None, ...]:
    """For each token the first layer from which on, up to the last, it is the likeliest; None where it is not there.

    >>> settled_layers(np.array([[1, 3, 2], [2, 1, 2], [1, 1, 4]]), (0, 1, 2))
    (2, 1, None)
    """
    last_other = np.where(ranks == 1, -1, np.arange(len(layers))[:, None]).max(axis=0)
    return tuple(layers[first] if first < len(layers) else None for first in (last_other + 1).tolist())
