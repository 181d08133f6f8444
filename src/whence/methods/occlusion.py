"""Occlusion: slide a window over the states and see what the target loses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.explanation import Layer, Meaning
from whence.methods.baselines import Baseline, BaselineStates
from whence.methods.options import at_least
from whence.methods.players import players_of
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.models.batching import reads_padding
from whence.models.deletion import Deletion
from whence.models.inputs import moved
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
        of_tokens = torch.stack([own.of_token for own in players_of(question, layer, special)]).numpy()
        hidden, rows = _windows(of_tokens, window, stride, overhang)
        asked = masked_outputs(question, layer, torch.from_numpy(rows), torch.from_numpy(~hidden), baselines)
        lost = question.outputs.detach().cpu().numpy()[rows] - asked.cpu().numpy()
        scores.append(torch.from_numpy(_means(lost, hidden, rows, len(of_tokens)) * _parts(of_tokens)))
    return Scores(of_outputs(torch.stack(scores, dim=2)))


def masked_outputs(
    question: Question,
    layer: Layer,
    rows: Int[Tensor, " row"],
    keep: Bool[Tensor, "row token"],
    baselines: BaselineStates,
) -> Float[Tensor, "row output"]:
    """The outputs of each row when only the states marked in `keep` stay and the baseline takes the others' place.

    Rows and `keep` are best given in memory: to ask a GPU for them is to wait for it.
    """
    if baselines.deletes and layer == "embeddings":
        return _deleted_outputs(question, rows, keep)
    model, h, nothing = question.model, question.states.at(layer).detach(), baselines.at(layer)
    device = h.device
    beginnings = SharedBeginnings(
        model, question.inputs, question.batch_tokens,
        equal_lengths=reads_padding(model, question.inputs.encodings), share=model.share_above(layer),
    )  # fmt: skip
    texts_of_rows = rows.cpu().numpy()
    lengths = np.array(question.inputs.lengths)[texts_of_rows]
    found = torch.zeros(len(rows), question.outputs.shape[1], device=device)
    stays = keep.cpu().numpy()
    rows, keep = moved(texts_of_rows, device), moved(stays, device)
    with torch.inference_mode():
        for numbers, texts, begin in beginnings.batches(texts_of_rows, kept_at_first(stays), lengths):
            batch = moved(numbers, device)
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
    model, selection, device = question.model, question.selection, question.value.device
    rows, keep = rows.cpu(), keep.to("cpu", copy=True)
    if model.reading.per_token:
        keep.scatter_(1, selection.indices[..., 0].flatten(start_dim=1).cpu()[rows], True)
    elif question.inputs.read_at is not None and not model.reading.next_token:
        keep.scatter_(1, question.inputs.read_at.cpu()[rows, None], True)
    deletion = Deletion(model, question.inputs, question.batch_tokens)
    found = torch.zeros(len(rows), question.outputs.shape[1], device=device)
    with torch.inference_mode():
        for batch, logits in deletion.logits(rows, keep):
            numbers = rows[batch].numpy()
            some = moved(numbers, device)
            texts = question.inputs.rows(some, numbers.tolist())
            found[moved(batch.numpy(), device)] = selection.rows(some).outputs(logits, texts.mask)
    question.forwards += deletion.passes
    return found


def _windows(
    of_tokens: Int[np.ndarray, "batch token"], window: int, stride: int, overhang: bool
) -> tuple[Bool[np.ndarray, "row token"], Int[np.ndarray, " row"]]:
    """Every window of every text as a mask of what it hides, and the text each belongs to.

    `of_tokens` is the player of each token, -1 where it always stays.
    """
    players = of_tokens.max(axis=1) + 1
    last = players - 1 if overhang else np.maximum(players - window + stride - 1, 0)
    counts = last // stride + 1
    rows = np.repeat(np.arange(len(of_tokens)), counts)
    starts = stride * (np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts))[:, None]
    of_rows = of_tokens[rows]
    return (of_rows >= starts) & (of_rows < starts + window), rows


def _means(
    lost: Float[np.ndarray, "row output"],
    hidden: Bool[np.ndarray, "row token"],
    rows: Int[np.ndarray, " row"],
    n_texts: int,
) -> Float[np.ndarray, "batch output token"]:
    """What each text's outputs lost on average over the rows that hide a token; rows come text by text."""
    terms = np.concatenate([lost, np.ones_like(lost[:, :1])], axis=1).T  # the last only counts
    sums = np.empty((n_texts, len(terms), hidden.shape[1]), lost.dtype)
    weights = hidden.astype(lost.dtype)
    ends = np.bincount(rows, minlength=n_texts).cumsum().tolist()
    for text, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        np.matmul(terms[:, begin:end], weights[begin:end], out=sums[text])
    return sums[:, :-1] / sums[:, -1:].clip(min=1)  # type: ignore[no-any-return]


def _parts(of_tokens: Int[np.ndarray, "batch token"]) -> Float[np.ndarray, "batch 1 token"]:
    """Each token's share of its player: what several tokens lose together is shared evenly."""
    n_texts, width = of_tokens.shape
    numbers = of_tokens + np.arange(n_texts)[:, None] * (width + 1) + 1  # of all texts' players, each its own
    sizes = np.bincount(numbers.ravel())[numbers]
    return np.where(of_tokens < 0, 0, 1 / sizes).astype(np.float32)[:, None]


METHOD = Method(
    occlusion,
    Meaning("occlusion", "what the target loses when tokens around it are taken away", signed=True, additive=True),
    needs=("a baseline",),
    cost="1 forward per window and layer",
    takes_units=True,
    tells_outputs=True,
    linear=True,
)
