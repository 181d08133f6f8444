"""What all steps of an evaluation share: the model, the texts, how they are to be treated, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whence.explanation import Explanation, Layer
from whence.methods.question import Method
from whence.metrics.answered import AnsweredText
from whence.models.batching import Asked
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.progress import Report
from whence.store import Store

if TYPE_CHECKING:
    from jaxtyping import Float

    from whence.scoreboard.explaining import Scored
    from whence.scoreboard.randomisation import Randomised

CHUNK = 50  # texts per piece of finished work: enough for full batches, little to lose

Kind = Literal["method", "control", "outside"]


@dataclass(frozen=True)
class Entrant:
    """One that takes part: a method at a layer, a control, or explanations that came from elsewhere."""

    name: str
    kind: Kind
    method: str | Method | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ("embeddings",)
    chosen_from: tuple[Layer, ...] = ()
    chosen_on: int = 0  # so many texts
    stability: float | None = None  # of that choice; see `whence.scoreboard.layer_choice.chosen`
    explanations: Sequence[Explanation] = ()
    passes: float = 0.0  # that a text will take, as far as can be told beforehand

    @property
    def layer(self) -> Layer:
        return self.layers[0]

    @property
    def key(self) -> dict[str, Any]:
        """What its scores depend on, beside model and texts; an option that names a folder counts with its contents."""
        options = {
            name: Path(value) if isinstance(value, str) and len(value) < 256 and Path(value).is_dir() else value
            for name, value in self.options.items()
        }
        return {"method": self.method, "options": options, "layers": self.layers}


@dataclass(frozen=True)
class Trial:
    """The model, the texts as it reads them and what people say of them, and the settings of a run."""

    model: LayeredModel
    texts: Sequence[Asked]
    encodings: Sequence[Encoding]
    gold: Sequence[int] | None
    hiding: Hiding
    seed: int
    batch_tokens: int
    store: Store
    report: Report
    weights: str = ""  # the digest of the model's weights, where finished work is kept

    def chunks(self) -> Iterator[range]:
        for start in range(0, len(self.texts), CHUNK):
            yield range(start, min(start + CHUNK, len(self.texts)))

    def some(self, most: int) -> list[int]:
        """Indices of texts spread evenly over all, for the steps that need not see every text."""
        n_texts = min(most, len(self.texts))
        return [round(number * len(self.texts) / n_texts) for number in range(n_texts)] if n_texts else []

    def key(self, indices: Sequence[int], **further: Any) -> dict[str, Any]:
        """What a piece of work on some of the texts depends on, all of it by value."""
        encodings = [self.encodings[index] for index in indices]
        read = [(each.text, each.pair, each.ids) for each in encodings]
        return {"weights": self.weights, "task": self.model.reading.task, "texts": read, "seed": self.seed, **further}


@dataclass(eq=False)
class Findings:
    """What the steps have found so far: the entrants at their layers, then what each got."""

    entrants: list[Entrant]
    values: dict[str, Float[np.ndarray, "entry text"]]
    scored: dict[str, Scored] = field(default_factory=dict)
    answered: dict[str, list[AnsweredText]] = field(default_factory=dict)
    randomised: dict[str, Randomised] = field(default_factory=dict)

    @property
    def explaining(self) -> list[Entrant]:
        """Those that can be asked again."""
        return [entrant for entrant in self.entrants if entrant.method is not None]

    def fill(self, name: str, found: Mapping[str, Sequence[float] | Float[np.ndarray, " text"]]) -> None:
        """Write an entrant's numbers into the tables of the metrics that were asked for."""
        index = [entrant.name for entrant in self.entrants].index(name)
        for metric, row in found.items():
            if metric in self.values:
                self.values[metric][index] = row


@dataclass(frozen=True)
class Step:
    """A part of an evaluation: how much there is to do, and the metrics that come of it.

    `key` holds what its results depend on beside model, texts, seed and entrants: finished work is kept under it.
    `run` is given the findings and the key; `passes` is about what it will take of the model.
    """

    name: str
    total: int
    gives: Sequence[str]
    key: Mapping[str, Any]
    run: Callable[[Findings, Mapping[str, Any]], None]
    passes: float = 0.0
