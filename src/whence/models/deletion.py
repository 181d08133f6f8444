"""Texts run with some of their tokens deleted: what is left moves together, as if the rest had never been written.

The ids that are left are what a fresh run would be given; nothing is tokenised again. Of a text of which nothing is
left, the token stays with which texts begin (or the mask, or the padding), and where there is none, one position whose
word embedding is zero. A decoder is never shown what stands behind the token at which it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from whence.models.batching import differ, micro_batches, reads_padding
from whence.models.inputs import Encoding, Inputs, KeysAndValues
from whence.models.layered import LayeredModel
from whence.models.without_hidden import closed_up

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_CONTINUES: WeakKeyDictionary[LayeredModel, bool] = WeakKeyDictionary()
_WORTH_A_PASS = 0.25  # of the tokens to be run must be saved by sharing, before a pass is spent on what is shared


class Deletion:
    """A batch of texts of which any tokens can be deleted. `passes` counts the forward passes of each text.

    In a decoder, tokens do not depend on those behind them: the keys and values of what stands before the first
    deleted token are computed once for all that is asked of a text, where that saves enough.
    """

    def __init__(self, model: LayeredModel, inputs: Inputs, batch_tokens: int) -> None:
        self._model, self._inputs, self._batch_tokens = model, inputs, batch_tokens
        self._equal_lengths = reads_padding(model, _of_different_length(inputs))
        self._readable = inputs.mask.cpu()
        self._first_read: Int[Tensor, " batch"] | None = None
        if model.reading.next_token and inputs.read_at is not None:
            assert inputs.first_read is not None
            self._first_read = inputs.first_read.cpu()
            last = inputs.read_at.reshape(len(inputs), -1).amax(dim=1)
            self._readable = self._readable & (torch.arange(inputs.ids.shape[1]) <= last.cpu()[:, None])
        self.passes = torch.zeros(len(inputs), dtype=torch.long)

    def logits(
        self, rows: Int[Tensor, " row"], keep: Bool[Tensor, "row token"]
    ) -> Iterator[tuple[Int[Tensor, " _some"], Float[Tensor, "_some *token label"]]]:
        """What the model gives for texts (by their index) of which only the tokens marked in `keep` are left.

        It comes some rows at a time. Where every token has logits of its own they stand where the token stood in its
        text, and those of deleted tokens are -inf.
        """
        rows, keep = rows.cpu(), keep.cpu() & self._readable[rows.cpu()]
        before = _left_before(None if self._first_read is None else self._first_read[rows], keep)
        lengths = keep.sum(dim=1) + (before == 0)
        alike = keep.long().cumprod(dim=1).sum(dim=1)  # tokens before the first that goes
        alike = torch.minimum(alike, (before - 1).clamp(min=0))  # and before the first at which is read
        apart = []
        for text in sorted(set(rows.tolist())):
            own = (rows == text).nonzero()[:, 0]
            saved = int(alike[own].sum() - alike[own].max())
            if saved > _WORTH_A_PASS * int(lengths[own].sum()) and self._continues():
                yield from self._from_one_beginning(text, own[alike[own].argsort(stable=True)], keep, lengths, alike)
            else:
                apart.append(own)
        together = torch.cat([*apart, rows[:0]])
        for batch in self._batches(together[lengths[together].argsort(stable=True)], lengths):
            self.passes += torch.bincount(rows[batch], minlength=len(self._inputs))
            yield batch, self._run(self._texts(rows[batch]), keep[batch])

    def _from_one_beginning(
        self,
        text: int,
        own: Int[Tensor, " _own"],
        keep: Bool[Tensor, "row token"],
        lengths: Int[Tensor, " row"],
        alike: Int[Tensor, " row"],
    ) -> Iterator[tuple[Int[Tensor, " _some"], Float[Tensor, "_some *token label"]]]:
        """The rows of one text, those that begin alike for longest last."""
        past = self._past(self._texts(torch.tensor([text])), int(alike[own[-1]]))
        self.passes[text] += 1
        for batch in self._batches(own, lengths):
            self.passes[text] += len(batch)
            begin = int(alike[batch].min())
            some = self._texts(torch.full((len(batch),), text))
            yield batch, self._run(_behind(some, begin, past), keep[batch, begin:])

    def _texts(self, rows: Int[Tensor, " _some"]) -> Inputs:
        return self._inputs.rows(rows.to(self._model.device))

    def _batches(self, rows: Int[Tensor, " _some"], lengths: Int[Tensor, " row"]) -> Iterator[Int[Tensor, " _batch"]]:
        sizes = lengths.tolist()
        batches = micro_batches(rows.tolist(), sizes.__getitem__, self._batch_tokens, equal=self._equal_lengths)
        return (torch.tensor(batch) for batch in batches)

    def _run(self, inputs: Inputs, keep: Bool[Tensor, "row token"]) -> Float[Tensor, "row *token label"]:
        keep = keep[:, : inputs.ids.shape[1]].to(self._model.device)
        nothing = _left_before(inputs.first_read if self._model.reading.next_token else None, keep) == 0
        keep[:, 0] |= nothing
        left, places = closed_up(inputs, keep)
        padding = self._model.tokenizer.padding
        ids = left.ids if padding is None else left.ids.masked_fill(~left.mask, padding)
        beginning = _beginning(self._model)
        if beginning is not None:
            ids[nothing, 0] = beginning
        left = replace(left, ids=ids)
        if beginning is None and nothing.any():
            words = self._model.embed(ids)
            words[nothing, 0] = 0.0
            logits = self._model.resume("embeddings", words, left)
        else:
            logits = self._model.run(left)
        return _where_they_stood(logits, left.mask, places, inputs) if self._model.reading.per_token else logits

    def _past(self, text: Inputs, tokens: int) -> KeysAndValues:
        """The keys and values of a text's first tokens."""
        assert self._model.remember is not None
        read_at = None if text.read_at is None else torch.zeros_like(text.ids[:, 0])
        return self._model.remember(replace(text.beginning(tokens), read_at=read_at))

    def _continues(self) -> bool:
        """Whether the model gives the same when it is handed the past: looked at once, on a text and half of its end.

        What a model does with a past that it cannot use is its own matter, so any error means no.
        """
        model = self._model
        if model.remember is None or model.reading.per_token:
            return False
        if model not in _CONTINUES:
            row = int(self._readable.sum(dim=1).argmax())
            keep = self._readable[[row, row]]
            both = self._texts(torch.tensor([row, row]))
            last = int(_left_before(None if self._first_read is None else self._first_read[[row, row]], keep)[0]) - 1
            begin = (last + 1) // 2
            keep[1, begin:last:2] = False
            plain = self._run(both, keep)
            try:
                past = self._past(self._texts(torch.tensor([row])), begin)
                _CONTINUES[model] = not differ(plain, self._run(_behind(both, begin, past), keep[:, begin:]))
            except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
                _CONTINUES[model] = False
        return _CONTINUES[model]


