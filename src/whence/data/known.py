"""The sets that whence knows by name: as a file in a folder of the user's, or on the public hub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from whence.data.tables import Table, table_of
from whence.errors import FileError


@dataclass(frozen=True)
class KnownSet:
    """Where a set is and which of its columns are what.

    `text` lists the names that the column of texts has, here or there; `held_out` is the split to measure on;
    `hub_classes` are the only classes to take from a hub set that has more, in the order of `labels`.
    """

    file: str
    hub: str
    text: tuple[str, ...]
    held_out: str
    labels: tuple[str, ...] = ()
    pair: str = "pair"
    hub_classes: tuple[str, ...] = ()


KNOWN = {
    "sst2": KnownSet("sst2.parquet", "stanfordnlp/sst2", ("sentence",), "dev", ("negative", "positive")),
    "sst5": KnownSet(
        "sst5_trees.parquet",
        "SetFit/sst5",  # without the labels of the leaves
        ("sentence", "text"),
        "dev",
        ("very negative", "negative", "neutral", "positive", "very positive"),
    ),
    "ag_news": KnownSet(
        "ag_news.parquet", "fancyzhx/ag_news", ("text",), "test", ("World", "Sports", "Business", "Sci/Tech")
    ),
    "imdb": KnownSet("imdb.parquet", "stanfordnlp/imdb", ("text",), "test", ("negative", "positive")),
    "squad": KnownSet("squad.parquet", "rajpurkar/squad", ("question",), "dev", pair="context"),
    "20news": KnownSet(
        "20news_sports_jain_wallace.parquet",
        "SetFit/20_newsgroups",
        ("raw_text", "text"),
        "test",
        ("baseball", "hockey"),
        hub_classes=("rec.sport.baseball", "rec.sport.hockey"),
    ),
}

COLUMNS = ("split", "exp_split", "label", "label_text", "answers", "token_labels")
"""What a known set may have beside its texts and pairs."""


def known_table(name: str, data_dir: str | Path | None) -> Table:
    """All rows of a known set, from the folder given or named by WHENCE_DATA, or else from the hub."""
    known = KNOWN[name]
    folder = data_dir or os.environ.get("WHENCE_DATA")
    if folder is not None:
        path = Path(folder).expanduser() / known.file
        if path.is_file():
            return table_of(path, [*known.text, known.pair, *COLUMNS])
        if data_dir is not None:
            raise FileError(f"no {known.file} in {str(data_dir)!r}, where {name} should be", _files_in(path.parent))
    return _hub_table(name, known)


def _files_in(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder"
    there = ", ".join(sorted(path.name for path in folder.glob("*.parquet"))) or "none"
    return f"its Parquet files: {there}; without data_dir the hub is asked"


def _hub_table(name: str, known: KnownSet) -> Table:
    from datasets import load_dataset

    try:
        parts = load_dataset(known.hub)
        rows = [{**row, "split": split} for split, part in parts.items() for row in part.to_list()]
    except Exception as error:  # network, cache, format: whatever the loader met, the way out is the same
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileError(
            f"cannot get {name!r} from the hub ({known.hub}): {reason}",
            f"put {known.file} into a folder and name it: data_dir= in Python, --data-dir, or WHENCE_DATA",
        ) from error
    if known.hub_classes:
        rows = [
            {**row, "label": known.hub_classes.index(row["label_text"])}
            for row in rows
            if row["label_text"] in known.hub_classes and row["text"].strip()  # some letters are only a header
        ]
    columns = tuple(dict.fromkeys(column for row in rows for column in row))
    return Table(f"{name} ({known.hub})", "row", columns, list(enumerate(rows, start=1)))
