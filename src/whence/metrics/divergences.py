"""How far two distributions are apart; natural logarithms, differentiable, finite gradients at zeros.

The last axis is the distribution's; where both sides are zero, as at masked positions, it adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float


def total_variation(p: Float[Tensor, "*batch token"], q: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch"]:
    """½ Σ |p − q|: the most by which the two differ about any event, from 0 to 1.

    >>> float(total_variation(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])))
    0.5
    """
    return (p - q).abs().sum(dim=-1) / 2


def kullback_leibler(p: Float[Tensor, "*batch token"], q: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch"]:
    """Σ p log(p / q); +∞ where p has weight on a token to which q gives none."""
    impossible = ((p > 0) & (q == 0)).any(dim=-1)
    return _relative(p, q).masked_fill(impossible, torch.inf)


def jensen_shannon(p: Float[Tensor, "*batch token"], q: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch"]:
    """½ KL(p ‖ m) + ½ KL(q ‖ m) with m between them: symmetric, from 0 (equal) to ln 2 (nothing in common).

    >>> round(float(jensen_shannon(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))), 4)
    0.6931
    """
    middle = (p + q) / 2
    return (_relative(p, middle) + _relative(q, middle)) / 2


def _relative(p: Float[Tensor, "*batch token"], q: Float[Tensor, "*batch token"]) -> Float[Tensor, "*batch"]:
    smallest = torch.finfo(p.dtype).tiny  # log 0 would be infinite, and its product with 0 NaN
    return (p * (p.clamp(min=smallest).log() - q.clamp(min=smallest).log())).sum(dim=-1)
