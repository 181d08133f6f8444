"""Responses: what a decoder wrote after a prompt, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.errors import UsageError
from whence.explanation import Prediction, Token
from whence.targets import EncodedText, Label, Span, Vocabulary
from whence.tasks.reading import Part, Reading, label_divergence, same_label

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Response(Reading):
    """The tokens of a response, each as likely as it is after the prompt and all that was written before it.

    The second text is the response. Its tokens are read by teacher forcing, all in one pass; `logits[i]` belongs to its
    token i.
    """

    labels: Vocabulary

    task = "response"
    auto_class = "AutoModelForCausalLM"
    next_token = True
    responds = True
    needs_pair = True

    @classmethod
    def of_config(cls, config: Any, vocabulary: Vocabulary) -> Reading:
        return cls(vocabulary)

    def part(self, target: Label | Span, logits: Float[Tensor, "token label"], text: EncodedText) -> Part:
        """The tokens that the target covers: all, or those that reach into its characters or are its words."""
        tokens = response_tokens(text)
        if isinstance(target, Span):
            chosen = covered(tokens, target, text.pair or "")
        elif target.label is None or target.label == "all":
            chosen = list(range(len(tokens)))
        else:
            chosen = covered(tokens, _found(str(target.label), text.pair or "", target.at), text.pair or "")
        said = (text.pair or "")[tokens[chosen[0]].start : tokens[chosen[-1]].end].strip()
        return Part(tuple((i, tokens[i].id) for i in chosen), said or tokens[chosen[0]].text)

    def likelihood(
        self, log_probability: Float[Tensor, " batch"], texts: Sequence[EncodedText]
    ) -> Float[Tensor, " batch"]:
        """The geometric mean of the tokens' probabilities, exp(Σ log p / n): what is explained, Σ log p, on a scale
        from 0 to 1 that a long response does not shrink."""
        counts = torch.tensor([len(response_tokens(text)) for text in texts], device=log_probability.device)
        return (log_probability / counts).exp()

    def divergence(
        self,
        original: Float[Tensor, "batch *token label"],
        changed: Float[Tensor, "batch *token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The mean over the response's tokens, which `mask` marks."""
        return _mean(label_divergence(original, changed), mask)

    def agreement(
        self,
        original: Float[Tensor, "batch *token label"],
        changed: Float[Tensor, "batch *token label"],
        mask: Bool[Tensor, "batch token"],
    ) -> Float[Tensor, " batch"]:
        """The share of tokens in whose place the model would still write the same one."""
        return _mean(same_label(original, changed), mask)

    def answers(
        self,
        logits: Float[Tensor, "batch *token label"],
        texts: Sequence[EncodedText],
        positions: Int[Tensor, " batch"],
    ) -> Int[Tensor, "batch answer"]:
        """What the model would write at all places of the response, as one number."""
        likeliest = logits.argmax(dim=-1)
        counts = torch.tensor([len(response_tokens(text)) for text in texts], device=logits.device)
        real = torch.arange(likeliest.shape[1], device=logits.device) < counts[:, None]
        found = torch.zeros_like(counts)
        for column in torch.where(real, likeliest + 1, 0).unbind(dim=1):
            found = (found * 1_000_003 + column) % (2**31 - 1)  # two of a billion are taken for the same by chance
        return found[:, None]

    def gold(self, labels: Sequence[str | int]) -> list[int]:
        raise UsageError(
            "a response has no gold label: it is held to what was written",
            "leave out labels=, and give the right answers as responses= to ask what they rest on",
        )

    def prediction(
        self,
        logits: Float[Tensor, "token label"],
        log_probabilities: Float[Tensor, "token label"] | None,
        text: EncodedText,
    ) -> Prediction:
        """The response, with the probability of writing all of it."""
        assert log_probabilities is not None
        ids = torch.tensor([token.id for token in response_tokens(text)], device=log_probabilities.device)
        chance = float(log_probabilities[: len(ids)].gather(1, ids[:, None]).sum().exp())
        written = (text.pair or "").strip()
        return Prediction(written, int(ids[0]), chance, {written: chance})


def _mean(values: Float[Tensor, "batch read"], mask: Bool[Tensor, "batch read"]) -> Float[Tensor, " batch"]:
    return (values * mask).sum(dim=-1) / mask.sum(dim=-1)


def response_tokens(text: EncodedText) -> list[Token]:
    return [token for token in text.tokens if token.segment == 1]


def covered(tokens: list[Token], span: Span, response: str) -> list[int]:
    """The tokens of a response that reach into a span of its characters."""
    if not 0 <= span.start < span.end <= len(response):
        raise UsageError(
            f"characters {span.start} to {span.end} are not in the response, which has {len(response)}",
            f"give a span from 0 to {len(response)}, or target='all'",
        )
    return [i for i, token in enumerate(tokens) if token.start < span.end and span.start < token.end]


def _found(words: str, response: str, at: int | None) -> Span:
    """Where words stand in the response, from character `at` on."""
    start = response.find(words, at or 0) if words.strip() else -1
    if start < 0:
        raise UsageError(
            f"{words!r} is not in the response", "name words as they stand in it, a Span of characters, or target='all'"
        )
    return Span(start, start + len(words))
