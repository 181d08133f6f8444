"""Fast tokenizers without the Python that transformers puts around them, which takes longer on a short text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PUT_AROUND = ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding")


class ReadTexts(dict[str, list[list[Any]]]):
    """What a tokenizer returns for several texts."""

    def __init__(self, encodings: Sequence[Any], *, with_types: bool) -> None:
        super().__init__(
            input_ids=[each.ids for each in encodings],
            offset_mapping=[each.offsets for each in encodings],
            special_tokens_mask=[each.special_tokens_mask for each in encodings],
        )
        if with_types:
            self["token_type_ids"] = [each.type_ids for each in encodings]
        self._encodings = encodings

    def sequence_ids(self, index: int) -> list[int | None]:
        """0 for tokens of the text, 1 for those of its pair, None for those that were added."""
        found: list[int | None] = self._encodings[index].sequence_ids
        return found


class FastTokenizer:
    """A fast Hugging Face tokenizer, called as it is itself for whole texts: nothing is padded or cut."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer: Any = tokenizer

    @staticmethod
    def reads(tokenizer: PreTrainedTokenizerBase) -> bool:
        """Whether that is all there is to a tokenizer: some change the text, or the languages that they are set to."""
        from transformers import PreTrainedTokenizerFast

        kind = type(tokenizer)
        usual = [getattr(PreTrainedTokenizerFast, name, None) for name in _PUT_AROUND]  # other versions have others
        as_usual = None not in usual and [getattr(kind, name, None) for name in _PUT_AROUND] == usual
        return as_usual and not hasattr(kind, "_switch_to_input_mode")

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None, **_: Any) -> ReadTexts:
        backend = self._tokenizer.backend_tokenizer
        if backend.truncation is not None:
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        if backend.encode_special_tokens != self._tokenizer.split_special_tokens:
            backend.encode_special_tokens = self._tokenizer.split_special_tokens
        encodings = backend.encode_batch(texts if pairs is None else list(zip(texts, pairs, strict=True)))
        return ReadTexts(encodings, with_types="token_type_ids" in self._tokenizer.model_input_names)
