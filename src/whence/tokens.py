"""The pieces that a tokenizer cuts a text into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from json.encoder import encode_basestring_ascii
from typing import Any

from whence.columns import Columns, columns_of


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
_JSON = "{" + ",".join(f'"{name}":%s' for name in _NAMES) + "}"


class Tokens(Columns[Token]):
    """The tokens of a text by columns.

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
        super().__init__(Token, texts, ids, starts, ends, segments, special, words)
        self.texts, self.ids, self.starts, self.ends = texts, ids, starts, ends
        self.segments, self.special, self.words = segments, special, words

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> Tokens:
        """Tokens that are there already."""
        return tokens if isinstance(tokens, Tokens) else cls(*columns_of(tokens, _NAMES))

    def rows(self) -> list[dict[str, Any]]:
        """The fields of each token by name, as a file holds them."""
        return [dict(zip(_NAMES, row, strict=True)) for row in zip(*self.columns, strict=True)]

    def json(self) -> str:
        """The JSON of `rows`, in ASCII, several times as fast as by way of them."""
        rows = zip(
            map(encode_basestring_ascii, self.texts),
            self.ids,
            self.starts,
            self.ends,
            self.segments,
            ["true" if each else "false" for each in self.special],
            ["null" if each is None else each for each in self.words],
            strict=True,
        )
        return f"[{','.join([_JSON % row for row in rows])}]"
