"""Texts without the tokens that are hidden: with the others close together, or each at the position it had.

The latter is the same as hiding tokens from attention, for less work, where a model allows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

# Here a token knows its position from a table alone, the position can be given, and the class is read at the
# first token. Relative positions, windows and convolutions would notice the gap.
_POSITION_TABLE_ALONE = frozenset({"albert", "bert", "camembert", "electra", "roberta", "xlm-roberta"})


def first_position(model: LayeredModel) -> int | None:
    """The number of the first position where hidden tokens may be left out of the input; None where they may not."""
    config = getattr(model.module, "config", None)
    if model.reading.per_token or model.reading.reads_vocabulary:
        return None
    if getattr(config, "model_type", None) not in _POSITION_TABLE_ALONE:
        return None
    if getattr(config, "position_embedding_type", None) not in (None, "absolute"):
        return None
    for name, part in model.module.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding):
            return 0 if part.padding_idx is None else part.padding_idx + 1  # RoBERTa counts from after the padding
    return None


def without_hidden(inputs: Inputs, keep: Bool[Tensor, "batch token"], first: int) -> Inputs:
    """Only the tokens to keep, each at the position it had; their first must be among them."""
    left, places = closed_up(inputs, keep)
    return replace(left, features={**left.features, "position_ids": places + first})


def closed_up(inputs: Inputs, keep: Bool[Tensor, "batch token"]) -> tuple[Inputs, Int[Tensor, "batch left"]]:
    """Only the tokens to keep, at least one of each text, close together; and the places where they stood.

    What pads the shorter ones are tokens that go. A language model is read at the last token that is left of those up
    to where it was read.
    """
    counts = keep.sum(dim=1)
    length = int(counts.max())
    places = (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, :length]
    read_at = inputs.read_at
    if read_at is not None:
        places_read = read_at.reshape(len(keep), -1)
        read_at = (keep.cumsum(dim=1).gather(1, places_read) - 1).clamp(min=0).reshape(read_at.shape)
    left = replace(
        inputs,
        ids=inputs.ids.gather(1, places),
        mask=torch.arange(length, device=keep.device)[None, :] < counts[:, None],
        features={name: values.gather(1, places) for name, values in inputs.features.items()},
        read_at=read_at,
        unattended=None,
    )
    return left, places
