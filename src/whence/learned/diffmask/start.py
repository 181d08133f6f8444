"""Where training starts from: mean states for baselines, and what masking every word costs, the unit of margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Layer
from whence.models.batching import batches
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float


def mean_states(
    model: LayeredModel, encodings: Sequence[Encoding], batch_tokens: int
) -> dict[Layer, Float[Tensor, " _hidden"]]:
    """The mean state of real tokens at every layer."""
    sums: dict[Layer, Tensor] = {}
    n_tokens = 0
    for batch in batches(model, encodings, batch_tokens):
        inputs = model.collate([encodings[index] for index in batch])
        states = model.states(inputs)
        n_tokens += int(inputs.mask.sum())
        for layer in ("embeddings", *range(model.n_layers + 1)):
            total = (states.at(layer).float() * inputs.mask[..., None]).sum(dim=(0, 1))
            sums[layer] = sums[layer] + total if layer in sums else total
    return {layer: total / n_tokens for layer, total in sums.items()}


def everything_masked(
    model: LayeredModel, mean_word: Float[Tensor, " hidden"], encodings: Sequence[Encoding], batch_tokens: int
) -> float:
    """The mean divergence when every word is the mask token, or the mean word where there is none."""
    total = 0.0
    masking = model.tokenizer.masking
    for batch in batches(model, encodings, batch_tokens):
        inputs = model.collate([encodings[index] for index in batch])
        logits = model.run(inputs)
        if masking is not None:
            words = model.embed(torch.where(inputs.special, inputs.ids, torch.full_like(inputs.ids, masking)))
        else:
            own = model.embed(inputs.ids)
            words = torch.where(inputs.special[..., None], own, mean_word.to(own))
        masked = model.resume("embeddings", words, inputs)
        total += float(model.reading.divergence(logits, masked, inputs.counted).sum())
    return total / len(encodings)
