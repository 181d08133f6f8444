"""Any projection as the attention of a Hugging Face model, through transformers' own attention interface."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import ModelError, UsageError
from whence.models.projections import Projection, projection

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from transformers import PreTrainedModel


def use_attention(model: PreTrainedModel, name: str | None = None) -> None:
    """Let every attention layer of a loaded model use a projection; fine-tune it then as any other model.

    >>> import whence
    >>> model = whence.load().module
    >>> use_attention(model, "sparsemax")
    >>> model.config._attn_implementation
    'sparsemax'

    The name is kept in the model's config, is saved with it, and `whence.load` heeds it. A model loaded with
    `from_pretrained` starts with its usual attention: call `use_attention(model)` to go back to the one it was trained
    with. `model.set_attn_implementation("sdpa")` undoes the change. Attention weights come with `output_attentions`.

    Args:
        model: an encoder or decoder whose attention follows transformers' attention interface.
        name: "softmax", "sparsemax", "entmax15" or "sparsegen(0.5)"; by default what the model's config says.
    """
    name = name or getattr(model.config, "attention_projection", None)
    if name is None:
        raise UsageError("the model's config names no projection", "use_attention(model, 'sparsemax'), for example")
    register_attention(name)
    model.set_attn_implementation(name)
    if model.config._attn_implementation != name:
        raise ModelError(
            f"{type(model).__name__} has an attention of its own that cannot be exchanged",
            "use a family with transformers' attention interface, such as BERT, RoBERTa, ModernBERT or Llama",
        )
    model.config.attention_projection = name


def register_attention(name: str) -> None:
    """Make a projection known to transformers, so that `attn_implementation="sparsemax"` works everywhere."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, partial(_attend, projection(name)))
    AttentionMaskInterface.register(name, _mask)


def _mask(*args: Any, **settings: Any) -> Bool[Tensor, "batch 1 query key"] | None:
    """Which keys a query may see, true or false; None only where it may see all of them."""
    from transformers.masking_utils import sdpa_mask

    mask: Tensor | None = sdpa_mask(*args, **{**settings, "allow_is_causal_skip": False})
    return mask


def _attend(
    project: Projection,
    module: nn.Module,
    query: Float[Tensor, "batch head query hidden"],
    key: Float[Tensor, "batch group key hidden"],
    value: Float[Tensor, "batch group key hidden"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Float[Tensor, "batch query head hidden"], Float[Tensor, "batch attention_head query key"]]:
    """What transformers calls in place of its own attention: the context of each query, and the weights."""
    if s_aux is not None:
        raise ModelError(f"{type(module).__name__} has attention sinks", "sparse projections do not know them")
    groups = query.shape[1] // key.shape[1]  # heads that share a key and a value
    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    allowed = attention_mask
    if attention_mask is not None and attention_mask.dtype != torch.bool:  # one that the user made, to be added
        allowed = attention_mask > torch.finfo(attention_mask.dtype).min / 2
        scores = scores + attention_mask.masked_fill(~allowed, 0.0)
    weights = project(scores, allowed)
    dropped = nn.functional.dropout(weights, dropout, module.training)
    return (dropped @ value).transpose(1, 2).contiguous(), dropped
