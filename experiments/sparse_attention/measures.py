"""Everything the tables need of one trained classifier on its test documents: one number a document and quantity."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from whence.attention.classifier import AttentionClassifier, readable
from whence.attention.documents import Documents
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
Numbers = dict[str, list[float]]


def shares(
    model: AttentionClassifier, ids: Tensor, mask: Tensor, names: tuple[str, ...], batch_tokens: int
) -> dict[str, Tensor]:
    """The measures of a batch, each a share a word; those that need the same pass share it."""
    budget = {"batch_tokens": batch_tokens}
    found = dict(zip(("g_x", "g_h"), gradient_shares(model, ids, mask), strict=True))
    found["D_x"] = input_removal_shares(model, ids, mask, **budget)
    found["D_h"] = state_removal_shares(model, ids, mask, **budget)
    if "g_x_detached" in names:
        found["g_x_detached"] = gradient_shares(model, ids, mask, detach_attention=True)[0]
    for name in names:
        if name.startswith("D_h_"):
            found[name] = state_removal_shares(model, ids, mask, removal=name.removeprefix("D_h_"), **budget)
    return {name: found[name] for name in names}


def measure(
    model: AttentionClassifier, documents: Documents, names: tuple[str, ...], batch_tokens: int
) -> dict[str, Numbers]:
    """Of each document: words, support, entropies, τ with attention and what ties alone explain; NaN is undefined.

    In float64, since nearly uniform attention is ranked by its last digits.
    """
    device = next(model.parameters()).device
    exact = copy.deepcopy(model).double().eval()
    rows: list[dict[str, float]] = [{} for _ in range(len(documents))]
    for places in documents.batches(batch_tokens):
        ids, mask = documents.take(places).padded(device)
        words = readable(ids, mask)
        found = {"attention": attention_weights(exact, ids, mask), **shares(exact, ids, mask, names, batch_tokens)}
        for row, place in enumerate(places):
            rows[place] = _document({name: values[row, words[row]].cpu().numpy() for name, values in found.items()})
    return {name: [row[name] for row in rows] for name in rows[0]}


def _document(weights: dict[str, np.ndarray]) -> dict[str, float]:
    attention = weights["attention"]
    n_words, support = len(attention), int((attention > 0).sum())
    numbers = {
        "n_words": float(n_words),
        "support": float(support),
        "entropy attention": float(normalised_entropy(attention)),
        "null shared": shared_zeros_null(n_words, support) if support else float("nan"),
    }
    for name, values in weights.items():
        if name != "attention":
            numbers[f"entropy {name}"] = float(normalised_entropy(values))
            numbers[f"tau {name}"] = float(kendall_tau(attention[None], values[None])[0, 0])
            numbers[f"null {name}"] = float(tie_null(attention[None], values[None])[0, 0])
    return numbers


def influence(model: AttentionClassifier, documents: Documents, batch_tokens: int) -> dict[str, list[float]]:
    """Of each document, the mean and the mean square over its states of the entropy of what influences them."""
    found: dict[str, list[float]] = {"entropy": [0.0] * len(documents), "square": [0.0] * len(documents)}
    for places, rows in _influence_batches(model, documents, batch_tokens):
        for place, matrix in zip(places, rows, strict=True):
            entropies = normalised_entropy(matrix.double().cpu().numpy())
            found["entropy"][place], found["square"][place] = float(entropies.mean()), float((entropies**2).mean())
    return found


def _influence_batches(
    model: AttentionClassifier, documents: Documents, batch_tokens: int
) -> Iterator[tuple[list[int], list[Tensor]]]:
    device = next(model.parameters()).device
    for places in documents.batches(batch_tokens):
        ids, mask = documents.take(places).padded(device)
        yield places, influence_shares(model, ids, mask, batch_tokens=batch_tokens)


def forms_of_influence(model: AttentionClassifier, documents: Documents, batch_tokens: int) -> dict[str, list[float]]:
    """Of each document, how far the norm and the coordinate form of influence rank words alike (τ), and entropies."""
    found: dict[str, list[float]] = {"tau": [], "entropy norm": [], "entropy coordinates": []}
    device = next(model.parameters()).device
    for place in range(len(documents)):
        ids, mask = documents.take([place]).padded(device)
        one, other = (
            influence_shares(model, ids, mask, form=form, batch_tokens=batch_tokens)[0].cpu().numpy()
            for form in ("norm", "coordinates")
        )
        found["tau"].append(float(np.nanmean([kendall_tau(a[None], b[None]) for a, b in zip(one, other, strict=True)])))
        found["entropy norm"].append(float(normalised_entropy(one).mean()))
        found["entropy coordinates"].append(float(normalised_entropy(other).mean()))
    return found
