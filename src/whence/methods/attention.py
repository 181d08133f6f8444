"""Attention weights: per layer, or rolled out over the layers below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.errors import ModelError, UsageError
from whence.explanation import Layer, Meaning
from whence.methods.question import Method, Question, Scores

if TYPE_CHECKING:
    from jaxtyping import Float


def attention(question: Question) -> Scores:
    """What a token receives in each block: the largest weight of any head, averaged over the tokens that look."""
    scores = [weights.amax(dim=1) for weights in _weights(question)]
    return _received(question, scores)


def attention_rollout(question: Question) -> Scores:
    """Attention followed down through the blocks (Abnar & Zuidema, 2020).

    Heads are averaged, half of the weight stays with the token itself (the residual), blocks are multiplied; a token's
    score is what it receives on average from the tokens of the layer.
    """
    rolled: list[Tensor] = []
    for weights in _weights(question):
        own = torch.eye(weights.shape[-1], device=weights.device)
        mixed = 0.5 * weights.mean(dim=1) + 0.5 * own
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        rolled.append(mixed if not rolled else mixed @ rolled[-1])
    return _received(question, rolled)


def _weights(question: Question) -> list[Float[Tensor, "batch attention_head query key"]]:
    """Attention weights of each block in float32, nothing at padding."""
    if question.model.attend is None:
        raise ModelError(f"{question.model.record.id} has no attention weights to read", "choose another method")
    if any(layer in ("embeddings", 0) for layer in question.layers):
        raise UsageError("attention belongs to blocks: there is none at layer 0", "ask for layers 1 and up")
    with question.model.held(), torch.no_grad():
        weights = question.model.attend(question.inputs)
    question.forwards += 1
    if len(weights) != question.model.n_layers:
        raise ModelError(f"expected attention of {question.model.n_layers} blocks, got {len(weights)}")
    real = question.inputs.mask[:, None, None, :]
    return [layer.detach().float() * real for layer in weights]


def _received(question: Question, scores: list[Float[Tensor, "batch query key"]]) -> Scores:
    """The mean over the real tokens that look, at the layers asked about."""
    lookers = question.inputs.mask[:, :, None].float()
    means = [(layer * lookers).sum(dim=1) / lookers.sum(dim=1) for layer in scores]
    asked: list[Layer] = list(question.layers)
    return Scores(torch.stack([means[int(layer) - 1] for layer in asked], dim=1))


METHOD = Method(
    attention,
    Meaning(
        "attention", "how much attention the token receives in this block", signed=False, additive=False, low=0.0,
        high=1.0,
    ),
    needs=("attention weights",),
    cost="2 forwards, all layers together",
    layers="blocks",
)  # fmt: skip

ROLLOUT = Method(
    attention_rollout,
    Meaning(
        "attention rollout", "how much of this layer comes from the token, if attention were all", signed=False,
        additive=True, low=0.0, high=1.0,
    ),
    needs=("attention weights",),
    cost="2 forwards, all layers together",
    layers="blocks",
)  # fmt: skip
