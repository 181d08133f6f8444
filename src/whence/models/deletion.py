"""Texts run with some of their tokens deleted: what is left moves together, as if the rest had never been written.

The ids that are left are what a fresh run would be given; nothing is tokenised again. Of a text of which nothing is
left, the token stays with which texts begin (or the mask, or the padding), and where there is none, one position whose
word embedding is zero. A decoder is never shown what stands behind the token at which it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.models.batching import reads_padding
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.models.shared_beginning import SharedBeginnings, kept_at_first
from whence.models.without_hidden import closed_up

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class Deletion:
    """A batch of texts of which any tokens can be deleted; what stands before the first that goes is shared."""

    def __init__(self, model: LayeredModel, inputs: Inputs, batch_tokens: int) -> None:
        self._model, self._inputs = model, inputs
        equal_lengths = reads_padding(model, _of_different_length(inputs))
        self._beginnings = SharedBeginnings(model, inputs, batch_tokens, equal_lengths=equal_lengths)
        self._readable = inputs.mask.cpu()
        self._first_read: Int[Tensor, " batch"] | None = None
        if model.reading.next_token and inputs.read_at is not None:
            self._first_read = _last_of_prompt(model, inputs).cpu()
            last = inputs.read_at.reshape(len(inputs), -1).amax(dim=1)
            self._readable = self._readable & (torch.arange(inputs.ids.shape[1]) <= last.cpu()[:, None])

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
        unchanged = np.minimum(kept_at_first(keep.numpy()), (before - 1).clamp(min=0).numpy())  # and where it is read
        for some, texts, begin in self._beginnings.batches(rows.numpy(), unchanged, lengths.numpy()):
            batch = torch.from_numpy(some)
            yield batch, self._run(texts, keep[batch, begin:])

    @property
    def passes(self) -> Int[Tensor, " batch"]:
        """The forward passes of each text so far."""
        return self._beginnings.passes

    def _run(self, inputs: Inputs, keep: Bool[Tensor, "row token"]) -> Float[Tensor, "row *token label"]:
        keep = keep[:, : inputs.ids.shape[1]].to(self._model.device)
        last = _last_of_prompt(self._model, inputs) if self._first_read is not None else None
        nothing = _left_before(last, keep) == 0
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


def _last_of_prompt(model: LayeredModel, inputs: Inputs) -> Int[Tensor, " row"]:
    """Where a decoder is first read; of an encoder–decoder, where its source ends."""
    assert inputs.first_read is not None
    return inputs.first_read - len(getattr(model.tokenizer, "starts", ()))


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


def _beginning(model: LayeredModel) -> int | None:
    """What stays of a text of which nothing is left."""
    choices = (getattr(model.tokenizer, "beginning", None), model.tokenizer.masking, model.tokenizer.padding)
    return next((number for number in choices if number is not None), None)
