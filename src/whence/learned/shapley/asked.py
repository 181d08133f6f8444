"""What probes are trained to explain: every class, of many labels the likeliest ones, or a response and its tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Scale
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.selection import Selection, select

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_CLASSES = 16  # of which a step learns all
LIKELIEST = 4  # labels, where there are more; or tokens, where each has its own


def asked(
    model: LayeredModel, inputs: Inputs, logits: Float[Tensor, "batch *token label"], scale: Scale,
    chance: Float[Tensor, "batch token"],
) -> Selection:  # fmt: skip
    """The targets that one step learns, as the parts of a selection; the first is what the model says.

    A tagger has a tag at some tokens, drawn by `chance`; question answering its best answer; of a response there is the
    whole, and some of its tokens, drawn too.
    """
    reading = model.reading
    if reading.responds:
        return _of_responses(inputs, select("predicted", scale, reading, logits, inputs.encodings), chance)
    if reading.gives_span:
        return select("predicted", scale, reading, logits, inputs.encodings)
    if logits.ndim == 2:
        n_labels = logits.shape[1]
        labels = logits.float().topk(n_labels if n_labels <= MOST_CLASSES else LIKELIEST, dim=1).indices
        indices = torch.stack([torch.zeros_like(labels), labels], dim=-1)
    else:
        drawn = chance.to(logits).masked_fill(~inputs.mask | inputs.special, -1)
        tokens = drawn.topk(min(LIKELIEST, drawn.shape[1]), dim=1).indices
        tags = logits.argmax(dim=-1).gather(1, tokens)
        indices = torch.stack([tokens, tags], dim=-1)
    weights = torch.zeros(indices.shape[1], device=logits.device)
    return Selection(reading, scale, weights, indices[:, :, None], ("",) * len(indices))


def _of_responses(inputs: Inputs, whole: Selection, chance: Float[Tensor, "batch token"]) -> Selection:
    """The whole response, then single tokens of it; a response with fewer repeats some."""
    real = inputs.read_once[:, : whole.indices.shape[2]]
    drawn = chance[:, : real.shape[1]].to(real.device).masked_fill(~real, -1)
    tokens = drawn.topk(min(LIKELIEST - 1, real.shape[1]), dim=1).indices
    tokens = torch.where(real.gather(1, tokens), tokens, tokens[:, :1])
    alone = torch.arange(real.shape[1], device=real.device) == tokens[..., None]
    counted = torch.cat([real[:, None], alone], dim=1)
    indices = whole.indices.expand(-1, counted.shape[1], -1, -1)
    return replace(whole, indices=indices, counted=counted, weights=torch.zeros(counted.shape[1], device=real.device))
