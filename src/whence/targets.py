"""What is explained: a number read off the model's output.

Every target is a weighted sum of outputs at known places. A classifier's logits have axes (batch, label); a language
model's too, read at one position, its labels being the vocabulary; a token classifier's are (batch, token, label); a
question answerer's (batch, token, 2), where label 0 is "starts here" and label 1 "ends here".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor

from whence.errors import NonFiniteError, UnknownNameError, UsageError
from whence.explanation import ExplainedTarget, Prediction, Scale, Token

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Task = Literal["classification", "question_answering", "token_classification", "masked_lm", "causal_lm"]
TASKS: tuple[Task, ...] = ("classification", "question_answering", "token_classification", "masked_lm", "causal_lm")
SCALES: tuple[Scale, ...] = ("logit", "probability", "log_probability")
LONGEST_ANSWER = 30  # tokens; the customary limit of extractive question answering


@dataclass(frozen=True)
class Label:
    """A class, a vocabulary token or a token's tag, by name or id.

    `at` is a character of the text: which token a tagger is asked about, or which mask a masked language model fills.
    """

    label: str | int | None = None
    at: int | None = None


@dataclass(frozen=True)
class Span:
    """An answer, from character `start` up to character `end` of the context (the pair)."""

    start: int
    end: int


@dataclass(frozen=True)
class Contrast:
    """Why `this` rather than `that`: the difference of two targets."""

    this: Label | Span | str | int
    that: Label | Span | str | int


Target = Label | Span | Contrast | str | int
"""What may be given as `target=`; "predicted" is what the model says, another string or an integer is a Label."""


class Labels(Protocol):
    """The names of the outputs."""

    def name(self, index: int) -> str: ...

    def index(self, label: str | int) -> int: ...


@dataclass(frozen=True)
class ClassLabels:
    """A short list of class names."""

    names: tuple[str, ...]

    def name(self, index: int) -> str:
        return self.names[index]

    def index(self, label: str | int) -> int:
        if isinstance(label, int) and 0 <= label < len(self.names):
            return label
        if label in self.names:
            return self.names.index(str(label))
        raise UnknownNameError("label", label, (f"{name} ({i})" for i, name in enumerate(self.names)))


@dataclass(frozen=True)
class Reading:
    """How a model's logits are read: the task, the names of the labels, and what makes them probabilities."""

    task: Task
    labels: Labels
    normaliser: Literal["softmax", "sigmoid", "none"] = "softmax"

    def log_probabilities(
        self, logits: Float[Tensor, "batch token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token label"]:
        """In float32; the probability of a span's ends is shared among the real tokens."""
        logits = logits.float()
        if self.task == "question_answering":
            return logits.masked_fill(~mask[..., None], -torch.inf).log_softmax(dim=1)
        if self.normaliser == "softmax":
            return logits.log_softmax(dim=-1)
        if self.normaliser == "sigmoid":
            return torch.nn.functional.logsigmoid(logits)
        raise UsageError("this model's output is a plain number, not a probability", "use scale='logit'")


@dataclass(frozen=True)
class Part:
    """One side of a target on one text: logits at (token, label) places, added up."""

    places: tuple[tuple[int, int], ...]
    description: str


@dataclass(frozen=True)
class Selection:
    """The targets of a batch, resolved: `of` picks one number a row out of the logits of the same texts.

    A target is a weighted sum over its parts (two for a contrast), each a sum over its places (two for a span).
    """

    reading: Reading
    scale: Scale
    weights: Float[Tensor, " part"]
    places: Int[Tensor, "batch part place 2"]
    descriptions: tuple[str, ...]

    def rows(self, rows: Int[Tensor, " row"]) -> Selection:
        return replace(self, places=self.places[rows])

    def of(
        self, logits: Float[Tensor, "batch *token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, " batch"]:
        """The target of each row, in float32, differentiable."""
        logits = _with_token_axis(logits)
        source = logits if self.scale == "logit" else self.reading.log_probabilities(logits, mask)
        batch = torch.arange(len(logits), device=logits.device)[:, None, None]
        sums = source[batch, self.places[..., 0], self.places[..., 1]].float().sum(dim=-1)
        return (sums.exp() if self.scale == "probability" else sums) @ self.weights

    def records(self, values: Float[Tensor, " batch"]) -> list[ExplainedTarget]:
        """Each row's target in words, with its value on the whole text."""
        pairs = zip(self.descriptions, values.tolist(), strict=True)
        return [ExplainedTarget(description, self.scale, value) for description, value in pairs]


def _with_token_axis(logits: Float[Tensor, "batch *token label"]) -> Float[Tensor, "batch token label"]:
    return logits if logits.ndim == 3 else logits[:, None]


def select(
    target: Target,
    scale: Scale,
    reading: Reading,
    logits: Float[Tensor, "batch *token label"],
    tokens: Sequence[Sequence[Token]],
) -> Selection:
    """Resolve a target on every text of a batch, given the model's output on the whole texts."""
    if scale not in SCALES:
        raise UnknownNameError("scale", scale, SCALES)
    if logits.isnan().any():
        raise NonFiniteError(
            "the model's output is NaN, so nothing can be explained",
            "look for NaN weights (broken checkpoint or overflow in half precision)",
        )
    rows = _with_token_axis(logits.detach()).float().cpu()
    sides = [target.this, target.that] if isinstance(target, Contrast) else [target]
    places = [side.at if isinstance(side, Label) else None for side in sides]
    if reading.task in ("masked_lm", "causal_lm") and places[-1] not in (None, places[0]):
        raise UsageError("a language model is read at one character of the text", "give both labels the same at=")
    if reading.task == "classification" and any(place is not None for place in places):
        raise UsageError("a class belongs to the whole text, not to a character", "leave out at=")
    parts = [
        [_part(side, reading, row, row_tokens) for side in sides] for row, row_tokens in zip(rows, tokens, strict=True)
    ]
    return Selection(
        reading,
        scale,
        weights=torch.tensor([1.0, -1.0][: len(sides)], device=logits.device),
        places=torch.tensor([[part.places for part in row] for row in parts], device=logits.device),
        descriptions=tuple(" rather than ".join(part.description for part in row) for row in parts),
    )


def _part(
    target: Label | Span | str | int,
    reading: Reading,
    logits: Float[Tensor, "token label"],
    tokens: Sequence[Token],
) -> Part:
    if reading.task == "question_answering":
        first, last = _answer(target, logits, tokens)
        words = f"tokens {first} to {last} ({' '.join(token.text for token in tokens[first : last + 1])})"
        return Part(((first, 0), (last, 1)), f"answer {words}")
    if isinstance(target, Span):
        raise UsageError(f"a span is a target of question answering, not of {reading.task}", "give a label instead")
    label = target if isinstance(target, Label) else Label(None if target == "predicted" else target)
    position, where = 0, ""
    if reading.task == "token_classification":
        position = _tagged_token(label, logits, tokens)
        where = f" at token {position} ({tokens[position].text})"
    index = int(logits[position].argmax()) if label.label is None else reading.labels.index(label.label)
    return Part(((position, index),), f"{reading.labels.name(index)}{where}")


def _tagged_token(label: Label, logits: Float[Tensor, "token label"], tokens: Sequence[Token]) -> int:
    """The token asked about, or else the one whose tag, other than tag 0 ("outside" by custom), is surest."""
    if label.at is not None:
        return token_at(label.at, tokens)
    probabilities = logits[: len(tokens)].softmax(dim=-1)
    probabilities[[token.special for token in tokens]] = -1
    tagged = probabilities.argmax(dim=-1) != 0
    if tagged.any():
        probabilities[~tagged] = -1
    return int(probabilities.max(dim=-1).values.argmax())


def token_at(character: int, tokens: Sequence[Token], segment: int = 0) -> int:
    """The token that covers a character of the text."""
    for position, token in enumerate(tokens):
        if token.segment == segment and not token.special and token.start <= character < token.end:
            return position
    raise UsageError(
        f"no token covers character {character}", "it is a space, lies outside the text, or was cut off by truncation"
    )


def _answer(target: Target, logits: Float[Tensor, "token two"], tokens: Sequence[Token]) -> tuple[int, int]:
    """First and last token of the answer asked about, or of the best one the model can give."""
    if isinstance(target, Span):
        if target.end <= target.start:
            raise UsageError(
                f"an answer span must not be empty, got {target.start}:{target.end}",
                "give whence.Span(start, end) with end after start, in characters of the context",
            )
        return token_at(target.start, tokens, segment=1), token_at(target.end - 1, tokens, segment=1)
    if target != "predicted" and target != Label():
        raise UsageError(f"{target!r} is no target of question answering", "use 'predicted' or whence.Span(start, end)")
    context = max((token.segment for token in tokens), default=0)
    allowed = torch.tensor([token.segment == context and not token.special for token in tokens])
    scores = logits[: len(tokens), 0, None] + logits[None, : len(tokens), 1]
    order = torch.ones_like(scores).triu().tril(LONGEST_ANSWER - 1).bool()
    scores = scores.masked_fill(~(order & allowed[:, None] & allowed[None, :]), -torch.inf)
    best = int(scores.argmax())
    return best // len(tokens), best % len(tokens)


def predictions(
    reading: Reading,
    logits: Float[Tensor, "batch *token label"],
    mask: Bool[Tensor, "batch token"],
    tokens: Sequence[Sequence[Token]],
    texts: Sequence[tuple[str, str | None]],
) -> list[Prediction]:
    """What the model says about each text of a batch."""
    logits = _with_token_axis(logits.detach())
    if reading.normaliser == "none":
        return [Prediction(f"{row[0, 0].item():.4g}", 0, None, {}) for row in logits.float()]
    shared = reading.log_probabilities(logits, mask).cpu()
    found = []
    for row, row_logits, row_tokens, (text, pair) in zip(shared, logits.float().cpu(), tokens, texts, strict=True):
        if reading.task == "question_answering":
            first, last = _answer("predicted", row_logits, row_tokens)
            source = text if row_tokens[first].segment == 0 else pair or ""
            answer = source[row_tokens[first].start : row_tokens[last].end].strip()
            probability = float((row[first, 0] + row[last, 1]).exp())
            found.append(Prediction(answer, first, probability, {answer: probability}))
            continue
        position = 0
        if reading.task == "token_classification":
            position = _tagged_token(Label(), row_logits, row_tokens)
        top = row[position].exp().topk(min(10, row.shape[-1]))
        names = [reading.labels.name(index) for index in top.indices.tolist()]
        chances = [float(value) for value in top.values]
        found.append(Prediction(names[0], int(top.indices[0]), chances[0], dict(zip(names, chances, strict=True))))
    return found
