"""Hugging Face tokenizers as whence tokenizers: character spans, special tokens, truncation, vocabulary."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from torch import nn

from whence.errors import InputError, UsageError
from whence.models.chat import rendered
from whence.models.fast_tokenizer import FastTokenizer
from whence.models.inputs import WRITTEN, Encoding, Ids, Messages, Prompt, plain_numbers
from whence.models.slow_tokenizer import SlowTokenizer
from whence.models.vocabulary import VocabularyLabels
from whence.tokens import Token, Tokens
from whence.units import spans_in_turns, word_of, word_spans, words_of

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
        starts: what an encoder–decoder begins to write with, on a page of its own; of others none, since a decoder goes
            on from its prompt.
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
        starts: Ids = (),
    ) -> None:
        fast = bool(getattr(tokenizer, "is_fast", False))
        if not fast and not starts:
            raise UsageError(
                f"{type(tokenizer).__name__} does not say which characters a token comes from",
                "load a fast tokenizer: AutoTokenizer.from_pretrained(...)",
            )
        self.tokenizer = tokenizer
        self._slow = None if fast else SlowTokenizer(tokenizer)
        self._fast = FastTokenizer(tokenizer) if fast and FastTokenizer.reads(tokenizer) else None
        self.keeps_text = keeps_text
        self.padding = padding
        self.masking = tokenizer.mask_token_id
        begins = [tokenizer.bos_token_id, tokenizer.eos_token_id]
        self.beginning = next((number for number in begins if number is not None and number < n_ids), None)
        self.longest = longest
        self.starts = tuple(starts)
        self._n_ids = n_ids
        self._special_ids = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._features = features
        self._labels = VocabularyLabels(tokenizer)
        self._known_pieces: dict[int, str] = {}  # by id; a tokenizer looks each up by itself, which takes longer

    @classmethod
    def of_model(
        cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, keeps_text: bool, starts: Ids = ()
    ) -> HuggingFaceTokenizer:
        """With what a Hugging Face model says of itself."""
        return cls(
            tokenizer,
            n_ids=_vocabulary_size(model),
            padding=_padding_id(model, tokenizer),
            longest=_longest_text(model, tokenizer),
            features={"token_type_ids"} & set(inspect.signature(model.forward).parameters),
            keeps_text=keeps_text,
            starts=starts,
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

    def encode_prompt(self, prompt: Prompt) -> Encoding:
        """A text, token ids with the text that they stand for, or messages as the model's chat template writes them."""
        if isinstance(prompt, str):
            return self.encode(prompt, None)
        if all(isinstance(message, Mapping) for message in prompt):
            return self._encode_chat(prompt)  # type: ignore[arg-type]
        ids = self._known(prompt)
        self._check_length("the prompt takes", len(ids))
        text, spans = self._labels.spelled(ids, begins=True)
        return Encoding(text, None, self._tokens(ids, spans, text), {})

    def encode_response(self, prompt: Prompt, response: str | Ids) -> Encoding:
        """A prompt, and a response exactly as given: as token ids, or as a text that is cut into tokens by itself."""
        before = self.encode_prompt(prompt)
        before.check_asks()
        if isinstance(response, str):
            _check_unicode(response)
            written, ids, spans = response, *self._cut(response)
        else:
            ids = self._known(response)
            written, spans = self._labels.spelled(ids, begins=bool(self.starts))
        if not ids or not written.strip():
            raise InputError("the response is empty: there is nothing to explain", "give at least one word")
        after = self._tokens(ids, spans, written, segment=1)
        if self.starts:
            return self._on_a_page_of_its_own(before, after, written)
        self._check_length("prompt and response take", len(before) + before.cut + len(ids))
        features = {name: [*values, *[values[-1]] * len(ids)] for name, values in before.features.items()}
        return replace(before, pair=written, tokens=(*before.tokens, *after), features=features, responds=True)

    def _on_a_page_of_its_own(self, before: Encoding, after: tuple[Token, ...], written: str) -> Encoding:
        """What an encoder–decoder wrote: behind the source stand the tokens that it begins with, then the response."""
        self._check_length("the source takes", len(before) + before.cut)
        self._check_length("the response takes", len(self.starts) + len(after))
        end, pieces = len(before.text), self._pieces(set(self.starts))
        begun = [Token(pieces[number], number, end, end, special=True) for number in self.starts]
        marks = [0] * len(before) + [1] * (len(begun) + len(after))
        tokens = (*before.tokens, *begun, *after)
        return replace(before, pair=written, tokens=tokens, features={WRITTEN: marks}, responds=True)

    def _check_length(self, what: str, total: int) -> None:
        if total > self.longest:
            raise InputError(
                f"{what} {total} tokens, the model reads {self.longest}",
                f"shorten them by {total - self.longest} tokens: what is explained is never cut",
            )

    def _encode_chat(self, messages: Messages) -> Encoding:
        """What the messages say are the text's words; all that the template writes is special."""
        text, turns = rendered(self.tokenizer, messages)
        _check_unicode(text)
        with _ONE_AT_A_TIME:
            table: Any = self._alone(text)
        ids, spans = table["input_ids"], [(turn.start, turn.end) for turn in turns]
        pieces, words = self._pieces(set(ids)), spans_in_turns(text, spans, word_spans)
        tokens = []
        for number, (start, end) in zip(ids, table["offset_mapping"], strict=True):
            said = any(start < stop and begin < end for begin, stop in spans)
            word = word_of(max(start, _begin(start, end, spans)), end, text, words) if said else None
            tokens.append(Token(pieces[number], number, start, end, special=not said, word=word))
        features = {name: table[name] for name in self._features if name in table}
        return Encoding(text, None, tuple(tokens), features, turns=turns)

    def _known(self, given: Any) -> list[int]:
        """Token ids given by a user, all of which the model must know."""
        ids = plain_numbers(given)
        if not isinstance(ids, Sequence):
            raise InputError(f"{given!r} is neither a text nor token ids", "give a string, or a list of token ids")
        for number in ids:
            if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= int(number) < self._n_ids:
                raise UsageError(f"the model has no token with id {number!r}", f"ids go from 0 to {self._n_ids - 1}")
        return [int(number) for number in ids]

    def _tokens(self, ids: Ids, spans: Sequence[tuple[int, int]], text: str, segment: int = 0) -> tuple[Token, ...]:
        """Tokens by their ids and characters; those of a response count as special."""
        pieces = self._pieces(set(ids))
        found = []
        for number, (start, end), word in zip(ids, spans, words_of(spans, text), strict=True):
            special = number in self._special_ids
            piece = pieces[number] or f"<{number}>"
            found.append(Token(piece, number, start, end, segment, special or segment == 1, None if special else word))
        return tuple(found)

    def _cut(self, response: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The tokens of a response given as a text; some tokenizers put a space in front by themselves."""
        forms = (response, response.removeprefix(" "))
        with _ONE_AT_A_TIME:
            tables = [self._alone(form) for form in forms]
        begins = bool(self.starts)
        exact = [self._labels.spelled(table["input_ids"], begins=begins)[0] == response for table in tables]
        chosen = exact.index(True) if any(exact) else 0
        moved = len(response) - len(forms[chosen])
        spans = [(start + moved if start else 0, end + moved) for start, end in tables[chosen]["offset_mapping"]]
        return list(tables[chosen]["input_ids"]), spans

    def _alone(self, text: str) -> Any:
        """What a text is cut into, with no token added."""
        if self._slow is not None:
            return self._slow.written(text)
        return self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)

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
        self, text: tuple[str, str | None], table: Any, index: int, cut: int, pieces: Mapping[int, str]
    ) -> Encoding:
        """The text at an index of what the tokenizer returned."""
        ids, spans = table["input_ids"][index], table["offset_mapping"][index]
        added = zip(ids, table["special_tokens_mask"][index], strict=True)
        special = [bool(mark) or number in self._special_ids for number, mark in added]
        if text[1] is None:
            segments = [0] * len(ids)
            found = words_of(spans, text[0])
        else:
            segments = [segment or 0 for segment in table.sequence_ids(index)]
            places = list(zip(spans, segments, strict=True))
            of_each = [
                iter(words_of([span for span, segment in places if segment == own], source or ""))
                for own, source in enumerate(text)
            ]
            found = [next(of_each[segment]) for segment in segments]
        words = [None if skipped else word for word, skipped in zip(found, special, strict=True)]
        starts, ends = zip(*spans, strict=True) if spans else ((), ())
        tokens = Tokens([pieces[number] for number in ids], ids, starts, ends, segments, special, words)
        features = {name: table[name][index] for name in self._features if name in table}
        return Encoding(*text, tokens, features, cut)

    def _pieces(self, ids: set[int]) -> Mapping[int, str]:
        """Tokens by their ids, these among them, all of which the model must know."""
        new = sorted(number for number in ids if number not in self._known_pieces)
        if new:
            pieces = self.tokenizer.convert_ids_to_tokens(new)
            if new[-1] >= self._n_ids:
                raise UsageError(
                    f"the tokenizer gives {pieces[-1]!r} the id {new[-1]}, the model knows ids up to {self._n_ids - 1}",
                    "load the tokenizer that belongs to the model",
                )
            self._known_pieces.update(zip(new, pieces, strict=True))
        return self._known_pieces

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
        usual: Any = self._slow or self.tokenizer
        read: Any = usual if options or self._fast is None else self._fast
        return read(
            first, second if paired else None, return_offsets_mapping=True, return_special_tokens_mask=True,
            verbose=False, **options,
        )  # fmt: skip


def _begin(start: int, end: int, turns: Sequence[tuple[int, int]]) -> int:
    """Where the part of a token begins that belongs to a turn."""
    return next(begin for begin, stop in turns if start < stop and begin < end)


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
