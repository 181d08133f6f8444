"""Tokenizers that do not say which characters a token comes from, as Marian's: tokens are looked up in the text.

What a normaliser changed, or the vocabulary does not know, is not found: such tokens stand for the characters between
those that were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whence.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Table(dict[str, list[list[Any]]]):
    """What a tokenizer returns for several texts."""

    def sequence_ids(self, index: int) -> list[int | None]:
        """0 for tokens of the text, None for those that were added."""
        return [None if added else 0 for added in self["special_tokens_mask"][index]]


class SlowTokenizer:
    """A slow Hugging Face tokenizer, called as a fast one is."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer: Any = tokenizer

    def __call__(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, max_length: int | None = None, **_: Any
    ) -> Table:
        """Ids, spans and which tokens were added, of texts that are cut to a length if one is given."""
        if pairs is not None:
            raise UsageError("this tokenizer reads one text, not a pair", "join the two texts into one")
        found = Table(input_ids=[], offset_mapping=[], special_tokens_mask=[])
        for text in texts:
            pieces = self._tokenizer.tokenize(text)
            spans = spans_of_pieces(pieces, text)
            if max_length is not None:
                pieces = pieces[: max_length - self._tokenizer.num_special_tokens_to_add()]
            ids = self._tokenizer.convert_tokens_to_ids(pieces)
            whole = self._tokenizer.build_inputs_with_special_tokens(ids)
            before = next(place for place in range(len(whole) + 1) if whole[place : place + len(ids)] == ids)
            after = len(whole) - before - len(ids)
            found["input_ids"].append(whole)
            found["offset_mapping"].append([(0, 0)] * before + spans[: len(ids)] + [(0, 0)] * after)
            found["special_tokens_mask"].append([1] * before + [0] * len(ids) + [1] * after)
        return found

    def written(self, text: str) -> dict[str, list[Any]]:
        """A text on the side that is written, where a language of its own is cut by its own rules."""
        self._tokenizer._switch_to_target_mode()
        try:
            pieces = self._tokenizer.tokenize(text)
            ids = self._tokenizer.convert_tokens_to_ids(pieces)
        finally:
            self._tokenizer._switch_to_input_mode()
        return {"input_ids": ids, "offset_mapping": spans_of_pieces(pieces, text)}


def spans_of_pieces(pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
    """The characters of each piece of a text, in order.

    >>> spans_of_pieces(["▁un", "happy", "▁", "½", "▁film"], "unhappy 1⁄2 film")
    [(0, 2), (2, 7), (7, 7), (8, 11), (12, 16)]
    """
    spans: list[tuple[int, int]] = [(0, 0)] * len(pieces)
    missed: list[int] = []
    end = 0
    for number, piece in enumerate([*pieces, None]):
        seen = "" if piece is None else piece.replace("▁", " ").strip()
        start = len(text) if piece is None else text.find(seen, end)
        if piece is not None and not seen:
            spans[number] = (end, end)
        elif start < 0 or (text[end:start].strip() and not missed and piece is not None):
            missed.append(number)
        else:
            between = text[end:start]
            inner = (end + len(between) - len(between.lstrip()), end + len(between.rstrip()))
            for other in missed:
                spans[other] = inner if between.strip() else (end, end)
            missed = []
            if piece is not None:
                spans[number] = (start, start + len(seen))
                end = start + len(seen)
    return spans
