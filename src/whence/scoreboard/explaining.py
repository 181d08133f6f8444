"""Scores of the texts by one entrant, with what they cost: made once, then read from the store."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import UsageError, WhenceWarning
from whence.explanation import Explanation
from whence.methods.explain import explain
from whence.models.batching import Asked
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel
from whence.scoreboard.memory import peak_memory
from whence.scoreboard.trial import Entrant, Trial
from whence.store import Piece

if TYPE_CHECKING:
    from jaxtyping import Float


COSTS = ("forwards", "backwards", "seconds")


@dataclass(frozen=True, eq=False)
class Scored:
    """A table of scores per text, and the cost of each (see `COSTS`); `memory` is the peak, NaN where unknown."""

    tables: list[Float[np.ndarray, "layer token"]]
    costs: Float[np.ndarray, "text cost"]
    memory: float

    @property
    def rows(self) -> list[Float[np.ndarray, " token"]]:
        """The scores at the first layer asked for."""
        return [table[0] for table in self.tables]

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        return cls(
            [table for part in parts for table in part.tables],
            np.concatenate([part.costs for part in parts]),
            float(np.max([part.memory for part in parts])),
        )


def explain_quietly(
    model: LayeredModel,
    texts: Sequence[Asked],
    entrant: Entrant,
    *,
    seed: int,
    batch_tokens: int,
    targets: Sequence[int] | None = None,
    **settings: Any,
) -> list[Explanation]:
    """`whence.explain` without its warnings, with a target of its own for each text if any are given."""
    assert entrant.method is not None, "only methods explain"
    wanted: list[Any] = ["predicted"] * len(texts) if targets is None else list(targets)
    found: dict[int, Explanation] = {}
    for target in dict.fromkeys(wanted):
        indices = [index for index, each in enumerate(wanted) if each == target]
        some: list[Any] = [texts[index] for index in indices]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WhenceWarning)
            explained = explain(
                model, some, entrant.method,
                **{"layers": entrant.layers, **settings, **entrant.options},
                target=target, seed=seed, batch_tokens=batch_tokens,
            )  # fmt: skip
        found.update(zip(indices, explained, strict=True))
    return [found[index] for index in range(len(texts))]


def score(trial: Trial, entrant: Entrant, indices: Sequence[int]) -> Scored:
    """The entrant's scores of some texts."""

    def make() -> Piece:
        texts = [trial.texts[index] for index in indices]
        with peak_memory(trial.model.device) as peak:
            explained = explain_quietly(trial.model, texts, entrant, seed=trial.seed, batch_tokens=trial.batch_tokens)
        flat = np.concatenate([each.scores.ravel() for each in explained])
        return Piece({"scores": flat, "costs": _costs(explained)}, {"memory": peak.bytes})

    if entrant.kind == "outside":
        return _outside(entrant, trial, indices)
    piece = trial.store.kept("scores", entrant.name, trial.key(indices, **entrant.key), make)
    n_layers, lengths = len(entrant.layers), [len(trial.encodings[index]) for index in indices]
    parts = np.split(piece.arrays["scores"], np.cumsum([n_layers * length for length in lengths])[:-1])
    memory = piece.facts["memory"]
    return Scored(
        [part.reshape(n_layers, length) for part, length in zip(parts, lengths, strict=True)],
        piece.arrays["costs"],
        float("nan") if memory is None else float(memory),
    )


def _costs(explanations: Sequence[Explanation]) -> Float[np.ndarray, "text cost"]:
    return np.array([[getattr(each.cost, name) for name in COSTS] for each in explanations], dtype=np.float64)


def _outside(entrant: Entrant, trial: Trial, indices: Sequence[int]) -> Scored:
    explanations = [entrant.explanations[index] for index in indices]
    tables = [aligned(each, trial.encodings[index])[None] for each, index in zip(explanations, indices, strict=True)]
    costs = _costs(explanations)
    costs[costs.sum(axis=1) == 0] = np.nan  # whoever made them did not say
    return Scored(tables, costs, float("nan"))


def aligned(explanation: Explanation, encoding: Encoding) -> Float[np.ndarray, " token"]:
    """Scores of the model's own tokens, from those of whatever pieces the explanation has, by their characters.

    A token inside a larger piece gets the piece's score; one that covers several gets their sum where scores add up,
    else the strongest; one that no piece touches gets 0.
    """
    if (explanation.text, explanation.pair) != (encoding.text, encoding.pair):
        raise UsageError(
            f"{explanation.method} explains another text: {explanation.text[:40]!r}",
            "give one per text, in their order",
        )
    row = explanation.row()
    pieces = [(token, float(value)) for token, value in zip(explanation.tokens, row, strict=True) if not token.special]
    scores = np.zeros(len(encoding), dtype=np.float32)
    for index, token in enumerate(encoding.tokens):
        touching = [
            value
            for piece, value in pieces
            if piece.segment == token.segment and piece.start < token.end and token.start < piece.end
        ]
        if touching and not token.special:
            scores[index] = sum(touching) if explanation.meaning.additive else max(touching, key=abs)
    return scores
