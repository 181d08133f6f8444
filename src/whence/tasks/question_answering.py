"""Question answering: a span of the context. Label 0 of a token is "the answer starts here", label 1 "it ends here"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.errors import UsageError
from whence.explanation import Prediction
from whence.targets import (
    ClassLabels,
    EncodedText,
    Label,
    Labels,
    Span,
    Vocabulary,
    token_at,
    written,
)
from whence.tasks.reading import Part, Reading

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

LONGEST_ANSWER = 30  # tokens; the customary limit of extractive question answering


@dataclass(frozen=True)
class QuestionAnswering(Reading):
    """The answer to a question (the text) as a span of a context (the pair)."""

    labels: Labels

    task = "question_answering"
    auto_class = "AutoModelForQuestionAnswering"
    class_endings = ("ForQuestionAnswering",)
    per_token = True
    gives_span = True
    needs_pair = True
    keeps_text = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(ClassLabels(("start", "end")))

    def read(
        self, output: Mapping[str, Tensor], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token label"]:
        return torch.stack([output["start_logits"], output["end_logits"]], dim=-1)

    def log_probabilities(
        self, logits: Float[Tensor, "batch token label"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token label"]:
        """The probability of each end is shared among the real tokens."""
        return logits.float().masked_fill(~mask[..., None], -torch.inf).log_softmax(dim=1)

    def divergence(
        self,
        original: Float[Tensor, "batch token label"],
        changed: Float[Tensor, "batch token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """Start plus end, padding excluded."""
        p, q = (
            self.log_probabilities(logits, mask).masked_fill(~mask[..., None], 0.0)  # 0 · (-∞ + ∞) has no gradient
            for logits in (original, changed)
        )
        return (p.exp() * (p - q) * mask[..., None]).sum(dim=(1, 2))

    def agreement(
        self,
        original: Float[Tensor, "batch token label"],
        changed: Float[Tensor, "batch token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """Both ends likeliest where they were."""
        ends = [logits.masked_fill(~mask[..., None], -torch.inf).argmax(dim=1) for logits in (original, changed)]
        return (ends[0] == ends[1]).all(dim=-1).float()

    def answers(
        self,
        logits: Float[Tensor, "batch token label"],
        texts: Sequence[EncodedText],
        positions: Int[Tensor, " batch"],
    ) -> Int[Tensor, "batch 2"]:
        """First and last token of the best answer."""
        rows = logits.float().cpu()
        spans = [_best_answer(row, text) for row, text in zip(rows, texts, strict=True)]
        return torch.tensor(spans, device=logits.device)

    def part(self, target: Label | Span, logits: Float[Tensor, "token label"], text: EncodedText) -> Part:
        first, last = _answer(target, logits, text)
        return Part(((first, 0), (last, 1)), f"answer tokens {first} to {last} ({written(text, first, last)})")

    def prediction(
        self,
        logits: Float[Tensor, "token label"],
        log_probabilities: Float[Tensor, "token label"] | None,
        text: EncodedText,
    ) -> Prediction:
        assert log_probabilities is not None
        first, last = _best_answer(logits, text)
        answer = written(text, first, last)
        probability = float((log_probabilities[first, 0] + log_probabilities[last, 1]).exp())
        return Prediction(answer, first, probability, {answer: probability})


def _answer(target: Label | Span, logits: Float[Tensor, "token label"], text: EncodedText) -> tuple[int, int]:
    """First and last token of the answer asked about."""
    if isinstance(target, Span):
        if target.end <= target.start:
            raise UsageError(
                f"an answer span must not be empty, got {target.start}:{target.end}",
                "give whence.Span(start, end) with end after start, in characters of the context",
            )
        return token_at(target.start, text.tokens, segment=1), token_at(target.end - 1, text.tokens, segment=1)
    if target != Label():
        given = target.label if target.at is None else target
        raise UsageError(f"{given!r} is no target of question answering", "use 'predicted' or whence.Span(start, end)")
    return _best_answer(logits, text)


def _best_answer(logits: Float[Tensor, "token label"], text: EncodedText) -> tuple[int, int]:
    """First and last token of the best answer that the model can give."""
    tokens = text.tokens
    context = max((token.segment for token in tokens), default=0)
    allowed = torch.tensor([token.segment == context and not token.special for token in tokens])
    scores = logits[: len(tokens), 0, None] + logits[None, : len(tokens), 1]
    order = torch.ones_like(scores).triu().tril(LONGEST_ANSWER - 1).bool()
    scores = scores.masked_fill(~(order & allowed[:, None] & allowed[None, :]), -torch.inf)
    best = int(scores.argmax())
    return best // len(tokens), best % len(tokens)
