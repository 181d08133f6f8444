"""How far a model's output has moved, and whether it still says the same, for every task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.errors import UsageError
from whence.targets import Reading

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def divergence(
    reading: Reading,
    original: Float[Tensor, "batch *token label"],
    changed: Float[Tensor, "batch *token label"],
    mask: Bool[Tensor, "batch token"],
) -> Float[Tensor, " batch"]:
    """KL(original || changed) of each text, in float32.

    Over the labels (or the vocabulary) of a softmax; summed over independent yes-or-no labels; start plus end of an
    answer, padding excluded; the mean over a tagger's real tokens. A plain number has no distribution: there it is the
    squared distance.
    """
    if reading.normaliser == "none":
        return (original.float() - changed.float()).square().sum(dim=-1)
    p, q = (reading.log_probabilities(logits, mask) for logits in (original, changed))
    if reading.normaliser == "sigmoid":
        opposite = [reading.log_probabilities(-logits, mask) for logits in (original, changed)]
        return (p.exp() * (p - q) + opposite[0].exp() * (opposite[0] - opposite[1])).sum(dim=-1)
    if reading.task == "question_answering":
        p, q = (values.masked_fill(~mask[..., None], 0.0) for values in (p, q))  # 0 · (-∞ + ∞) has no gradient
        return (p.exp() * (p - q) * mask[..., None]).sum(dim=(1, 2))
    terms = (p.exp() * (p - q)).sum(dim=-1)
    if reading.task == "token_classification":
        return (terms * mask).sum(dim=-1) / mask.sum(dim=-1)
    return terms


def agreement(
    reading: Reading,
    original: Float[Tensor, "batch *token label"],
    changed: Float[Tensor, "batch *token label"],
    mask: Bool[Tensor, "batch token"],
) -> Float[Tensor, " batch"]:
    """1 where the model still says the same, else 0; of a tagger the share of tokens with the same tag."""
    if reading.normaliser == "none":
        raise UsageError("a plain number has no class to agree on", "read its divergence instead")
    if reading.normaliser == "sigmoid":
        return ((original > 0) == (changed > 0)).all(dim=-1).float()
    if reading.task == "question_answering":
        ends = [logits.masked_fill(~mask[..., None], -torch.inf).argmax(dim=1) for logits in (original, changed)]
        return (ends[0] == ends[1]).all(dim=-1).float()
    same = (original.argmax(dim=-1) == changed.argmax(dim=-1)).float()
    if reading.task == "token_classification":
        return (same * mask).sum(dim=-1) / mask.sum(dim=-1)
    return same
