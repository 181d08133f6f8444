"""The attention of a model's blocks, handed over one block at a time and never held."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.models.huggingface import readable_attention
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.models.own_thread import in_this_thread

if TYPE_CHECKING:
    from jaxtyping import Float

ConsumeBlock = Callable[[int, "Float[Tensor, 'batch attention_head query key']"], None]


def read_block_attention(model: LayeredModel, inputs: Inputs, consume: ConsumeBlock) -> int:
    """Call `consume` with the attention of each block on a batch, lowest first; how many forward passes it took.

    A Hugging Face model gives its weights as its blocks compute them, so that one block's map is in memory at a time. A
    family whose blocks keep them to themselves (DeBERTa, MPNet) gives all of a batch at once, in a second pass, and so
    does an encoder–decoder, in one.
    """
    if model.attend is None:
        raise ModelError(f"{model.record.id} has no attention weights to read", "choose a model with attention")
    with model.held(), torch.no_grad():
        passes = 0
        if hasattr(model.module, "set_attn_implementation") and not model.encoder_decoder:
            if _overheard(model, inputs, consume):
                return 1
            passes = 1
        weights = model.attend(inputs)
        if len(weights) != model.n_layers:
            raise ModelError(f"expected attention of {model.n_layers} blocks, got {len(weights)}")
        for number, each in enumerate(weights, start=1):
            consume(number, each)
        return passes + 1


def _overheard(model: LayeredModel, inputs: Inputs, consume: ConsumeBlock) -> bool:
    """Listen to the blocks of a Hugging Face model in one forward pass; whether they said anything."""
    module: Any = model.module
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
            "choose a model whose blocks all attend",
        )
    return bool(heard)
