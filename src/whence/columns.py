"""Records held by columns: each is made once somebody looks at it.

Of many texts nobody looks at most tokens and words, and what models read and tables hold are columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item")


class Columns(Sequence[Item], Generic[Item]):
    """A sequence of records, given by their columns in the order of a record's fields.

    >>> spans = Columns(slice, (0, 2), (1, 6))
    >>> len(spans), spans[1], spans.columns[0]
    (2, slice(2, 6, None), (0, 2))
    """

    def __init__(self, make: Callable[..., Item], *columns: Sequence[Any]) -> None:
        self._make = make
        self.columns = columns

    @cached_property
    def _made(self) -> tuple[Item, ...]:
        return tuple(map(self._make, *self.columns))

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        return self._made[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        return self._made == tuple(other) if isinstance(other, (Columns, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made)

    def __repr__(self) -> str:
        return repr(self._made)


class Later(Sequence[Item], Generic[Item]):
    """So many records, all of which are made once somebody looks at one.

    Records are read off numbers that a GPU has yet to work out; whoever waits for these before there is nothing else to
    do keeps it waiting too.

    >>> words = Later(2, lambda: ["a", "film"])
    >>> len(words), words[1]
    (2, 'film')
    """

    def __init__(self, length: int, make: Callable[[], Sequence[Item]]) -> None:
        self._length, self._make = length, make

    @cached_property
    def _made(self) -> Sequence[Item]:
        return self._make()

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._made[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._made)


def columns_of(records: Sequence[Any], names: Sequence[str]) -> tuple[Sequence[Any], ...]:
    """The columns of records, whose fields are these."""
    if isinstance(records, Columns):
        return records.columns
    return tuple(tuple(getattr(record, name) for record in records) for name in names)
