"""Why this response rather than another, and why with some of the prompt rather than without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whence.errors import UsageError
from whence.explanation import Cost, ExplainedTarget, Explanation, Layer, OutputScores
from whence.methods.question import Method
from whence.models.inputs import Encoding, Ids
from whence.models.layered import LayeredModel
from whence.targets import Label, Target

Passages = str | tuple[int, int] | Sequence[str | tuple[int, int]]
"""Parts of a prompt: words as they stand in it, a span of its characters, or several of these."""


def check_contrast(
    name: str,
    method: Method,
    model: LayeredModel,
    encodings: Sequence[Encoding],
    target: Target,
    foil: str | Ids | None,
    without: Passages | None,
) -> None:
    """Refuse a contrast that has no meaning, or a method whose scores for a difference are not their difference."""
    if not model.reading.responds or len(encodings) != 1 or (foil is not None and without is not None):
        raise UsageError(
            "a contrast is that of one response with a foil, or with less of the prompt",
            "give one prompt, response= and one of foil= and without=",
        )
    if foil is not None and target not in ("predicted", "all", Label()):
        raise UsageError("a foil takes the place of the whole response", "leave out target=")
    if not method.linear:
        raise UsageError(
            f"{name} cannot say why one response rather than another: its scores are sizes, not shares of a difference",
            "use a method such as leave_one_out, shapley, gradient_x_input or integrated_gradients",
        )


def check_contrasted_layers(model: LayeredModel, layers: Sequence[Layer]) -> None:
    """Refuse layers at which tokens of a response are scored: those of another response are others."""
    if any(map(model.in_decoder, layers)):
        raise UsageError(
            "a contrast is told of the source's tokens, and at the decoder's layers there are others",
            "ask for the embeddings or layers of the encoder",
        )


def counterpart(
    model: LayeredModel, encoding: Encoding, explanation: Explanation, foil: str | Ids | None, without: Passages | None
) -> tuple[Encoding, str, list[int] | None]:
    """What a response is contrasted with, the contrast in words, and, if that is less of the prompt, what is left."""
    said = explanation.target.description
    if foil is not None:
        other = model.encode_response(encoding.prompt_ids, foil)
        return other, f"{said} rather than {(other.pair or '').strip()}", None
    assert without is not None
    spans = _spans(encoding.text, without)
    left = [
        position
        for position, token in enumerate(encoding.tokens)
        if token.special or not any(token.start < end and start < token.end for start, end in spans)
    ]
    if len(left) == len(encoding):
        raise UsageError("no token of the prompt lies in these passages", "give spans of characters of the prompt")
    if all(encoding.tokens[position].special for position in left):
        raise UsageError("without these passages nothing of the prompt is left", "give a part of it")
    features = {name: [values[position] for position in left] for name, values in encoding.features.items()}
    tokens = tuple(encoding.tokens[position] for position in left)
    said = f"{said} with a part of the prompt rather than without it"
    return replace(encoding, tokens=tokens, features=features), said, left


def _spans(prompt: str, passages: Passages) -> list[tuple[int, int]]:
    one = isinstance(passages, str) or not isinstance(passages, Sequence) or _is_span(passages)
    return [_span(prompt, each) for each in ([passages] if one else passages)]


def _span(prompt: str, passage: Any) -> tuple[int, int]:
    if isinstance(passage, str):
        start = prompt.find(passage)
        if start < 0 or not passage.strip():
            raise UsageError(f"{passage!r} is not in the prompt", "give words as they stand in it")
        return start, start + len(passage)
    if not _is_span(passage):
        raise UsageError(
            f"{passage!r} is no part of a prompt", "give words as they stand in it, or a span of its characters"
        )
    return passage[0], passage[1]


def _is_span(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) == 2 and all(isinstance(edge, int) for edge in value)


def rather_than(
    this: Explanation, that: Explanation, description: str, left: Sequence[int] | None = None
) -> Explanation:
    """The difference of two explanations.

    `that` is of another response to the same prompt or, with `left`, of the same response to what is left of the
    prompt: the positions of these tokens.
    """
    n_prompt = sum(token.segment == 0 for token in this.tokens)
    places = np.array(range(n_prompt) if left is None else left)
    own = places[places < n_prompt]

    def moved(values: np.ndarray) -> np.ndarray:
        found = np.zeros((*values.shape[:-1], len(this.tokens)), np.float32)
        found[..., own] = values[..., : len(own)]
        return found

    errors = None
    if this.standard_errors is not None and that.standard_errors is not None:
        errors = _frozen(this.standard_errors + moved(that.standard_errors))
    missing = None
    if this.completeness_errors is not None and that.completeness_errors is not None:
        missing = tuple(a + b for a, b in zip(this.completeness_errors, that.completeness_errors, strict=True))
    outputs = None
    if left is not None and this.outputs is not None and that.outputs is not None:
        values = tuple(a - b for a, b in zip(this.outputs.values, that.outputs.values, strict=True))
        outputs = OutputScores(
            this.outputs.positions, values, _frozen(this.outputs.scores - moved(that.outputs.scores))
        )
    return replace(
        this,
        scores=_frozen(this.scores - moved(that.scores)),
        standard_errors=errors,
        completeness_errors=missing,
        outputs=outputs,
        target=ExplainedTarget(description, this.target.scale, this.target.value - that.target.value),
        cost=Cost(
            this.cost.forwards + that.cost.forwards,
            this.cost.backwards + that.cost.backwards,
            this.cost.seconds + that.cost.seconds,
        ),
        warnings=(*this.warnings, *(said for said in that.warnings if said not in this.warnings)),
        notes=(*this.notes, *(said for said in that.notes if said not in this.notes)),
    )


def _frozen(values: np.ndarray) -> np.ndarray:
    values = np.array(values, np.float32)
    values.setflags(write=False)
    return values
