"""The encoders below an attention layer: word embeddings in, one state per token out.

An encoder has `start`, which turns word embeddings into h_0, and `blocks`, each a function of states and mask, so that
whence can resume it at any layer. Both give the same states alone and in a padded batch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from whence.models.projections import softmax

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class BiLSTMEncoder(nn.Module):
    """One bidirectional LSTM layer over the word embeddings, which are h_0."""

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.size = 2 * hidden_size
        self.blocks = nn.ModuleList([BiLSTMBlock(embedding_size, hidden_size)])

    def start(
        self, words: Float[Tensor, "batch token embedding"], positions: Int[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token embedding"]:
        return words


class BiLSTMBlock(nn.Module):
    """Two LSTMs that do not read padding, one from the first token to the last and one back, side by side.

    The way back reads each text turned around within its own length: torch's packed sequences do the same with
    hundreds of small operations and a wait for the device.
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.onward = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.back = nn.LSTM(embedding_size, hidden_size, batch_first=True)

    def train(self, mode: bool = True) -> BiLSTMBlock:
        """cuDNN refuses the backward pass in evaluation mode; without dropout the two modes do the same."""
        super().train(mode)
        self.onward.train()
        self.back.train()
        return self

    def forward(
        self, hidden: Float[Tensor, "batch token embedding"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token hidden"]:
        positions = torch.arange(mask.shape[1], device=mask.device)
        turned = (mask.sum(dim=1, keepdim=True) - 1 - positions).where(mask, positions)
        onward, _ = self.onward(hidden)
        back, _ = self.back(_at(hidden, turned))
        states = torch.cat([onward, _at(back, turned)], dim=-1)
        return states.masked_fill(~mask[..., None], 0.0)


def _at(
    hidden: Float[Tensor, "batch token hidden"], positions: Int[Tensor, "batch token"]
) -> Float[Tensor, "batch token hidden"]:
    return hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))


class TransformerEncoder(nn.Module):
    """Post-norm Transformer blocks over projected word embeddings with sinusoidal positions, which are h_0."""

    def __init__(
        self, embedding_size: int, hidden_size: int, n_blocks: int, n_heads: int, feed_forward_size: int, dropout: float
    ) -> None:
        super().__init__()
        self.size = hidden_size
        self.project = nn.Linear(embedding_size, hidden_size)
        self.blocks = nn.ModuleList(
            TransformerBlock(hidden_size, n_heads, feed_forward_size, dropout) for _ in range(n_blocks)
        )

    def start(
        self, words: Float[Tensor, "batch token embedding"], positions: Int[Tensor, "batch token"] | None = None
    ) -> Float[Tensor, "batch token hidden"]:
        hidden: Tensor = self.project(words)
        if positions is None:
            positions = torch.arange(words.shape[1], device=words.device)[None]
        return hidden + sinusoids(positions, self.size).to(hidden)


class TransformerBlock(nn.Module):
    """A post-norm Transformer block as torch's `TransformerEncoderLayer`, which hides its weights and its parts."""

    def __init__(self, hidden_size: int, n_heads: int, feed_forward_size: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.mixed = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.feed_forward = nn.Sequential(
            nn.Linear(hidden_size, feed_forward_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(feed_forward_size, hidden_size),
        )
        self.last_norm = nn.LayerNorm(hidden_size)
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.query_key_value.weight)  # as torch starts it too
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.mixed.bias)

    def forward(
        self, hidden: Float[Tensor, "batch token hidden"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch token hidden"]:
        query, key, value = self._heads(hidden)
        context = scaled_dot_product_attention(
            query, key, value, mask[:, None, None], self.dropout.p if self.training else 0.0
        )
        hidden = self.norm(hidden + self.dropout(self.mixed(context.transpose(1, 2).flatten(start_dim=2))))
        states: Tensor = self.last_norm(hidden + self.dropout(self.feed_forward(hidden)))
        return states

    def attention(
        self, hidden: Float[Tensor, "batch token hidden"], mask: Bool[Tensor, "batch token"]
    ) -> Float[Tensor, "batch attention_head query key"]:
        """The weights with which this block reads the states that it is given."""
        query, key, _ = self._heads(hidden)
        return softmax(query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]), mask[:, None, None])

    def _heads(
        self, hidden: Float[Tensor, "batch token hidden"]
    ) -> list[Float[Tensor, "batch attention_head token part"]]:
        parts = self.query_key_value(hidden).chunk(3, dim=-1)
        return [part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts]


def sinusoids(positions: Int[Tensor, "batch token"], size: int) -> Float[Tensor, "batch token hidden"]:
    """Sines (even coordinates) and cosines (odd ones) of the position at geometrically spaced wavelengths."""
    coordinates = torch.arange(size, device=positions.device)
    rates = torch.exp(-math.log(10_000.0) * (coordinates // 2 * 2) / size)
    angles = positions[..., None] * rates
    return torch.where(coordinates % 2 == 0, angles.sin(), angles.cos())
