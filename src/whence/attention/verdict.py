"""The verdict of an attention audit in plain words, each sentence computed from the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whence.attention.attention_maps import AttentionLayer
from whence.attention.audit_record import Agreement, AttentionAudit

# τ beyond ties: below LITTLE, four pairs of tokens in nine are in the wrong order, which nobody could use; from STRONG
# on, at most one in five is.
LITTLE, SOME, STRONG = 0.1, 0.3, 0.6


@dataclass(frozen=True)
class Verdict:
    """The answer to "does attention tell which inputs matter?", and the reasons for it."""

    answer: str
    reasons: tuple[str, ...]


def judge(audit: AttentionAudit) -> Verdict:
    """Read an audit: layers are judged by the mean over heads, and by what they have beyond ties, over all measures."""
    layers = {layer: excess for layer in audit.layers if not math.isnan(excess := _excess(audit.of_layer(layer)))}
    if not layers:
        return Verdict(
            "Nothing can be said: on no text could attention and importance be ranked.",
            tuple(_exclusions(audit)),
        )
    best = max(layers, key=lambda layer: layers[layer])
    return Verdict(
        _answer(layers[best]),
        (
            *_best_layer(audit, best, layers[best]),
            *_poor_layers(audit, layers),
            *_best_head(audit),
            *_measures(audit, layers[best]),
            *_spread_of(audit, best),
            *_exclusions(audit),
        ),
    )


def _answer(excess: float) -> str:
    if excess < LITTLE:
        return "Attention does not tell which inputs matter to this model."
    if excess < SOME:
        return "Attention tells little about which inputs matter to this model."
    if excess < STRONG:
        return "Attention tells something about which inputs matter to this model, but is no substitute for a measure."
    return "Attention ranks the inputs much as the importance measures do."


def _best_layer(audit: AttentionAudit, layer: AttentionLayer, excess: float) -> Iterator[str]:
    rows = [row for row in audit.of_layer(layer) if not math.isnan(row.tau)]
    strongest, weakest = (choose(rows, key=lambda row: row.tau) for choose in (max, min))
    chosen = "" if len(audit.layers) == 1 else " (the best layer, chosen after looking)"
    others = f" and {_numbers(weakest)} with {weakest.measure}" if weakest is not strongest else ""
    yield (
        f"Attention of {_name(layer)}{chosen} agrees at τ {_numbers(strongest)} with {strongest.measure}{others}; ties "
        f"alone explain {_mean([row.tie_null for row in rows]):.2f}, which leaves {excess:+.2f} on average."
    )


def _poor_layers(audit: AttentionAudit, layers: dict[AttentionLayer, float]) -> Iterator[str]:
    poor = [layer for layer, excess in layers.items() if excess < LITTLE]
    if poor:
        yield (
            f"Attention of {_names(poor)} ranks inputs little better than ties alone explain "
            f"(at most {max(layers[layer] for layer in poor):+.2f} beyond them)."
        )


def _best_head(audit: AttentionAudit) -> Iterator[str]:
    heads: dict[tuple[AttentionLayer, int], float] = {}
    for row in audit.agreements:
        if row.head is not None and (row.layer, row.head) not in heads:
            heads[row.layer, row.head] = _excess(audit.of_layer(row.layer, row.head))
    defined = {key: excess for key, excess in heads.items() if not math.isnan(excess)}
    if len(defined) > len(audit.layers):
        (layer, head), excess = max(defined.items(), key=lambda item: item[1])
        yield (
            f"Of {len(defined)} heads the best, again chosen after looking, is head {head} of {_name(layer)} "
            f"with {excess:+.2f} beyond ties."
        )


def _measures(audit: AttentionAudit, excess: float) -> Iterator[str]:
    taus = [each.tau for each in audit.between if not math.isnan(each.tau)]
    if taus:
        agree = _mean(taus)
        side = (
            "less than" if excess < agree - LITTLE else "more than" if excess > agree + LITTLE else "about as much as"
        )
        yield f"The measures agree with one another at τ {agree:.2f}: attention agrees with them {side} that."


def _spread_of(audit: AttentionAudit, layer: AttentionLayer) -> Iterator[str]:
    row = next(each for each in audit.attention if each.layer == layer and each.head is None)
    if not math.isnan(row.entropy):
        zeros = f", {1 - row.nonzero:.0%} of its weights exactly zero" if row.nonzero < 1 else ""
        yield f"Attention of {_name(layer)} has a normalised entropy of {row.entropy:.2f} (1 is uniform){zeros}."


def _exclusions(audit: AttentionAudit) -> Iterator[str]:
    if audit.n_too_short:
        yield f"{audit.n_too_short} of {audit.n_texts} texts have fewer than two words and were left out."
    worst = max((row.n_undefined for row in audit.agreements), default=0)
    if worst > audit.n_too_short:
        yield f"On up to {worst} of {audit.n_texts} texts weights or scores were all equal; these were left out there."


def _excess(rows: Sequence[Agreement]) -> float:
    """τ beyond ties, averaged over the measures on which it is defined."""
    return _mean([row.excess for row in rows if not math.isnan(row.excess)])


def _numbers(row: Agreement) -> str:
    return f"{row.tau:.2f} [{row.low:.2f}, {row.high:.2f}]"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _name(layer: AttentionLayer) -> str:
    return "the pooling layer" if layer == "pooling" else f"layer {layer}"


def _names(layers: Sequence[AttentionLayer]) -> str:
    if len(layers) == 1:
        return _name(layers[0])
    blocks = [str(layer) for layer in layers if layer != "pooling"]
    parts = [f"layers {', '.join(blocks)}" if len(blocks) > 1 else f"layer {blocks[0]}"]
    return " and ".join([*parts, *(["the pooling layer"] if "pooling" in layers else [])])
