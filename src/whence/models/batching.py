"""Many texts on their way into a model: encoded, checked, and grouped so that a forward pass fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from whence.errors import InputError
from whence.models.free_memory import free_bytes
from whence.models.inputs import Encoding, Ids, Inputs, Prompt, collate, is_ids_or_messages
from whence.models.layered import LayeredModel
from whence.models.parts import first_weight

if TYPE_CHECKING:
    from jaxtyping import Int

Text = str | tuple[str, str]
"""A text, or a pair of texts (question and context, premise and hypothesis)."""
Asked = Text | tuple[Prompt, str | Ids]
"""A text, or a prompt with what a decoder wrote after it."""
Item = TypeVar("Item")
Within = Callable[[nn.Module], AbstractContextManager[Any]]
"""Of a model's module, the context in which a pass is run that is no ordinary one."""

AT_ONCE = 1_024  # texts that a tokenizer gets: what it returns is larger than what is kept of it
MOST_KEPT = 12 * 10**9  # bytes of a text's graph, some 5,000 tokens of a small decoder's 30 blocks
SOME_PADDING = 8  # tokens: enough to be noticed, and soon read
_READS_PADDING: WeakKeyDictionary[LayeredModel, bool] = WeakKeyDictionary()


def encode(model: LayeredModel, text: Any, index: int) -> Encoding:
    """The text at `index` of a list as the model reads it; an empty one is an error.

    Where a model is asked about responses, a text is a prompt with its response; elsewhere it may be token ids.
    """
    if is_ids_or_messages(text):
        return _not_empty(model.encode_prompt(text), index)
    if model.reading.responds and isinstance(text, tuple) and len(text) == 2:
        return model.encode_response(*text)
    return _not_empty(model.encode(*_with_pair(text, index)), index)


def encode_each(model: LayeredModel, texts: Iterable[Any]) -> list[Encoding]:
    """Each text of a list as the model reads it; an empty one is an error."""
    texts = list(texts)
    if any(not isinstance(text, str) and is_ids_or_messages(text) for text in texts):
        return [encode(model, text, index) for index, text in enumerate(texts)]
    pairs = [_with_pair(text, index) for index, text in enumerate(texts)]
    parts = (pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE))
    found = [encoding for part in parts for encoding in model.encode_each(part)]
    return [_not_empty(encoding, index) for index, encoding in enumerate(found)]


def _with_pair(text: Any, index: int) -> tuple[str, str | None]:
    first, second = text if isinstance(text, tuple) and len(text) == 2 else (text, None)
    if not isinstance(first, str) or not isinstance(second, (str, type(None))):
        raise InputError(
            f"text {index} is {type(text).__name__}, not a string or a pair of strings",
            "give a string, or two as ('text', 'pair')",
        )
    return first, second


def _not_empty(encoding: Encoding, index: int) -> Encoding:
    if encoding.is_empty:
        text = encoding.text
        shown = "empty" if not text.strip() else f"{shortened(text)!r}, of which no token is left"
        raise InputError(f"text {index} is {shown}: there is nothing to explain", "give a text with at least one word")
    return encoding


def micro_batches(
    items: Iterable[Item], length: Callable[[Item], int], batch_tokens: int, *, equal: bool = False
) -> Iterator[list[Item]]:
    """Items as they come, as many at a time as the token budget allows, padding included; sort them to pad less.

    Once a batch is a quarter full, an item that would make a sixth of it padding begins another; if lengths must be
    `equal`, any item of another length does.
    """
    batch: list[Item] = []
    held = longest = 0  # tokens in the batch, padding left out, and those of its longest item
    for item in items:
        size = length(item)
        padded = max(longest, size) * (len(batch) + 1)
        wasteful = 4 * held > batch_tokens and 5 * padded > 6 * (held + size)
        if batch and (padded > batch_tokens or wasteful or (equal and size != longest)):
            yield batch
            batch, held, longest = [], 0, 0
        batch.append(item)
        held, longest = held + size, max(longest, size)
    if batch:
        yield batch


