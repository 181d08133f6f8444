"""Token classification: a tag per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whence.explanation import Prediction
from whence.targets import EncodedText, Label, Labels, Span, Vocabulary, token_at, written
from whence.tasks.classification import class_labels
from whence.tasks.reading import Part, Reading, label_divergence, label_of, likeliest, same_label

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class TokenClassification(Reading):
    """A tag per token; a target is the tag of one of them."""

    labels: Labels

    task = "token_classification"
    auto_class = "AutoModelForTokenClassification"
    class_endings = ("ForTokenClassification",)
    per_token = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(class_labels(config))

    def divergence(
        self,
        original: Float[Tensor, "batch token label"],
        changed: Float[Tensor, "batch token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The mean over the real tokens."""
        return (label_divergence(original, changed) * mask).sum(dim=-1) / mask.sum(dim=-1)

    def agreement(
        self,
        original: Float[Tensor, "batch token label"],
        changed: Float[Tensor, "batch token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The share of the real tokens with the same tag."""
        return (same_label(original, changed) * mask).sum(dim=-1) / mask.sum(dim=-1)

    def part(self, target: Label | Span, logits: Float[Tensor, "token label"], text: EncodedText) -> Part:
        label = label_of(target, self.task)
        position = _surest(logits, text) if label.at is None else token_at(label.at, text.tokens)
        index = int(logits[position].argmax()) if label.label is None else self.labels.index(label.label)
        where = f"at token {position} ({written(text, position, position)})"
        return Part(((position, index),), f"{self.labels.name(index)} {where}")

    def prediction(
        self,
        logits: Float[Tensor, "token label"],
        log_probabilities: Float[Tensor, "token label"] | None,
        text: EncodedText,
    ) -> Prediction:
        assert log_probabilities is not None
        return likeliest(self.labels, log_probabilities[_surest(logits, text)])


def _surest(logits: Float[Tensor, "token label"], text: EncodedText) -> int:
    """The token whose tag, other than tag 0 ("outside" by custom), is surest."""
    probabilities = logits[: len(text.tokens)].softmax(dim=-1)
    probabilities[[token.special for token in text.tokens]] = -1
    tagged = probabilities.argmax(dim=-1) != 0
    if tagged.any():
        probabilities[~tagged] = -1
    return int(probabilities.max(dim=-1).values.argmax())
