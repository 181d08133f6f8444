"""Coalitions drawn from the Shapley kernel: of all ways to split the players in two, those that tell most.

A size of k of n players has the weight 1 / (k (n - k)); each coalition comes with its complement. The values that
minimise the squared error of v(nobody) + Σ values over such coalitions, while they add up to what all earn together,
are the Shapley values (Charnes et al., 1988).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def coalitions(
    number: Int[Tensor, " batch"], chance: Float[Tensor, "batch pair some"]
) -> Bool[Tensor, "batch 2*pair player"]:
    """Pairs of a coalition and its complement, of texts with so many players each.

    `chance` is uniform on (0, 1): one number for the size, then one per player.
    """
    most = max(1, int(number.max()))
    there = torch.arange(most, device=number.device) < number[:, None]
    size = _sizes(number, chance[..., 0])
    drawn = chance[..., 1 : most + 1].masked_fill(~there[:, None], torch.inf)
    ranks = drawn.argsort(dim=-1).argsort(dim=-1)
    one = ranks < size[..., None]
    return torch.stack([one, ~one & there[:, None]], dim=2).flatten(1, 2)


def _sizes(number: Int[Tensor, " batch"], chance: Float[Tensor, "batch pair"]) -> Int[Tensor, "batch pair"]:
    """From 1 to n - 1 players by the kernel's weights; 0 where there is but one player."""
    n = number[:, None].double()
    sizes = torch.arange(1, max(2, int(number.max())), device=number.device)
    weights = torch.where(sizes < n, 1 / (sizes * (n - sizes)).clamp(min=1), 0.0)
    total = weights.sum(dim=1, keepdim=True)
    shares = weights.cumsum(dim=1) / total.clamp(min=torch.finfo(torch.float64).tiny)
    found = 1 + torch.searchsorted(shares, chance.double().contiguous())
    return torch.where(total > 0, found.clamp(max=number[:, None] - 1), 0)
