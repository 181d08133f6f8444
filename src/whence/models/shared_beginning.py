"""Many changed copies of a text that begin alike: what they begin with is run once.

In a decoder, tokens do not depend on those behind them. The keys and values of what stands before the first change are
computed once for all that is asked of a text, whether tokens are deleted, hidden or replaced, where that saves enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch

from whence.models.batching import consecutive, differ
from whence.models.inputs import Inputs, KeysAndValues, moved
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

_CONTINUES: WeakKeyDictionary[LayeredModel, bool] = WeakKeyDictionary()
_TRIED_TOKENS = 128  # of a text, on which a model is looked at once
_PER_SHARED_TOKEN = 2  # shared tokens count as one that is run: of them a row has a copy of keys and values, no more
_WORTH_A_PASS = 0.25  # of what is to be run must be saved by sharing, before a pass is spent on what is shared


class SharedBeginnings:
    """A batch of texts, each of which is asked about many times. `passes` counts the forward passes of each text.

    `equal_lengths` says that only rows of one length may be run together, and `share` how much of a pass has to be
    run for a row: less than all of it where the model is resumed above its input.
    """

    def __init__(
        self, model: LayeredModel, inputs: Inputs, batch_tokens: int, *, equal_lengths: bool, share: float = 1.0
    ) -> None:
        self._model, self._inputs, self._batch_tokens = model, inputs, batch_tokens
        self._equal_lengths, self._share = equal_lengths, share
        ends = np.array(inputs.lengths) - 1
        self._first_read = ends if inputs.first_read is None else inputs.first_read.cpu().numpy()
        self.passes = torch.zeros(len(inputs), dtype=torch.long)

    def batches(
        self,
        rows: Int[np.ndarray, " row"],
        unchanged: Int[np.ndarray, " row"],
        lengths: Int[np.ndarray, " row"],
    ) -> Iterator[tuple[Int[np.ndarray, " _some"], Inputs, int]]:
        """Rows (indices of texts), some at a time, with what is to be run of their texts and where that begins.

        `unchanged` counts the tokens with which a row begins as its text does, `lengths` those that it has in all.
        """
        unchanged = np.minimum(unchanged, self._first_read[rows])
        apart = np.ones(len(rows), dtype=bool)
        for text in self._may_share(rows, unchanged, lengths):
            own = np.flatnonzero(rows == text)
            held = lengths[own] - unchanged[own] + unchanged[own] // _PER_SHARED_TOKEN
            batches = [own[batch] for batch in self._batches(held)]
            begins = [int(unchanged[batch].min()) for batch in batches]
            saved = self._share * sum(map(lambda batch, begin: len(batch) * begin, batches, begins)) - max(begins)
            if saved <= _WORTH_A_PASS * self._share * lengths[own].sum():
                continue
            apart[own] = False
            past = past_of(self._model, self._texts(rows[own[:1]]), max(begins))
            for batch, begin in zip(batches, begins, strict=True):
                yield batch, behind(self._texts(rows[batch]), begin, past), begin
            self.passes[text] += 1 + len(own)
        together = np.flatnonzero(apart)
        for batch in self._batches(lengths[together]):
            yield together[batch], self._texts(rows[together[batch]]), 0
        self.passes += torch.from_numpy(np.bincount(rows[together], minlength=len(self._inputs)))

    def _may_share(
        self,
        rows: Int[np.ndarray, " row"],
        unchanged: Int[np.ndarray, " row"],
        lengths: Int[np.ndarray, " row"],
    ) -> list[int]:
        """The texts whose rows begin alike for long enough, if the model can go on from there."""
        if self._model.remember is None:
            return []
        n_texts = len(self._inputs)
        alike, tokens = (np.bincount(rows, each, minlength=n_texts) for each in (unchanged, lengths))
        longest = np.zeros(n_texts)
        np.maximum.at(longest, rows, unchanged)
        texts = np.flatnonzero(self._share * alike - longest > _WORTH_A_PASS * self._share * tokens).tolist()
        return texts if texts and continues(self._model, self._inputs) else []

    def _texts(self, rows: Int[np.ndarray, " _some"]) -> Inputs:
        return self._inputs.rows(moved(rows, self._model.device), rows.tolist())

    def _batches(self, sizes: Int[np.ndarray, " row"]) -> Iterator[Int[np.ndarray, " _batch"]]:
        """Rows of similar size, by their index, the smallest first."""
        order = sizes.argsort(kind="stable")
        batches = consecutive(sizes[order], self._batch_tokens, equal=self._equal_lengths)
        return (order[batch] for batch in batches)


def kept_at_first(keep: Bool[np.ndarray, "row token"]) -> Int[np.ndarray, " row"]:
    """How many tokens of each row stand before the first that does not stay."""
    counts: Int[np.ndarray, " row"] = np.logical_and.accumulate(keep, axis=1).sum(axis=1)
    return counts


def past_of(model: LayeredModel, inputs: Inputs, tokens: int) -> KeysAndValues:
    """The keys and values of the first tokens of each text."""
    assert model.remember is not None
    read_at = None if inputs.read_at is None else torch.zeros_like(inputs.ids[:, 0])
    return model.remember(replace(inputs.beginning(tokens), read_at=read_at))


def behind(inputs: Inputs, begin: int, past: KeysAndValues) -> Inputs:
    """The texts' tokens from `begin` on, with the keys and values of those before: of each text, or of one for all."""
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
        unattended=None if inputs.unattended is None else inputs.unattended[:, begin:],
        past=tuple((keys[:, :, :begin].expand(size, -1, -1, -1), values[:, :, :begin].expand(size, -1, -1, -1))
                   for keys, values in past),
    )  # fmt: skip


def continues(model: LayeredModel, inputs: Inputs) -> bool:
    """Whether the model gives the same when it is handed the past: looked at once, on how the longest text begins, as
    it is and with tokens of its second half hidden.

    What a model does with a past that it cannot use is its own matter, so any error means no.
    """
    if model.remember is None or model.reading.per_token:
        return False
    if model not in _CONTINUES:
        lengths = [len(encoding) for encoding in inputs.encodings]
        row = torch.tensor([lengths.index(max(lengths))] * 2, device=inputs.ids.device)
        both = inputs.rows(row).beginning(_TRIED_TOKENS)
        last = both.ids.shape[1] - 1 if both.first_read is None else int(both.first_read[0])
        begin = (last + 1) // 2
        hidden = torch.zeros_like(both.mask)
        hidden[1, begin:last:2] = True
        both = both.unattending(hidden)
        plain = model.run(both)
        try:
            _CONTINUES[model] = not differ(plain, model.run(behind(both, begin, past_of(model, both, begin))))
        except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            _CONTINUES[model] = False
    return _CONTINUES[model]
