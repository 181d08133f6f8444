"""Readings: what a task makes of a model's output. Each task is one class of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from whence.errors import InputError, NonFiniteError, UsageError
from whence.explanation import Prediction
from whence.targets import EncodedText, Label, Labels, Span, Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SHOWN = 10  # labels whose probabilities a prediction tells


@dataclass(frozen=True)
class Part:
    """One side of a target on one text: logits at (token, label), added up."""

    indices: tuple[tuple[int, int], ...]
    description: str


@dataclass(frozen=True, eq=False)
class Parts:
    """One side of a target on every text of a batch: where its logits stand, and what it is called.

    A text that has fewer of them than another repeats its last, and only some are `counted`.
    """

    indices: Int[Tensor, "batch index 2"]
    counted: Bool[Tensor, "batch index"] | None
    descriptions: Sequence[str]

    @classmethod
    def of(cls, parts: Sequence[Part], device: torch.device) -> Parts:
        """Those of each text, one by one."""
        sizes = [len(part.indices) for part in parts]
        most = max(sizes)
        indices = [[*part.indices, *part.indices[-1:] * (most - len(part.indices))] for part in parts]
        counted = None
        if min(sizes) < most:
            counted = (torch.arange(most) < torch.tensor(sizes)[:, None]).to(device)
        return cls(torch.tensor(indices, device=device), counted, [part.description for part in parts])

    def filled(self, most: int) -> Parts:
        """The same with so many indices for each text, and each marked that counts."""
        more = most - self.indices.shape[1]
        counted = torch.ones_like(self.indices[..., 0], dtype=torch.bool) if self.counted is None else self.counted
        indices = torch.cat([self.indices, self.indices[:, -1:].expand(-1, more, -1)], dim=1)
        return Parts(indices, torch.nn.functional.pad(counted, (0, more)), self.descriptions)


class Reading(ABC):
    """How a task's output is read: what the model answers, when two answers agree, how an answer is said.

    Each task is a final class in `whence.tasks`; a task of your own is another, given as `whence.load(..., task=)`.
    Class variables are facts about the task. Logits have axes (batch, label), or (batch, token, label) where every
    token has its own. What a task does not say otherwise is that of a softmax over labels, one per text.
    """

    task: ClassVar[str]
    """The task's name, as it stands in records."""
    auto_class: ClassVar[str]
    """The class of transformers that loads a model for it."""
    class_endings: ClassVar[tuple[str, ...]] = ()
    """How transformers' classes with such a head end."""
    per_token: ClassVar[bool] = False
    """Whether every token has logits of its own, so that a label is none of the whole text."""
    one_position: ClassVar[bool] = False
    """Whether the output is read at one token of each text; `position` says which."""
    next_token: ClassVar[bool] = False
    """Whether what is read at a token is the one after it."""
    responds: ClassVar[bool] = False
    """Whether the second text is a response to the first: each of its tokens is read at the one before it."""
    decides: ClassVar[bool] = True
    """Whether the output is a decision with probabilities, not a plain number."""
    gives_span: ClassVar[bool] = False
    """Whether the answer is a span of the text: its first token, then its last."""
    needs_pair: ClassVar[bool] = False
    """Whether there must be a second text."""
    keeps_text: ClassVar[bool] = False
    """Whether the first text (a question) is never cut, only its pair."""
    pair_apart: ClassVar[bool] = False
    """Whether the pair is read by itself, as the reference that the text is compared with."""
    unread_weights: ClassVar[tuple[str, ...]] = ()
    """How weights begin that a checkpoint may lack, because nothing is read off them."""

    labels: Labels

    @property
    def reads_vocabulary(self) -> bool:
        """Whether the output is a vocabulary, read only at the tokens that `Inputs.read_at` says."""
        return self.one_position or self.responds

    @classmethod
    @abstractmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        """The reading of a Hugging Face model with this config; a language model's labels are its vocabulary."""

    @abstractmethod
    def part(self, target: Label | Span, logits: Float[Tensor, "token label"], text: EncodedText) -> Part:
        """What a target means on one text, given its logits; `Label()` is what the model says itself."""

    def parts(
        self, target: Label | Span, logits: Float[Tensor, "batch read label"], texts: Sequence[EncodedText]
    ) -> Parts:
        """The same for every text of a batch; a task may have a faster way than one after the other, where its logits
        are."""
        rows = self.at_hand(logits)
        check_output(rows)
        return Parts.of([self.part(target, row, text) for row, text in zip(rows, texts, strict=True)], logits.device)

    def at_hand(self, logits: Float[Tensor, "batch read label"]) -> Float[Tensor, "batch read label"]:
        """In memory, to be looked at text by text; at every token of a response a vocabulary is too much to move, and
        little of it is looked at."""
        return logits if self.responds else logits.float().cpu()

    def log_probabilities(
        self, logits: Float[Tensor, "batch read label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch read label"]:
        """In float32; a plain number has none, which is an error."""
        if not self.decides:
            raise UsageError("this model's output is a plain number, not a probability", "use scale='logit'")
        return logits.float().log_softmax(dim=-1)

    def likelihood(
        self, log_probability: Float[Tensor, " batch"], texts: Sequence[EncodedText]
    ) -> Float[Tensor, " batch"]:
        """What games measure, from 0 to 1, of answers with these log-probabilities: their probabilities."""
        return log_probability.exp()

    def divergence(
        self,
        original: Float[Tensor, "batch *token label"],
        changed: Float[Tensor, "batch *token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """How far each text's output has moved, in float32: KL(original || changed), or a number's squared distance.

        `mask` marks the places that count, where there are several: see `Inputs.counted`.
        """
        if not self.decides:
            return (original.float() - changed.float()).square().sum(dim=-1)
        return label_divergence(original, changed)

    def agreement(
        self,
        original: Float[Tensor, "batch *token label"],
        changed: Float[Tensor, "batch *token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """1 where the model still says the same, else 0; of a tagger the share of tokens with the same tag."""
        if not self.decides:
            raise UsageError("a plain number has no class to agree on", "read its divergence instead")
        return same_label(original, changed)

    def answers(
        self,
        logits: Float[Tensor, "batch *token label"],
        texts: Sequence[EncodedText],
        positions: Int[Tensor, " batch"],
    ) -> Int[Tensor, "batch answer"]:
        """What the model says of each row, in numbers that are equal where it says the same.

        `positions` are the tokens at which its answers on the whole texts stand.
        """
        rows = torch.arange(len(logits), device=logits.device)
        return (logits if logits.ndim == 2 else logits[rows, positions]).argmax(dim=-1, keepdim=True)

    def prediction(
        self,
        logits: Float[Tensor, "token label"],
        log_probabilities: Float[Tensor, "token label"] | None,
        text: EncodedText,
    ) -> Prediction:
        """What the model says of one text, as a person is told; without probabilities where it does not decide."""
        assert log_probabilities is not None
        return likeliest(self.labels, log_probabilities[0])

    def predictions(
        self,
        logits: Float[Tensor, "batch read label"],
        log_probabilities: Float[Tensor, "batch read label"] | None,
        texts: Sequence[EncodedText],
    ) -> list[Prediction]:
        """The same for every text of a batch; a task may have a faster way than one after the other."""
        chances = [None] * len(logits) if log_probabilities is None else log_probabilities
        return [self.prediction(*each) for each in zip(logits, chances, texts, strict=True)]

    def position(self, text: EncodedText, at: int | None) -> int:
        """The token at which the output of a text is read, where that is one; `at` is a character of the text."""
        raise NotImplementedError(f"{type(self).__name__} does not say at which token its output is read")

    def read(
        self,
        output: Mapping[str, Tensor],
        mask: Bool[Tensor, "batch token"],
        reference: Float[Tensor, "batch hidden"] | None = None,
    ) -> Float[Tensor, "batch *token label"]:
        """The logits in what a Hugging Face model returns; `mask` is true at the tokens that are attended to.

        Where the pair is read apart, that comes first, without a reference; what is read then is the reference.
        """
        return output["logits"]

    def check(self, text: str, pair: str | None) -> None:
        """Refuse a text that the model cannot be asked about."""
        if self.needs_pair and pair is None:
            raise InputError(
                f"{self.task.replace('_', ' ')} takes two texts, here is one",
                "give both: ('question', 'context') in Python, --pair on the command line",
            )

    def gold(self, labels: Sequence[str | int]) -> list[int]:
        """The ids of gold labels, one per text."""
        if self.per_token:
            raise UsageError(
                f"gold labels are those of whole texts, not of {self.task.replace('_', ' ')}",
                "leave out labels=: the model is then held to its own answer",
            )
        return [self.labels.index(label if isinstance(label, str) else int(label)) for label in labels]


def check_output(logits: Float[Tensor, "batch *token label"]) -> None:
    """Refuse an output that is no number."""
    if logits.isnan().any():
        raise NonFiniteError(
            "the model's output is NaN, so nothing can be explained",
            "look for NaN weights (broken checkpoint or overflow in half precision)",
        )


def label_divergence(
    original: Float[Tensor, "*batch label"], changed: Float[Tensor, "*batch label"]
) -> Float[Tensor, "*batch"]:
    """KL(original || changed) of two softmaxes over labels, in float32."""
    p, q = original.float().log_softmax(dim=-1), changed.float().log_softmax(dim=-1)
    return (p.exp() * (p - q)).sum(dim=-1)


def same_label(
    original: Float[Tensor, "*batch label"], changed: Float[Tensor, "*batch label"]
) -> Float[Tensor, "*batch"]:
    """1 where the likeliest label is the same, else 0."""
    return (original.argmax(dim=-1) == changed.argmax(dim=-1)).float()


def likeliest(labels: Labels, log_probabilities: Float[Tensor, " label"]) -> Prediction:
    """The likeliest label, with the probabilities of the first ten."""
    return likeliest_each(labels, log_probabilities[None])[0]


def likeliest_each(labels: Labels, log_probabilities: Float[Tensor, "batch label"]) -> list[Prediction]:
    """The same for each text of a batch."""
    top = log_probabilities.exp().topk(min(SHOWN, log_probabilities.shape[1]))
    found = []
    known: dict[tuple[int, ...], list[str]] = {}  # few labels come in few orders
    for indices, chances in zip(top.indices.tolist(), top.values.tolist(), strict=True):
        names = known.get(order := tuple(indices))
        if names is None:
            names = known[order] = [labels.name(index) for index in indices]
        found.append(Prediction(names[0], indices[0], chances[0], dict(zip(names, chances, strict=True))))
    return found


def label_of(target: Label | Span, task: str) -> Label:
    """The target, which must be a label."""
    if isinstance(target, Span):
        raise UsageError(f"a span is a target of question answering, not of {task}", "give a label instead")
    return target
