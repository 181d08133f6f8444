"""The attention of a model's blocks, handed over one block at a time and never held: whole maps, or rows of them."""

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
from whence.models.shared_beginning import behind, continues, past_of

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


def read_attention_where_read(model: LayeredModel, inputs: Inputs, consume: ConsumeBlock) -> int:
    """The same for a decoder of which only the rows of some tokens matter: those at which its answer is read.

    What is handed over has the rows of the last tokens only, from the first at which any text of the batch is read to
    the last, and no column of a token behind that. The tokens before are run with whatever attention the model has, and
    their keys and values kept, so that memory grows with the length of a text and not with its square: two
    passes, over each token once. A model that cannot go on from keys and values gives its whole maps.
    """
    assert inputs.read_at is not None
    assert inputs.first_read is not None
    passes = 0
    with model.held(), torch.no_grad():
        first = int(inputs.first_read.min())
        overheard = hasattr(model.module, "set_attn_implementation") and not model.encoder_decoder
        if overheard and first > 0 and continues(model, inputs):
            read = inputs.beginning(int(inputs.read_at.max()) + 1)
            if _overheard(model, behind(read, first, past_of(model, read, first)), consume):
                return 2
            passes = 2
    return passes + read_block_attention(model, inputs, consume)


def _overheard(model: LayeredModel, inputs: Inputs, consume: ConsumeBlock) -> bool:
    """Listen to the blocks of a Hugging Face model in one forward pass; whether they said anything."""
    module: Any = model.module
    rows = inputs.ids.shape[1]
    shape = (rows, rows if inputs.past is None else rows + inputs.past[0][0].shape[-2])
    layer, heard = 0, set[int]()

    def enter_block(block: nn.Module, args: Any) -> None:
        nonlocal layer
        layer += 1

    def listen(part: nn.Module, args: Any, output: Any) -> None:
        for each in output[1:] if isinstance(output, tuple) and layer not in heard else ():
            if isinstance(each, Tensor) and each.ndim == 4 and each.shape[-2:] == shape:
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
