"""One text to work on, with what is known about it; and gold labels in the numbering of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whence.errors import UsageError

if TYPE_CHECKING:
    from whence.targets import Labels


@dataclass(frozen=True)
class Answer:
    """A gold answer, as it stands in the context from character `start` on."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class Example:
    """A text, perhaps with its pair and gold label.

    `label_name` is the label in words where a known set numbers its labels; `answers` are those of a question, spans
    of the pair; `token_labels` are the sentiments (0 very negative … 4 very positive) of the text's parts between
    spaces, where a treebank gives them; `response` is what a decoder wrote after the text, in words or token ids.

    >>> Example("Who wrote it?", pair="Jane wrote it.", answers=(Answer("Jane", 0),)).as_input
    ('Who wrote it?', 'Jane wrote it.')
    """

    text: str
    pair: str | None = None
    label: str | int | None = None
    label_name: str | None = None
    answers: tuple[Answer, ...] = ()
    token_labels: tuple[int, ...] | None = None
    response: str | tuple[int, ...] | None = None

    @property
    def as_input(self) -> str | tuple[str, str]:
        """What `whence.explain` takes."""
        return self.text if self.pair is None else (self.text, self.pair)


def labels_as_ids(examples: Sequence[Example], labels: Labels) -> list[int]:
    """The gold label of each example as the number that the model gives it.

    Labels are matched by name (in any case) if the model has a label for every name, so that a model may order them as
    it likes; otherwise numbers are taken for the model's own.

    >>> from whence.targets import ClassLabels
    >>> examples = [Example("fine", label="Positive"), Example("dull", label="negative")]
    >>> labels_as_ids(examples, ClassLabels(("negative", "neutral", "positive")))
    [2, 0]

    Args:
        examples: with labels, all of them.
        labels: the model's, `model.reading.labels`.
    """
    from whence.targets import ClassLabels

    if not isinstance(labels, ClassLabels):
        raise UsageError("this model chooses among tokens, not among classes", "give a classifier")
    given: list[str | int] = []
    for number, example in enumerate(examples, start=1):
        if example.label is None:
            raise UsageError(
                f"example {number} of {len(examples)} has no label", "give one to every example, or none is needed"
            )
        given.append(example.label)
    numbers = {name.casefold(): number for number, name in enumerate(labels.names)}
    names = [
        (str(label) if example.label_name is None else example.label_name).casefold()
        for label, example in zip(given, examples, strict=True)
    ]
    if len(numbers) == len(labels.names) and all(name in numbers for name in names):
        return [numbers[name] for name in names]
    if all(isinstance(label, int) and 0 <= label < len(labels.names) for label in given):
        return [int(label) for label in given]
    raise UsageError(
        f"the labels of the examples are not the model's: {_listing(given)}",
        f"the model's: {', '.join(f'{name} ({number})' for number, name in enumerate(labels.names))}",
    )


def _listing(labels: Iterable[str | int]) -> str:
    counts = Counter(labels)
    shown = ", ".join(f"{label!r} ({count})" for label, count in counts.most_common(10))
    return shown if len(counts) <= 10 else f"{shown}, ... ({len(counts)} in all)"
