"""Some of the texts while the model is asked about their parts: no metric asks what another has asked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.asking import Memory, generator_of, may_go
from whence.explanation import Meaning
from whence.metrics.answered import AnsweredText
from whence.metrics.curves import orders
from whence.metrics.table import Of
from whence.models.inputs import Encoding
from whence.scoreboard.trial import Trial

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Chunk:
    """Texts by their indices, what every entrant scores them, and what the model has said of their sets so far."""

    trial: Trial
    indices: range
    rows: Mapping[str, Sequence[Float[np.ndarray, " token"]]]
    meanings: Mapping[str, Meaning]
    memory: Memory

    @cached_property
    def encodings(self) -> list[Encoding]:
        return [self.trial.encodings[index] for index in self.indices]

    @cached_property
    def n_words(self) -> list[int]:
        """How many tokens of each text are not special."""
        return [int(may_go(encoding).sum()) for encoding in self.encodings]

    @property
    def asking(self) -> dict[str, Any]:
        """How the model is asked: what `ask` and `search` take beside model and texts."""
        return {"hiding": self.trial.hiding, "batch_tokens": self.trial.batch_tokens, "memory": self.memory}

    def key(self, **further: Any) -> dict[str, Any]:
        return self.trial.key(self.indices, hide=self.trial.hiding.told, **further)

    def scores(self, name: str, number: int) -> Float[np.ndarray, " word"]:
        """An entrant's scores of the tokens that are not special."""
        row = np.asarray(self.rows[name][number], dtype=float)
        words: Float[np.ndarray, " word"] = row[may_go(self.encodings[number])]
        return words

    def order(self, name: str, number: int) -> Int[np.ndarray, " word"]:
        """These tokens from the most to the least important, equal ones as in the games."""
        generator = generator_of(self.encodings[number], self.trial.seed)
        only: Int[np.ndarray, " word"] = orders(self.scores(name, number), tie_breaks=1, generator=generator)[0]
        return only


@dataclass(frozen=True)
class Part:
    """One thing that is asked about every chunk: what records of texts come of it, by entrant, at about what cost.

    `run` is given the chunk and its games.
    """

    of: Of
    run: Callable[[Chunk, Mapping[str, Sequence[AnsweredText]]], Mapping[str, Sequence[Any]]]
    passes: float
