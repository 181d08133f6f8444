"""The game whose Shapley values are learnt: tokens (or words) come and go; the target is what they earn together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.models.batching import micro_batches, reads_padding
from whence.models.fingerprint import is_changed_on_purpose
from whence.models.hiding import stand_in_word, usual_stand_in
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.models.players import player_of_each_token
from whence.selection import Selection
from whence.units import UnitName

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SMALL = 1_024  # numbers of an output that is remembered
MOST_REMEMBERED = 4_096


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
    """The word embedding that stands for an absent token, as for Shapley sampling by default."""
    return stand_in_word(model, usual_stand_in(model))


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
            for start in range(0, n_sets, at_once):
                sets = slice(start, min(start + at_once, n_sets))
                here = present[some, sets, :length, None]
                numbers = [row for row in range(len(batch)) for _ in range(sets.stop - start)]
                rows = torch.tensor(numbers, device=present.device)
                part = one.rows(rows, numbers)
                logits = model.resume("embeddings", torch.where(here, words[:, None], nobody).flatten(0, 1), part)
                told = selection.rows(some[rows]).parts(logits, part.mask)
                found[some, sets] = told.reshape(len(batch), sets.stop - start, -1)
    return found


@dataclass(frozen=True, eq=False)
class Nobody:
    """What a model says of texts without any player: texts that then look alike, most often by their length, share it.

    Outputs are remembered as long as they are small, so that a new text costs no pass of its own.
    """

    remembered: dict[bytes, Tensor] = field(default_factory=dict)

    def earned(
        self, model: LayeredModel, inputs: Inputs, selection: Selection, players: BatchPlayers, batch_tokens: int
    ) -> tuple[Float[Tensor, "batch part"], Int[Tensor, " batch"]]:
        """What each part of each text's target is then, and the passes that each text cost."""
        looks = _looks(inputs, players, model)
        forgets = is_changed_on_purpose(model.module) or inputs.reference is not None or model.reading.responds
        known = {} if forgets else self.remembered
        first = {look: row for row, look in reversed(list(enumerate(looks)))}
        new = sorted(row for look, row in first.items() if look not in known)
        found = {looks[row]: logits for row, logits in _empty_logits(model, inputs, new, players, batch_tokens)}
        logits = {look: found[look] if look in found else known[look] for look in first}
        if found and next(iter(found.values())).numel() <= SMALL and len(known) + len(found) <= MOST_REMEMBERED:
            known |= found
        order = {look: index for index, look in enumerate(logits)}
        alike = torch.tensor([order[look] for look in looks], device=inputs.ids.device)
        passes = torch.zeros(len(inputs), dtype=torch.long)
        passes[new] = 1
        return selection.parts(torch.stack(list(logits.values()))[alike], inputs.mask), passes


def _looks(inputs: Inputs, players: BatchPlayers, model: LayeredModel) -> list[bytes]:
    """All that is left of each text when no player is there."""
    kind = f"{model.device} {next(model.stack.embedding.parameters()).dtype}"
    columns = [torch.where(players.free, -1, inputs.ids), *inputs.features.values()]
    if inputs.read_at is not None:
        columns.append(inputs.read_at.reshape(len(inputs), -1)[:, :1].expand_as(inputs.ids))
    if inputs.reference is not None:  # and what it is compared with
        columns.append(torch.arange(len(inputs), device=inputs.ids.device)[:, None].expand_as(inputs.ids))
    table = torch.stack(columns, dim=2).cpu().numpy()
    if model.reading.per_token:  # an output as long as the batch is wide
        kind += f" {inputs.ids.shape[1]}"
    return [kind.encode() + row[: len(text)].tobytes() for row, text in zip(table, inputs.encodings, strict=True)]


def _empty_logits(
    model: LayeredModel, inputs: Inputs, rows: Sequence[int], players: BatchPlayers, batch_tokens: int
) -> Iterator[tuple[int, Float[Tensor, "*token label"]]]:
    nobody, width = absent_word(model), inputs.ids.shape[1]
    equal = reads_padding(model, inputs.encodings)
    length = lambda row: len(inputs.encodings[row])  # noqa: E731
    with model.held(), torch.no_grad():
        for batch in micro_batches(sorted(rows, key=length), length, batch_tokens, equal=equal):
            some = torch.tensor(batch, device=inputs.ids.device)
            part = inputs.rows(some, batch)
            gone = players.free[some, : part.ids.shape[1], None]
            logits = model.resume("embeddings", torch.where(gone, nobody, model.embed(part.ids)), part)
            if model.reading.per_token:
                logits = torch.nn.functional.pad(logits, (0, 0, 0, width - logits.shape[1]))
            yield from zip(batch, logits, strict=True)
