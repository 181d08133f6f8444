"""Causal language modelling: the token that comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.targets import EncodedText, Label, Span, Vocabulary, token_at
from whence.tasks.reading import Part, Reading, label_of

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class CausalLM(Reading):
    """The token of the vocabulary that comes after the text."""

    labels: Vocabulary

    task = "causal_lm"
    auto_class = "AutoModelForCausalLM"
    class_endings = ("ForCausalLM", "LMHeadModel")
    one_position = True
    next_token = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(vocabulary)

    def position(self, text: EncodedText, at: int | None) -> int:
        return len(text.tokens) - 1 if at is None else token_at(at, text.tokens)

    def part(self, target: Label | Span, logits: Float[Tensor, "1 label"], text: EncodedText) -> Part:
        label = label_of(target, self.task)
        index = int(logits[0].argmax()) if label.label is None else self.labels.index(label.label)
        return Part(((0, index),), self.labels.name(index))
