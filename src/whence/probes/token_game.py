"""The game whose Shapley values are learnt: tokens (or words) come and go, and the target is what they earn together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.models.batching import micro_batches, reads_padding
from whence.models.hiding import usual_stand_in
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.models.players import player_of_each_token
from whence.selection import Selection
from whence.units import UnitName

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class BatchPlayers:
    """Who plays: the player that each token belongs to (-1: it always stays), and how many there are."""

    of_token: Int[Tensor, "batch token"]
    number: Int[Tensor, " batch"]

    @classmethod
    def of(cls, inputs: Inputs, units: UnitName) -> BatchPlayers:
        if units == "token":
            free = inputs.mask & ~inputs.special
            of_token = torch.where(free, free.cumsum(dim=1) - 1, -1)
        else:
            of_token = torch.full(inputs.ids.shape, -1)
            for row, encoding in enumerate(inputs.encodings):
                players = player_of_each_token(encoding, units)
                of_token[row, : len(players)] = torch.tensor([-1 if each is None else each for each in players])
            of_token = of_token.to(inputs.ids.device)
        return cls(of_token, of_token.amax(dim=1) + 1)

    @property
    def free(self) -> Bool[Tensor, "batch token"]:
        return self.of_token >= 0

    def tokens(self, present: Bool[Tensor, "batch set player"]) -> Bool[Tensor, "batch set token"]:
        """The tokens that are there when these players are; those that always stay too."""
        index = self.of_token.clamp(min=0)[:, None].expand(-1, present.shape[1], -1)
        return present.gather(2, index) | ~self.free[:, None]

    def sums(self, values: Float[Tensor, "batch *target token"]) -> Float[Tensor, "batch *target player"]:
        """Values of tokens, summed up for each player; 0 where a text has fewer players than others."""
        index = self.of_token.clamp(min=0)
        while index.ndim < values.ndim:
            index = index[:, None]
        free = (self.of_token >= 0).view(len(index), *[1] * (values.ndim - 2), -1)
        sums = values.new_zeros(*values.shape[:-1], max(1, int(self.number.max())))
        return sums.scatter_add_(-1, index.expand_as(values), torch.where(free, values, 0.0))

    @property
    def there(self) -> Bool[Tensor, "batch player"]:
        """Which players each text has."""
        return torch.arange(max(1, int(self.number.max())), device=self.number.device) < self.number[:, None]

    def spread(self, values: Float[Tensor, "batch player"]) -> Float[Tensor, "batch token"]:
        """Values of players, shared evenly among the tokens of each."""
        sizes = self.sums(torch.ones_like(self.of_token, dtype=values.dtype)).clamp(min=1)
        return torch.where(self.free, (values / sizes).gather(1, self.of_token.clamp(min=0)), 0.0)

    def efficient(
        self, values: Float[Tensor, "batch target token"], earned: Float[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target token"]:
        """The values shifted, by the same amount for each player, so that they add up to what all earn together."""
        values = torch.where(self.free[:, None], values, 0.0)
        missing = (earned - values.sum(dim=-1)) / self.number[:, None]
        even = self.spread(self.there.to(values))
        return values + missing[..., None] * even[:, None]


def absent_word(model: LayeredModel) -> Float[Tensor, " embedding"]:
    """The word embedding that stands for an absent token: the mask's, else the padding's, else zero."""
    stand_in = usual_stand_in(model)
    if stand_in == "zero":
        return torch.zeros_like(model.embed(torch.zeros((1, 1), dtype=torch.long, device=model.device))[0, 0])
    number = model.tokenizer.masking if stand_in == "mask" else model.tokenizer.padding
    return model.embed(torch.tensor([[number]], device=model.device))[0, 0]


def earned(
    model: LayeredModel,
    inputs: Inputs,
    selection: Selection,
    present: Bool[Tensor, "batch set token"],
    batch_tokens: int,
) -> Float[Tensor, "batch set part"]:
    """What each part of a text's target is with only the tokens of each of its sets there."""
    nobody = absent_word(model)
    lengths = [len(encoding) for encoding in inputs.encodings]
    n_sets = present.shape[1]
    found = torch.zeros(len(inputs), n_sets, selection.indices.shape[1], device=present.device)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    equal = reads_padding(model, inputs.encodings)
    with model.held(), torch.no_grad():
        for batch in micro_batches(order, lambda row: n_sets * lengths[row], batch_tokens, equal=equal):
            some = torch.tensor(batch, device=present.device)
            one = inputs.rows(some, batch)
            length = one.ids.shape[1]
            words = model.embed(one.ids)
            at_once = max(1, batch_tokens // (len(batch) * length))
            for sets in torch.arange(n_sets, device=present.device).split(at_once):
                here = present[some[:, None], sets, :length, None]
                numbers = [row for row in range(len(batch)) for _ in range(len(sets))]
                rows = torch.tensor(numbers, device=present.device)
                part = one if len(sets) == 1 else one.rows(rows, numbers)
                logits = model.resume("embeddings", torch.where(here, words[:, None], nobody).flatten(0, 1), part)
                told = selection.rows(some[rows]).parts(logits, part.mask)
                found[some[:, None], sets] = told.unflatten(0, (len(batch), len(sets)))
    return found


def earned_by_nobody(
    model: LayeredModel, inputs: Inputs, selection: Selection, players: BatchPlayers, batch_tokens: int
) -> tuple[Float[Tensor, "batch part"], Int[Tensor, " batch"]]:
    """What each target is when no player is there, and the passes each text cost: texts that then look alike share one.

    A text of which only the special tokens are left is told from another by its length alone, most often.
    """
    left = torch.where(players.free, -1, inputs.ids)
    columns = [left, *inputs.features.values()]
    if inputs.read_at is not None:
        columns.append(inputs.read_at[:, None])
    if inputs.reference is not None:  # and what it is compared with
        columns.append(torch.arange(len(inputs), device=left.device)[:, None])
    _, alike = torch.unique(torch.cat([*columns, inputs.mask.long()], dim=1), dim=0, return_inverse=True)
    rows = torch.arange(len(inputs), device=left.device)
    first = torch.full((int(alike.max()) + 1,), len(inputs), device=left.device).scatter_reduce_(0, alike, rows, "amin")
    logits = _empty_logits(model, inputs, first, players, batch_tokens)
    passes = torch.zeros(len(inputs), dtype=torch.long, device=left.device)
    passes[first] = 1
    return selection.parts(logits[alike], inputs.mask), passes


def _empty_logits(
    model: LayeredModel, inputs: Inputs, rows: Int[Tensor, " row"], players: BatchPlayers, batch_tokens: int
) -> Float[Tensor, "row *token label"]:
    nobody, width = absent_word(model), inputs.ids.shape[1]
    lengths = [len(inputs.encodings[row]) for row in rows.tolist()]
    equal = reads_padding(model, inputs.encodings)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    found: dict[int, Tensor] = {}
    with model.held(), torch.no_grad():
        for batch in micro_batches(order, lengths.__getitem__, batch_tokens, equal=equal):
            some = rows[torch.tensor(batch, device=rows.device)]
            part = inputs.rows(some)
            gone = players.free[some, : part.ids.shape[1], None]
            logits = model.resume("embeddings", torch.where(gone, nobody, model.embed(part.ids)), part)
            if logits.ndim == 3 and logits.shape[1] == part.ids.shape[1]:  # an answer for each token
                logits = torch.nn.functional.pad(logits, (0, 0, 0, width - logits.shape[1]))
            found |= dict(zip(batch, logits, strict=True))
    return torch.stack([found[index] for index in range(len(lengths))])
