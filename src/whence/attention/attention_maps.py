"""The attention of a model, handed over one layer at a time and never held."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.attention.classifier import AttentionClassifier
from whence.errors import ModelError
from whence.models.huggingface import readable_attention
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.models.own_thread import in_this_thread

if TYPE_CHECKING:
    from jaxtyping import Float

AttentionLayer = int | str
"""A block's number, 1 … L, or "pooling": the attention of an attention classifier over its encoder's states."""

Consume = Callable[[AttentionLayer, "Float[Tensor, 'batch attention_head query key']"], None]


def read_attention(model: LayeredModel, inputs: Inputs, consume: Consume) -> None:
    """Call `consume` with each attention of the model on a batch, lowest layer first.

    A Hugging Face model gives its weights as its blocks compute them, so that one layer's map is in memory at a time. A
    family whose blocks keep them to themselves (DeBERTa, MPNet) gives all of a batch at once.
    """
    with model.held(), torch.no_grad():
        if isinstance(model.module, AttentionClassifier):
            for layer, weights in model.module.attention_maps(model.states(inputs), inputs):
                consume(layer, weights)
        elif model.attend is None:
            raise ModelError(f"{model.record.id} has no attention weights to read", "audit a model with attention")
        elif not _overheard(model, inputs, consume):
            for number, weights in enumerate(model.attend(inputs), start=1):
                consume(number, weights)


def _overheard(model: LayeredModel, inputs: Inputs, consume: Consume) -> bool:
    """Listen to the blocks of a Hugging Face model in one forward pass; whether they said anything."""
    module: Any = model.module
    if not hasattr(module, "set_attn_implementation"):
        return False
    length = inputs.ids.shape[1]
    layer, heard = 0, set[int]()

    def enter_block(block: nn.Module, args: Any) -> None:
        nonlocal layer
        layer += 1

    def listen(part: nn.Module, args: Any, output: Any) -> None:
        for each in output[1:] if isinstance(output, tuple) and layer not in heard else ():
            if isinstance(each, Tensor) and each.ndim == 4 and each.shape[-2:] == (length, length):
                heard.add(layer)
                consume(layer, each)
                return

    with ExitStack() as stack:
        stack.enter_context(readable_attention(module))
        for block in model.stack.blocks:
            stack.callback(block.register_forward_pre_hook(in_this_thread(enter_block)).remove)
            for part in block.modules():
                stack.callback(part.register_forward_hook(in_this_thread(listen)).remove)
        model.run(inputs)
    if heard and len(heard) != model.n_layers:
        raise ModelError(
            f"only {len(heard)} of the {model.n_layers} blocks of {model.record.architecture} have attention weights",
            "audit a model whose blocks all attend",
        )
    return bool(heard)
