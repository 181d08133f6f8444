"""Texts on their way into a model: one encoded text, and a padded batch of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
import regex
import torch
from torch import Tensor

from whence.errors import InputError, UsageError
from whence.tokens import Token, Tokens
from whence.units import word_of, word_spans

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

KeysAndValues = tuple[tuple[Tensor, Tensor], ...]
"""What each block of a decoder keeps of the tokens before: axes (batch, attention_head, token, feature)."""


WRITTEN = "written"
"""The feature that marks the tokens which an encoder–decoder's decoder is given, 1 to 0 for the source's."""


@dataclass(frozen=True)
class Turn:
    """What one message of a chat says: characters of the prompt that a template made of all of them."""

    role: str
    start: int
    end: int


@dataclass(frozen=True)
class Encoding:
    """One text (or pair of texts) as a model reads it.

    `features` holds one number per token for each further input of the model (such as token types), `cut` counts the
    tokens lost to truncation. With `responds` the pair is what the model wrote (or might have written) after the text:
    it is read off, token by token, and its tokens count as special: they are not asked about, and they stay.
    Of a chat, `turns` are the messages, and whatever else stands in the text is special too.
    """

    text: str
    pair: str | None
    tokens: Sequence[Token]
    features: Mapping[str, Sequence[int]]
    cut: int = 0
    responds: bool = False
    turns: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", Tokens.of(self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def response(self) -> range:
        """The positions of the response; none where there is no response."""
        return range(sum(token.segment == 0 for token in self.tokens) if self.responds else len(self), len(self))

    @property
    def ids(self) -> list[int]:
        return list(self.columns.ids)

    @property
    def columns(self) -> Tokens:
        """The tokens, by columns too."""
        assert isinstance(self.tokens, Tokens)
        return self.tokens

    @property
    def is_empty(self) -> bool:
        """Whether no token is part of any word."""
        return all(word is None for word in self.columns.words)

    def check_asks(self) -> None:
        """Refuse a prompt that says nothing."""
        if self.is_empty:
            raise InputError("the prompt is empty: there is nothing that a response could rest on", "give a prompt")

    @property
    def prompt_ids(self) -> list[int]:
        """The ids of what the response answers, without those that an encoder–decoder begins to write with."""
        marks = list(self.features.get(WRITTEN, ()))
        return self.ids[: marks.index(1) if 1 in marks else self.response.start]


class Tokenizer(Protocol):
    """Turns a text into an `Encoding`. `padding` and `masking` are ids, or None where there is none.

    A head also reads an attribute `vocabulary`, ids by token; `beginning`, where there is one, is the id with which a
    text begins of which nothing else is left.
    """

    padding: int | None
    masking: int | None

    def encode(self, text: str, pair: str | None) -> Encoding: ...

    def id_of(self, token: str) -> int | None: ...


@runtime_checkable
class EncodesMany(Protocol):
    """A tokenizer that encodes many texts faster than one after the other."""

    def encode_each(self, texts: Sequence[tuple[str, str | None]]) -> list[Encoding]: ...


Ids = Sequence[int]
"""Token ids, in place of a text: what they stand for is never tokenised again."""
Messages = Sequence[Mapping[str, Any]]
"""A chat: what each turn says ("content") and who says it ("role")."""
Prompt = str | Ids | Messages
"""What a decoder is given to go on from."""


def plain_numbers(values: Any) -> Any:
    """The numbers of an array or a tensor as a list; anything else as it is."""
    return values.tolist() if isinstance(values, (np.ndarray, Tensor)) else values


def is_ids_or_messages(value: Any) -> bool:
    """Whether a prompt is given as token ids or messages, not as a text or several of them."""
    value = plain_numbers(value)
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and bool(value) and all(
        isinstance(item, Mapping) or (isinstance(item, Integral) and not isinstance(item, bool)) for item in value
    )  # fmt: skip


def is_chat(value: Any) -> bool:
    return is_ids_or_messages(value) and isinstance(value[0], Mapping)


@runtime_checkable
class EncodesResponses(Protocol):
    """A tokenizer of a model that writes: it takes prompts of every kind, and what was written after them."""

    def encode_prompt(self, prompt: Prompt) -> Encoding: ...

    def encode_response(self, prompt: Prompt, response: str | Ids) -> Encoding: ...


def encode_each(tokenizer: Tokenizer, texts: Sequence[tuple[str, str | None]]) -> list[Encoding]:
    """Texts with their pairs as a model reads them, at once where the tokenizer can."""
    if _encodes_many(type(tokenizer)):
        return cast(EncodesMany, tokenizer).encode_each(texts)
    return [tokenizer.encode(*text) for text in texts]


@cache
def _encodes_many(kind: type) -> bool:
    """Whether a kind of tokenizer does: to look through a protocol takes longer than to encode a short text."""
    return issubclass(kind, EncodesMany)


@dataclass(frozen=True, eq=False)
class Tables:
    """What a batch was made of, in memory: to ask a GPU for it is to wait until it has done all that it was told."""

    lengths: list[int]
    ids: Int[np.ndarray, "batch token"]
    special: Bool[np.ndarray, "batch token"]
    features: tuple[Int[np.ndarray, "batch token"], ...]


@dataclass(frozen=True)
class Inputs:
    """A batch of encoded texts, padded on the right.

    `special` tokens are no words of the text: what the tokenizer or a template added, a response, and padding. Right
    padding keeps every position where it would be without padding, in encoders and (since nothing looks ahead)
    in decoders, so one text alone and in any batch see the same thing. `read_at` says at which token a language
    model's vocabulary is read, one per row, or several where a response is read off: each of its tokens at the one
    before it; shorter responses repeat their last. `unattended` marks tokens that no other token may attend to.
    `reference` is what the pairs were read as, where texts are compared with them. `past` holds the keys and values of
    tokens that stand before these in a decoder and need not be computed again.
    """

    encodings: tuple[Encoding, ...]
    ids: Int[Tensor, "batch token"]
    mask: Bool[Tensor, "batch token"]
    special: Bool[Tensor, "batch token"]
    features: Mapping[str, Int[Tensor, "batch token"]]
    read_at: Int[Tensor, " batch *read"] | None = None
    unattended: Bool[Tensor, "batch token"] | None = None
    reference: Float[Tensor, "batch hidden"] | None = None
    past: KeysAndValues | None = None
    _tables: Tables | None = field(default=None, init=False, repr=False, compare=False)  # `replace` leaves it behind

    def __len__(self) -> int:
        return len(self.encodings)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each text."""
        return [len(encoding) for encoding in self.encodings] if self._tables is None else self._tables.lengths

    @property
    def in_memory(self) -> Tables:
        """Lengths, ids, which of them are special, and features, here."""
        if self._tables is not None:
            return self._tables
        ids, special, *features = (each.cpu().numpy() for each in (self.ids, self.special, *self.features.values()))
        return Tables(self.lengths, ids, special, tuple(features))

    @property
    def attended(self) -> Bool[Tensor, "batch token"]:
        """Which tokens may be attended to: all but padding and what is marked."""
        return self.mask if self.unattended is None else self.mask & ~self.unattended

    @property
    def response(self) -> Bool[Tensor, "batch token"]:
        """Which tokens are those of a response."""
        if not any(encoding.responds for encoding in self.encodings):
            return torch.zeros_like(self.mask)
        places = torch.arange(self.ids.shape[1], device=self.ids.device)
        starts = torch.tensor([encoding.response.start for encoding in self.encodings], device=self.ids.device)
        return self.mask & (places >= starts[:, None])

    @property
    def first_read(self) -> Int[Tensor, " batch"] | None:
        """The first token of each row at which a language model's vocabulary is read."""
        return None if self.read_at is None else self.read_at.reshape(len(self.ids), -1).amin(dim=1)

    @property
    def read_once(self) -> Bool[Tensor, "batch read"]:
        """Where a response is read off, which of the places are not repeated because another response is longer."""
        assert self.read_at is not None
        counts = torch.tensor([len(encoding.response) for encoding in self.encodings], device=self.ids.device)
        return torch.arange(self.read_at.shape[-1], device=self.ids.device) < counts[:, None]

    @property
    def counted(self) -> Bool[Tensor, "batch place"]:
        """Which of the places where an output is read count: all real tokens, or those of a response, each once."""
        return self.mask if self.read_at is None or self.read_at.ndim == 1 else self.read_once

    def rows(self, rows: Int[Tensor, " row"], numbers: Sequence[int] | None = None) -> Inputs:
        """The given rows, in that order, repeats allowed, without padding that none of them needs.

        `numbers` are the same rows, for who knows them: to ask a GPU is to wait until it has done all that it was told.
        """
        numbers = rows.tolist() if numbers is None else numbers
        picked = tuple(map(self.encodings.__getitem__, numbers))
        length = max(len(self.encodings[row]) for row in set(numbers))
        return Inputs(
            picked,
            self.ids[rows, :length],
            self.mask[rows, :length],
            self.special[rows, :length],
            {name: values[rows, :length] for name, values in self.features.items()},
            None if self.read_at is None else self.read_at[rows],
            None if self.unattended is None else self.unattended[rows, :length],
            None if self.reference is None else self.reference[rows],
            None if self.past is None else tuple((keys[rows], values[rows]) for keys, values in self.past),
        )

    def beginning(self, length: int) -> Inputs:
        """The first tokens of each text, read at the last of them where they were read further on."""
        return replace(
            self,
            ids=self.ids[:, :length],
            mask=self.mask[:, :length],
            special=self.special[:, :length],
            features={name: values[:, :length] for name, values in self.features.items()},
            read_at=None if self.read_at is None else self.read_at.clamp(max=length - 1),
            unattended=None if self.unattended is None else self.unattended[:, :length],
        )

    def unattending(self, unattended: Bool[Tensor, "batch token"]) -> Inputs:
        """The same texts with some tokens taken out of everyone's attention; they keep their position and their id."""
        return replace(self, unattended=unattended)


