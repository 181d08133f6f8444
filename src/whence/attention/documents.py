"""Labelled documents as ids, and the batches in which a classifier reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from whence.attention.vocabulary import PAD, Vocabulary
from whence.errors import UsageError

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


class Batch(NamedTuple):
    """Documents of one padded batch: their ids, which of them are real, and the labels."""

    ids: Int[Tensor, "batch token"]
    mask: Bool[Tensor, "batch token"]
    labels: Int[Tensor, " batch"]


@dataclass(frozen=True)
class Documents:
    """Texts as ids (start and end included) and their labels, 0 or 1."""

    ids: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.labels):
            raise UsageError(f"{len(self.ids)} texts have {len(self.labels)} labels", "give one label per text")
        if strange := sorted(set(self.labels) - {0, 1}):
            raise UsageError(f"labels must be 0 or 1, got {strange[0]!r}", "an attention classifier tells two classes")

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[int], vocabulary: Vocabulary) -> Documents:
        return cls(tuple(tuple(vocabulary.ids(text)) for text in texts), tuple(int(label) for label in labels))

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int]) -> Documents:
        """The documents of these numbers, in that order."""
        return Documents(tuple(self.ids[row] for row in rows), tuple(self.labels[row] for row in rows))

    def padded(self, device: torch.device) -> tuple[Int[Tensor, "batch token"], Bool[Tensor, "batch token"]]:
        """All of them as one batch: ids, and which are real."""
        return next(self.on(device).batches([range(len(self))]))[:2]

    def on(self, device: torch.device) -> DocumentsOnDevice:
        """The same documents where a model can read them."""
        return DocumentsOnDevice(self, device)

    def batches(self, batch_tokens: int) -> Iterator[list[int]]:
        """Numbers of documents of similar length, as many at a time as hold `batch_tokens` tokens, shortest first."""
        batch: list[int] = []
        for row in sorted(range(len(self)), key=lambda row: len(self.ids[row])):
            if batch and len(self.ids[row]) * (len(batch) + 1) > batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def training_batches(self, size: int, generator: torch.Generator) -> list[list[int]]:
        """Numbers of documents in batches of `size`, of similar length, in random order.

        Lengths are blurred by up to a tenth before sorting, so that batches differ from epoch to epoch.
        """
        lengths = torch.tensor([len(row) for row in self.ids], dtype=torch.float64)
        noise = torch.rand(len(self), generator=generator, dtype=torch.float64) * 0.2 - 0.1
        order = (lengths * (1 + noise)).argsort().tolist()
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


class DocumentsOnDevice:
    """Documents as one long row of ids on a device, from which padded batches are cut there."""

    def __init__(self, documents: Documents, device: torch.device) -> None:
        self._lengths = [len(row) for row in documents.ids]
        running = [number for row in documents.ids for number in row]
        self._running = torch.tensor([*running, PAD], device=device)  # the last one fills up
        self._sizes = torch.tensor(self._lengths, device=device)
        self._starts = self._sizes.cumsum(dim=0) - self._sizes
        self._labels = torch.tensor(documents.labels, device=device)

    def batches(self, groups: Iterable[Sequence[int]]) -> Iterator[Batch]:
        """A padded batch of the documents of each group; the host never waits for the device."""
        groups = list(groups)
        everyone = torch.tensor([row for group in groups for row in group], device=self._sizes.device)
        start = 0
        for group in groups:
            rows = everyone[start : start + len(group)]
            start += len(group)
            offsets = torch.arange(max(self._lengths[row] for row in group), device=rows.device)
            mask = offsets < self._sizes[rows, None]
            ids = self._running[(self._starts[rows, None] + offsets).where(mask, len(self._running) - 1)]
            yield Batch(ids, mask, self._labels[rows])
