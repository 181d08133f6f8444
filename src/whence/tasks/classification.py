"""Classification: one label per text, several at once, or (regression) a plain number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from whence.columns import Later
from whence.errors import UsageError
from whence.explanation import Prediction
from whence.targets import ClassLabels, EncodedText, Label, Labels, Span, Vocabulary
from whence.tasks.reading import Part, Parts, Reading, label_of, likeliest_each

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class _OfWholeTexts(Reading):
    """What all of these share: a label is a class of the whole text, and a batch is read at once."""

    labels: Labels

    task = "classification"
    auto_class = "AutoModelForSequenceClassification"

    def part(self, target: Label | Span, logits: Float[Tensor, "1 label"], text: EncodedText) -> Part:
        return class_part(self.labels, target, logits)

    def parts(
        self, target: Label | Span, logits: Float[Tensor, "batch 1 label"], texts: Sequence[EncodedText]
    ) -> Parts:
        return class_parts(self.labels, target, logits)

    def predictions(
        self,
        logits: Float[Tensor, "batch 1 label"],
        log_probabilities: Float[Tensor, "batch 1 label"] | None,
        texts: Sequence[EncodedText],
    ) -> list[Prediction]:
        if log_probabilities is None:
            return super().predictions(logits, None, texts)
        return likeliest_each(self.labels, log_probabilities[:, 0])


@dataclass(frozen=True)
class Classification(_OfWholeTexts):
    """One label per text: a softmax over classes."""

    class_endings = ("ForSequenceClassification",)

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        labels = class_labels(config)
        if config.num_labels == 1:
            return PlainNumber(labels)
        if getattr(config, "problem_type", None) == "multi_label_classification":
            return SeveralLabels(labels)
        return cls(labels)


@dataclass(frozen=True)
class SeveralLabels(_OfWholeTexts):
    """Several labels at once: each is said or not, whatever the others are."""

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(class_labels(config))

    def log_probabilities(
        self, logits: Float[Tensor, "batch read label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch read label"]:
        return logsigmoid(logits.float())

    def divergence(
        self,
        original: Float[Tensor, "batch label"],
        changed: Float[Tensor, "batch label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """Summed over the labels, each a yes or a no."""
        p, q = logsigmoid(original.float()), logsigmoid(changed.float())
        no_p, no_q = logsigmoid(-original.float()), logsigmoid(-changed.float())
        return (p.exp() * (p - q) + no_p.exp() * (no_p - no_q)).sum(dim=-1)

    def agreement(
        self,
        original: Float[Tensor, "batch label"],
        changed: Float[Tensor, "batch label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """Every label as before."""
        return ((original > 0) == (changed > 0)).all(dim=-1).float()


@dataclass(frozen=True)
class PlainNumber(_OfWholeTexts):
    """Regression: a number, and nothing decided."""

    decides = False

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(class_labels(config))

    def prediction(
        self, logits: Float[Tensor, "1 label"], log_probabilities: Float[Tensor, "1 label"] | None, text: EncodedText
    ) -> Prediction:
        return Prediction(f"{float(logits[0, 0]):.4g}", 0, None, {})


def class_labels(config: Any) -> ClassLabels:
    """The names that a Hugging Face config gives its classes."""
    return ClassLabels(tuple(str(config.id2label[index]) for index in range(len(config.id2label))))


def class_part(labels: Labels, target: Label | Span, logits: Float[Tensor, "1 label"]) -> Part:
    """A class of the whole text."""
    asked = _class_asked(labels, target)
    index = int(logits[0].argmax()) if asked is None else asked
    return Part(((0, index),), labels.name(index))


def class_parts(labels: Labels, target: Label | Span, logits: Float[Tensor, "batch 1 label"]) -> Parts:
    """A class of each whole text: what the model says stays where its logits are until it must be named."""
    asked = _class_asked(labels, target)
    said = logits[:, 0].argmax(dim=-1) if asked is None else logits.new_full((len(logits),), asked, dtype=torch.long)

    def names() -> list[str]:
        indices = [asked] * len(said) if asked is not None else said.tolist()
        known = {index: labels.name(index) for index in set(indices)}
        return [known[index] for index in indices]

    return Parts(pad(said[:, None, None], (1, 0)), None, Later(len(said), names))  # all stand at the one place, 0


def _class_asked(labels: Labels, target: Label | Span) -> int | None:
    """The class that a target names, or None: the one that the model says."""
    label = label_of(target, _OfWholeTexts.task)
    if label.at is not None:
        raise UsageError("a class belongs to the whole text, not to a character", "leave out at=")
    return None if label.label is None else labels.index(label.label)
