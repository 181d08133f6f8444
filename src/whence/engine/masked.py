"""What a model says of texts with some of their tokens hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.errors import NonFiniteError
from whence.models.batching import consecutive, reads_padding
from whence.models.deletion import Deletion
from whence.models.hiding import Hiding, stand_in_word
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.models.shared_beginning import SharedBeginnings, kept_at_first
from whence.models.without_hidden import first_position, without_hidden
from whence.selection import Selection, joined, select
from whence.tasks.reading import check_output

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Answers:
    """What the model says of each row: the indices of its answer (a class; first and last token of a span), and the
    probability of what it says of the whole text, see `Reading.likelihood`. Where the tokens of that answer are
    deleted, it cannot be said: the indices are -1 and the probability is 0."""

    said: Int[np.ndarray, "row index"]
    probability: Float[np.ndarray, " row"]


class MaskedTexts:
    """A batch of texts that can be asked about with any of their tokens hidden.

    `whole` is what the model says of the texts with nothing hidden.
    """

    def __init__(self, model: LayeredModel, encodings: Sequence[Encoding], hiding: Hiding, batch_tokens: int) -> None:
        self._model, self._hiding, self._batch_tokens = model, hiding, batch_tokens
        self._inputs = model.collate(encodings)
        self._lengths = np.array([len(encoding) for encoding in encodings])
        self._equal_lengths = reads_padding(model, encodings)
        self._first = first_position(model) if hiding.from_attention else None
        self._beginnings = SharedBeginnings(model, self._inputs, batch_tokens, equal_lengths=self._equal_lengths)
        parts, selections = [], []
        with model.held(), torch.inference_mode():
            batches = self._batches(self._lengths)
            for batch in batches:
                inputs = self._inputs.rows(torch.from_numpy(batch).to(model.device))
                logits = model.run(inputs)
                check_output(logits)
                selection = select("predicted", "log_probability", model.reading, logits, inputs.encodings)
                parts.append(self._answers(logits, inputs, selection))
                selections.append(selection)
            back = torch.from_numpy(np.argsort(np.concatenate(batches))).to(model.device)
            self._selection = joined(selections).rows(back)
        self.whole = _gathered(parts, batches)

    def answers(self, rows: Int[np.ndarray, " row"], keep: Bool[np.ndarray, "row token"]) -> Answers:
        """What the model says of texts (by their index) in which only the tokens marked in `keep` are seen."""
        found, batches = [], []
        with self._model.held(), torch.inference_mode():
            for batch, logits in (self._deleted if self._hiding.deletes else self._hidden)(rows, keep):
                texts = torch.from_numpy(rows[batch]).to(self._model.device)
                selection = self._selection.rows(texts)
                answers = self._answers(_checked(logits), self._inputs.rows(texts), selection)
                if self._hiding.deletes and self._model.reading.per_token:
                    read = selection.indices[..., 0].flatten(start_dim=1).cpu().numpy()
                    gone = ~np.take_along_axis(keep[batch], read, axis=1).all(axis=1)
                    answers.said[gone], answers.probability[gone] = -1, 0
                found.append(answers)
                batches.append(batch)
        return _gathered(found, batches)

    def _hidden(
        self, rows: Int[np.ndarray, " row"], keep: Bool[np.ndarray, "row token"]
    ) -> Iterator[tuple[Int[np.ndarray, " _some"], Float[Tensor, "_some *token label"]]]:
        lengths = keep.sum(axis=1) if self._first is not None else self._lengths[rows]
        for batch, texts, begin in self._beginnings.batches(rows, kept_at_first(keep), lengths):
            seen = torch.from_numpy(keep[batch, begin : begin + texts.ids.shape[1]]).to(self._model.device)
            yield batch, self._logits(texts, seen & texts.mask)

    def _deleted(
        self, rows: Int[np.ndarray, " row"], keep: Bool[np.ndarray, "row token"]
    ) -> Iterator[tuple[Int[np.ndarray, " _some"], Float[Tensor, "_some *token label"]]]:
        deletion = Deletion(self._model, self._inputs, self._batch_tokens)
        for batch, logits in deletion.logits(torch.from_numpy(rows), torch.from_numpy(keep)):
            yield batch.numpy(), logits

    def _batches(self, lengths: Int[np.ndarray, " row"]) -> list[Int[np.ndarray, " _some"]]:
        order = np.argsort(lengths, kind="stable")
        batches = consecutive(lengths[order], self._batch_tokens, equal=self._equal_lengths)
        return [order[batch] for batch in batches]

    def _logits(self, inputs: Inputs, keep: Bool[Tensor, "row token"]) -> Float[Tensor, "row *token label"]:
        if self._first is not None and bool(keep[:, 0].all()):
            return self._model.run(without_hidden(inputs, keep, self._first))
        hidden = inputs.mask & ~keep
        if self._hiding.from_attention:
            inputs = inputs.unattending(hidden)
        if self._hiding.stand_in is None:
            return self._model.run(inputs)
        words, nothing = self._model.embed(inputs.ids), stand_in_word(self._model, self._hiding.stand_in)
        return self._model.resume("embeddings", torch.where(hidden[..., None], nothing, words), inputs)

    def _answers(self, logits: Float[Tensor, "row *token label"], inputs: Inputs, selection: Selection) -> Answers:
        said = self._model.reading.answers(logits, inputs.encodings, selection.positions)
        # without its hidden tokens a text is shorter than its mask, but then the class is no matter of tokens
        probability = self._model.reading.likelihood(selection.of(logits, inputs.mask), inputs.encodings)
        return Answers(said.cpu().numpy(), probability.float().cpu().numpy())


def _checked(logits: Float[Tensor, "row *token label"]) -> Float[Tensor, "row *token label"]:
    if logits.isnan().any():
        raise NonFiniteError(
            "the model's output is NaN with some tokens hidden", "try hide='mask', which leaves attention alone"
        )
    return logits


def _gathered(parts: Sequence[Answers], batches: Sequence[Int[np.ndarray, " row"]]) -> Answers:
    """The answers of all batches, back in the order of the rows."""
    back = np.argsort(np.concatenate(batches))
    return Answers(
        np.concatenate([part.said for part in parts])[back],
        np.concatenate([part.probability for part in parts])[back],
    )
