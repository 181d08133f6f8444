"""Every subset of a text's tokens, by growing size, until one will do; a batch of texts shares its forward passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Layer
from whence.methods.question import Question
from whence.models.inputs import Inputs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    Meets = Callable[
        [Float[Tensor, "row *token label"], Float[Tensor, "row *token label"], Inputs], Bool[Tensor, " row"]
    ]


@dataclass
class Course:
    """How far the search on one text has come: every set of fewer than `size` free tokens was tried and fails.

    `tried` counts the sets of this size, `cut` says that some that will do were not written down.
    """

    n_free: int
    length: int
    size: int = 0
    tried: int = 0
    evaluations: int = 0
    kept: list[tuple[int, ...]] = field(default_factory=list)
    cut: bool = False

    @property
    def n_of_size(self) -> int:
        return math.comb(self.n_free, self.size)


def search_subsets(
    question: Question,
    layer: Layer,
    nothing: Float[Tensor, "batch token hidden"],
    free: Bool[Tensor, "batch token"],
    meets: Meets,
    *,
    budget: int,
    most: int,
) -> list[Course]:
    """Drop all free tokens but a few, at a layer, and try every choice of these few on every text.

    Args:
        question: the texts, their states and the token budget of a forward pass.
        layer: where tokens are dropped.
        nothing: the states that stand in their place.
        free: which tokens may be dropped.
        meets: whether the output on the whole texts and the output on what was kept agree well enough.
        budget: sets tried per text at most.
        most: sets written down per text; when it has so many, the search on it ends.
    """
    encodings = question.inputs.encodings
    texts = [Course(n, len(encoding)) for n, encoding in zip(free.sum(dim=1).tolist(), encodings, strict=True)]
    h = question.states.at(layer)
    # the positions of each text's free tokens come first
    positions = free.int().argsort(dim=1, descending=True, stable=True)
    waiting = list(range(len(texts)))
    while waiting:
        size = texts[waiting[0]].size
        counts = _binomials(max(texts[row].n_free for row in waiting), size, budget, free.device)
        for ranges in _forwards(texts, waiting, question.batch_tokens, budget, most):
            rows = torch.cat([torch.full((last - first,), row) for row, first, last in ranges]).to(free.device)
            ranks = torch.cat([torch.arange(first, last) for _, first, last in ranges]).to(free.device)
            keep = ~free[rows]
            keep.scatter_(1, positions[rows[:, None], subsets(ranks, counts)], True)
            inputs = question.inputs.rows(rows)
            length = inputs.ids.shape[1]
            hidden = torch.where(keep[:, :length, None], h[rows, :length], nothing[rows, :length])
            changed = question.model.resume(layer, hidden, inputs)
            original = question.states.logits[rows]
            original = original if original.ndim == 2 else original[:, :length]
            good = meets(original, changed, inputs)
            _write_down(texts, rows[good].tolist(), keep[good] & question.inputs.mask[rows[good]], most)
        waiting = [row for row in waiting if _goes_on(texts[row], budget)]
    return texts


def subsets(ranks: Int[Tensor, " row"], counts: Int[Tensor, "n i"]) -> Int[Tensor, "row size"]:
    """The subsets that have these numbers when all of one size are put in order (the combinatorial number system).

    `counts[n, i]` is the number of subsets of i out of n, for i up to the size.
    """
    left, chosen = ranks.clone(), []
    for column in counts.T[1:].flip(0).contiguous():
        item = torch.searchsorted(column, left, right=True) - 1
        left -= column[item]
        chosen.append(item)
    return torch.stack(chosen, dim=1) if chosen else ranks.new_zeros(len(ranks), 0)


def _binomials(n: int, size: int, budget: int, device: torch.device) -> Int[Tensor, "n i"]:
    """Numbers of subsets; those that no rank within the budget reaches are cut off, lest they overflow."""
    return torch.tensor([[min(math.comb(m, i), budget + 1) for i in range(size + 1)] for m in range(n + 1)]).to(device)


def _forwards(
    texts: Sequence[Course], waiting: Sequence[int], batch_tokens: int, budget: int, most: int
) -> Iterator[list[tuple[int, int, int]]]:
    """The sets of one size in the order they are tried: for each forward pass, ranges of ranks (row, first, last)."""
    ranges: list[tuple[int, int, int]] = []
    used = longest = 0
    for row in waiting:
        text = texts[row]
        while text.tried < text.n_of_size and text.evaluations < budget and len(text.kept) < most:
            longest = max(longest, text.length)
            room = max(1, batch_tokens // longest) - used
            if room < 1:
                yield ranges
                ranges, used, longest = [], 0, 0
                continue
            number = min(room, text.n_of_size - text.tried, budget - text.evaluations)
            ranges.append((row, text.tried, text.tried + number))
            text.tried += number
            text.evaluations += number
            used += number
    if ranges:
        yield ranges


def _write_down(texts: Sequence[Course], rows: list[int], keep: Bool[Tensor, "row token"], most: int) -> None:
    for row, kept in zip(rows, keep.cpu(), strict=True):
        if len(texts[row].kept) < most:
            texts[row].kept.append(tuple(kept.nonzero()[:, 0].tolist()))
        else:
            texts[row].cut = True


def _goes_on(text: Course, budget: int) -> bool:
    """Whether the text needs larger sets, and may have them; if so it is set on the next size."""
    if text.kept or text.tried < text.n_of_size or text.size == text.n_free:
        return False
    text.size, text.tried = text.size + 1, 0
    return text.evaluations < budget
