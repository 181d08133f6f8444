"""The pieces that a tokenizer cuts a text into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload


@dataclass(frozen=True)
class Token:
    """A piece of the text as the tokenizer cut it; `start` and `end` are characters of the user's own text."""

    text: str
    id: int
    start: int
    end: int
    segment: int = 0
    special: bool = False
    word: int | None = None


_NAMES = tuple(field.name for field in fields(Token))


class Tokens(Sequence[Token]):
    """The tokens of a text by columns, in the order of a token's fields; each is made once somebody looks at it.

    Of many texts nobody looks at most of them, and what models read are columns.

    >>> tokens = Tokens(("a", "film"), (5, 7), (0, 2), (1, 6), (0, 0), (False, False), (0, 1))
    >>> len(tokens), tokens[1].text, tokens.ids
    (2, 'film', (5, 7))
    """

    def __init__(
        self,
        texts: Sequence[str],
        ids: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        segments: Sequence[int],
        special: Sequence[bool],
        words: Sequence[int | None],
    ) -> None:
        self.ids, self.special, self.words = ids, special, words
        self._columns: tuple[Sequence[Any], ...] = (texts, ids, starts, ends, segments, special, words)

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> Tokens:
        """Tokens that are there already."""
        if isinstance(tokens, Tokens):
            return tokens
        return cls(*(tuple(getattr(token, name) for token in tokens) for name in _NAMES))

    @cached_property
    def _made(self) -> tuple[Token, ...]:
        return tuple(map(Token, *self._columns))

    def rows(self) -> list[dict[str, Any]]:
        """The fields of each token by name, as a file holds them."""
        return [dict(zip(_NAMES, row, strict=True)) for row in zip(*self._columns, strict=True)]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Token, ...]: ...
    def __getitem__(self, index: int | slice) -> Token | tuple[Token, ...]:
        return self._made[index]

    def __iter__(self) -> Iterator[Token]:
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        return self._made == tuple(other) if isinstance(other, (Tokens, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made)

    def __repr__(self) -> str:
        return repr(self._made)
