"""Occlusion: slide a window over the states and see what the target loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates
from whence.methods.options import at_least
from whence.methods.players import Players, players_of
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.models.batching import reads_padding
from whence.models.deletion import Deletion
from whence.models.shared_beginning import SharedBeginnings, kept_at_first

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


def occlusion(
    question: Question,
    *,
    window: int = 3,
    stride: int = 1,
    baseline: Baseline = "auto",
    special: bool | None = None,
    overhang: bool = False,
) -> Scores:
    """What the target loses when a window of tokens is taken away, averaged over a token's windows (Zeiler, 2014).

    Args:
        window: tokens (or units) taken away at a time.
        stride: how far the window moves.
        baseline: what stands in their place; see `whence.methods.baselines.Baseline`.
        special: whether special tokens are taken away too; by default only above the input.
        overhang: let windows hang over the end of the text, as they do for a text inside a padded batch.
    """
    at_least("window", window, 1)
    at_least("stride", stride, 1)
    baselines = BaselineStates(question, baseline)
    scores = []
    for layer in question.layers:
        players = players_of(question, layer, special)
        hidden, rows = (part.to(question.value.device) for part in _windows(players, window, stride, overhang))
        lost = question.outputs.detach()[rows] - masked_outputs(question, layer, rows, ~hidden, baselines)
        of_texts = []
        for row, own in enumerate(players):
            covered = hidden[rows == row].to(lost)
            sums = lost[rows == row].T @ covered
            of_texts.append(sums / covered.sum(dim=0).clamp(min=1) * own.spread(torch.ones(own.count)).to(lost))
        scores.append(torch.stack(of_texts))
    return Scores(of_outputs(torch.stack(scores, dim=2)))


def masked_outputs(
    question: Question,
    layer: Layer,
    rows: Int[Tensor, " row"],
    keep: Bool[Tensor, "row token"],
    baselines: BaselineStates,
) -> Float[Tensor, "row output"]:
    """The outputs of each row when only the states marked in `keep` stay and the baseline takes the others' place."""
    if baselines.deletes and layer == "embeddings":
        return _deleted_outputs(question, rows, keep)
    model, h, nothing = question.model, question.states.at(layer).detach(), baselines.at(layer)
    beginnings = SharedBeginnings(
        model, question.inputs, question.batch_tokens,
        equal_lengths=reads_padding(model, question.inputs.encodings), share=model.share_above(layer),
    )  # fmt: skip
    texts_of_rows = rows.cpu().numpy()
    lengths = np.array([len(encoding) for encoding in question.inputs.encodings])[texts_of_rows]
    found = torch.zeros(len(rows), question.outputs.shape[1], device=rows.device)
    unchanged, keep = kept_at_first(keep.cpu().numpy()), keep.to(h.device)
    with torch.inference_mode():
        for numbers, texts, begin in beginnings.batches(texts_of_rows, unchanged, lengths):
            batch = torch.from_numpy(numbers).to(rows.device)
            tokens = slice(begin, begin + texts.ids.shape[1])
            some, kept = rows[batch], keep[batch, tokens, None]
            hidden = torch.where(kept, h[some, tokens], nothing[some, tokens])
            found[batch] = question.selection.rows(some).outputs(model.resume(layer, hidden, texts), texts.mask)
    question.forwards += beginnings.passes
    return found


def _deleted_outputs(
    question: Question, rows: Int[Tensor, " row"], keep: Bool[Tensor, "row token"]
) -> Float[Tensor, "row output"]:
    """The target of each row when only the tokens marked in `keep` are left, and those at which it is read."""
    model, selection = question.model, question.selection
    keep = keep.to(rows.device, copy=True)
    if model.reading.per_token:
        keep.scatter_(1, selection.rows(rows).indices[..., 0].flatten(start_dim=1), True)
    elif question.inputs.read_at is not None and not model.reading.next_token:
        keep.scatter_(1, question.inputs.read_at[rows, None], True)
    deletion = Deletion(model, question.inputs, question.batch_tokens)
    found = torch.zeros(len(rows), question.outputs.shape[1], device=rows.device)
    with torch.inference_mode():
        for batch, logits in deletion.logits(rows, keep):
            some = rows[batch.to(rows.device)]
            found[batch] = selection.rows(some).outputs(logits, question.inputs.rows(some).mask)
    question.forwards += deletion.passes
    return found


def _windows(
    players: Sequence[Players], window: int, stride: int, overhang: bool
) -> tuple[Bool[Tensor, "row token"], Int[Tensor, " row"]]:
    """Every window of every text as a mask of what it hides, and the text each belongs to."""
    masks, rows = [], []
    for row, own in enumerate(players):
        last = own.count - 1 if overhang else max(own.count - window + stride - 1, 0)
        starts = torch.arange(0, last + 1, stride)[:, None]
        place = torch.arange(own.count)[None, :]
        masks.append(~own.keep((place < starts) | (place >= starts + window)))
        rows += [row] * len(starts)
    return torch.cat(masks), torch.tensor(rows)


METHOD = Method(
    occlusion,
    Meaning("occlusion", "what the target loses when tokens around it are taken away", signed=True, additive=True),
    needs=("a baseline",),
    cost="1 forward per window and layer",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
