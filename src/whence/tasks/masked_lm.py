"""Masked language modelling: the token that fills a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.errors import InputError
from whence.targets import EncodedText, Label, Span, Vocabulary, token_at
from whence.tasks.reading import Part, Reading, label_of

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class MaskedLM(Reading):
    """The token of the vocabulary that fills a mask, or stands at a character."""

    labels: Vocabulary

    task = "masked_lm"
    auto_class = "AutoModelForMaskedLM"
    class_endings = ("ForMaskedLM",)
    one_position = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(vocabulary)

    def position(self, text: EncodedText, at: int | None) -> int:
        masks = [position for position, token in enumerate(text.tokens) if token.id == self.labels.masking]
        for position in masks:
            if at is None or text.tokens[position].start <= at < text.tokens[position].end:
                return position
        if at is not None:
            return token_at(at, text.tokens)
        shown = "a mask" if self.labels.masking is None else self.labels.name(self.labels.masking)
        raise InputError(
            "the text holds no mask for the model to fill",
            f"write {shown} where a word is wanted, or give target=Label(at=CHARACTER)",
        )

    def part(self, target: Label | Span, logits: Float[Tensor, "1 label"], text: EncodedText) -> Part:
        label = label_of(target, self.task)
        index = int(logits[0].argmax()) if label.label is None else self.labels.index(label.label)
        return Part(((0, index),), self.labels.name(index))
