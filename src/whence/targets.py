"""What may be explained, in the user's words: a label, a span, a contrast; and what a reading knows of a text.

What a target means for a task is for its reading to say; each task has one in `whence.tasks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Token


@dataclass(frozen=True)
class Label:
    """A class, a vocabulary token or a token's tag, by name or id.

    `at` is a character of the text: which token a tagger is asked about, or which mask a masked language model fills.
    """

    label: str | int | None = None
    at: int | None = None


@dataclass(frozen=True)
class Span:
    """An answer, from character `start` up to character `end` of the context (the pair)."""

    start: int
    end: int


@dataclass(frozen=True)
class Contrast:
    """Why `this` rather than `that`: the difference of two targets."""

    this: Label | Span | str | int
    that: Label | Span | str | int


Target = Label | Span | Contrast | str | int
"""What may be given as `target=`; "predicted" is what the model says, another string or an integer is a Label."""


class Labels(Protocol):
    """The names of the outputs."""

    def name(self, index: int) -> str: ...

    def index(self, label: str | int) -> int: ...


class Vocabulary(Labels, Protocol):
    """The labels of a language model: its tokens. `masking` is the id of the mask, if there is one."""

    masking: int | None


@dataclass(frozen=True)
class ClassLabels:
    """A short list of class names."""

    names: tuple[str, ...]

    def name(self, index: int) -> str:
        return self.names[index]

    def index(self, label: str | int) -> int:
        if isinstance(label, int) and 0 <= label < len(self.names):
            return label
        if label in self.names:
            return self.names.index(str(label))
        raise UnknownNameError("label", label, (f"{name} ({i})" for i, name in enumerate(self.names)))


class EncodedText(Protocol):
    """What a reading knows of a text: the text, its pair, and the tokens they were cut into."""

    @property
    def text(self) -> str: ...

    @property
    def pair(self) -> str | None: ...

    @property
    def tokens(self) -> Sequence[Token]: ...


def token_at(character: int, tokens: Sequence[Token], segment: int = 0) -> int:
    """The token that covers a character of the text."""
    for position, token in enumerate(tokens):
        if token.segment == segment and not token.special and token.start <= character < token.end:
            return position
    raise UsageError(
        f"no token covers character {character}", "it is a space, lies outside the text, or was cut off by truncation"
    )


def written(text: EncodedText, first: int, last: int) -> str:
    """What stands in the text from one token to another; a token that the tokenizer added stands for itself."""
    start, end = text.tokens[first], text.tokens[last]
    source = text.text if start.segment == 0 else text.pair or ""
    return source[start.start : end.end].strip() or start.text
