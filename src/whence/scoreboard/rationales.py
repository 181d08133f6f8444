"""What people marked: spans of characters that matter, from labels of words or given as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.data.example import Example
from whence.errors import UsageError
from whence.explanation import Explanation, Meaning, Word
from whence.metrics.answered import MarkedText
from whence.metrics.table import Metric
from whence.scoreboard.trial import Findings, Step, Trial

if TYPE_CHECKING:
    from jaxtyping import Bool

Rationale = Sequence[tuple[int, int]]
"""The spans of characters of a text that people marked."""

NEUTRAL = 2  # the middle of the treebank's five sentiments


def leaf_rationale(example: Example) -> Rationale | None:
    """The words of a treebank sentence whose own sentiment is on the side of the whole sentence's.

    None where the sentence has no labels of words, or is itself neutral.

    >>> leaf_rationale(Example("a dull but fine film", label=3, token_labels=(2, 1, 2, 4, 2)))
    [(11, 15)]
    """
    if example.token_labels is None or not isinstance(example.label, int) or example.label == NEUTRAL:
        return None
    spans = [match.span() for match in re.finditer(r"[^ ]+", example.text)]
    if len(spans) != len(example.token_labels):
        raise UsageError(
            f"{len(example.token_labels)} labels for {len(spans)} words: {example.text[:40]!r}", "give one per word"
        )
    side = np.sign(example.label - NEUTRAL)
    return [span for span, leaf in zip(spans, example.token_labels, strict=True) if np.sign(leaf - NEUTRAL) == side]


def plausibility(
    trial: Trial,
    meanings: Mapping[str, Meaning],
    marks: Sequence[Rationale | None] | None,
    share: float | None,
    metrics: Sequence[Metric],
) -> Step:
    """The metrics of marked texts, word by word; for `share` see `marked_share`."""
    of_marks = [metric for metric in metrics if metric.of == "marked"]
    total = len(meanings) if of_marks and marks is not None and share is not None else 0

    def run(findings: Findings, key: Mapping[str, Any]) -> None:
        assert marks is not None, "or there would be nothing to do"
        assert share is not None, "or there would be nothing to do"
        for done, (name, scored) in enumerate(findings.scored.items(), start=1):
            found = np.full((len(of_marks), len(marks)), np.nan)
            for index, (rationale, row, read) in enumerate(zip(marks, scored.rows, trial.encodings, strict=True)):
                if rationale is not None:
                    made = Explanation.from_scores(read.text, read.tokens, row, pair=read.pair, meaning=meanings[name])
                    words = _words(made)
                    scores = np.array([word.score for word in words])
                    text = MarkedText(scores, _marked(words, rationale), share)
                    found[:, index] = [metric.compute(text) for metric in of_marks if metric.compute]
            findings.fill(name, {metric.name: row for metric, row in zip(of_marks, found, strict=True)})
            trial.report("people's marks", done, total)

    return Step("people's marks", total, [metric.name for metric in of_marks], {}, run)


def marked_share(explanations: Sequence[Explanation], rationales: Sequence[Rationale | None] | None) -> float | None:
    """The share of words that people marked, averaged over the texts in which they marked any; None if they did not."""
    pairs = [] if rationales is None else zip(explanations, rationales, strict=True)
    shares = [_marked(_words(explanation), rationale).mean() for explanation, rationale in pairs if rationale]
    return (float(np.mean(shares)) or None) if shares else None


def _words(explanation: Explanation) -> list[Word]:
    return [word for word in explanation.words() if word.segment == 0]


def _marked(words: Sequence[Word], rationale: Rationale) -> Bool[np.ndarray, " word"]:
    return np.array([any(first < word.end and word.start < last for first, last in rationale) for word in words])
