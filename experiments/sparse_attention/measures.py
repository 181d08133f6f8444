"""Everything the tables need of one trained classifier on its test documents: one number per document and quantity."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.attention.classifier import AttentionClassifier, readable
from whence.attention.documents import Batch, Documents
from whence.attention.importance import (
    attention_weights,
    gradient_shares,
    influence_shares,
    input_removal_shares,
    state_removal_shares,
)
from whence.metrics.entropy import normalised_entropy
from whence.metrics.rank_correlation import kendall_tau, shared_zeros_null, tie_null

# g: gradient, D: removal; x: inputs, h: states of the encoder; the removals of states as `whence` names them
MEASURES = ("g_x", "g_h", "D_x", "D_h", "D_h_weight", "D_h_last_block", "D_h_input", "g_x_detached")
SWEEP_MEASURES = ("g_x", "g_h", "D_x", "D_h")


def shares(
    model: AttentionClassifier, ids: Tensor, mask: Tensor, names: tuple[str, ...], batch_tokens: int
) -> dict[str, Tensor]:
    """The measures of a batch, each a share per word; those that need the same pass share it."""
    found = dict(zip(("g_x", "g_h"), gradient_shares(model, ids, mask), strict=True))
    found["D_x"] = input_removal_shares(model, ids, mask, batch_tokens=batch_tokens)
    found["D_h"] = state_removal_shares(model, ids, mask, batch_tokens=batch_tokens)
    if model.config.encoder == "bilstm":  # one block and no positions: both delete the word and read the rest anew
        found |= {"D_h_last_block": found["D_x"], "D_h_input": found["D_x"]}
    if "g_x_detached" in names:
        found["g_x_detached"] = gradient_shares(model, ids, mask, detach_attention=True)[0]
    for name in names:
        if name not in found:
            removal: Any = name.removeprefix("D_h_")
            found[name] = state_removal_shares(model, ids, mask, removal=removal, batch_tokens=batch_tokens)
    return {name: found[name] for name in names}


def measure(
    model: AttentionClassifier, documents: Documents, names: tuple[str, ...], batch_tokens: int
) -> dict[str, list[float]]:
    """Of each document: words, support, entropies, τ with attention and what ties alone explain; NaN is undefined.

    In float64, since nearly uniform attention is ranked by its last digits.
    """
    exact = copy.deepcopy(model).double().eval()
    rows: list[dict[str, float]] = [{} for _ in range(len(documents))]
    for numbers, (ids, mask, _) in _batches(exact, documents, batch_tokens):
        found = {"attention": attention_weights(exact, ids, mask), **shares(exact, ids, mask, names, batch_tokens)}
        weights, words = torch.stack(list(found.values()), dim=1).cpu().numpy(), readable(ids, mask).cpu().numpy()
        for row, number in enumerate(numbers):
            rows[number] = _document(names, weights[row][:, words[row]])
    return {name: [row[name] for row in rows] for name in rows[0]}


def _document(names: tuple[str, ...], weights: np.ndarray) -> dict[str, float]:
    """The numbers of a document, from its attention and, row by row, its measures."""
    attention, others = weights[:1], weights[1:]
    n_words, support = attention.size, int((attention > 0).sum())
    entropies = normalised_entropy(weights)
    numbers = {
        "n_words": float(n_words),
        "support": float(support),
        "entropy attention": float(entropies[0]),
        "null shared": shared_zeros_null(n_words, support) if support else float("nan"),
    }
    taus, nulls = kendall_tau(attention, others)[0], tie_null(attention, others)[0]
    for name, entropy, tau, null in zip(names, entropies[1:], taus, nulls, strict=True):
        numbers |= {f"entropy {name}": float(entropy), f"tau {name}": float(tau), f"null {name}": float(null)}
    return numbers


def influence(model: AttentionClassifier, documents: Documents, batch_tokens: int) -> dict[str, list[float]]:
    """Of each document, the mean and the mean square over its states of the entropy of what influences them."""
    found: dict[str, list[float]] = {"entropy": [0.0] * len(documents), "square": [0.0] * len(documents)}
    for numbers, (ids, mask, _) in _batches(model, documents, batch_tokens):
        matrices = influence_shares(model, ids, mask, batch_tokens=batch_tokens)
        for number, matrix in zip(numbers, matrices, strict=True):
            entropies = normalised_entropy(matrix.double().cpu().numpy())
            found["entropy"][number], found["square"][number] = float(entropies.mean()), float((entropies**2).mean())
    return found


def _batches(model: AttentionClassifier, documents: Documents, batch_tokens: int) -> Iterator[tuple[list[int], Batch]]:
    """Documents of like length, few at a time: a pass for every word of theirs is to follow."""
    groups = list(documents.batches(batch_tokens // 16))
    return zip(groups, documents.on(next(model.parameters()).device).batches(groups), strict=True)


def forms_of_influence(model: AttentionClassifier, documents: Documents, batch_tokens: int) -> dict[str, list[float]]:
    """Of each document, how far the norm and the coordinate form of influence rank words alike (τ), and entropies."""
    found: dict[str, list[float]] = {"tau": [], "entropy norm": [], "entropy coordinates": []}
    device = next(model.parameters()).device
    for number in range(len(documents)):
        ids, mask = documents.take([number]).padded(device)
        one, other = (
            influence_shares(model, ids, mask, form=form, batch_tokens=batch_tokens)[0].cpu().numpy()
            for form in ("norm", "coordinates")
        )
        found["tau"].append(float(np.nanmean([kendall_tau(a[None], b[None]) for a, b in zip(one, other, strict=True)])))
        found["entropy norm"].append(float(normalised_entropy(one).mean()))
        found["entropy coordinates"].append(float(normalised_entropy(other).mean()))
    return found
