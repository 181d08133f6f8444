"""What several methods say of one text together: the words that they share, and those on which they contradict.

A method's *first* words are its three strongest, those without any score left out. Two methods contradict each other on
a word if one clearly speaks for and the other clearly against (see `signs_of`). Random scores take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.render.belief import signs_of
from whence.render.sentence import Part, listed, named

if TYPE_CHECKING:
    from jaxtyping import Float

FIRST = 3
MOST_NAMED = 3
_LONGEST_WORD = 40


@dataclass(frozen=True)
class Consensus:
    """In words, and the indices of the words on which two methods contradict each other."""

    parts: tuple[Part, ...]
    contradicted: tuple[int, ...]


def consensus_of(
    shares: Float[np.ndarray, "method word"], signed: Sequence[bool], labels: Sequence[str], kind: str
) -> Consensus:
    """The consensus of two methods or more, given each score as a share of its method's largest."""
    count = len(shares)
    order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :FIRST]
    first = np.zeros(shares.shape, dtype=bool)
    np.put_along_axis(first, order, True, axis=1)
    votes = (first & (shares != 0)).sum(axis=0)
    signs = signs_of(shares, signed)
    contradicted = np.flatnonzero((signs.max(axis=0) > 0) & (signs.min(axis=0) < 0)).tolist()
    most = int(votes.max(initial=0))
    everyone = {2: "Both"}.get(count, f"All {count}")
    if 2 * most > count:
        chosen = [index for index in np.argsort(-np.abs(shares).mean(axis=0)).tolist() if votes[index] == most]
        who = everyone if most == count else f"{most} of {count}"
        parts = [("plain", f"{who} methods have "), *_named(chosen, labels), ("plain", f" among their first {FIRST}")]
    else:
        parts = [("plain", f"No {kind} is among the first {FIRST} of more than half of the {count} methods")]
    if contradicted:
        parts += [("plain", "; they contradict each other on "), *_named(contradicted, labels)]
    elif sum(signed) > 1:
        parts += [("plain", f"; on no {kind} do they clearly contradict each other")]
    return Consensus((*parts, ("plain", ".")), tuple(contradicted))


def _named(indices: Sequence[int], labels: Sequence[str]) -> list[Part]:
    words = [named("matters", labels[index], _LONGEST_WORD) for index in indices[:MOST_NAMED]]
    more = len(indices) - len(words)
    rest: list[list[Part]] = [[("plain", f"{more} more")]] if more else []
    return listed([*words, *rest])
