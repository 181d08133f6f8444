"""How common a token is in other texts: inverse document frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from whence.errors import FileError, UsageError


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many of `n_documents` documents each token occurs; a token that is not listed occurs in none."""

    n_documents: int
    counts: Mapping[str, float] = field(repr=False)

    def __post_init__(self) -> None:
        if self.n_documents < 1:
            raise UsageError(f"{self.n_documents} documents give no frequencies", "count at least one document")

    def idf(self, token: str) -> float:
        """ln((1 + documents) / (1 + documents with the token)): 0 for a token of every document.

        >>> DocumentFrequencies(99, {"the": 99}).idf("the")
        0.0
        """
        return math.log((1 + self.n_documents) / (1 + self.counts.get(token, 0.0)))

    def of_pieces(self, pieces_of: Callable[[str], list[str]]) -> DocumentFrequencies:
        """The frequencies of the pieces into which a tokenizer cuts the words, as if words came independently.

        A document lacks a piece if it lacks every word with that piece: with df words counted in N documents, the
        share of documents with the piece is 1 - Π (1 - df / N) over those words.
        """
        lacking: dict[str, float] = {}
        for word, count in self.counts.items():
            absent = math.log1p(-min(count / self.n_documents, 1 - 1e-12))
            for piece in set(pieces_of(word)):
                lacking[piece] = lacking.get(piece, 0.0) + absent
        return DocumentFrequencies(
            self.n_documents, {piece: -math.expm1(logarithm) * self.n_documents for piece, logarithm in lacking.items()}
        )


def read_document_frequencies(
    path: str | Path, *, column: str = "df_50k", n_documents: int = 50_000
) -> DocumentFrequencies:
    """The table of a Parquet file with a column `token` and a column of counts over `n_documents` documents."""
    import pyarrow.lib
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["token", column])
        tokens, counts = (table.column(name).to_pylist() for name in ("token", column))
    except (OSError, KeyError, pyarrow.lib.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise FileError(
            f"cannot read document frequencies from {str(path)!r}: {reason}",
            f"give a Parquet file with token and {column}",
        ) from error
    if counts and max(counts) > n_documents:
        raise UsageError(
            f"{column} counts up to {max(counts)} documents, more than {n_documents}", "give the right n_documents="
        )
    return DocumentFrequencies(n_documents, dict(zip(tokens, counts, strict=True)))
