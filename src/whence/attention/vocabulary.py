"""Words to ids for the attention classifiers: whitespace words between a start and an end token."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from whence.errors import FileError, UsageError
from whence.explanation import Token
from whence.files import write_whole
from whence.models.inputs import Encoding
from whence.units import word_of, word_spans

PAD, UNK, SOS, EOS = 0, 1, 2, 3
SPECIAL = ("<PAD>", "<UNK>", "<SOS>", "<EOS>")


class Vocabulary:
    """The words of a training set, split at white space; a tokenizer for `whence.load`.

    >>> vocabulary = Vocabulary.of(["a good film", "a bad film"])
    >>> len(vocabulary)  # four special tokens and four words
    8
    >>> vocabulary.ids("a dull film")
    [2, 4, 1, 6, 3]
    """

    padding: int | None = PAD
    masking: int | None = None

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*SPECIAL, *words)
        self._ids = {word: number for number, word in enumerate(words, start=len(SPECIAL))}
        if len(self._ids) != len(words):
            raise UsageError("a word stands twice in the vocabulary", "give each word once")

    @classmethod
    def of(cls, texts: Iterable[str], *, fewest_texts: int = 1) -> Vocabulary:
        """The words that occur in at least `fewest_texts` of the texts, in alphabetical order."""
        counts = Counter(word for text in texts for word in set(text.split()))
        return cls(sorted(word for word, count in counts.items() if count >= fewest_texts))

    def __len__(self) -> int:
        return len(self.words)

    def id_of(self, token: str) -> int | None:
        return SPECIAL.index(token) if token in SPECIAL else self._ids.get(token)

    def ids(self, text: str) -> list[int]:
        """The ids of a text between those of start and end."""
        return [SOS, *(self._ids.get(word, UNK) for word in text.split()), EOS]

    def encode(self, text: str, pair: str | None) -> Encoding:
        """The text as whence reads it, with the characters of each word."""
        if pair is not None:
            raise UsageError("an attention classifier reads one text, not a pair", "join the two texts into one")
        spans = word_spans(text)
        inner = []
        for match in re.finditer(r"\S+", text):
            start, end = match.span()
            number = self._ids.get(match.group(), UNK)
            inner.append(Token(match.group(), number, start, end, word=word_of(start, end, text, spans)))
        first = Token(SPECIAL[SOS], SOS, 0, 0, special=True)
        last = Token(SPECIAL[EOS], EOS, len(text), len(text), special=True)
        return Encoding(text, None, (first, *inner, last), {})

    def save(self, path: str | Path) -> None:
        """Write the words as a JSON list; ids follow from the order."""
        write_whole(json.dumps(self.words[len(SPECIAL) :], ensure_ascii=False, indent=0), path)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        try:
            words = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(
                f"cannot read a vocabulary from {str(path)!r}: {error}", "give what `save` wrote"
            ) from error
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise FileError(f"{str(path)!r} is no list of words", "give what save wrote")
        return cls(words)
