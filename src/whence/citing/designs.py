"""Which sets of sources are asked about.

Random sets mix up what single sources do with what two do together. The balanced design does not: its sets come in
pairs, a set and all that is not in it, so that whatever two sources do together is the same in both halves and drops
out of their difference; and within a block of pairs every two sources are together as often as apart (the rows of a
Hadamard matrix), so that no source is mistaken for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


def drawn_as_context_cite(n_sets: int, n_sources: int, seed: int = 0) -> Bool[np.ndarray, "set source"]:
    """Each source is in a set with probability ½; sets may repeat. The draws are those of the package context-cite."""
    return np.stack(
        [
            np.random.RandomState(seed + number).choice([False, True], size=n_sources, p=[0.5, 0.5])
            for number in range(n_sets)
        ]
    )


def everything_but_one(n_sources: int) -> Bool[np.ndarray, "set source"]:
    """All sources, then all but the first, all but the second, …"""
    sets = np.ones((n_sources + 1, n_sources), dtype=bool)
    np.fill_diagonal(sets[1:], False)
    return sets


def balanced_pairs(n_pairs: int, n_sources: int, seed: int = 0) -> Bool[np.ndarray, "pair 2 source"]:
    """So many distinct pairs of sets; a larger number begins with the same pairs. There are 2^(sources - 1) in all."""
    n_pairs = min(n_pairs, 2 ** (n_sources - 1))
    found: dict[bytes, np.ndarray] = {}
    for half in _halves(n_sources, np.random.default_rng((seed, n_sources))):
        if len(found) == n_pairs:
            break
        other = ~half
        if half.tobytes() not in found and other.tobytes() not in found:
            found[half.tobytes()] = np.stack([half, other])
    return np.stack(list(found.values()))


def _halves(n_sources: int, generator: np.random.Generator) -> Iterator[Bool[np.ndarray, " source"]]:
    """One set of each pair, for ever: block after block, each with its sources at random columns, signs and rows."""
    rows = hadamard(n_sources) > 0
    while True:
        columns = generator.permutation(len(rows))[:n_sources]
        flipped = generator.random(n_sources) < 0.5
        yield from rows[generator.permutation(len(rows))][:, columns] ^ flipped


def hadamard(least: int) -> Float[np.ndarray, "row column"]:
    """A matrix of 1 and -1 with orthogonal columns, the smallest of at least so many that Paley and Sylvester give.

    >>> [len(hadamard(least)) for least in (1, 3, 9, 13, 17, 33)]
    [1, 4, 12, 16, 20, 40]
    """
    order = least
    while (found := _of_order(order)) is None:
        order += 1
    return found


def _of_order(order: int) -> Float[np.ndarray, "row column"] | None:
    if order == 1:
        return np.ones((1, 1))
    prime = order - 1
    if order % 4 == 0 and all(prime % divisor for divisor in range(2, int(prime**0.5) + 1)):
        return _paley(prime)
    half = _of_order(order // 2) if order % 2 == 0 else None
    return None if half is None else np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), half)


def _paley(prime: int) -> Float[np.ndarray, "row column"]:
    """Of order prime + 1, where the prime is one less than a multiple of four."""
    squares = {number * number % prime for number in range(1, prime)}
    signs = np.array([0.0, *(1.0 if number in squares else -1.0 for number in range(1, prime))])
    numbers = np.arange(prime)
    matrix = np.ones((prime + 1, prime + 1))
    matrix[1:, 1:] = signs[(numbers[:, None] - numbers) % prime] + np.eye(prime)
    matrix[1:, 0] = -1.0
    return matrix
