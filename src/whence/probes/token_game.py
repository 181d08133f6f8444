"""The game whose Shapley values are learnt: tokens (or words) come and go; the target is what they earn together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.models.batching import micro_batches, reads_padding
from whence.models.fingerprint import is_changed_on_purpose
from whence.models.hiding import stand_in_word, usual_stand_in
from whence.models.inputs import Inputs, moved
from whence.models.layered import LayeredModel
from whence.models.parts import first_weight
from whence.models.players import player_of_each_token
from whence.selection import Selection
from whence.units import UnitName

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SMALL = 1_024  # numbers of an output that is remembered
MOST_REMEMBERED = 4_096


@dataclass(frozen=True, eq=False)
class BatchPlayers:
    """Who plays: the tokens that are `free` to come and go, while the others always stay, and whose they are.

    `gathered` is the player that each token belongs to, -1 for those that stay; None: each is a player of its own, so
    that nothing need be gathered.
    """

    free: Bool[Tensor, "batch token"]
    gathered: Int[Tensor, "batch token"] | None = None

    @classmethod
    def of(cls, inputs: Inputs, units: UnitName) -> BatchPlayers:
        if units == "token":
            return cls(~inputs.special)
        table = np.full(inputs.ids.shape, -1)
        for row, encoding in enumerate(inputs.encodings):
            players = player_of_each_token(encoding, units)
            table[row, : len(players)] = [-1 if each is None else each for each in players]
        return cls.of_tokens(moved(table, inputs.ids.device))

    @classmethod
    def of_tokens(cls, gathered: Int[Tensor, "batch token"]) -> BatchPlayers:
        """Those to whom tokens belong by these numbers."""
        return cls(gathered >= 0, gathered)

    @property
    def alone(self) -> bool:
        """Whether each player is one token."""
        return self.gathered is None

    @cached_property
    def of_token(self) -> Int[Tensor, "batch token"]:
        """The player that each token belongs to, -1 for those that always stay."""
        return self.free.cumsum(dim=1) * self.free - 1 if self.gathered is None else self.gathered

    @cached_property
    def n_free(self) -> Int[Tensor, " batch"]:
        """How many tokens come and go."""
        return self.free.sum(dim=1)

    @cached_property
    def number(self) -> Int[Tensor, " batch"]:
        """How many players there are."""
        return self.n_free if self.gathered is None else self.gathered.amax(dim=1) + 1

    @cached_property
    def _index(self) -> Int[Tensor, "batch token"]:
        return self.of_token.clamp(min=0)

    @cached_property
    def _most(self) -> int:
        return max(1, int(self.number.max()))

    def tokens(self, present: Bool[Tensor, "batch set player"]) -> Bool[Tensor, "batch set token"]:
        """The tokens that are there when these players are; those that always stay too."""
        index = self._index[:, None].expand(-1, present.shape[1], -1)
        return present.gather(2, index) | ~self.free[:, None]

    def sums(self, values: Float[Tensor, "batch *target token"]) -> Float[Tensor, "batch *target player"]:
        """Values of tokens, summed up for each player; 0 where a text has fewer players than others."""
        index, free = (
            each.view(len(each), *[1] * (values.ndim - 2), -1).expand_as(values) for each in (self._index, self.free)
        )
        sums = values.new_zeros(*values.shape[:-1], self._most)
        return sums.scatter_add_(-1, index, torch.where(free, values, 0.0))

    def by_player(self, values: Float[Tensor, "batch token"]) -> Float[Tensor, "batch place"]:
        """Values of tokens as they were `played`, summed up for each player: who is alone has its own place.

        At places where there is no player they are 0.
        """
        return values if self.alone else self.sums(values)

    @cached_property
    def share(self) -> Float[Tensor, "batch token"]:
        """What part of its player each token is: one of so many; 0 for those that always stay."""
        free = self.free.float()
        return free if self.alone else free / self.sums(free).gather(1, self._index).clamp(min=1)

    def spread(self, values: Float[Tensor, "batch place"]) -> Float[Tensor, "batch token"]:
        """Values of players, at the places of `by_player`, shared evenly among the tokens of each."""
        of_its_own = values if self.alone else values.gather(1, self._index)
        return self.share.to(values) * of_its_own

    def played(self, values: Float[Tensor, "*any batch target token"]) -> Float[Tensor, "*any batch target token"]:
        """The values of those that come and go; 0 for those that always stay."""
        return torch.where(self.free[:, None], values, 0.0)

    def efficient(
        self, values: Float[Tensor, "batch target token"], earned: Float[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target token"]:
        """The values shifted, by the same amount for each player, so that they add up to what all earn together."""
        return self.shifted(self.played(values), earned)

    def shifted(
        self, played: Float[Tensor, "batch target token"], earned: Float[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target token"]:
        """The same of values that were `played`."""
        missing = (earned - played.sum(dim=-1)) / self.number[:, None]
        return torch.addcmul(played, missing[..., None], self.share.to(played)[:, None])


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
class Outputs:
    """What a model says of texts without any player, and where that stands by how they look."""

    places: Mapping[Hashable, int]
    logits: Float[Tensor, "place *token label"]

    def of(self, looks: Sequence[Hashable]) -> Float[Tensor, "look *token label"]:
        """The logits of texts that look so."""
        places = [self.places[look] for look in looks]
        if len(places) == 1:  # nothing need be copied
            return self.logits[places[0] : places[0] + 1]
        return self.logits[moved(np.array(places), self.logits.device)]

    def and_these(self, more: Mapping[Hashable, Float[Tensor, "*token label"]]) -> Outputs:
        places = {look: place for place, look in enumerate(more, len(self.places))}
        added = torch.stack(list(more.values()))
        return Outputs({**self.places, **places}, torch.cat([self.logits, added]) if self.places else added)


_NONE = Outputs({}, torch.zeros(0, 0))


@dataclass(frozen=True, eq=False)
class Nobody:
    """What a model says of texts without any player: texts that then look alike, most often by their length, share it.

    Outputs are remembered as long as they are small, so that a new text costs no pass of its own.
    """

    remembered: dict[Hashable, Outputs] = field(default_factory=dict)

    def earned(
        self, model: LayeredModel, inputs: Inputs, selection: Selection, players: BatchPlayers, batch_tokens: int
    ) -> tuple[Float[Tensor, "batch part"], Int[Tensor, " batch"]]:
        """What each part of each text's target is then, and the passes that each text cost."""
        forgets = is_changed_on_purpose(model.module) or inputs.reference is not None or model.reading.responds
        weight = first_weight(model.stack.embedding)
        width = inputs.ids.shape[1] if model.reading.per_token else None  # an output is as long as the batch is wide
        kind = (weight.device, weight.dtype, width)
        known = _NONE if forgets else self.remembered.get(kind, _NONE)
        looks = _looks(inputs, players)
        new: dict[Hashable, int] = {}  # rows of texts that look as none did before
        for row, look in enumerate(looks):
            if look not in known.places:
                new.setdefault(look, row)
        if new:
            said = dict(_empty_logits(model, inputs, list(new.values()), players, batch_tokens))
            known = known.and_these({look: said[row] for look, row in new.items()})
            held = sum(len(each.places) for each in self.remembered.values())
            if not forgets and known.logits[0].numel() <= SMALL and held + len(new) <= MOST_REMEMBERED:
                self.remembered[kind] = known
        passes = torch.zeros(len(inputs), dtype=torch.long)
        for row in new.values():
            passes[row] = 1
        return selection.parts(known.of(looks), inputs.mask), passes


def _looks(inputs: Inputs, players: BatchPlayers) -> list[Hashable]:
    """All that is left of each text when no player is there, as bytes."""
    tables = inputs.in_memory
    stays = tables.special if players.alone else ~players.free.cpu().numpy()
    left = (np.where(stays, tables.ids, -1), *tables.features)
    looks: list[Hashable] = [
        b"".join(table[row, :length].tobytes() for table in left) for row, length in enumerate(tables.lengths)
    ]
    if inputs.read_at is not None:
        looks = list(zip(looks, inputs.read_at.reshape(len(inputs), -1)[:, 0].tolist(), strict=True))
    return looks if inputs.reference is None else list(enumerate(looks))  # what a text is compared with is its own


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
