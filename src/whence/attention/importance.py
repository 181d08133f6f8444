"""Which inputs, and which of the encoder's states, an attention classifier's decision depends on.

Every measure is a share per word, adding up to 1 over the words of a document. Where there is nothing to share (all
zero, or one word and nothing left without it) the document's shares are NaN: it is *undefined*, to be left out and
counted.
The classifier is used as it is; put it into evaluation mode, and into float64 where tiny differences must rank right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from whence.attention.classifier import AttentionClassifier, readable
from whence.errors import UnknownNameError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Removal = Literal["attention", "weight", "last_block", "input"]
REMOVALS: tuple[Removal, ...] = ("attention", "weight", "last_block", "input")
Form = Literal["norm", "coordinates"]


def attention_weights(
    model: AttentionClassifier, ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch token"]:
    """The attention over the encoder's states, with which all measures are compared."""
    with torch.no_grad():
        return model.read(ids, mask).weights


def gradient_shares(
    model: AttentionClassifier,
    ids: Int[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    *,
    detach_attention: bool = False,
) -> tuple[Float[Tensor, "batch token"], Float[Tensor, "batch token"]]:
    """The norm of the logit's gradient at each word embedding and at each state of the encoder, as shares.

    The probability's gradient has the same shares (its slope is a common factor) but vanishes where it is saturated.

    Args:
        detach_attention: take the attention weights for constants, as Jain and Wallace (2019) did; the shares of the
            states are then the attention weights themselves.
    """
    words_read = readable(ids, mask)
    words = model.embedding(ids).detach().requires_grad_()
    with torch.enable_grad():
        states = model.encode(words, mask)
        logit = model.pool(states, words_read, detach_weights=detach_attention).logit
    at_words, at_states = torch.autograd.grad(logit.sum(), [words, states])
    return _shares(at_words.norm(dim=-1), words_read), _shares(at_states.norm(dim=-1), words_read)


def input_removal_shares(
    model: AttentionClassifier,
    ids: Int[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    *,
    keep_positions: bool = False,
    batch_tokens: int = 16_384,
) -> Float[Tensor, "batch token"]:
    """How far the probability moves when a word is deleted and the rest is read anew, as shares.

    Args:
        keep_positions: whether the words after it stay at their positions, or close the gap.
        batch_tokens: tokens that a forward pass holds at most.
    """
    words_read = readable(ids, mask)
    with torch.no_grad():
        whole = model.read(ids, mask).logit

    def without(rows: Int[Tensor, " row"], removed: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        kept = _others(removed, ids.shape[1])
        left = (rows[:, None], kept)
        states = model.encode(model.embedding(ids[left]), mask[left], kept if keep_positions else None)
        return model.pool(states, words_read[left]).logit

    return _removal_shares(words_read, lambda rows: whole[rows], without, batch_tokens)


def state_removal_shares(
    model: AttentionClassifier,
    ids: Int[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    *,
    removal: Removal = "attention",
    batch_tokens: int = 16_384,
) -> Float[Tensor, "batch token"]:
    """How far the probability moves when a state of the encoder is taken away, as shares.

    Args:
        removal: what "taken away" means. "attention": the state is not there when attention is computed. "weight": its
            weight becomes 0 and the others stay, so that they no longer add up to 1. "last_block": it is deleted
            before the encoder's last block. "input": its word is deleted, all others keep their positions.
        batch_tokens: tokens that a forward pass holds at most.
    """
    if removal == "input":
        return input_removal_shares(model, ids, mask, keep_positions=True, batch_tokens=batch_tokens)
    if removal not in REMOVALS:
        raise UnknownNameError("removal", removal, REMOVALS)
    words_read = readable(ids, mask)
    *lower, last = model.encoder.blocks
    with torch.no_grad():
        below = model.encoder.start(model.embedding(ids))
        for block in lower:
            below = block(below, mask)
        states = last(below, mask)
        scores = model.alignment(states)

    def deleted_below(rows: Int[Tensor, " row"], removed: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        left = (rows[:, None], _others(removed, ids.shape[1]))
        return model.pool(last(below[left], mask[left]), words_read[left]).logit

    def reweighted(rows: Int[Tensor, " row"], removed: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        positions = torch.arange(ids.shape[1], device=ids.device)
        others = words_read[rows] & (positions != removed[:, None])
        if removal == "attention":
            return model.decide(model.project(scores[rows], others), states[rows]).logit
        return model.decide(model.project(scores[rows], words_read[rows]) * others, states[rows]).logit

    def whole(rows: Int[Tensor, " row"]) -> Float[Tensor, " row"]:
        return model.decide(model.project(scores[rows], words_read[rows]), states[rows]).logit

    without = deleted_below if removal == "last_block" else reweighted
    return _removal_shares(words_read, whole, without, batch_tokens)


def influence_shares(
    model: AttentionClassifier,
    ids: Int[Tensor, "batch token"],
    mask: Bool[Tensor, "batch token"],
    *,
    form: Form = "norm",
    batch_tokens: int = 16_384,
) -> list[Float[Tensor, "state word"]]:
    """How far each word moves each state of the encoder: one matrix per document, shares over words in each row.

    A backward pass for every state is needed; as many of them as the token budget holds run as one.

    Args:
        form: "norm": the gradient of the state's length ‖h_p‖. "coordinates": the whole Jacobian of h_p, all its
            coordinates alike (the Frobenius norm), at as many times the cost as h_p has coordinates.
        batch_tokens: tokens that a pass holds at most.
    """
    if form not in ("norm", "coordinates"):
        raise UnknownNameError("form", form, ["norm", "coordinates"])
    words_read = readable(ids, mask)
    documents, positions = words_read.nonzero(as_tuple=True)
    n_coordinates = model.encoder.size if form == "coordinates" else 1
    squares = torch.zeros(len(documents), ids.shape[1], dtype=model.output.weight.dtype, device=ids.device)
    for chunk in _chunks(len(documents) * n_coordinates, batch_tokens // ids.shape[1], ids.device):
        states_asked, coordinates = chunk // n_coordinates, chunk % n_coordinates
        rows = documents[states_asked]
        words = model.embedding(ids[rows]).detach().requires_grad_()
        with torch.enable_grad():
            state = model.encode(words, mask[rows])[torch.arange(len(rows), device=ids.device), positions[states_asked]]
            target = state.norm(dim=-1) if form == "norm" else state.gather(1, coordinates[:, None])
            gradient = torch.autograd.grad(target.sum(), words)[0]
        squares.index_add_(0, states_asked, gradient.square().sum(dim=-1))
    shares = _shares(squares.sqrt(), words_read[documents])
    return [shares[documents == row][:, words_read[row]] for row in range(len(ids))]


def _removal_shares(
    words_read: Bool[Tensor, "batch token"],
    whole: Callable[[Int[Tensor, " row"]], Float[Tensor, " row"]],
    without: Callable[[Int[Tensor, " row"], Int[Tensor, " row"]], Float[Tensor, " row"]],
    batch_tokens: int,
) -> Float[Tensor, "batch token"]:
    """|ŷ − ŷ without the word| as shares, from the logits of documents with and without the word at a position.

    Both come from batches of one shape, so that a removal that changes nothing gives exactly zero.
    """
    documents, positions = words_read.nonzero(as_tuple=True)
    moved = [torch.zeros(0, device=words_read.device)]
    with torch.no_grad():
        for some in _chunks(len(documents), batch_tokens // words_read.shape[1], words_read.device):
            rows, removed = documents[some], positions[some]
            moved.append((whole(rows).sigmoid() - without(rows, removed).sigmoid()).abs())
    found = torch.cat(moved)
    sizes = torch.zeros(words_read.shape, dtype=found.dtype, device=words_read.device)
    sizes[words_read] = found
    alone = words_read.sum(dim=1, keepdim=True) < 2
    return _shares(sizes.masked_fill(alone, 0.0), words_read)


def _chunks(n_rows: int, at_once: int, device: torch.device) -> Iterator[Int[Tensor, " row"]]:
    for start in range(0, n_rows, max(1, at_once)):
        yield torch.arange(start, min(n_rows, start + max(1, at_once)), device=device)


def _others(removed: Int[Tensor, " row"], n_tokens: int) -> Int[Tensor, "row rest"]:
    """All positions of a row but the one removed."""
    rest = torch.arange(n_tokens - 1, device=removed.device)
    return rest + (rest >= removed[:, None]).long()


def _shares(sizes: Float[Tensor, "row token"], words_read: Bool[Tensor, "row token"]) -> Float[Tensor, "row token"]:
    """Sizes over their sum, zero where no word stands; NaN at the words of a row without any size."""
    sizes = sizes.detach().masked_fill(~words_read, 0.0)
    return (sizes / sizes.sum(dim=-1, keepdim=True)).masked_fill(~words_read, 0.0)
