"""Which columns hold the texts, their pairs, labels and ids: those that are named, or that have a usual name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.errors import FileError, UnknownNameError, UsageError

TEXT = ("text", "sentence", "review", "content", "body", "comment", "message", "tweet", "document", "question",
        "premise", "sentence1", "text1", "headline", "title")  # fmt: skip
PAIR = ("pair",)
LABEL = ("label", "labels", "class", "category", "gold", "gold_label", "sentiment", "target", "rating")
ID = ("id", "ID", "_id", "idx", "uid", "guid", "text_id", "doc_id", "index")
PAIR_OF = {"sentence1": "sentence2", "premise": "hypothesis", "question": "context", "text1": "text2"}


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read; None: there is none."""

    text: str
    pair: str | None = None
    label: str | None = None
    id: str | None = None
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name in dict.fromkeys((self.text, self.pair, self.label, self.id, *self.kept)) if name]

    def __str__(self) -> str:
        told = {"texts": self.text, "pairs": self.pair, "labels": self.label, "ids": self.id}
        return ", ".join(f"{what} from column {name!r}" for what, name in told.items() if name is not None)


def find_columns(
    there: Sequence[str],
    source: str,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    kept: Sequence[str] = (),
    usual_texts: Sequence[str] = (),
    usual_pairs: Sequence[str] = (),
) -> Columns:
    """The columns of a source: those that were named, which must be there, and else those that have a usual name.

    >>> print(find_columns(["nr", "review", "sentiment"], "reviews.csv"))
    texts from column 'review', labels from column 'sentiment'
    """
    for name in (text, pair, label, id, *kept):
        if name is not None and name not in there:
            raise UnknownNameError(f"column of {source}", name, there)
    if text is None:
        text = _first((*usual_texts, *TEXT), there) or (there[0] if len(there) == 1 else None)
    if text is None:
        raise FileError(
            f"{source!r} has no column of a usual name; its columns: {', '.join(there)}",
            "say which holds the texts: text_column= in Python, --text-column",
        )
    if pair is None:
        pair = _first((*usual_pairs, *PAIR, PAIR_OF.get(text.lower(), "")), there)
    taken = {text, pair}
    label = label or _first(LABEL, [name for name in there if name not in taken])
    id = id or _first(ID, [name for name in there if name not in {*taken, label}])
    for name in kept:
        if name in RESERVED:
            raise UsageError(f"a kept column cannot be called {name!r}", "the tables have a column of that name")
    return Columns(text, pair, label, id, tuple(dict.fromkeys(kept)))


RESERVED = ("row", "id", "source", "text", "pair", "label", "prediction", "probability", "probabilities", "target",
            "values", "forwards", "backwards", "warnings", "notes", "error")  # fmt: skip
"""Columns that the tables of a run have of themselves."""


def _first(names: Sequence[str], there: Sequence[str]) -> str | None:
    """The first of the names that is there, in any case if need be."""
    lower = {name.lower(): name for name in reversed(there)}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)
