"""Which tokens speak for a class, over many texts, and how far two classes claim the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, permutations
from typing import Literal

import numpy as np

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Explanation, Layer

Totals = Mapping[str, Mapping[str, float]]
"""For each class, the tokens with what they weigh."""

Shared = Mapping[tuple[str, str], Sequence[str]]
"""For each pair of classes, the tokens that are among the first of both."""

Repeats = Literal["sum", "mean"]


def token_totals(
    explanations: Iterable[Explanation],
    *,
    layer: Layer | None = None,
    weight: Mapping[str, float] | Callable[[str], float] | None = None,
    normalise: bool = True,
    repeats: Repeats = "sum",
) -> dict[str, dict[str, float]]:
    """What each token weighs for each *predicted* class: its scores added up over the texts, times its weight.

    Special tokens do not count. Tokens keep the spelling of the vocabulary ("##ing", "Ġthe").

    Args:
        layer: the layer of the scores; by default the one nearest the input.
        weight: the inverse document frequency of a token, as a table (a token not in it is refused) or a function such
            as `DocumentFrequencies.idf`; by default every token weighs the same.
        normalise: divide a text's scores by the sum of their absolute values first, so that every text counts alike.
        repeats: a token that comes several times in a text counts with the "sum" of its scores, or with their "mean"
            where all its occurrences hold the one score of the token (decoded scores).
    """
    if repeats not in ("sum", "mean"):
        raise UnknownNameError("way to count repeats", repeats, ["sum", "mean"])
    totals: dict[str, dict[str, float]] = {}
    for explanation in explanations:
        occurrences: dict[str, list[float]] = {}
        for token, score in zip(explanation.tokens, explanation.row(layer).tolist(), strict=True):
            if not token.special:
                occurrences.setdefault(token.text, []).append(score)
        gather = sum if repeats == "sum" else np.mean
        scores = {token: float(gather(found)) for token, found in occurrences.items()}
        size = sum(abs(score) for score in scores.values()) if normalise else 1.0
        of_class = totals.setdefault(explanation.prediction.label, {})
        for name, score in scores.items():
            of_class[name] = of_class.get(name, 0.0) + (score / size if size else 0.0)
    if weight is None:
        return totals
    weigh = _table(weight) if isinstance(weight, Mapping) else weight
    return {label: {token: total * weigh(token) for token, total in of.items()} for label, of in totals.items()}


def _table(weights: Mapping[str, float]) -> Callable[[str], float]:
    def look_up(token: str) -> float:
        if token not in weights:
            raise UsageError(f"the table of weights lacks {token!r}", "give a function that knows every token")
        return weights[token]

    return look_up


def top_tokens(totals: Mapping[str, float], k: int) -> list[str]:
    """The `k` tokens that weigh most, heaviest first, equal ones by name; tokens that speak against are left out."""
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k!r}", "give k=50")
    speaking = [token for token, total in totals.items() if total > 0]
    return sorted(speaking, key=lambda token: (-totals[token], token))[:k]


def shared_tokens(totals: Totals, k: int) -> dict[tuple[str, str], list[str]]:
    """For each pair of classes the tokens among the first `k` of both, in the order of the first class."""
    first = {label: top_tokens(of_class, k) for label, of_class in totals.items()}
    return {(one, other): [t for t in first[one] if t in set(first[other])] for one, other in combinations(first, 2)}


def overlap(totals: Totals, k: int) -> float:
    """The share of the first `k` tokens that two classes have in common, averaged over the pairs of classes.

    Σ |top_k(a) ∩ top_k(b)| / (pairs · k). Where a class has fewer than k tokens, no more than it has can be shared, and
    a pair's count is divided by that number instead.

    >>> overlap({"good": {"fine": 2.0, "film": 1.0}, "bad": {"dull": 2.0, "film": 1.0}}, k=2)
    0.5
    """
    if len(totals) < 2:
        raise UsageError(
            "an overlap needs tokens of at least two classes", "explain texts of several predicted classes"
        )
    sizes = {label: len(top_tokens(of_class, k)) for label, of_class in totals.items()}
    shares = [
        len(tokens) / max(1, min(sizes[one], sizes[other])) for (one, other), tokens in shared_tokens(totals, k).items()
    ]
    return sum(shares) / len(shares)


def overlap_curve(totals: Totals, ks: Iterable[int]) -> list[float]:
    """`overlap` at several k."""
    return [overlap(totals, k) for k in ks]


def contradictions(shared: Shared) -> list[tuple[tuple[str, str], tuple[str, str], tuple[str, str], list[str]]]:
    """Where lists of shared tokens cannot all be right.

    A token shared by a and b, and by a and c, stands in the lists of all three, so b and c share it too. Gives the two
    pairs that claim tokens, the pair that lacks them, and the tokens; nothing if the lists agree.
    """
    claims = {frozenset(pair): set(tokens) for pair, tokens in shared.items()}
    found = []
    for a, b, c in permutations(sorted({label for pair in shared for label in pair}), 3):
        pairs = [frozenset(pair) for pair in ((a, b), (a, c), (b, c))]
        if b < c and all(pair in claims for pair in pairs):
            missing = (claims[pairs[0]] & claims[pairs[1]]) - claims[pairs[2]]
            if missing:
                found.append(((a, b), (a, c), (b, c), sorted(missing)))
    return found