def consecutive(sizes: Int[np.ndarray, " item"], batch_tokens: int, *, equal: bool = False) -> Iterator[slice]:
    """The same for thousands of rows whose lengths are known, as slices, each of which is found at once."""
    begin = 0
    while begin < len(sizes):
        # more items than these are too many tokens, whatever their length
        ahead = sizes[begin : begin + batch_tokens // max(1, int(sizes[begin])) + 2]
        held, padded = ahead.cumsum(), np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
        wasteful = (4 * (held - ahead) > batch_tokens) & (5 * padded > 6 * held)
        another = (padded > batch_tokens) | wasteful | (equal & (ahead != ahead[0]))
        another[0] = False
        end = begin + (int(another.argmax()) or len(ahead))
        yield slice(begin, end)
        begin = end


def batches(model: LayeredModel, encodings: Sequence[Encoding], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of texts of similar length, or of the same where the model reads its padding, shortest first."""
    order = sorted(range(len(encodings)), key=lambda index: len(encodings[index]))
    equal = reads_padding(model, encodings)
    return micro_batches(order, lambda index: len(encodings[index]), batch_tokens, equal=equal)


def reads_padding(model: LayeredModel, encodings: Sequence[Encoding]) -> bool:
    """Whether the model says other things of a text that is padded: looked at once, on the first texts that differ in
    length.

    MobileBERT embeds a token together with its neighbours, padding among them; a net that reads from right to left
    may start there.
    """
    if model not in _READS_PADDING:
        texts = sorted(encodings, key=len)
        if not texts or len(texts[0]) == len(texts[-1]):
            return False
        longer = next((text for text in texts if len(text) >= len(texts[0]) + SOME_PADDING), texts[-1])
        alone, beside = (_said(model, some) for some in ([texts[0]], [texts[0], longer]))
        _READS_PADDING[model] = any(differ(*pair) for pair in zip(alone, beside, strict=True))
    return _READS_PADDING[model]


def _said(model: LayeredModel, encodings: Sequence[Encoding]) -> tuple[Tensor, Tensor]:
    """The states of the first text's last layer, and its logits, at real tokens."""
    read_at = [0] * len(encodings) if model.reading.reads_vocabulary else None
    states = model.states(collate(encodings, model.tokenizer.padding, read_at, model.device))
    own = slice(len(encodings[0]))
    return states.hidden[-1][0, own], states.logits[0, own] if states.logits.ndim == 3 else states.logits[0]


def differ(alone: Tensor, padded: Tensor) -> bool:
    """By more than rounding, relative to the largest number."""
    distance = (alone.double() - padded.double()).abs().max()
    return bool(distance > alone.double().abs().max() * _rounding(alone) ** 0.5)


def _rounding(numbers: Tensor) -> float:
    """Relative, of what made these numbers: a GPU may multiply matrices of float32 in TF32 or bfloat16, and a number
    that falls on the other side of a rounding is then off by as much."""
    multiplied = {"highest": torch.finfo(numbers.dtype).eps, "high": 2.0**-10, "medium": 2.0**-7}
    chosen = torch.get_float32_matmul_precision() if numbers.is_cuda and numbers.dtype == torch.float32 else "highest"
    return multiplied[chosen]


def computed_again(
    model: LayeredModel, inputs: Inputs, kept_tokens: int, within: Within | None = None
) -> AbstractContextManager[None]:
    """Inside, a pass for gradients over longer texts keeps the graph of as many blocks as the memory is there for.

    `kept_tokens` are those whose whole graph may be kept. What happens inside the other blocks, the lowest, is computed
    again in the backward pass (`within`, where the pass is no ordinary one), for up to a third more time and the same
    scores. So memory grows by some 34 numbers per feature and token, and not per block as well.
    """
    if inputs.ids.shape[1] <= kept_tokens:
        return nullcontext()
    n_kept = model.n_layers * kept_tokens // inputs.ids.numel()
    return model.stack.computing_again(partial(within, model.module) if within else nullcontext, n_kept)


def usual_batch_tokens(model: LayeredModel) -> int:
    """As many tokens as keep the processor busy: on a CPU more only miss its caches, a GPU is limited by its memory."""
    if model.device.type != "cuda":
        return 2_048
    return tokens_that_fit(free_bytes(model.device), model)


def usual_kept_tokens(model: LayeredModel, batch_tokens: int | None) -> int:
    """The tokens of a text whose whole graph may be kept: those of MOST_KEPT bytes or of half of the free memory, and
    no more than the user lets a pass hold."""
    fitting = max(1, min(MOST_KEPT, free_bytes(model.device) // 2) // _graph_of_a_token(model))
    return fitting if batch_tokens is None else min(fitting, batch_tokens)


def tokens_that_fit(free_bytes: int, model: LayeredModel) -> int:
    """Tokens whose states and gradients fit into half of the free memory."""
    return max(256, min(65_536, free_bytes // 2 // _graph_of_a_token(model)))


def _graph_of_a_token(model: LayeredModel) -> int:
    """The bytes that are kept of a token for the backward pass: some 34 numbers per feature and block."""
    weight = first_weight(model.stack.embedding)
    return int(34 * weight.shape[-1] * weight.element_size() * (model.n_layers + 1))


def shortened(text: str) -> str:
    """A text as it is named in a message."""
    return text if len(text) <= 40 else f"{text[:39]}…"
