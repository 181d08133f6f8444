"""Causal language modelling: the token that comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.errors import UsageError
from whence.targets import EncodedText, Label, Span, Vocabulary, token_at
from whence.tasks.reading import Part, Reading, label_of

if TYPE_CHECKING:
    from jaxtyping import Float


@dataclass(frozen=True)
class CausalLM(Reading):
    """The token of the vocabulary that comes after the text, or that stands at a character of it."""

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
        """The last token; to predict the token at a character, the one before that."""
        position = len(text.tokens) if at is None else token_at(at, text.tokens)
        if position == 0:
            raise UsageError(
                f"character {at} is in the first token, which a decoder predicts from nothing",
                "ask about a later character",
            )
        return position - 1

    def part(self, target: Label | Span, logits: Float[Tensor, "1 label"], text: EncodedText) -> Part:
        label = label_of(target, self.task)
        if label.label is None:
            index = int(logits[0].argmax())
        else:
            read = text.tokens[: self.position(text, label.at) + 1]
            index = self.labels.index_after(label.label, [token.id for token in read])
        return Part(((0, index),), self.labels.name(index))
