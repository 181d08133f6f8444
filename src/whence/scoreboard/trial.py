"""What all steps of an evaluation share: the model, the texts, and how they are to be treated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from whence.engine.masked import Hiding
from whence.explanation import Explanation, Layer
from whence.methods.question import Method
from whence.models.batching import Text
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.store import Store

CHUNK = 50  # texts a piece of finished work: enough for full batches, little to lose

Kind = Literal["method", "control", "outside"]
Step = Literal["choosing layers", "explanations", "games", "stability", "random weights"]
Report = Callable[[Step, int, int], None]


@dataclass(frozen=True)
class Entrant:
    """One that takes part: a method at a layer, a control, or explanations that came from elsewhere."""

    name: str
    kind: Kind
    method: str | Method | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ("embeddings",)
    chosen_from: tuple[Layer, ...] = ()
    explanations: Sequence[Explanation] = ()

    @property
    def layer(self) -> Layer:
        return self.layers[0]


@dataclass(frozen=True)
class Trial:
    """The model, the texts as it reads them and what it says of them, and the settings of a run."""

    model: LayeredModel
    texts: Sequence[Text]
    encodings: Sequence[Encoding]
    gold: Sequence[int] | None
    hiding: Hiding
    seed: int
    batch_tokens: int
    store: Store
    report: Report

    def chunks(self) -> Iterator[range]:
        for start in range(0, len(self.texts), CHUNK):
            yield range(start, min(start + CHUNK, len(self.texts)))

    def some(self, most: int) -> list[int]:
        """Places of texts spread evenly over all, for the steps that need not see every text."""
        n_texts = min(most, len(self.texts))
        return [round(place * len(self.texts) / n_texts) for place in range(n_texts)] if n_texts else []
