"""Documents as users have them, the sources in them, and the prompt that shows them to a model.

The prompt is that of ContextCite, so that numbers can be compared: the documents, a blank line between them, and the
question. Sets of sources are made by deleting: what is left reads as if the rest had never been written.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from whence.data.tables import FORMATS, table_of
from whence.errors import FileError, InputError, UnknownNameError, WhenceWarning
from whence.units import Span, paragraph_spans, sentence_spans

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

Documents = str | Path | Sequence[str | Path] | Mapping[str, str]
"""Texts, files (as paths), or texts by name; a folder stands for the texts in it."""
SourceUnit = Literal["sentence", "paragraph", "document"]
SOURCE_UNITS: tuple[SourceUnit, ...] = get_args(SourceUnit)
TEXT_FILES = (".txt", ".md")
_NAMES = ("name", "title", "id")  # columns of a table of documents that may name them, the first that is there
_LONGEST_NAME = 255
_BEFORE, _BETWEEN = "Context: ", "\n\n"


@dataclass(frozen=True)
class Source:
    """A part of a document that an answer may rest on: characters `start` to `end` of it."""

    document: str
    start: int
    end: int
    text: str


def read_documents(documents: Documents) -> dict[str, str]:
    """The documents by name; those without a name are called 1, 2, …"""
    if isinstance(documents, Mapping):
        found = list(documents.items())
    elif isinstance(documents, (str, Path)):
        found = _texts(documents, 1)
    elif isinstance(documents, Sequence):
        found = [pair for number, each in enumerate(documents, start=1) for pair in _texts(each, number)]
    else:
        raise InputError(f"documents is {type(documents).__name__}", "give texts, texts by name, or paths of files")
    if not found:
        raise InputError("there is no document to cite", "give at least one text")
    for name, text in found:
        if not isinstance(name, str) or not isinstance(text, str):
            raise InputError(f"document {name!r} is {type(text).__name__}", "give each as a string")
        if not text.strip():
            raise InputError(f"document {name!r} is empty", "leave it out")
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two documents are called {twice!r}", "give each a name of its own")
    return dict(found)


def _texts(given: str | Path, number: int) -> list[tuple[str, str]]:
    if not isinstance(given, Path):
        _warn_of_files(given)
        return [(str(number), given)]
    path = given.expanduser()
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.suffix.lower() in TEXT_FILES and each.is_file())
        if not files:
            raise FileError(
                f"the folder {str(path)!r} holds no documents", f"put files of {', '.join(TEXT_FILES)} there"
            )
        return [(file.name, _content(file)) for file in files]
    if path.suffix.lower() in TEXT_FILES:
        return [(path.name, _content(path))]
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(dict.fromkeys((*TEXT_FILES, *FORMATS)))
        raise FileError(f"cannot read documents from {path.name!r}", f"give a folder, or a file of these: {known}")
    return _rows(path)


def _warn_of_files(text: object) -> None:
    """A string is a text; whoever meant the files of that name should know how to say so."""
    if isinstance(text, str) and "\n" not in text and len(text) < _LONGEST_NAME and Path(text).expanduser().exists():
        advice = f"Path({text!r}) stands for what is in it"
        warnings.warn(f"{text!r} is taken for a text, though there is a file of this name: {advice}", WhenceWarning, 4)


def _rows(path: Path) -> list[tuple[str, str]]:
    table = table_of(path, ("text", *_NAMES))
    named = next((column for column in _NAMES if column in table.columns), None)
    found = []
    for number, row in table.rows:
        text = row.get("text")
        if not isinstance(text, str):
            raise FileError(
                f"{table.unit} {number} of {path.name!r} has no text", 'write {"text": "...", "name": "..."}'
            )
        name = row.get(named) if named else None
        found.append((str(number if name is None else name), text))
    return found


def _content(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path.name!r} is not UTF-8 at byte {error.start}", "convert it, as with iconv") from error
    except OSError as error:
        raise FileError(f"cannot read {str(path)!r}: {error.strerror}", "look for a misspelling") from error


@dataclass(frozen=True)
class SourcedPrompt:
    """What the model is asked, and where in it the sources are: `spans[i]` are the characters of `sources[i]`."""

    text: str
    sources: tuple[Source, ...]
    spans: tuple[Span, ...]

    def keep(
        self, tokens: Sequence[Span | None], sets: Bool[np.ndarray, "set source"]
    ) -> Bool[np.ndarray, "set token"]:
        """The tokens of this prompt, given by their characters, that are left where only these sources are.

        A token belongs to the source in which its first visible character is, or the space that it is. Between two
        sources that are left, space stays: of the same document that before the second, of two documents that before
        the second document. All other space between sources goes.
        """
        owner, gap = self._owners(tokens)
        kept = np.ones((len(sets), len(tokens)), dtype=bool)
        kept[:, owner >= 0] = sets[:, owner[owner >= 0]]
        kept[:, gap >= 0] = self._gaps_left(sets)[:, gap[gap >= 0]]
        return kept

    def owners(self, tokens: Sequence[Span | None]) -> Int[np.ndarray, " token"]:
        """The source that each token belongs to, −1 where none."""
        return self._owners(tokens)[0]

    def _owners(self, tokens: Sequence[Span | None]) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
        """For each token the source that it belongs to, and the source before which it is space; −1 where none."""
        owner, gap = np.full(len(tokens), -1), np.full(len(tokens), -1)
        starts, ends = np.array(self.spans).T
        for position, span in enumerate(tokens):
            if span is None or span[0] >= ends[-1] or span[1] <= starts[0]:
                continue
            piece = self.text[span[0] : span[1]]
            unseen = len(piece) - len(piece.lstrip())
            place = span[0] + (unseen if unseen < len(piece) else 0)
            source = int(np.searchsorted(ends, place, side="right"))
            if source < len(ends) and starts[source] <= place:
                owner[position] = source
            elif unseen == len(piece):
                gap[position] = source
        return owner, gap

    def _gaps_left(self, sets: Bool[np.ndarray, "set source"]) -> Bool[np.ndarray, "set source"]:
        """Whether the space before each source stays."""
        left = np.zeros_like(sets)
        documents = [source.document for source in self.sources]
        first_of = {name: documents.index(name) for name in documents}
        for row, chosen in enumerate(sets):
            there = np.flatnonzero(chosen)
            for before, after in pairwise(there):
                same = documents[before] == documents[after]
                left[row, after if same else first_of[documents[after]]] = True
        return left


def sourced_prompt(question: str, documents: Mapping[str, str], unit: SourceUnit = "sentence") -> SourcedPrompt:
    """The question after the documents, and their sentences, paragraphs or themselves as sources."""
    if unit not in SOURCE_UNITS:
        raise UnknownNameError("unit of sources", unit, SOURCE_UNITS)
    if not question.strip():
        raise InputError("the question is empty", "ask something")
    text, sources, spans = _BEFORE, [], []
    for number, (name, content) in enumerate(documents.items()):
        text += _BETWEEN if number else ""
        body = content.strip()
        for start, end in _parts(body, unit):
            spans.append((len(text) + start, len(text) + end))
            skipped = len(content) - len(content.lstrip())
            sources.append(Source(name, skipped + start, skipped + end, body[start:end]))
        text += body
    return SourcedPrompt(f"{text}{_BETWEEN}Query: {question}", tuple(sources), tuple(spans))


def _parts(text: str, unit: SourceUnit) -> list[Span]:
    if unit == "document":
        return [(0, len(text))]
    return sentence_spans(text) if unit == "sentence" else paragraph_spans(text)


def words_of(text: str) -> list[str]:
    """Words of a text in small letters, to compare texts by."""
    return re.findall(r"\w+", text.lower())