def collate(
    encodings: Sequence[Encoding],
    padding: int | None,
    read_at: Sequence[int] | Sequence[Sequence[int]] | None,
    device: torch.device,
) -> Inputs:
    """Pad a batch. Without a padding token an id that occurs nowhere in the batch serves: it is never attended to."""
    if padding is None:
        used = {number for encoding in encodings for number in encoding.columns.ids}
        padding = next(number for number in range(len(used) + 1) if number not in used)
    lengths = [len(encoding) for encoding in encodings]
    real = np.arange(max(lengths)) < np.array(lengths)[:, None]
    as_long = min(lengths) == max(lengths)

    def padded(rows: Iterable[Iterable[int]], filler: int | bool) -> np.ndarray:
        kind = bool if isinstance(filler, bool) else np.int64
        values = np.fromiter(chain.from_iterable(rows), kind)  # torch reads lists more slowly
        if as_long:
            return values.reshape(real.shape)
        whole = np.full(real.shape, filler, kind)
        whole[real] = values
        return whole

    features = {name: padded((encoding.features[name] for encoding in encodings), 0) for name in encodings[0].features}
    tables = Tables(
        lengths,
        padded((encoding.columns.ids for encoding in encodings), padding),
        padded((encoding.columns.special for encoding in encodings), True),
        tuple(features.values()),
    )
    inputs = Inputs(
        tuple(encodings),
        moved(tables.ids, device),
        moved(real, device),
        moved(tables.special, device),
        {name: moved(table, device) for name, table in features.items()},
        None if read_at is None else torch.tensor(read_at, device=device),
    )
    object.__setattr__(inputs, "_tables", tables)
    return inputs


