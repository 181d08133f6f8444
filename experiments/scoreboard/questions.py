"""Short questions about short passages, and what a decoder answers: the board whose targets are responses.

A passage is the sentence of a paragraph of SQuAD that holds the answer and the one before it; passage and question go
into the model's own chat template. Answers are the model's likeliest, at most 16 tokens of them,
and are kept as token ids by SQuAD's ids of their questions, so that a board can be made again from the same ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

import whence
from whence.metrics.confidence import mean_interval
from whence.models.responses import generate_each
from whence.units import sentence_spans

PROMPT = "Answer with a few words of the text.\n\nText: {passage}\n\nQuestion: {question}"
MOST_TOKENS = 92  # of a prompt, the template's (30 of SmolLM2) among them
MOST_CHARACTERS = 450  # longer ones are passed over uncounted
LONGEST_ANSWER = 16  # tokens


@dataclass(frozen=True)
class Question:
    """A prompt as messages and as token ids, and the right answers."""

    id: str
    messages: list[dict[str, str]]
    ids: list[int]
    right: tuple[str, ...]


def questions(model: whence.LayeredModel, data: Path, split: str, count: int, *, each: int = 1) -> list[Question]:
    """So many questions, drawn by a fixed seed, of a paragraph no more than `each`; a larger count begins with them."""
    columns = ["split", "id", "context", "question", "answers"]
    rows = [row for row in pyarrow.parquet.read_table(data, columns=columns).to_pylist() if row["split"] == split]
    random.Random(0).shuffle(rows)
    found: list[Question] = []
    taken: dict[str, int] = {}
    for row in rows:
        prompt = PROMPT.format(passage=_passage(row), question=row["question"].strip())
        if taken.get(row["context"], 0) < each and len(prompt) <= MOST_CHARACTERS:
            messages = [{"role": "user", "content": prompt}]
            ids = model.encode_prompt(messages).ids
            if len(ids) <= MOST_TOKENS:
                found.append(Question(row["id"], messages, ids, tuple(dict.fromkeys(row["answers"]["text"]))))
                taken[row["context"]] = taken.get(row["context"], 0) + 1
        if len(found) == count:
            break
    return found


def _passage(row: dict[str, Any]) -> str:
    spans = sentence_spans(row["context"])
    last = max(number for number, (start, _) in enumerate(spans) if start <= row["answers"]["answer_start"][0])
    return str(row["context"][spans[max(last - 1, 0)][0] : spans[last][1]])


def answered(
    model: whence.LayeredModel, asked: Sequence[Question], file: Path | None
) -> list[tuple[Question, list[int]]]:
    """The questions to which the model says something, with what it says: read from a file, which is written where it
    lacks some."""
    known: dict[str, list[int]] = {}
    if file is not None and file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
    missing = [question for question in asked if question.id not in known]
    written = generate_each(model, [question.ids for question in missing], max_new_tokens=LONGEST_ANSWER)
    known |= {question.id: ids for question, ids in zip(missing, written, strict=True)}
    if file is not None and missing:
        file.write_text(json.dumps(known) + "\n", encoding="utf-8")
    decode = model.tokenizer.tokenizer.decode  # type: ignore[attr-defined]
    return [(question, known[question.id]) for question in asked if decode(known[question.id]).strip()]


def accuracy(model: whence.LayeredModel, pairs: Sequence[tuple[Question, list[int]]]) -> dict[str, Any]:
    """How often an answer holds a right one, in any case."""
    right = []
    for question, ids in pairs:
        said = (model.encode_response(question.messages, ids).pair or "").casefold()
        right.append(any(each.casefold() in said for each in question.right))
    found = mean_interval(np.array(right, dtype=float))
    return {
        "n_texts": len(pairs),
        "accuracy": {"mean": round(found.mean, 4), "low": round(found.low, 4), "high": round(found.high, 4)},
        "right": "a right answer stands in what it says",
    }
