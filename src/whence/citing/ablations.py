"""What the model says of an answer when only some of the sources are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    Ask = Callable[[Bool[np.ndarray, "set source"]], Float[np.ndarray, "set token"]]


class Ablations:
    """Log-probabilities of an answer's tokens given sets of sources, each distinct set asked once.

    `ask` gives them for sets of which none was asked before. `known` is what was said before, by the bytes of a set; it
    grows. A game that somebody made up serves as well as a model.
    """

    def __init__(self, ask: Ask, n_sources: int, known: dict[bytes, Float[np.ndarray, " token"]] | None = None) -> None:
        self._ask, self.n_sources = ask, n_sources
        self._known = {} if known is None else known
        self._used: set[bytes] = set()

    @property
    def asked(self) -> int:
        """Distinct sets asked about so far: forward passes."""
        return len(self._used)

    def log_probabilities(self, sets: Bool[np.ndarray, "set source"]) -> Float[np.ndarray, "set token"]:
        """One row per set."""
        names = [row.tobytes() for row in sets]
        new = {name: row for row, name in enumerate(names) if name not in self._known}
        if new:
            rows = list(new.values())
            self._known.update(zip(new, np.asarray(self._ask(sets[rows]), dtype=np.float64), strict=True))
        self._used.update(names)
        return np.stack([self._known[name] for name in names])


def of_sentences(
    log_probabilities: Float[np.ndarray, "set token"], sentences: Sequence[Int[np.ndarray, " _token"]]
) -> Float[np.ndarray, "sentence set"]:
    """log p of each sentence, given as the positions of its tokens, for each set."""
    return np.stack([log_probabilities[:, tokens].sum(axis=1) for tokens in sentences])
