"""Which words speak for what, over a whole corpus: read shard by shard, with intervals over texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.corpus.corpus import Corpus
from whence.corpus.tables import score_column
from whence.errors import UnknownNameError
from whence.explanation import Layer

if TYPE_CHECKING:
    import pandas
    import pyarrow

Groups = tuple[Sequence[str], Callable[..., str | None]]
MERGED_AT = 500_000  # rows of sums that are held before those of one word are added up
NINETY_FIVE = 1.96
_SUMS = ("texts", "occurrences", "sum", "squares")


def top_words(
    corpus: Corpus,
    by: str | Groups | None = None,
    *,
    method: str | None = None,
    layer: Layer | None = None,
    min_texts: int | None = None,
) -> pandas.DataFrame:
    """Every word's mean score over the texts that have it, the highest first in every group.

    A word's score in a text is the mean of its scores there; `low` and `high` are its 95 % interval over texts (normal,
    none for a single text), `total` is the mean times the number of texts: a frequent word has a large total, a
    decisive one a large mean. Capital and small letters are not told apart.

    Args:
        by: a column of the texts, such as "prediction" or "label", whose values make the groups; None: one group; or
            see `word_sums`, the groups' column is then called "group".
        min_texts: leave out words of fewer texts; by default of fewer than 5 where there are 100 texts or more.
    """
    import pandas

    name = by if isinstance(by, str) else "group"
    least = min_texts if min_texts is not None else 5 if len(corpus) >= 100 else 1
    frame = word_sums(corpus, by, method, layer).to_pandas()
    frame = frame[frame["texts"] >= least]
    count = frame["texts"].to_numpy(float)
    mean = frame["sum"].to_numpy(float) / np.maximum(count, 1)
    variance = np.maximum(frame["squares"].to_numpy(float) / np.maximum(count, 1) - mean**2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.where(count > 1, NINETY_FIVE * np.sqrt(variance / (count - 1)), np.nan)
    found = pandas.DataFrame(
        {
            **({} if by is None else {name: frame["group"].to_numpy()}),
            "word": frame["word"].to_numpy(),
            "texts": frame["texts"].to_numpy(int),
            "occurrences": frame["occurrences"].to_numpy(int),
            "mean": mean,
            "low": mean - half,
            "high": mean + half,
            "total": frame["sum"].to_numpy(float),
        }
    )
    order = (["mean", "word"], [False, True]) if by is None else ([name, "mean", "word"], [True, False, True])
    return found.sort_values(order[0], ascending=order[1]).reset_index(drop=True)


def word_sums(corpus: Corpus, by: str | Groups | None, method: str | None, layer: Layer | None) -> pyarrow.Table:
    """By group and word: in how many texts, how often, and the sums of its mean scores there and of their squares.

    `by` may also be columns of the texts and a function that gives each text's group of their values, or None: the
    text does not count.
    """
    import pyarrow as pa

    held: list[pyarrow.Table] = []
    for part in _sums_of_shards(corpus, by, method, layer):
        held.append(part)
        if sum(len(each) for each in held) > MERGED_AT:
            held = [_added(held)]
    empty = pa.table({"group": pa.array([], pa.string()), "word": pa.array([], pa.string()),
                      **{name: pa.array([], pa.float64()) for name in _SUMS}})  # fmt: skip
    return _added(held) if held else empty


def _sums_of_shards(
    corpus: Corpus, by: str | Groups | None, method: str | None, layer: Layer | None
) -> Iterator[pyarrow.Table]:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = corpus.schema("texts").names
    if isinstance(by, str) and by not in columns:
        raise UnknownNameError("column of texts", by, columns)
    needed, group_of = _groups(by)
    column = score_column(corpus.layer(method, layer))
    name = corpus.methods[0] if method is None else method
    tables = zip(
        corpus.tables("texts", ["row", *needed]), corpus.tables("words", ["row", "method", "word", column]), strict=True
    )
    for texts, words in tables:
        words = words.filter(pc.equal(words["method"], name))
        if not len(words):
            continue
        lower = pa.table({"row": words["row"], "word": pc.utf8_lower(words["word"]), "score": words[column]})
        each = lower.group_by(["row", "word"]).aggregate([("score", "mean"), ("score", "count")])
        groups = pa.array([group_of(*values) for values in zip(*(texts[n].to_pylist() for n in needed), strict=True)]
                          if needed else [""] * len(texts), pa.string())  # fmt: skip
        group = pc.take(groups, pc.subtract(each["row"].combine_chunks(), texts["row"][0].as_py()))  # rows follow on
        each, group = each.filter(pc.is_valid(group)), group.drop_null()
        mean = pc.cast(each["score_mean"], pa.float64())
        yield _added(
            [
                pa.table(
                    {
                        "group": group,
                        "word": each["word"],
                        "texts": pa.array(np.ones(len(each))),
                        "occurrences": pc.cast(each["score_count"], pa.float64()),
                        "sum": mean,
                        "squares": pc.multiply(mean, mean),
                    }
                )
            ]
        )


def _groups(by: str | Groups | None) -> Groups:
    if by is None:
        return (), lambda: ""
    return ((by,), lambda value: "" if value is None else str(value)) if isinstance(by, str) else by


def _added(parts: list[pyarrow.Table]) -> pyarrow.Table:
    import pyarrow as pa

    whole = pa.concat_tables(parts).group_by(["group", "word"]).aggregate([(name, "sum") for name in _SUMS])
    return whole.rename_columns([name.removesuffix("_sum") for name in whole.column_names])
