"""Projections: from attention scores to weights on the simplex, dense or sparse.

All of them give exactly zero at masked positions and at scores of −∞, and a row with nothing to attend to is all zero,
forward and backward. Sparsemax and 1.5-entmax are those of the entmax package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Projection = Callable[..., Tensor]
"""What `projection` gives: a function of (scores, mask) over the last axis; the mask may be left out."""

NAMES = ("softmax", "sparsemax", "entmax15", "sparsegen(λ)")
_SPARSEGEN = re.compile(r"sparsegen\(\s*([^()]+?)\s*\)")


def softmax(
    scores: Float[Tensor, "*batch token"], mask: Bool[Tensor, "*#batch token"] | None = None
) -> Float[Tensor, "*batch token"]:
    """exp(z_i) / Σ exp(z_j): dense."""
    return _masked(partial(torch.softmax, dim=-1), scores, mask)


def sparsemax(
    scores: Float[Tensor, "*batch token"], mask: Bool[Tensor, "*#batch token"] | None = None
) -> Float[Tensor, "*batch token"]:
    """argmin over the simplex of ‖p − z‖² (Martins & Astudillo, 2016)."""
    from entmax import sparsemax as solve

    return _masked(solve, scores, mask)


def entmax15(
    scores: Float[Tensor, "*batch token"], mask: Bool[Tensor, "*#batch token"] | None = None
) -> Float[Tensor, "*batch token"]:
    """1.5-entmax, halfway between softmax and sparsemax (Peters et al., 2019)."""
    from entmax import entmax15 as solve

    return _masked(solve, scores, mask)


def sparsegen(
    scores: Float[Tensor, "*batch token"],
    mask: Bool[Tensor, "*#batch token"] | None = None,
    *,
    sparsity: float,
) -> Float[Tensor, "*batch token"]:
    """argmin over the simplex of ‖p − z‖² − λ‖p‖² (Laha et al., 2018), which is sparsemax(z / (1 − λ)).

    λ is `sparsity`: 0 is sparsemax, towards 1 one-hot, towards −∞ uniform; softmax is no member of the family.
    """
    if not sparsity < 1:
        raise UsageError(f"sparsegen needs a sparsity below 1, got {sparsity:g}", "0 is sparsemax, -10 nearly uniform")
    from entmax import sparsemax as solve

    return _masked(lambda filled: solve(filled / (1 - sparsity)), scores, mask)


def projection(name: str) -> Projection:
    """The projection of that name: "softmax", "sparsemax", "entmax15" or, with its λ, "sparsegen(0.5)".

    >>> projection("sparsegen(0.5)")(torch.tensor([0.25, 0.0, -1.0])).tolist()
    [0.75, 0.25, 0.0]
    """
    plain: dict[str, Projection] = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
    if name in plain:
        return plain[name]
    match = _SPARSEGEN.fullmatch(name)
    try:
        sparsity = float(match.group(1)) if match else None
    except ValueError:
        sparsity = None
    if sparsity is None:
        raise UnknownNameError("projection", name, NAMES)
    if not float("-inf") < sparsity < 1:
        raise UsageError(f"{name!r} has no sparsity in (-inf, 1)", "write sparsegen(0.5), for example")
    return partial(sparsegen, sparsity=sparsity)


def _masked(
    solve: Callable[[Tensor], Tensor],
    scores: Float[Tensor, "*batch token"],
    mask: Bool[Tensor, "*#batch token"] | None,
) -> Float[Tensor, "*batch token"]:
    allowed = ~torch.isneginf(scores)
    if mask is not None:
        allowed = allowed & mask
    wide = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    # entmax reads outside its tables where a score is NaN or +∞: such a row is NaN, and other rows stay right
    broken = (allowed & (wide.isnan() | wide.isposinf())).any(dim=-1, keepdim=True)
    # a row with nothing allowed would be NaN: any finite scores do there, since its weights are erased below
    unsolved = broken | ~allowed.any(dim=-1, keepdim=True)
    filled = wide.masked_fill(~allowed, -torch.inf).masked_fill(unsolved, 0.0)
    weights: Tensor = solve(filled).masked_fill(broken, torch.nan).masked_fill(~allowed, 0.0)
    return weights.to(scores.dtype)
