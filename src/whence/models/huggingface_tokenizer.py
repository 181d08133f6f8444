"""Hugging Face tokenizers as whence tokenizers: character spans, special tokens, truncation, vocabulary."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import nn

from whence.errors import InputError, UsageError
from whence.explanation import Token
from whence.models.inputs import Encoding
from whence.targets import Task, token_at
from whence.words import word_of, word_spans

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class HuggingFaceTokenizer:
    """A fast Hugging Face tokenizer as a whence tokenizer."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"{type(tokenizer).__name__} does not say which characters a token comes from",
                "load a fast tokenizer: AutoTokenizer.from_pretrained(...)",
            )
        self.tokenizer = tokenizer
        self.task = task
        self.padding = _padding_id(model, tokenizer)
        self.masking = tokenizer.mask_token_id
        self.longest = _longest_text(model, tokenizer)
        self._special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._features = {"token_type_ids"} & set(inspect.signature(model.forward).parameters)

    def id_of(self, token: str) -> int | None:
        found = self.tokenizer.get_vocab().get(token)
        return None if found is None else int(found)

    def encode(self, text: str, pair: str | None) -> Encoding:
        whole = self._tokenize(text, pair)
        cut = max(0, len(whole["input_ids"]) - self.longest)
        if cut:
            # a question is never cut, its context is
            first_fits = self.task == "question_answering" and pair is not None
            strategy = "only_second" if first_fits else "longest_first"
            whole = self._tokenize(text, pair, truncation=strategy, max_length=self.longest)
        sources = (text, pair or "")
        words = tuple(word_spans(source) for source in sources)
        tokens = []
        for piece, number, (start, end), added, segment in zip(
            self.tokenizer.convert_ids_to_tokens(whole["input_ids"]),
            whole["input_ids"],
            whole["offset_mapping"],
            whole["special_tokens_mask"],
            whole.sequence_ids(0),
            strict=True,
        ):
            segment = segment or 0
            special = bool(added) or number in self._special_ids
            word = None if special else word_of(start, end, sources[segment], words[segment])
            tokens.append(Token(piece, number, start, end, segment, special, word))
        features = {name: whole[name] for name in self._features if name in whole}
        return Encoding(text, pair, tuple(tokens), features, cut)

    def _tokenize(self, text: str, pair: str | None, **options: Any) -> Any:
        return self.tokenizer(
            text, pair, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False, **options
        )


class VocabularyLabels:
    """A language model's labels: the tokens of its vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer

    def name(self, index: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(index))

    def index(self, label: str | int) -> int:
        if isinstance(label, int):
            if 0 <= label < len(self._tokenizer):
                return label
            raise UsageError(f"no token has id {label}", f"ids go from 0 to {len(self._tokenizer) - 1}")
        vocabulary = self._tokenizer.get_vocab()
        if label in vocabulary:
            return int(vocabulary[label])
        pieces = self._tokenizer(label, add_special_tokens=False)["input_ids"]
        if len(pieces) == 1:
            return int(pieces[0])
        shown = ", ".join(repr(piece) for piece in self._tokenizer.convert_ids_to_tokens(pieces))
        raise UsageError(f"{label!r} is not one token of the vocabulary", f"it is cut into {shown}: name one of these")


def read_position(task: Task, tokenizer: HuggingFaceTokenizer) -> Callable[[Encoding, int | None], int]:
    """Where a language model's vocabulary is read: after the last token, or at the mask."""

    def last(encoding: Encoding, at: int | None) -> int:
        return len(encoding) - 1 if at is None else token_at(at, encoding.tokens)

    def masked(encoding: Encoding, at: int | None) -> int:
        masks = [i for i, token in enumerate(encoding.tokens) if token.id == tokenizer.masking]
        for position in masks:
            token = encoding.tokens[position]
            if at is None or token.start <= at < token.end:
                return position
        if at is not None:
            return token_at(at, encoding.tokens)
        raise InputError(
            "the text holds no mask for the model to fill",
            f"write {tokenizer.tokenizer.mask_token} where a word is wanted, or give target=Label(at=CHARACTER)",
        )

    return last if task == "causal_lm" else masked


def text_config(model: nn.Module) -> Any:
    """The part of the config that tells of the text model, where there are others."""
    config: Any = getattr(model, "config", None)
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _padding_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id the model itself takes for padding: RoBERTa counts positions and decoders find the last token by it."""
    table: Any = model.get_input_embeddings()
    for number in (getattr(text_config(model), "pad_token_id", None), tokenizer.pad_token_id):
        if isinstance(number, int) and 0 <= number < len(table.weight):
            return number
    return None


def _longest_text(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """How many tokens the model can read, from its position table, its config and its tokenizer."""
    limits = [int(min(tokenizer.model_max_length, 1 << 20))]
    positions = getattr(text_config(model), "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        limits.append(positions)
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding) and part.padding_idx is not None:
            limits.append(part.num_embeddings - part.padding_idx - 1)  # RoBERTa's positions start after the padding's
    return min(limits)
