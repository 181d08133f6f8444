"""The network of amortised Shapley values: it reads a text's states once and gives every token's share of any target.

What it says of a token is a vector; what is asked about (a class, a word of the vocabulary, an end of an answer) is
another; the share is their product. So all targets of a text come from one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from whence.explanation import Layer

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

OUTPUTS = ("shapley", "relevance")
"""What a network gives of each token: its Shapley value, and its share by relevance (`whence.methods.relevance`)."""
HEAD = 32  # features of an attention head


class Shares(nn.Module):
    """States of several layers, summed up token by token, then some blocks that let tokens see each other.

    Args:
        widths: the layers to read, each with its number of features, the highest last.
        width: features of a token inside the network.
        n_blocks: transformer blocks; none: each token is judged by its own states alone.
        n_labels: classes of the model; None: labels are words, read by their embedding.
        by_token: whether a target stands at a token (a tag, an end of an answer, a word of a response) and is read by
            its state.
    """

    def __init__(
        self, widths: Mapping[Layer, int], width: int, n_blocks: int, n_labels: int | None, by_token: bool
    ) -> None:
        super().__init__()
        self.widths, self.width, self.n_blocks = dict(widths), width, n_blocks
        self.n_labels, self.by_token = n_labels, by_token
        self.layers: tuple[Layer, ...] = tuple(widths)
        self.read = nn.Linear(sum(widths.values()), width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, len(OUTPUTS) * width)
        nn.init.normal_(self.outer.weight, std=0.02 * width**-0.5)  # all shares start alike
        nn.init.zeros_(self.outer.bias)
        if n_labels is None:
            self.word = nn.Linear(widths["embeddings"], len(OUTPUTS) * width)
        else:
            self.label = nn.Parameter(torch.randn(n_labels, len(OUTPUTS) * width))
        if by_token:
            self.at = nn.Linear(widths[self.layers[-1]], len(OUTPUTS) * width)

    def forward(
        self,
        states: Mapping[Layer, Float[Tensor, "batch token _"]],
        mask: Bool[Tensor, "batch token"] | None,
        targets: Int[Tensor, "batch target index 2"],
        words: Float[Tensor, "batch target index _"] | None,
        counted: Bool[Tensor, "batch target index"] | None = None,
    ) -> Float[Tensor, "output batch target token"]:
        """Each token's share of each target, which is a sum over some (token, label) of the model's output.

        Without a `mask` no text is padded. `words` are the embeddings of the labels, where these are words; of targets
        that have fewer of them than others, only some are `counted`.
        """
        read = [states[layer] for layer in self.layers]
        if len({state.shape[-1] for state in read}) == 1:
            joined = _normed(_apart(torch.stack(read, dim=2))).flatten(2)
        else:
            joined = torch.cat([_normed(_apart(state)) for state in read], dim=-1)
        hidden = self.read(joined)
        seen = None if mask is None else mask[:, None, None, :]
        for block in self.blocks:
            hidden = block(hidden, seen)
        told = self.outer(gelu(self.inner(_normed(hidden))))
        asked = self.label[targets[..., 1]] if words is None else self.word(_normed(words))
        if self.by_token:
            rows = torch.arange(len(targets), device=targets.device)[:, None, None]
            asked = asked + self.at(_normed(_apart(read[-1])[rows, targets[..., 0]]))
        if counted is not None:
            asked = asked * counted[..., None]
        asked, told = (each.view(*each.shape[:2], len(OUTPUTS), self.width) for each in (asked.sum(dim=2), told))
        shares: Tensor = asked.permute(2, 0, 1, 3) @ told.permute(2, 0, 3, 1)
        return shares


class Block(nn.Module):
    """A transformer block: attention, then a perceptron, each reading a norm of what it adds to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n_heads = max(1, width // HEAD)
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(
        self, hidden: Float[Tensor, "batch token width"], seen: Bool[Tensor, "batch 1 1 token"] | None
    ) -> Float[Tensor, "batch token width"]:
        joint = self.joint(_normed(hidden)).view(*hidden.shape[:2], 3, self.n_heads, -1)
        query, key, value = joint.permute(2, 0, 3, 1, 4).unbind()
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2).flatten(2)
        hidden = hidden + self.out(mixed)
        changed: Tensor = hidden + self.outer(gelu(self.inner(_normed(hidden))))
        return changed


def _apart(state: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """In float32, and no part of the model's graph."""
    return state.detach().float()


def _normed(hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    return layer_norm(hidden, hidden.shape[-1:])
