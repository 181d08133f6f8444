"""An attention audit as one page, drawn by the script in `pages/audit`: what was found, then the numbers behind it."""

from __future__ import annotations

from typing import Any

from whence.attention.audit_record import AttentionAudit, MeasureCorrelation, RankCorrelation
from whence.attention.verdict import best_layer, mean_of
from whence.render.glossary import words_for
from whence.render.shell import finite, shell
from whence.render.visible import visible
from whence.render.wording import model_name, model_words

SCHEMA = "whence.audit_page/1"
TITLE = "Does attention tell which inputs matter?"
LOOKERS = {
    "all": "from all tokens, averaged",
    "first": "from the first token",
    "last": "from the last token",
}
"""Whose attention it is, in words, by the setting `queries`."""


def audit_page(audit: AttentionAudit) -> str:
    """One self-contained file."""
    title = f"{TITLE} {model_name(audit.model.id)} on {audit.n_texts} text{'s' if audit.n_texts != 1 else ''}"
    return shell("audit", ("audit",), title, page_data(audit))


def page_data(audit: AttentionAudit) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    verdict = audit.verdict
    between = {(each.first, each.second): each for each in audit.between}
    return {
        "schema": SCHEMA,
        "answer": visible(verdict.answer),
        "reasons": [visible(reason) for reason in verdict.reasons],
        "pairs": _pairs(audit),
        "warnings": [visible(warning) for warning in audit.warnings],
        "nTexts": audit.n_texts,
        "measures": [visible(measure) for measure in audit.measures],
        "layers": [str(layer) for layer in audit.layers],
        "byLayer": [[_numbers(row) for row in audit.of_layer(layer)] for layer in audit.layers],
        "among": _of_pairs(mean_of(audit.between)),
        "heads": _heads(audit),
        "spread": [[finite(row.entropy, 4), finite(1 - row.nonzero, 4)] for row in audit.attention if row.head is None],
        "between": [
            [
                None if one == other else _numbers(between.get((one, other)) or between[other, one])
                for other in audit.measures
            ]
            for one in audit.measures
        ],
        "measureSpread": [finite(row.entropy, 4) for row in audit.importance],
        "facts": [
            ["model", model_words(audit.model)],
            ["texts", f"{audit.n_texts}, of which {audit.n_too_short} too short to rank"],
            ["attention", f"that tokens receive {LOOKERS.get(audit.queries, audit.queries)}; special tokens left out"],
            ["measures", f"sizes of their scores at the word embeddings ({audit.scale.replace('_', ' ')})"],
            ["seed", str(audit.seed)],
            ["time", f"{audit.seconds:.0f} s"],
        ],
        "glossary": words_for("attention", "entropy", "head", "interval", "layer", "measures", "ties", "token", "τ"),
    }


def _pairs(audit: AttentionAudit) -> list[list[Any]]:
    """Of a hundred pairs of tokens, how many stand in the right order: by a coin, by attention, by another measure.

    A rank correlation τ without ties is the share of pairs in the right order less the share in the wrong one.
    """
    best = best_layer(audit)
    found: list[list[Any]] = [["a coin", 50.0, None, None]]
    if best is not None:
        layer, mean = best
        name = "attention of the pooling layer" if layer == "pooling" else f"attention of layer {layer}, its best"
        found.append([name, *(50 * (1 + tau) for tau in (mean.value, mean.low, mean.high))])
    among = mean_of(audit.between)
    if among is not None:
        found.append(["another measure, on average", *(50 * (1 + tau) for tau in (among.value, among.low, among.high))])
    return [[name, *(finite(each, 2) for each in numbers)] for name, *numbers in found]


def _of_pairs(mean: Any) -> list[float | None] | None:
    return None if mean is None else [finite(each, 4) for each in (mean.value, mean.low, mean.high)]


def _numbers(row: RankCorrelation | MeasureCorrelation) -> list[float | int | bool | None]:
    """τ, its interval, what ties alone explain, texts without one, and whether it is surely beyond ties."""
    numbers = [finite(each, 4) for each in (row.tau, row.low, row.high, row.tie_null)]
    return [*numbers, row.n_undefined, row.excess_low > 0]


def _heads(audit: AttentionAudit) -> list[list[list[float | None]]]:
    """τ by measure, layer and head."""
    found = {(row.measure, row.layer, row.head): finite(row.tau, 4) for row in audit.rank_correlations if row.head}
    most = max((head or 0 for _, _, head in found), default=0)
    return [
        [[found.get((measure, layer, head + 1)) for head in range(most)] for layer in audit.layers]
        for measure in audit.measures
    ]
