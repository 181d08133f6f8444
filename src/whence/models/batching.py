"""Many texts on their way into a model: encoded, checked, and grouped so that a forward pass fits into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from whence.errors import InputError
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

Text = str | tuple[str, str]
"""A text, or a pair of texts (question and context, premise and hypothesis)."""


def encode(model: LayeredModel, text: Any, place: int) -> Encoding:
    """The text at `place` of a list as the model reads it; an empty one is an error."""
    first, second = text if isinstance(text, tuple) and len(text) == 2 else (text, None)
    if not isinstance(first, str) or not isinstance(second, (str, type(None))):
        raise InputError(
            f"text {place} is {type(text).__name__}, not a string or a pair of strings",
            "give a string, or two as ('text', 'pair')",
        )
    encoding = model.encode(first, second)
    if all(token.word is None for token in encoding.tokens):
        shown = "empty" if not first.strip() else f"{shortened(first)!r}, of which no token is left"
        raise InputError(f"text {place} is {shown}: there is nothing to explain", "give a text with at least one word")
    return encoding


def batches(encodings: Sequence[Encoding], batch_tokens: int) -> Iterator[list[int]]:
    """Places of texts of similar length, as many at a time as the token budget allows.

    Once a batch is a quarter full, a text so long that a sixth of the batch would be padding begins another.
    """
    batch: list[int] = []
    held = 0  # tokens in the batch, padding left out
    for place in sorted(range(len(encodings)), key=lambda place: len(encodings[place])):
        length = len(encodings[place])
        padded = length * (len(batch) + 1)
        if batch and (padded > batch_tokens or (4 * held > batch_tokens and 5 * padded > 6 * (held + length))):
            yield batch
            batch, held = [], 0
        batch.append(place)
        held += length
    if batch:
        yield batch


def usual_batch_tokens(model: LayeredModel) -> int:
    """As many tokens as keep the processor busy: on a CPU more only miss its caches, a GPU is limited by its memory."""
    if model.device.type != "cuda":
        return 2_048
    free, _ = torch.cuda.mem_get_info(model.device)
    return tokens_that_fit(free, model)


def tokens_that_fit(free_bytes: int, model: LayeredModel) -> int:
    """Tokens whose states and gradients fit into half of the free memory: some 34 numbers a feature and block."""
    weight = next(model.stack.embedding.parameters())
    a_token = 34 * weight.shape[-1] * weight.element_size() * (model.n_layers + 1)
    return max(256, min(65_536, free_bytes // 2 // a_token))


def shortened(text: str) -> str:
    """A text as it is named in a message."""
    return text if len(text) <= 40 else f"{text[:39]}…"
