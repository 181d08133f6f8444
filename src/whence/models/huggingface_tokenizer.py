"""Hugging Face tokenizers as whence tokenizers: character spans, special tokens, truncation, vocabulary."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from whence.errors import InputError, UsageError
from whence.explanation import Token
from whence.models.inputs import Encoding
from whence.units import word_of, word_spans

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


# a fast tokenizer remembers the truncation last asked for: another thread would cut its text without a word
_ONE_AT_A_TIME = threading.Lock()


class HuggingFaceTokenizer:
    """A fast Hugging Face tokenizer as a whence tokenizer.

    Args:
        tokenizer: the tokenizer.
        n_ids: how many tokens the model knows.
        padding: the id that the model takes for padding.
        longest: how many tokens the model can read.
        features: further inputs that the model takes, such as token_type_ids.
        keeps_text: whether the first text is never cut, only its pair.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        n_ids: int,
        padding: int | None,
        longest: int,
        features: Collection[str] = (),
        keeps_text: bool = False,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"{type(tokenizer).__name__} does not say which characters a token comes from",
                "load a fast tokenizer: AutoTokenizer.from_pretrained(...)",
            )
        self.tokenizer = tokenizer
        self.keeps_text = keeps_text
        self.padding = padding
        self.masking = tokenizer.mask_token_id
        begins = [tokenizer.bos_token_id, tokenizer.eos_token_id]
        self.beginning = next((number for number in begins if number is not None and number < n_ids), None)
        self.longest = longest
        self._n_ids = n_ids
        self._special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._features = features

    @classmethod
    def of_model(
        cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, keeps_text: bool
    ) -> HuggingFaceTokenizer:
        """With what a Hugging Face model says of itself."""
        return cls(
            tokenizer,
            n_ids=_vocabulary_size(model),
            padding=_padding_id(model, tokenizer),
            longest=_longest_text(model, tokenizer),
            features={"token_type_ids"} & set(inspect.signature(model.forward).parameters),
            keeps_text=keeps_text,
        )

    @classmethod
    def of_table(cls, n_ids: int, tokenizer: PreTrainedTokenizerBase) -> HuggingFaceTokenizer:
        """For a plain module, of which only the size of its embedding table is known."""
        padding = tokenizer.pad_token_id
        known = padding if padding is not None and padding < n_ids else None
        return cls(tokenizer, n_ids=n_ids, padding=known, longest=_tokenizer_limit(tokenizer))

    @property
    def vocabulary(self) -> dict[str, int]:
        found: dict[str, int] = self.tokenizer.get_vocab()
        return found

    def id_of(self, token: str) -> int | None:
        found: Any = self.tokenizer.convert_tokens_to_ids(token)
        return int(found) if found is not None and self.tokenizer.convert_ids_to_tokens(found) == token else None

    def encode(self, text: str, pair: str | None) -> Encoding:
        return self.encode_each([(text, pair)])[0]

    def encode_each(self, texts: Sequence[tuple[str, str | None]]) -> list[Encoding]:
        """Many texts in one call of the tokenizer, which costs far less than a call for each."""
        found: dict[int, Encoding] = {}
        for paired in (False, True):
            some = [index for index, (_, pair) in enumerate(texts) if (pair is not None) == paired]
            if some:
                found |= zip(some, self._encode_alike([texts[index] for index in some], paired), strict=True)
        return [found[index] for index in range(len(texts))]

    def _encode_alike(self, texts: Sequence[tuple[str, str | None]], paired: bool) -> list[Encoding]:
        """Texts that all have a pair, or none of them."""
        for text in texts:
            _check_unicode(*text)
        with _ONE_AT_A_TIME:
            whole = self._tokenize(texts, paired)
            cuts = [max(0, len(ids) - self.longest) for ids in whole["input_ids"]]
            sources = [
                self._shortened(whole.sequence_ids(index), texts[index], paired) if cut else (whole, index)
                for index, cut in enumerate(cuts)
            ]
        pieces = self._pieces({number for ids in whole["input_ids"] for number in ids})
        return [
            self._encoding(text, table, index, cut, pieces)
            for text, (table, index), cut in zip(texts, sources, cuts, strict=True)
        ]

    def _encoding(
        self, text: tuple[str, str | None], table: Any, index: int, cut: int, pieces: dict[int, str]
    ) -> Encoding:
        """The text at an index of what the tokenizer returned."""
        sources = (text[0], text[1] or "")
        words = tuple(word_spans(source) for source in sources)
        tokens = []
        for number, (start, end), added, segment in zip(
            table["input_ids"][index],
            table["offset_mapping"][index],
            table["special_tokens_mask"][index],
            table.sequence_ids(index),
            strict=True,
        ):
            segment = segment or 0
            special = bool(added) or number in self._special_ids
            word = None if special else word_of(start, end, sources[segment], words[segment])
            tokens.append(Token(pieces[number], number, start, end, segment, special, word))
        features = {name: table[name][index] for name in self._features if name in table}
        return Encoding(*text, tuple(tokens), features, cut)

    def _pieces(self, ids: set[int]) -> dict[int, str]:
        """The tokens by their ids, all of which the model must know."""
        numbers = sorted(ids)
        pieces = dict(zip(numbers, self.tokenizer.convert_ids_to_tokens(numbers), strict=True))
        if numbers and numbers[-1] >= self._n_ids:
            raise UsageError(
                f"the tokenizer gives {pieces[numbers[-1]]!r} the id {numbers[-1]}, "
                f"the model knows ids up to {self._n_ids - 1}",
                "load the tokenizer that belongs to the model",
            )
        return pieces

    def _shortened(self, segments: Sequence[int | None], text: tuple[str, str | None], paired: bool) -> tuple[Any, int]:
        """A text that is too long as the model reads it. A question is never cut, its context is."""
        strategy = "longest_first"
        if self.keeps_text and paired:
            question = sum(segment != 1 for segment in segments)
            if question >= self.longest:
                raise InputError(
                    f"the question alone takes {question} tokens, the model reads {self.longest}",
                    "shorten the question",
                )
            strategy = "only_second"
        return self._tokenize([text], paired, truncation=strategy, max_length=self.longest), 0

    def _tokenize(self, texts: Sequence[tuple[str, str | None]], paired: bool, **options: Any) -> Any:
        first, second = ([text[part] for text in texts] for part in (0, 1))
        return self.tokenizer(
            first, second if paired else None, return_offsets_mapping=True, return_special_tokens_mask=True,
            verbose=False, **options,
        )  # fmt: skip


