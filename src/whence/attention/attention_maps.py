"""The attention of a model, of its blocks or over its encoder's states, handed over one layer at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.attention.classifier import AttentionClassifier
from whence.models.attention_maps import read_block_attention
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

AttentionLayer = int | str
"""A block's number, 1 … L, or "pooling": the attention of an attention classifier over its encoder's states."""

Consume = Callable[[AttentionLayer, "Float[Tensor, 'batch attention_head query key']"], None]


def read_attention(model: LayeredModel, inputs: Inputs, consume: Consume) -> None:
    """Call `consume` with each attention of the model on a batch, lowest layer first."""
    if not isinstance(model.module, AttentionClassifier):
        read_block_attention(model, inputs, consume)
        return
    with model.held(), torch.no_grad():
        for layer, weights in model.module.attention_maps(model.states(inputs), inputs):
            consume(layer, weights)
