"""Documents in, sources and a prompt out; and which tokens are left of it where only some sources are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.citing.documents import Source, SourcedPrompt, read_documents, sourced_prompt
from whence.errors import FileError, InputError, UnknownNameError

TWO = {"moon": "The Moon is grey. It is far away.", "sun": "The Sun is hot.\nNobody went there."}


def tokens_of(text: str) -> list[tuple[int, int]]:
    """Words with the space before them, as byte-level tokenizers cut them; line breaks, digits and what stands before
    these by themselves."""
    return [match.span() for match in re.finditer(r"\n+|\d| ?[^\s\d]+| ", text)]


def left(prompt: SourcedPrompt, *sources: int) -> str:
    chosen = np.isin(np.arange(len(prompt.sources)), sources)[None]
    tokens = tokens_of(prompt.text)
    (kept,) = prompt.keep(tokens, chosen)
    return "".join(prompt.text[slice(*span)] for span, there in zip(tokens, kept, strict=True) if there)


def test_the_prompt_is_that_of_context_cite() -> None:
    prompt = sourced_prompt("Is it?", {"1": "It is. Really."})
    assert prompt.text == "Context: It is. Really.\n\nQuery: Is it?"
    assert prompt.sources == (Source("1", 0, 6, "It is."), Source("1", 7, 14, "Really."))
    assert [prompt.text[start:end] for start, end in prompt.spans] == ["It is.", "Really."]


def test_sources_are_sentences_paragraphs_or_documents() -> None:
    documents = {"a": "One. Two.\n\nThree.", "b": "  Four. "}
    assert [each.text for each in sourced_prompt("?", documents).sources] == ["One.", "Two.", "Three.", "Four."]
    assert [each.text for each in sourced_prompt("?", documents, "paragraph").sources] == [
        "One. Two.", "Three.", "Four.",
    ]  # fmt: skip
    whole = sourced_prompt("?", documents, "document").sources
    assert whole == (Source("a", 0, 17, "One. Two.\n\nThree."), Source("b", 2, 7, "Four."))
    with pytest.raises(UnknownNameError, match="unknown unit of sources 'word'"):
        sourced_prompt("?", documents, "word")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sources", "rest"),
    [
        ((0, 1, 2, 3), " The Moon is grey. It is far away.\n\nThe Sun is hot.\nNobody went there."),
        ((1,), " It is far away."),
        ((0, 2), " The Moon is grey.\n\nThe Sun is hot."),
        ((1, 3), " It is far away.\n\nNobody went there."),
        ((2, 3), "The Sun is hot.\nNobody went there."),
        ((), ""),
    ],
)
def test_what_is_left_reads_as_if_the_rest_had_never_been_written(sources: tuple[int, ...], rest: str) -> None:
    assert left(sourced_prompt("Why?", TWO), *sources) == f"Context:{rest}\n\nQuery: Why?"


@given(
    st.lists(
        st.sampled_from(["A b.", "C!", "Dr. E f g?", "h", "« I ».", "In 18 04 it was 9."]), min_size=1, max_size=5
    ),
    st.data(),
)
def test_deleting_sentences_of_one_document_is_writing_it_without_them(sentences: list[str], data: Any) -> None:
    prompt = sourced_prompt("q", {"1": " ".join(sentences)})
    chosen = data.draw(st.sets(st.integers(0, len(prompt.sources) - 1)))
    rest = " ".join(source.text for number, source in enumerate(prompt.sources) if number in chosen)
    assert left(prompt, *chosen) == f"Context:{' ' * bool(rest)}{rest}\n\nQuery: q"


def test_tokens_without_a_place_in_the_prompt_stay() -> None:
    prompt = sourced_prompt("q", {"1": "One. Two."})
    kept = prompt.keep([None, (0, 8), (8, 13), None], np.zeros((1, 2), dtype=bool))
    assert kept.tolist() == [[True, True, False, True]]


def test_documents_come_as_texts_by_name_or_from_files(tmp_path: Path) -> None:
    assert read_documents("one") == {"1": "one"}
    assert read_documents(["one", "two"]) == {"1": "one", "2": "two"}
    assert read_documents(TWO) == TWO
    (tmp_path / "b.txt").write_text("second\nline")
    (tmp_path / "a.md").write_text("\ufefffirst")
    (tmp_path / "c.pdf").write_bytes(b"\xff")
    assert read_documents(tmp_path) == {"a.md": "first", "b.txt": "second\nline"}
    assert read_documents([tmp_path / "b.txt", "own"]) == {"b.txt": "second\nline", "2": "own"}
    rows = tmp_path / "docs.jsonl"
    rows.write_text("\n".join(json.dumps(row) for row in [{"text": "x", "title": "T"}, {"text": "y", "title": None}]))
    assert read_documents(rows) == {"T": "x", "2": "y"}


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "there is no document to cite"),
        ({}, "there is no document to cite"),
        (["one", " \n"], "document '2' is empty"),
        ({"a": 3}, "document 'a' is int"),
        (7, "documents is int"),
    ],
)
def test_documents_that_cannot_be_cited(documents: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_documents(documents)


def test_files_that_cannot_be_cited(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no documents"):
        read_documents(tmp_path)
    with pytest.raises(FileError, match="cannot read"):
        read_documents(tmp_path / "none.txt")
    with pytest.raises(FileError, match=r"cannot read documents from 'a\.pdf'"):
        read_documents(tmp_path / "a.pdf")
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(FileError, match="not UTF-8 at byte 0"):
        read_documents(tmp_path / "latin.txt")
    (tmp_path / "rows.jsonl").write_text('{"body": "x"}')
    with pytest.raises(FileError, match=r"line 1 of 'rows\.jsonl' has no text"):
        read_documents(tmp_path / "rows.jsonl")
    (tmp_path / "same.jsonl").write_text('{"text": "x", "name": "a"}\n{"text": "y", "name": "a"}')
    with pytest.raises(InputError, match="two documents are called 'a'"):
        read_documents(tmp_path / "same.jsonl")


def test_an_empty_question() -> None:
    with pytest.raises(InputError, match="the question is empty"):
        sourced_prompt(" ", TWO)
