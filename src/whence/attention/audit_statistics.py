"""The numbers of an audit: a few for each text, layer and head, gathered while attention streams by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.attention.attention_maps import AttentionLayer
from whence.attention.audit_record import (
    AttentionConcentration,
    MeasureConcentration,
    MeasureCorrelation,
    RankCorrelation,
)
from whence.errors import NonFiniteError
from whence.metrics.confidence import bootstrap
from whence.metrics.entropy import normalised_entropy
from whence.metrics.rank_correlation import kendall_tau, tie_null

if TYPE_CHECKING:
    from jaxtyping import Float


class AuditStatistics:
    """Statistics of every text, layer and head; index 0 of the head axis is the mean over heads.

    NaN marks what is undefined: a text of one word, or one whose weights or scores are all equal.
    """

    def __init__(self, importance: Sequence[Float[np.ndarray, "measure token"]]) -> None:
        self._importance = importance
        self._tau: dict[AttentionLayer, Float[np.ndarray, "text head measure"]] = {}
        self._null: dict[AttentionLayer, Float[np.ndarray, "text head measure"]] = {}
        self._entropy: dict[AttentionLayer, Float[np.ndarray, "text head"]] = {}
        self._nonzero: dict[AttentionLayer, Float[np.ndarray, "text head"]] = {}

    @property
    def layers(self) -> tuple[AttentionLayer, ...]:
        return tuple(self._tau)

    def add(self, layer: AttentionLayer, text: int, weights: Float[np.ndarray, "head token"]) -> None:
        """Take in what each word of a text receives from each head of a layer."""
        if not np.isfinite(weights).all():
            raise NonFiniteError(f"some attention weights of layer {layer} are not finite", "look for NaN weights")
        weights = np.concatenate([weights.mean(axis=0, keepdims=True), weights])
        scores = self._importance[text]
        if layer not in self._tau:
            n_texts, n_heads, n_measures = len(self._importance), len(weights), len(scores)
            self._tau[layer], self._null[layer] = np.full((2, n_texts, n_heads, n_measures), np.nan)
            self._entropy[layer], self._nonzero[layer] = np.full((2, n_texts, n_heads), np.nan)
        if weights.shape[1] > 1:
            self._tau[layer][text] = kendall_tau(weights, scores)
            self._null[layer][text] = tie_null(weights, scores)
            self._entropy[layer][text] = normalised_entropy(weights)
            self._nonzero[layer][text] = (weights > 0).mean(axis=1)

    def rank_correlations(self, measures: Sequence[str], seed: int) -> Iterator[RankCorrelation]:
        """Attention against every measure: each layer, the mean over heads first."""
        for layer in self.layers:
            for head in range(self._tau[layer].shape[1]):
                for column, measure in enumerate(measures):
                    tau, null = (table[layer][:, head, column] for table in (self._tau, self._null))
                    yield RankCorrelation(layer, head or None, measure, **_over_texts(tau, null, seed))

    def attention_concentrations(self) -> Iterator[AttentionConcentration]:
        """How evenly each head attends, the mean over heads first."""
        for layer in self.layers:
            for head in range(self._entropy[layer].shape[1]):
                entropy, nonzero = (table[layer][:, head] for table in (self._entropy, self._nonzero))
                undefined = int(np.isnan(entropy).sum())
                yield AttentionConcentration(
                    layer, head or None, _mean(entropy), _spread(entropy), _mean(nonzero), undefined
                )

    def measure_concentrations(self, measures: Sequence[str]) -> Iterator[MeasureConcentration]:
        """How evenly each measure spreads its scores."""
        long_enough = [scores for scores in self._importance if scores.shape[1] > 1]
        entropies = np.array([normalised_entropy(scores) for scores in long_enough]).reshape(-1, len(measures))
        nonzero = np.array([(scores > 0).mean(axis=1) for scores in long_enough]).reshape(-1, len(measures))
        for column, measure in enumerate(measures):
            values = entropies[:, column]
            undefined = len(self._importance) - int((~np.isnan(values)).sum())
            yield MeasureConcentration(measure, _mean(values), _spread(values), _mean(nonzero[:, column]), undefined)

    def measure_correlations(self, measures: Sequence[str], seed: int) -> Iterator[MeasureCorrelation]:
        """Every measure against every other."""
        taus, nulls = (
            np.array([compare(scores, scores) for scores in self._importance]) for compare in (kendall_tau, tie_null)
        )
        for (one, first), (other, second) in combinations(enumerate(measures), 2):
            yield MeasureCorrelation(first, second, **_over_texts(taus[:, one, other], nulls[:, one, other], seed))


def _over_texts(tau: Float[np.ndarray, " text"], null: Float[np.ndarray, " text"], seed: int) -> dict[str, Any]:
    """The numbers of a `RankCorrelation`, over the texts on which τ is defined."""
    defined = ~np.isnan(tau)
    low, high = _interval(tau, seed)
    excess_low, excess_high = _interval(tau - null, seed)
    return {
        "tau": _mean(tau),
        "low": low,
        "high": high,
        "spread": _spread(tau),
        "tie_null": _mean(null[defined]),
        "excess": _mean(tau - null),
        "excess_low": excess_low,
        "excess_high": excess_high,
        "n_undefined": int((~defined).sum()),
    }


def _interval(values: Float[np.ndarray, " text"], seed: int) -> tuple[float, float]:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return float("nan"), float("nan")
    low, high = bootstrap(defined, seed=seed)
    return float(low), float(high)


def _mean(values: Float[np.ndarray, " text"]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _spread(values: Float[np.ndarray, " text"]) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.std()) if len(defined) else float("nan")
