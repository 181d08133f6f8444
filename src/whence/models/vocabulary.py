"""A Hugging Face tokenizer's vocabulary as labels: tokens by the text they stand for, never by a tokenizer's marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from whence.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class VocabularyLabels:
    """A language model's labels: the tokens of its vocabulary, by text or id.

    A token's text is what it adds to the text before it, so `" Paris"` and `"Paris"` are two tokens. Where the space
    matters, a name stands in quotes; a label in quotes, or with a space in front, is taken exactly as it is written.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._tokenizer = tokenizer
        self._special = set(tokenizer.all_special_ids)
        self._normalizer = getattr(backend, "normalizer", None)
        self._wordpiece = type(getattr(backend, "model", None)).__name__ == "WordPiece"
        self.masking: int | None = tokenizer.mask_token_id

    def text(self, index: int) -> str:
        """What a token adds to the text before it; an id that stands for part of a character, or nothing, as <id>."""
        found: Any = self._tokenizer.convert_ids_to_tokens(index) if index < len(self._tokenizer) else None
        if found is None:
            return f"<{index}>"
        piece = str(found)
        if index in self._special:
            return piece
        if self._wordpiece:
            return piece[2:] if piece.startswith("##") else f" {piece}"
        if "▁" in piece:  # as SentencePiece writes a space; its decoders drop one in front
            return piece.replace("▁", " ")
        text: str = self._tokenizer.convert_tokens_to_string([piece])
        return f"<{index}>" if not text or "\ufffd" in text else text

    def spelled(self, ids: Sequence[int], *, begins: bool) -> tuple[str, list[tuple[int, int]]]:
        """The text that tokens stand for, and where in it each one's characters are.

        Tokens that are bytes of one character all have that character. Of a text that `begins` here the first word
        has no space in front.
        """
        text, spans, held = "", list[tuple[int, int]](), list[int]()
        for number in [*ids, None]:
            whole = "" if number is None else self.text(number)
            part = number is not None and whole == f"<{number}>" and number < len(self._tokenizer)
            if held and not (part and "\ufffd" in self._joined(held)):
                piece = self._joined(held)
                spans += [(len(text), len(text) + len(piece))] * len(held)
                text, held = text + piece, []
            if part and number is not None:
                held.append(number)
            elif number is not None:
                whole = whole.removeprefix(" ") if begins and not text and number not in self._special else whole
                spans.append((len(text), len(text) + len(whole)))
                text += whole
        return text, spans

    def _joined(self, ids: Sequence[int]) -> str:
        """What several tokens stand for that are parts of characters."""
        pieces: Any = self._tokenizer.convert_ids_to_tokens(list(ids))
        found: str = self._tokenizer.convert_tokens_to_string(pieces)
        return found

    def name(self, index: int) -> str:
        """A token as it is shown to a person, in quotes where a space or another sign would not be seen."""
        text = self.written(index)
        return text if text == text.strip() and text.isprintable() else _quoted(text)

    def written(self, index: int) -> str:
        """A token's text; where every word begins with a space, words go without, and what goes on with one has …."""
        text = self.text(index)
        if self._wordpiece and index not in self._special:
            return text.removeprefix(" ") if text.startswith(" ") else f"…{text}"
        return text

    def index(self, label: str | int) -> int:
        """A token by id or text, wherever it may stand: first as a word of its own, then as part of one."""
        return self._number(label) if isinstance(label, int) else self._found(label, [f" {label}", label])

    def index_after(self, label: str | int, ids: Sequence[int]) -> int:
        """A token by id or text, in the form in which it would be written after these tokens."""
        if isinstance(label, int):
            return self._number(label)
        before = next((self.text(index) for index in reversed(ids) if index not in self._special), None)
        if before is None:
            return self._found(label, [label, f" {label}"])
        apart = label[:1].isalnum() and not before[-1].isspace()
        return self._found(label, [f" {label}" if apart else label])

    def _number(self, label: int) -> int:
        if 0 <= label < len(self._tokenizer):
            return label
        raise UsageError(f"no token has id {label}", f"ids go from 0 to {len(self._tokenizer) - 1}")

    def _found(self, label: str, forms: Sequence[str]) -> int:
        """The token of the first form that is one; exactly written or in the tokenizer's own spelling, of the label."""
        exact = _exact(label)
        for form in [exact] if exact is not None else forms:
            if (index := self._token(form)) is not None:
                return index
        index = self._spelled(label)
        if index is not None and self.text(index) != label:
            return index
        wanted = forms[0] if exact is None else exact
        others = [form for form in (f" {label.strip()}", label.strip()) if self._token(form) is not None]
        advice = f"it is cut into {', '.join(map(_quoted, self._cut(wanted)))}: name one of these"
        if others:
            advice += f"; {' and '.join(map(_quoted, others))}, exactly so with the quotes, is one token"
        raise UsageError(f"{_quoted(wanted)} is not one token of the vocabulary", advice)

    def _cut(self, form: str) -> list[str]:
        """The texts of the tokens that a text is cut into; some tokenizers put a space in front by themselves."""
        found: list[str] = []
        for text in (form, form.lstrip(" ")):
            found = [self.text(piece) for piece in self._tokenizer(text, add_special_tokens=False)["input_ids"]]
            if "".join(found) == form:
                break
        return found

    def _token(self, form: str) -> int | None:
        """The token whose text is exactly this."""
        if (special := self._spelled(form)) in self._special:
            return special
        if self._wordpiece and self._normalizer is not None:
            form = form[: len(form) - len(form.lstrip(" "))] + self._normalizer.normalize_str(form.lstrip(" ")).strip()
        for piece in self._spellings(form):
            index = self._spelled(piece)
            if index is not None and self.text(index) == form:
                return index
        return None

    def _spelled(self, piece: str) -> int | None:
        """The id of a token in the tokenizer's own spelling."""
        index: Any = self._tokenizer.convert_tokens_to_ids(piece)
        return int(index) if index is not None and self._tokenizer.convert_ids_to_tokens(index) == piece else None

    def _spellings(self, form: str) -> Iterator[str]:
        """How tokenizers may spell this text as one token."""
        if self._wordpiece:
            yield form[1:] if form.startswith(" ") else f"##{form}"
        yield form
        yield form.replace(" ", "▁")
        yield "".join(self._tokenizer.tokenize(form))  # bytes as characters, however it is cut


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _exact(label: str) -> str | None:
    """A label that is exactly a token's text: in quotes, after the sign of a word that goes on, or after a space."""
    if len(label) > 2 and label[0] == label[-1] == '"':
        try:
            return str(json.loads(label))
        except json.JSONDecodeError:
            return None
    if label.startswith("…") and len(label) > 1:
        return label[1:]
    return label if label[:1].isspace() else None