def moved(table: np.ndarray, device: torch.device) -> Tensor:
    """The table there; a GPU is sent it on the way, behind all else that it was told, and nobody waits for that."""
    tensor = torch.from_numpy(table)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class WordTokenizer:
    """A tokenizer for plain modules: words and punctuation marks, looked up in a dictionary.

    >>> tokenizer = WordTokenizer({"<pad>": 0, "<unk>": 1, "good": 2, "film": 3})
    >>> [(token.text, token.id) for token in tokenizer.encode("Good film!", None).tokens]
    [('good', 2), ('film', 3), ('!', 1)]
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        *,
        lower_case: bool = True,
        padding: str = "<pad>",
        unknown: str = "<unk>",
        masking: str = "<mask>",
    ) -> None:
        self.vocabulary = dict(vocabulary)
        self.lower_case = lower_case
        self.padding = self.vocabulary.get(padding)
        self.masking = self.vocabulary.get(masking)
        self.unknown = self.vocabulary.get(unknown)

    def id_of(self, token: str) -> int | None:
        return self.vocabulary.get(token)

    def encode(self, text: str, pair: str | None) -> Encoding:
        if pair is not None:
            raise UsageError("a WordTokenizer reads one text, not a pair", "join the two texts into one")
        spans = word_spans(text)
        tokens = []
        for match in regex.finditer(r"\w+(?:['’]\w+)?|[^\w\s]", text):
            piece = match.group().lower() if self.lower_case else match.group()
            number = self.vocabulary.get(piece, self.unknown)
            if number is None:
                raise UsageError(f"{piece!r} is not in the vocabulary", "add '<unk>' to the vocabulary")
            start, end = match.span()
            tokens.append(Token(piece, number, start, end, word=word_of(start, end, text, spans)))
        return Encoding(text, None, tuple(tokens), {})
