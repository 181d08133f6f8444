"""Who plays where tokens are taken away: tokens one by one, or the units asked for, each of which goes as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Layer
from whence.methods.baselines import removable
from whence.methods.question import Question
from whence.models.players import player_of_each_token

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Players:
    """The players of one text: `of_token` is the player of each token, -1 where the token always stays."""

    of_token: Int[Tensor, " token"]

    @cached_property
    def count(self) -> int:
        return int(self.of_token.max()) + 1

    @cached_property
    def _sizes(self) -> Int[Tensor, " player"]:
        """How many tokens each has."""
        return torch.bincount(self.of_token[self.of_token >= 0], minlength=self.count)

    def keep(self, present: Bool[Tensor, "set player"]) -> Bool[Tensor, "set token"]:
        """The tokens that are there when these players are."""
        return torch.cat([present, torch.ones(len(present), 1, dtype=torch.bool)], dim=1)[:, self.of_token]

    def spread(self, scores: Float[Tensor, "*output player"]) -> Float[Tensor, "*output token"]:
        """The players' scores as scores of tokens, each an equal share of its player's."""
        return torch.cat([scores / self._sizes, torch.zeros_like(scores[..., :1])], dim=-1)[..., self.of_token]


def players_of(question: Question, layer: Layer, special: bool | None) -> list[Players]:
    """The players of each text at a layer; special tokens that may be taken away go one by one, whatever the units."""
    may_go = removable(question, layer, special).cpu()
    if question.units == "token":
        return [Players(of_token) for of_token in torch.where(may_go, may_go.cumsum(dim=1) - 1, -1)]
    found = []
    for row, encoding in zip(may_go, question.inputs.encodings, strict=True):
        units = player_of_each_token(encoding, question.units)
        count = max((unit for unit in units if unit is not None), default=-1) + 1
        of_token = torch.full(row.shape, -1)
        for position, (token, unit) in enumerate(zip(encoding.tokens, units, strict=True)):
            if unit is not None:
                of_token[position] = unit
            elif token.special and row[position]:
                of_token[position] = count
                count += 1
        found.append(Players(of_token))
    return found
