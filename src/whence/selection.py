"""Targets resolved: one number per text, read off the model's output.

Every target is a weighted sum of logits at known indices (token, label).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.columns import Later
from whence.errors import UnknownNameError, UsageError
from whence.explanation import ExplainedTarget, Prediction, Scale
from whence.targets import Contrast, EncodedText, Label, Span, Target
from whence.tasks.reading import Reading

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SCALES: tuple[Scale, ...] = ("logit", "probability", "log_probability")


@dataclass(frozen=True)
class Selection:
    """The targets of a batch, resolved: `of` picks one number per row out of the logits of the same texts.

    A target is a weighted sum over its parts (two for a contrast), each a sum over its indices: two for a span, as many
    as it has tokens for a response. Where a row has fewer than another, the rest is not `counted`. With `each`, the
    indices are outputs of their own beside the target as a whole: the tokens of a response.
    """

    reading: Reading
    scale: Scale
    weights: Float[Tensor, " part"]
    indices: Int[Tensor, "batch part index 2"]
    descriptions: Sequence[str]
    counted: Bool[Tensor, "batch part index"] | None = None
    each: bool = False

    @property
    def positions(self) -> Int[Tensor, " batch"]:
        """The token at which each row's target is read first."""
        return self.indices[:, 0, 0, 0]

    def rows(self, rows: Int[Tensor, " row"]) -> Selection:
        counted = None if self.counted is None else self.counted[rows]
        return replace(self, indices=self.indices[rows], counted=counted)

    def of(
        self, logits: Float[Tensor, "batch *token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, " batch"]:
        """The target of each row, in float32, differentiable."""
        return self._added_up(self.parts(logits, mask))

    def parts(
        self, logits: Float[Tensor, "batch *token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch part"]:
        """Each part of each row's target, before they are added up."""
        return self._on_its_scale(_sums(self._picked(logits, mask)))

    def outputs(
        self, logits: Float[Tensor, "batch *token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch output"]:
        """The target of each row and, where they are asked about by themselves, each of its outputs behind it."""
        picked = self._picked(logits, mask)
        whole = self._added_up(self._on_its_scale(_sums(picked)))
        if self.n_outputs == 1:
            return whole[:, None]
        return torch.cat([whole[:, None], self._on_its_scale(picked[:, 0])], dim=1)

    @property
    def n_outputs(self) -> int:
        """How many numbers `outputs` gives: one for the target, and, if it has several outputs, one for each."""
        return 1 + self.indices.shape[2] if self.each and self.indices.shape[2] > 1 else 1

    def _picked(
        self, logits: Float[Tensor, "batch *token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch part index"]:
        logits = _with_token_axis(logits)
        source = logits if self.scale == "logit" else self.reading.log_probabilities(logits, mask)
        picked = source[self._places].float()
        return picked if self.counted is None else picked.masked_fill(~self.counted, 0.0)

    @cached_property
    def _places(
        self,
    ) -> tuple[Int[Tensor, "batch 1 1"], Int[Tensor, "batch part index"], Int[Tensor, "batch part index"]]:
        """Row, token and label of each index."""
        rows = torch.arange(len(self.indices), device=self.indices.device)[:, None, None]
        tokens, labels = self.indices.unbind(dim=-1)
        return rows, tokens, labels

    def _added_up(self, parts: Float[Tensor, "batch part"]) -> Float[Tensor, " batch"]:
        return parts[:, 0] if len(self.weights) == 1 else parts @ self.weights  # of one part it is 1

    def _on_its_scale(self, sums: Float[Tensor, "batch some"]) -> Float[Tensor, "batch some"]:
        return sums.exp() if self.scale == "probability" else sums

    def records(self, values: Float[Tensor, " batch"]) -> list[ExplainedTarget]:
        """Each row's target in words, with its value on the whole text."""
        pairs = zip(self.descriptions, values.tolist(), strict=True)
        return [ExplainedTarget(description, self.scale, value) for description, value in pairs]


def _sums(picked: Float[Tensor, "batch part index"]) -> Float[Tensor, "batch part"]:
    return picked[..., 0] if picked.shape[-1] == 1 else picked.sum(dim=-1)


def _with_token_axis(logits: Float[Tensor, "batch *token label"]) -> Float[Tensor, "batch read label"]:
    return logits if logits.ndim == 3 else logits[:, None]


def select(
    target: Target,
    scale: Scale,
    reading: Reading,
    logits: Float[Tensor, "batch *token label"],
    texts: Sequence[EncodedText],
    *,
    each: bool = False,
) -> Selection:
    """Resolve a target on every text of a batch, given the model's output on the whole texts.

    `each` asks about the tokens of a response one by one too. A class is found where the logits are: nothing waits for
    a GPU, so nobody has looked yet whether the output is a number at all (`check_output`).
    """
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    sides = [_side(side) for side in ((target.this, target.that) if isinstance(target, Contrast) else (target,))]
    characters = [side.at if isinstance(side, Label) else None for side in sides]
    if reading.one_position and characters[-1] not in (None, characters[0]):
        raise UsageError("a language model is read at one character of the text", "give both labels the same at=")
    if reading.one_position:
        sides = [replace(side, at=characters[0]) if isinstance(side, Label) else side for side in sides]
    rows = _with_token_axis(logits.detach())
    of_sides = [reading.parts(side, rows, texts) for side in sides]
    sizes = {parts.indices.shape[1] for parts in of_sides}
    counted = None
    if len(sizes) > 1 or any(parts.counted is not None for parts in of_sides):
        of_sides = [parts.filled(max(sizes)) for parts in of_sides]
        counted = torch.stack([parts.counted for parts in of_sides if parts.counted is not None], dim=1)
    alone = len(sides) == 1
    weights = torch.ones(len(sides), device=logits.device)
    if not alone:
        weights[1:] = -1.0
    words = [parts.descriptions for parts in of_sides]
    rather = words[0] if alone else Later(len(rows), lambda: list(map(" rather than ".join, zip(*words, strict=True))))
    return Selection(
        reading,
        scale,
        weights=weights,
        indices=of_sides[0].indices[:, None] if alone else torch.stack([parts.indices for parts in of_sides], dim=1),
        descriptions=rather,
        counted=counted,
        each=each and reading.responds and alone,
    )


def joined(selections: Sequence[Selection]) -> Selection:
    """The rows of several selections of one target, one after the other."""
    most = max(each.indices.shape[2] for each in selections)
    missing = [most - each.indices.shape[2] for each in selections]
    indices = [
        torch.cat([each.indices, each.indices[:, :, -1:].expand(-1, -1, more, -1)], dim=2)
        for each, more in zip(selections, missing, strict=True)
    ]
    counted = None
    if any(missing) or any(each.counted is not None for each in selections):
        real = [each.indices[..., 0] >= 0 if each.counted is None else each.counted for each in selections]
        counted = torch.cat([torch.nn.functional.pad(own, (0, more)) for own, more in zip(real, missing, strict=True)])
    descriptions = Later(
        sum(len(each.descriptions) for each in selections),
        lambda: [description for each in selections for description in each.descriptions],
    )
    return replace(selections[0], indices=torch.cat(indices), counted=counted, descriptions=descriptions)


def _side(target: Label | Span | str | int) -> Label | Span:
    if isinstance(target, (Label, Span)):
        return target
    return Label(None if target == "predicted" else target)


def predictions(
    reading: Reading,
    logits: Float[Tensor, "batch *token label"],
    mask: Bool[Tensor, "batch token"],
    texts: Sequence[EncodedText],
) -> list[Prediction]:
    """What the model says about each text of a batch."""
    logits = _with_token_axis(logits.detach())
    shared = reading.at_hand(reading.log_probabilities(logits, mask)) if reading.decides else None
    return reading.predictions(reading.at_hand(logits), shared, texts)
