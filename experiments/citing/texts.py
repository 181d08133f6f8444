"""The texts that are cited from: a paragraph of SQuAD with one of its questions, alone or among other paragraphs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet

from whence.units import sentence_spans

SETTINGS = ("paragraph", "distractors")
FEWEST, MOST = 3, 8  # sentences of a paragraph
LONGEST = 1_200  # characters of a paragraph: prompts stay short
OTHERS = 2  # paragraphs of other articles that stand beside it in the second setting


@dataclass(frozen=True)
class Text:
    """A question and documents, of which the one called "own" holds the answer."""

    name: str
    question: str
    documents: dict[str, str]


def texts(data: Path, split: str, setting: str, count: int, seed: int) -> list[Text]:
    """Paragraphs drawn by the seed, no two the same; a larger count begins with the same ones."""
    columns = ["split", "id", "title", "context", "question"]
    rows = [row for row in pyarrow.parquet.read_table(data, columns=columns).to_pylist() if row["split"] == split]
    random.Random(seed).shuffle(rows)
    paragraphs: dict[str, dict[str, str]] = {}  # by what they say, each with the first question drawn
    for row in rows:
        if len(row["context"]) <= LONGEST:
            paragraphs.setdefault(row["context"], row)
    fitting = [row for row in paragraphs.values() if FEWEST <= len(sentence_spans(row["context"])) <= MOST]
    return [_text(row, fitting, setting, seed) for row in fitting[:count]]


def _text(row: dict[str, str], all_rows: list[dict[str, str]], setting: str, seed: int) -> Text:
    documents = [("own", row["context"])]
    if setting == "distractors":
        generator = random.Random(f"{seed} {row['id']}")
        others = generator.sample([each["context"] for each in all_rows if each["title"] != row["title"]], OTHERS)
        named = [(f"other {number}", context) for number, context in enumerate(others, start=1)]
        place = generator.randrange(OTHERS + 1)
        documents = named[:place] + documents + named[place:]
    return Text(row["id"], row["question"], dict(documents))
