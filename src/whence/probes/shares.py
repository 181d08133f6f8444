"""The network of amortised Shapley values: it reads a text's states once and gives every token's share of any target.

What it says of a token is a vector; what is asked about (a class, a word of the vocabulary, an end of an answer) is
another; the share is their product. So all targets of a text come from one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu, layer_norm, scaled_dot_product_attention

from whence.explanation import Layer
from whence.models.inputs import moved

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
        lengths: Sequence[int],
        targets: Int[Tensor, "batch target index 2"],
        words: Float[Tensor, "batch target index _"] | None,
        counted: Bool[Tensor, "batch target index"] | None = None,
    ) -> Float[Tensor, "output batch target token"]:
        """Each token's share of each target, which is a sum over some (token, label) of the model's output.

        `lengths` are the tokens of each text. `words` are the embeddings of the labels, where these are words; of
        targets that have fewer of them than others, only some are `counted`.
        """
        read = [states[layer] for layer in self.layers]
        real = RealTokens.of(lengths, read[0])
        if len({state.shape[-1] for state in read}) == 1:
            joined = _normed(_apart(real.packed(torch.stack(read, dim=2)))).flatten(1)
        else:
            joined = torch.cat([_normed(_apart(real.packed(state))) for state in read], dim=-1)
        hidden = self.read(joined)
        for block in self.blocks:
            hidden = block(hidden, real)
        told = real.padded(self.outer(gelu(self.inner(_normed(hidden)))))
        asked = embedding(targets[..., 1], self.label) if words is None else self.word(_normed(words))
        if self.by_token:
            rows = torch.arange(len(targets), device=targets.device)[:, None, None]
            asked = asked + self.at(_normed(_apart(read[-1])[rows, targets[..., 0]]))
        if counted is not None:
            asked = asked * counted[..., None]
        asked = asked[:, :, 0] if asked.shape[2] == 1 else asked.sum(dim=2)
        asked, told = (each.view(*each.shape[:2], len(OUTPUTS), self.width) for each in (asked, told))
        shares: Tensor = asked.permute(2, 0, 1, 3) @ told.permute(2, 0, 3, 1)
        return shares


@dataclass(frozen=True, eq=False)
class RealTokens:
    """Which tokens of a batch are no padding: what looks at each by itself gets these alone, one after another.

    `places` are where they stand in the batch; without padding there is no `mask` and there are no places.
    """

    shape: torch.Size
    mask: Bool[Tensor, "batch token"] | None = None
    places: Int[Tensor, " place"] | None = None

    @classmethod
    def of(cls, lengths: Sequence[int], state: Float[Tensor, "batch token _"]) -> RealTokens:
        shape = state.shape[:2]
        if min(lengths) == shape[1]:
            return cls(shape)
        mask = np.arange(shape[1]) < np.array(lengths)[:, None]  # here: a GPU would be waited for to count them
        return cls(shape, moved(mask, state.device), moved(np.flatnonzero(mask), state.device))

    def packed(self, values: Float[Tensor, "batch token *features"]) -> Float[Tensor, " place *features"]:
        flat = values.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def padded(self, values: Float[Tensor, " place *features"]) -> Float[Tensor, "batch token *features"]:
        """The values where their tokens stand in the batch; 0 at padding."""
        if self.places is not None:
            values = values.new_zeros(self.shape.numel(), *values.shape[1:]).index_copy(0, self.places, values)
        return values.view(*self.shape, *values.shape[1:])


class Block(nn.Module):
    """A transformer block: attention, then a perceptron, each reading a norm of what it adds to."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n_heads = max(1, width // HEAD)
        self.joint = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, hidden: Float[Tensor, "place width"], real: RealTokens) -> Float[Tensor, "place width"]:
        joint = real.padded(self.joint(_normed(hidden))).view(*real.shape, 3, self.n_heads, -1)
        query, key, value = joint.permute(2, 0, 3, 1, 4).unbind()
        seen = None if real.mask is None else real.mask[:, None, None, :]
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2).flatten(2)
        hidden = hidden + self.out(real.packed(mixed))
        changed: Tensor = hidden + self.outer(gelu(self.inner(_normed(hidden))))
        return changed


def _apart(state: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """In float32, and no part of the model's graph."""
    return state.detach().float()


def _normed(hidden: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    return layer_norm(hidden, hidden.shape[-1:])