def _left_before(first_read: Int[Tensor, " row"] | None, keep: Bool[Tensor, "row token"]) -> Int[Tensor, " row"]:
    """How many tokens are left up to where a decoder is first read; of other models, how many in all."""
    if first_read is None:
        return keep.sum(dim=1)
    places = torch.arange(keep.shape[1], device=keep.device)
    return (keep & (places <= first_read[:, None])).sum(dim=1)


def _where_they_stood(
    logits: Float[Tensor, "row left label"],
    mask: Bool[Tensor, "row left"],
    places: Int[Tensor, "row left"],
    inputs: Inputs,
) -> Float[Tensor, "row token label"]:
    found = logits.new_full((*inputs.ids.shape, logits.shape[-1]), -torch.inf)
    at = places[..., None].expand_as(logits)
    return found.scatter(1, at, logits.masked_fill(~mask[..., None], -torch.inf))


def _of_different_length(inputs: Inputs) -> list[Encoding]:
    """The longest text and its first half: texts of one length differ in length as soon as something is deleted."""
    longest = max(inputs.encodings, key=len)
    half = (len(longest) + 1) // 2
    features = {name: values[:half] for name, values in longest.features.items()}
    return [replace(longest, tokens=longest.tokens[:half], features=features), longest]


def _behind(inputs: Inputs, begin: int, past: KeysAndValues) -> Inputs:
    """The same text's tokens from `begin` on, with the keys and values of those before."""
    if begin == 0:
        return inputs
    size = len(inputs)
    return replace(
        inputs,
        ids=inputs.ids[:, begin:],
        mask=inputs.mask[:, begin:],
        special=inputs.special[:, begin:],
        features={name: values[:, begin:] for name, values in inputs.features.items()},
        read_at=None if inputs.read_at is None else inputs.read_at - begin,
        past=tuple((keys[:, :, :begin].expand(size, -1, -1, -1), values[:, :, :begin].expand(size, -1, -1, -1))
                   for keys, values in past),
    )  # fmt: skip


def _beginning(model: LayeredModel) -> int | None:
    """What stays of a text of which nothing is left."""
    choices = (getattr(model.tokenizer, "beginning", None), model.tokenizer.masking, model.tokenizer.padding)
    return next((number for number in choices if number is not None), None)
