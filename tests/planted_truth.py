"""A model whose decision rests on known words, so that masks and searches have a right answer."""

from __future__ import annotations

import tiny_models
import torch
from torch import Tensor, nn

import whence


class NeedsBoth(nn.Module):
    """Says "yes" iff "good" and "film" are both in the text, and neither position nor number matters."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 3)
        self.same = nn.Identity()
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.embedding.weight[:, 2] = 1.0
            self.embedding.weight[vocabulary["good"], 0] = 1.0
            self.embedding.weight[vocabulary["film"], 1] = 1.0

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        h = self.same(self.embedding(ids)) * mask[..., None]
        there = h[..., :2].max(dim=1).values.sum(dim=1)
        return torch.stack([torch.zeros_like(there), 8 * there - 12], dim=1)


def needs_both() -> whence.LayeredModel:
    tokenizer = tiny_models.word_tokenizer()
    module = NeedsBoth(tokenizer.vocabulary)
    return whence.load(module, tokenizer, blocks=[module.same], labels=["no", "yes"])
