"""The verdict of an attention audit in plain words, each sentence computed from the numbers.

Attention is held against what can be expected of it: the importance measures do not rank the tokens alike either, so
how far they do is the most that attention could reach with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whence.attention.attention_maps import AttentionLayer
from whence.attention.audit_record import AttentionAudit, MeasureCorrelation, RankCorrelation

LITTLE = 0.1  # τ beyond ties: below it four pairs of tokens in nine are in the wrong order, which nobody could use


@dataclass(frozen=True)
class Verdict:
    """The answer to "does attention tell which inputs matter?", and the reasons for it."""

    answer: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Mean:
    """A mean of rank correlations beyond ties, with bounds: its interval is no wider than the mean of theirs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def judge(audit: AttentionAudit) -> Verdict:
    """Read an audit: layers are judged by the mean over heads and measures, and by what they have beyond ties."""
    layers = _means(audit)
    best_found = best_layer(audit)
    if best_found is None:
        return Verdict(
            "Nothing can be said: on no text could attention and importance be ranked.",
            tuple(_exclusions(audit)),
        )
    best, _ = best_found
    between = mean_of(audit.between)
    return Verdict(
        _answer(layers[best], between),
        (
            *_best_layer(audit, best, layers[best], between),
            *_by_measure(audit, best),
            *_poor_layers(layers),
            *_best_head(audit),
            *_spread_of(audit, best),
            *_exclusions(audit),
        ),
    )


def best_layer(audit: AttentionAudit) -> tuple[AttentionLayer, Mean] | None:
    """The layer whose attention ranks most like the measures, and how far; None where nothing could be ranked."""
    return max(_means(audit).items(), key=lambda item: item[1].value, default=None)


def _means(audit: AttentionAudit) -> dict[AttentionLayer, Mean]:
    return {layer: found for layer in audit.layers if (found := mean_of(audit.of_layer(layer))) is not None}


def _answer(attention: Mean, between: Mean | None) -> str:
    """The one rule: attention's mean rank correlation against that of the measures among themselves."""
    if between is not None and between.value < LITTLE:
        return "Nothing can be said: the importance measures do not rank the inputs alike themselves."
    if attention.value < LITTLE:
        return "Attention does not tell which inputs matter to this model."
    if between is None:
        return (
            "Attention tells something about which inputs matter to this model; how much could be, no two measures say."
        )
    if attention.low > between.high:
        return "Attention tells more about which inputs matter to this model than the measures tell of each other."
    apart, half = attention.high < between.low, attention.value < between.value / 2
    if half and not apart:
        return "These texts are too few to say how much attention tells about which inputs matter to this model."
    if not apart:
        return "Attention tells as much about which inputs matter to this model as the measures tell of each other."
    if half:
        return (
            "Attention tells little about which inputs matter to this model: less than half as much as the measures "
            "tell of each other."
        )
    return (
        "Attention tells something about which inputs matter to this model, but less than the measures tell of each "
        "other."
    )


def _best_layer(audit: AttentionAudit, layer: AttentionLayer, attention: Mean, between: Mean | None) -> Iterator[str]:
    chosen = "" if len(audit.layers) == 1 else " (the best layer, chosen after looking)"
    among = "" if between is None else f"; that of the measures among themselves is {between}"
    ties = [row.tie_null for row in audit.of_layer(layer) if not math.isnan(row.tie_null)]
    yield (
        f"The rank correlation of the attention of {_name(layer)}{chosen} with the measures is {attention} on "
        f"average{among}. This is τ beyond ties, which alone explain {sum(ties) / len(ties):.2f}."
    )


def _by_measure(audit: AttentionAudit, layer: AttentionLayer) -> Iterator[str]:
    """The measures to which attention is nearest and furthest, each with what other measures reach there."""
    rows = [row for row in audit.of_layer(layer) if not math.isnan(row.tau)]
    nearest, furthest = (choose(rows, key=lambda row: row.tau) for choose in (max, min))
    said = []
    for row in dict.fromkeys((nearest, furthest)):
        others = [pair.tau for pair in audit.between if row.measure in (pair.first, pair.second)]
        known = [tau for tau in others if not math.isnan(tau)]
        reach = f", where the other measures reach {sum(known) / len(known):.2f}" if known else ""
        said.append(f"{row.tau:.2f} [{row.low:.2f}, {row.high:.2f}] with {row.measure}{reach}")
    yield f"Ties included, it is {'; '.join(said)}."


def _poor_layers(layers: dict[AttentionLayer, Mean]) -> Iterator[str]:
    poor = [layer for layer, found in layers.items() if found.value < LITTLE]
    if poor:
        yield (
            f"Attention of {_names(poor)} ranks inputs little better than ties alone explain "
            f"(at most {max(layers[layer].value for layer in poor):+.2f} beyond them)."
        )


def _best_head(audit: AttentionAudit) -> Iterator[str]:
    heads = dict.fromkeys((row.layer, row.head) for row in audit.rank_correlations if row.head is not None)
    found = {key: mean for key in heads if (mean := mean_of(audit.of_layer(*key))) is not None}
    if len(found) > len(audit.layers):
        (layer, head), mean = max(found.items(), key=lambda item: item[1].value)
        yield (
            f"Of {len(found)} heads the best, again chosen after looking, is head {head} of {_name(layer)} "
            f"with {mean.value:+.2f} beyond ties."
        )


def _spread_of(audit: AttentionAudit, layer: AttentionLayer) -> Iterator[str]:
    row = next(each for each in audit.attention if each.layer == layer and each.head is None)
    if not math.isnan(row.entropy):
        zeros = f", {1 - row.nonzero:.0%} of its weights exactly zero" if row.nonzero < 1 else ""
        yield f"Attention of {_name(layer)} has a normalised entropy of {row.entropy:.2f} (1 is uniform){zeros}."


def _exclusions(audit: AttentionAudit) -> Iterator[str]:
    if audit.n_too_short:
        yield f"{audit.n_too_short} of {audit.n_texts} texts have fewer than two words and were left out."
    worst = max((row.n_undefined for row in audit.rank_correlations), default=0)
    if worst > audit.n_too_short:
        yield f"On up to {worst} of {audit.n_texts} texts weights or scores were all equal; these were left out there."


def mean_of(rows: Sequence[RankCorrelation] | Sequence[MeasureCorrelation]) -> Mean | None:
    """Over the rows that have a number; None if none has."""
    known = [(row.excess, row.excess_low, row.excess_high) for row in rows if not math.isnan(row.excess)]
    return Mean(*(sum(numbers) / len(known) for numbers in zip(*known, strict=True))) if known else None


def _name(layer: AttentionLayer) -> str:
    return "the pooling layer" if layer == "pooling" else f"layer {layer}"


def _names(layers: Sequence[AttentionLayer]) -> str:
    if len(layers) == 1:
        return _name(layers[0])
    blocks = [str(layer) for layer in layers if layer != "pooling"]
    parts = [f"layers {', '.join(blocks)}" if len(blocks) > 1 else f"layer {blocks[0]}"]
    return " and ".join([*parts, *(["the pooling layer"] if "pooling" in layers else [])])