def _check_unicode(*texts: str | None) -> None:
    for text in texts:
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"character {error.start} of the text is half a character (a lone surrogate)",
                "read the file with its right encoding",
            ) from error


def text_config(model: nn.Module) -> Any:
    """The part of the config that tells of the text model, where there are others."""
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def padding_of_config(model: PreTrainedModel) -> int | None:
    """The id the model itself takes for padding: RoBERTa counts positions and decoders find the last token by it."""
    number = getattr(text_config(model), "pad_token_id", None)
    return number if isinstance(number, int) and 0 <= number < _vocabulary_size(model) else None


def _vocabulary_size(model: PreTrainedModel) -> int:
    table: Any = model.get_input_embeddings()
    return len(table.weight)


def _padding_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    padding = padding_of_config(model)
    if padding is None and tokenizer.pad_token_id is not None and tokenizer.pad_token_id < _vocabulary_size(model):
        return int(tokenizer.pad_token_id)
    return padding


def _longest_text(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many tokens the model can read, from its position table, its config and its tokenizer."""
    limits = [_tokenizer_limit(tokenizer)]
    positions = getattr(text_config(model), "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions)
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding) and part.padding_idx is not None:
            limits.append(part.num_embeddings - part.padding_idx - 1)  # RoBERTa's positions start after the padding's
    return min(limits)


def _tokenizer_limit(tokenizer: PreTrainedTokenizerBase) -> int:
    return int(min(tokenizer.model_max_length, 1 << 20))
