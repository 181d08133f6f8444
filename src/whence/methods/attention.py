"""Attention weights: per layer, or rolled out over the layers below."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UsageError
from whence.explanation import Layer, Meaning
from whence.methods.question import Method, Question, Scores
from whence.models.attention_maps import ConsumeBlock, read_attention_where_read, read_block_attention
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    Read = Callable[[LayeredModel, Inputs, ConsumeBlock], int]
    Mix = Callable[[Float[Tensor, "batch attention_head query key"]], Float[Tensor, "batch query key"]]


def attention(question: Question) -> Scores:
    """What a token receives in each block: the largest weight of any head, averaged over the tokens that look.

    Of a decoder's next token only the token that is read looks: the answer rests on no other's attention. The same
    holds in the decoder of an encoder–decoder, whose blocks look at the source and at what was written.
    """
    return _received(question, lambda weights: weights.amax(dim=1).float(), LOOKED_AT, read_attention_where_read)


def attention_rollout(question: Question) -> Scores:
    """Attention followed down through the blocks (Abnar & Zuidema, 2020).

    Heads are averaged, half of the weight stays with the token itself (the residual), blocks are multiplied; a token's
    score is what it receives on average from the tokens of the layer, or of a decoder from the token that is read.
    """
    real = question.inputs.mask[:, None]
    rolled: Tensor | None = None

    def roll(weights: Float[Tensor, "batch attention_head query key"]) -> Float[Tensor, "batch query key"]:
        nonlocal rolled
        mixed = weights.mean(dim=1, dtype=torch.float32) * real
        mixed.diagonal(dim1=1, dim2=2).add_(1.0)  # the residual, as heavy as all that is looked at
        mixed /= mixed.sum(dim=-1, keepdim=True)
        rolled = mixed if rolled is None else mixed @ rolled
        return rolled

    return _received(question, roll, COMES_TO, read_block_attention)  # what is followed down comes from every row


def _received(question: Question, mix: Mix, of_decoder: Meaning, read_alone: Read) -> Scores:
    """What tokens receive by the mixed weights of each block, which go as soon as they have been looked at.

    `read_alone` reads a decoder's, where only the tokens count that are read.
    """
    model, inputs = question.model, question.inputs
    if model.attend is None:
        raise ModelError(f"{model.record.id} has no attention weights to read", "choose another method")
    if any(layer in ("embeddings", 0) for layer in question.layers):
        raise UsageError("attention belongs to blocks: there is none at layer 0", "ask for layers 1 and up")
    alone = model.reading.next_token and inputs.read_at is not None
    found: dict[Layer, Float[Tensor, "batch key"]] = {}

    def look(layer: int, weights: Float[Tensor, "batch attention_head query key"]) -> None:
        looks = _looking(model, inputs, layer, alone)
        shares = looks.float() / looks.sum(dim=1, keepdim=True)
        n_queries, n_keys = weights.shape[-2:]
        if alone:  # a text's first tokens are handed over, and the rows of the last of them
            shares = shares[:, n_keys - n_queries : n_keys]
        received = torch.einsum("bq,bqk->bk", shares, mix(weights))  # a single query that is no token counts whole
        found[layer] = nn.functional.pad(received, (0, inputs.mask.shape[1] - n_keys)) * inputs.mask

    question.forwards += (read_alone if alone else read_block_attention)(model, inputs, look)
    values = torch.stack([found[layer] for layer in question.layers], dim=1)
    return Scores(values, meaning=of_decoder if alone else None)


def _looking(model: LayeredModel, inputs: Inputs, layer: int, alone: bool) -> Bool[Tensor, "batch token"]:
    """The tokens of a block whose looks count: all, or those that are read; in an encoder below a decoder, its own."""
    if model.encoder_decoder and not model.in_decoder(layer):
        return model.scored(layer, inputs)
    if not alone:
        return inputs.mask
    assert inputs.read_at is not None
    return torch.zeros_like(inputs.mask).scatter(1, inputs.read_at.reshape(len(inputs), -1), True)


METHOD = Method(
    attention,
    Meaning(
        "attention", "how much attention the token receives in this block", signed=False, additive=False, low=0.0,
        high=1.0,
    ),
    needs=("attention weights",),
    cost="2 forwards (a decoder's second in two parts), all layers together",
    few_passes=True,
    layers="blocks",
)  # fmt: skip
LOOKED_AT = Meaning(
    "attention", "how much attention the token receives in this block from the token that is read", signed=False,
    additive=False, low=0.0, high=1.0,
)  # fmt: skip

ROLLOUT = Method(
    attention_rollout,
    Meaning(
        "attention rollout", "how much of this layer comes from the token, if attention were all", signed=False,
        additive=True, low=0.0, high=1.0,
    ),
    needs=("attention weights",),
    cost="2 forwards, all layers together",
    few_passes=True,
    layers="blocks",
)  # fmt: skip
COMES_TO = Meaning(
    "attention rollout", "how much of the state that is read here comes from the token, if attention were all",
    signed=False, additive=True, low=0.0, high=1.0,
)  # fmt: skip
