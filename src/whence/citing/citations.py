"""What each sentence of an answer rests on, with how that was found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.citing.documents import Source
from whence.errors import FileError
from whence.explanation import Cost, ModelRecord
from whence.explanation_json import MODEL
from whence.files import written
from whence.json_records import (
    Reader,
    anything,
    flag,
    load_json,
    mapping,
    number,
    of_schema,
    optional,
    plain,
    record,
    save_json,
    several,
    text,
    whole,
)
from whence.results import Shown

if TYPE_CHECKING:
    import pandas
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "whence.citations/1"
TOP = 3  # sources shown of a sentence where a method does not say which are cited
_ADVICE = "give a file that Citations.save wrote"


@dataclass(frozen=True)
class Citation:
    """A source as one sentence sees it: an index into the sources, a score, and the ends of its interval.

    `low` and `high` are None where the method gives no interval, or is not yet sure of anything.
    """

    source: int
    score: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of the answer, its log-probability with all sources there, and every source, the strongest first.

    `cited` are the sources that it rests on, by index, the strongest first. An empty list means: on none of them. It is
    None where the method cannot tell.
    """

    start: int
    end: int
    log_probability: float
    ranked: tuple[Citation, ...]
    cited: tuple[int, ...] | None

    @property
    def shown(self) -> tuple[Citation, ...]:
        """The sources that are cited; where the method cannot tell which are, the strongest few."""
        if self.cited is None:
            return self.ranked[:TOP]
        return tuple(each for each in self.ranked if each.source in self.cited)


@dataclass(frozen=True)
class Citations(Shown):
    """An answer, and for each of its sentences the sources that it rests on.

    `settled` says whether more sets of sources could hardly change what is cited; `least` is the score above which the
    whole interval of a cited source lies.
    """

    question: str
    documents: Mapping[str, str]
    answer: str
    written: bool
    sources: tuple[Source, ...]
    sentences: tuple[CitedSentence, ...]
    method: str
    meaning: str
    least: float
    settled: bool
    options: Mapping[str, Any]
    model: ModelRecord
    seed: int
    cost: Cost
    whence_version: str
    warnings: tuple[str, ...] = ()

    def text_of(self, sentence: CitedSentence) -> str:
        return self.answer[sentence.start : sentence.end]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types."""
        data: dict[str, Any] = plain({field.name: getattr(self, field.name) for field in fields(self)})
        return {"schema": SCHEMA, **data}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Citations:
        """The citations that `to_dict` wrote; every field is checked."""
        found: Citations = _CITATIONS(of_schema(data, SCHEMA, "citations"), "")
        return found

    def save(self, path: str | Path) -> None:
        """Write them as JSON; a file already there is replaced only once the new one is whole."""
        save_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | Path) -> Citations:
        """Read what `save` wrote; nothing in the file is executed."""
        return cls.from_dict(load_json(path))

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per sentence and source: sentence, source, document, score, low, high, cited."""
        import pandas

        return pandas.DataFrame(
            {
                "sentence": self.text_of(sentence),
                "source": self.sources[each.source].text,
                "document": self.sources[each.source].document,
                "score": each.score,
                "low": each.low,
                "high": each.high,
                "cited": None if sentence.cited is None else each.source in sentence.cited,
            }
            for sentence in self.sentences
            for each in sentence.ranked
        )

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page, returned and, if a path is given, written there."""
        from whence.render.citations_page import citations_page

        return written(citations_page(self), path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.citations import citations_view

        yield citations_view(self)

    def __repr__(self) -> str:
        return f"<Citations of {len(self.sentences)} sentences among {len(self.sources)} sources by {self.method}>"


def _checked(**values: Any) -> Citations:
    """What a file says, once it is known that everything in it refers to something."""
    found = Citations(**values)
    for source in found.sources:
        document = found.documents.get(source.document)
        if document is None or document[source.start : source.end] != source.text or source.start < 0:
            raise FileError(f"sources: {source.text[:40]!r} is not where the file says", _ADVICE)
    numbers = set(range(len(found.sources)))
    for sentence in found.sentences:
        if not 0 <= sentence.start < sentence.end <= len(found.answer):
            raise FileError("sentences: one is not in the answer", _ADVICE)
        if {each.source for each in sentence.ranked} != numbers or len(sentence.ranked) != len(numbers):
            raise FileError("sentences: expected every source once", _ADVICE)
        if not set(sentence.cited or ()) <= numbers:
            raise FileError("sentences: one rests on a source that is not there", _ADVICE)
    return found


_CITATION = record(Citation, {"source": whole, "score": number, "low": optional(number), "high": optional(number)})
_SENTENCE = record(
    CitedSentence,
    {"start": whole, "end": whole, "log_probability": number, "ranked": several(_CITATION),
     "cited": optional(several(whole))},
)  # fmt: skip
_READERS: dict[str, Reader] = {
    "question": text,
    "documents": mapping(text),
    "answer": text,
    "written": flag,
    "sources": several(record(Source, {"document": text, "start": whole, "end": whole, "text": text})),
    "sentences": several(_SENTENCE),
    "method": text,
    "meaning": text,
    "least": number,
    "settled": flag,
    "options": mapping(anything),
    "model": MODEL,
    "seed": whole,
    "cost": record(Cost, {"forwards": whole, "backwards": whole, "seconds": number}),
    "whence_version": text,
    "warnings": several(text),
}
_CITATIONS = record(_checked, {field.name: _READERS[field.name] for field in fields(Citations)})
