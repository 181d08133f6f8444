"""What a person wants to see of a corpus first, gathered shard by shard: as large for a million texts as for a hundred.

Three passes: one over the texts, one over the words, and one that fetches an example for each word that is shown.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.corpus.corpus import Corpus
from whence.corpus.tables import score_column
from whence.corpus.top_words import top_words
from whence.explanation import Layer
from whence.metrics.rank_correlation import kendall_tau

if TYPE_CHECKING:
    import pandas

BINS = 10
MOST_LISTED = 20  # texts of a kind
MOST_WORDS = 15  # of a class
LEAST_TEXTS = 5  # of a decisive word: an interval over fewer says little
MOST_CLASSES = 30
MOST_VALUES = 12  # of a kept column that makes a facet
_NOT_SHOWN = ("probabilities", "values", "notes", "source")
AROUND = 60  # characters of an example, on either side of its word


@dataclass(frozen=True)
class ListedText:
    """A text worth a look, and the number for which it is listed."""

    row: int
    id: str
    text: str
    label: str | None
    prediction: str | None
    probability: float | None
    value: float
    note: str = ""


@dataclass(frozen=True)
class DrivingWord:
    """A word that speaks for a class, on average over the texts that have it, with a sentence as an example."""

    word: str
    texts: int
    occurrences: int
    mean: float
    low: float | None
    high: float | None
    total: float
    example: tuple[str, str, str] | None = None
    row: int | None = None


@dataclass
class Facet:
    """The texts with one value of a kept column."""

    value: str
    texts: int = 0
    right: int = 0
    judged: int = 0
    sure: float = 0.0
    predictions: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Overview:
    """The aggregates of a corpus. `histograms` count texts by class and probability, in ten steps from 0 to 1;
    `confusion` counts texts by gold label and prediction; `decisive` words are those of `decisive_words`, `frequent`
    ones have the largest totals, if only from one text; `wrong` are words that speak for a class in texts of another
    one; `disagreeing` texts are those on which the orders of words by two methods go together least."""

    corpus: Corpus
    layer: Layer
    histograms: dict[str, list[int]]
    confusion: dict[tuple[str, str], int]
    mistakes: list[ListedText]
    decisive: dict[str, list[DrivingWord]]
    frequent: dict[str, list[DrivingWord]]
    wrong: dict[str, list[DrivingWord]]
    disagreeing: list[ListedText]
    truncated: list[ListedText]
    failed: list[ListedText]
    errors: Counter[str]
    warnings: Counter[str]
    facets: dict[str, list[Facet]]

    @property
    def judged(self) -> int:
        """How many texts have a gold label that the model knows, and a prediction."""
        return sum(self.confusion.values())

    @property
    def right(self) -> int:
        return sum(count for (label, prediction), count in self.confusion.items() if label == prediction)


def overview(corpus: Corpus, *, method: str | None = None, layer: Layer | None = None) -> Overview:
    """Gather what there is to see."""
    chosen = corpus.layer(method, layer)
    seen = _Texts(corpus)
    needed = [name for name in corpus.schema("texts").names if name not in _NOT_SHOWN]
    for table in corpus.tables("texts", needed):
        seen.add(table.to_pylist())
    by_class = top_words(corpus, "prediction", method=method, layer=chosen)
    by_class = by_class[by_class["mean"] > 0]
    classes = [name for name, _ in Counter({n: sum(h) for n, h in seen.histograms.items()}).most_common(MOST_CLASSES)]
    decisive = {name: decisive_words(by_class[by_class["prediction"] == name]) for name in classes}
    frequent = {name: _words(by_class[by_class["prediction"] == name], "total") for name in classes}
    wrong: dict[str, list[DrivingWord]] = {}
    if seen.confusion:
        of_mistakes = top_words(corpus, (("label", "prediction"), _mistaken), method=method, layer=chosen, min_texts=2)
        wrong = {
            name: _words(of_mistakes[(of_mistakes["group"] == name) & (of_mistakes["mean"] > 0)], "total")
            for name in classes
        }
    driving = {**_keys(decisive), **_keys(frequent)}
    examples, mistaken_examples = _examples(corpus, method, chosen, driving, _keys(wrong))
    return Overview(
        corpus=corpus,
        layer=chosen,
        histograms={name: seen.histograms[name] for name in classes},
        confusion=dict(seen.confusion),
        mistakes=_listed(seen.mistakes),
        decisive=_with_examples(decisive, examples),
        frequent=_with_examples(frequent, examples),
        wrong=_with_examples(wrong, mistaken_examples),
        disagreeing=_disagreeing(corpus),
        truncated=seen.truncated,
        failed=seen.failed,
        errors=seen.errors,
        warnings=seen.warnings,
        facets=seen.shown_facets(),
    )


def _mistaken(label: str | None, prediction: str | None) -> str | None:
    return prediction if label is not None and prediction is not None and label != prediction else None


class _Texts:
    """What is gathered from the table of texts."""

    def __init__(self, corpus: Corpus) -> None:
        self._kept = list(corpus.manifest.kept)
        self._labels = set(corpus.manifest.labels)
        self.histograms: dict[str, list[int]] = defaultdict(lambda: [0] * BINS)
        self.confusion: Counter[tuple[str, str]] = Counter()
        self.mistakes: list[tuple[float, int, ListedText]] = []
        self.truncated: list[ListedText] = []
        self.failed: list[ListedText] = []
        self.errors: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self._facets: dict[str, dict[str, Facet] | None] = {name: {} for name in self._kept}

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        for row in rows:
            if row["error"] is not None:
                self._add_failure(row)
                continue
            label, said, probability = row.get("label"), row["prediction"], row["probability"]
            self.histograms[said][min(BINS - 1, int((probability or 0) * BINS))] += 1
            judged = label is not None and label in self._labels
            if judged:
                self.confusion[str(label), said] += 1
                if label != said:
                    listed = _listed_text(row, probability or 0.0)
                    _keep(self.mistakes, listed.value, listed)
            for warning in row["warnings"]:
                self.warnings[_kind_of_warning(warning)] += 1
            cut = next((warning for warning in row["warnings"] if "truncated" in warning), None)
            if cut is not None and len(self.truncated) < MOST_LISTED:
                self.truncated.append(_listed_text(row, 0.0, cut))
            self._add_facets(row, judged)

    def _add_failure(self, row: dict[str, Any]) -> None:
        self.errors[row["error"]] += 1
        if len(self.errors) > 10 * MOST_LISTED:  # as many reasons as texts: the rare ones are added up
            rare = self.errors.most_common()[MOST_LISTED:]
            for reason, _ in rare:
                del self.errors[reason]
            self.errors["other reasons"] += sum(count for _, count in rare)
        if len(self.failed) < MOST_LISTED:
            self.failed.append(_listed_text(row, 0.0, row["error"]))

    def _add_facets(self, row: dict[str, Any], judged: bool) -> None:
        for name in self._kept:
            values = self._facets[name]
            if values is None:
                continue
            facet = values.setdefault(str(row[name]), Facet(str(row[name])))
            facet.texts += 1
            facet.judged += judged
            facet.right += judged and row["label"] == row["prediction"]
            facet.sure += row["probability"] or 0.0
            facet.predictions[row["prediction"]] += 1
            if len(values) > MOST_VALUES:
                self._facets[name] = None  # ids, numbers, names: no facet

    def shown_facets(self) -> dict[str, list[Facet]]:
        """The kept columns of few values, each with its texts by value."""
        several = {name: values for name, values in self._facets.items() if values and len(values) > 1}
        return {name: sorted(values.values(), key=lambda each: -each.texts) for name, values in several.items()}


def _kind_of_warning(warning: str) -> str:
    """A warning without the numbers of its text."""
    return "".join("#" if character.isdigit() else character for character in warning).replace("##", "#")


def _listed_text(row: dict[str, Any], value: float, note: str = "") -> ListedText:
    whole = row["text"] or ""
    if row.get("pair"):
        whole = f"{whole} | {row['pair']}"
    return ListedText(
        row["row"], row["id"], whole, row.get("label"), row["prediction"], row["probability"], value, note
    )


def _keep(heap: list[tuple[float, int, ListedText]], worth: float, listed: ListedText) -> None:
    """Add a text; of too many the least worth a look goes, of equals the later."""
    heapq.heappush(heap, (worth, -listed.row, listed))
    if len(heap) > MOST_LISTED:
        heapq.heappop(heap)


def _listed(heap: Sequence[tuple[float, int, ListedText]]) -> list[ListedText]:
    return [listed for _, _, listed in sorted(heap, reverse=True)]


def decisive_words(frame: pandas.DataFrame) -> list[DrivingWord]:
    """The first words by the lower end of their interval: of several texts, and surely above zero over them."""
    return _words(frame[(frame["texts"] >= LEAST_TEXTS) & (frame["low"] > 0)], "low")


def _words(frame: pandas.DataFrame, by: str) -> list[DrivingWord]:
    """The first words by a column."""
    frame = frame[frame["word"].str.contains(r"\w", regex=True)]
    chosen = frame.sort_values([by, "word"], ascending=[False, True]).head(MOST_WORDS)
    return [
        DrivingWord(
            row.word, int(row.texts), int(row.occurrences), float(row.mean),
            None if np.isnan(row.low) else float(row.low), None if np.isnan(row.high) else float(row.high),
            float(row.total),
        )
        for row in chosen.itertuples(index=False)
    ]  # fmt: skip


_Keys = dict[tuple[str, str], None]
_Examples = dict[tuple[str, str], tuple[float, int, tuple[str, str, str]]]
"""By class and word: its score, the row of the text, and the word with what stands around it."""


def _keys(words: dict[str, list[DrivingWord]]) -> _Keys:
    return {(name, each.word): None for name, some in words.items() for each in some}


def _with_examples(words: dict[str, list[DrivingWord]], examples: _Examples) -> dict[str, list[DrivingWord]]:
    found: dict[str, list[DrivingWord]] = {}
    for name, some in words.items():
        for each in some:
            _, row, example = examples.get((name, each.word), (None, None, None))
            found.setdefault(name, []).append(replace(each, row=row, example=example))
    return found


def _examples(
    corpus: Corpus, method: str | None, layer: Layer, keys: _Keys, wrong: _Keys
) -> tuple[_Examples, _Examples]:
    """For every class and word, the text of that class in which the word's score is highest, cut around the word.

    For the `wrong` ones it is looked for among the texts that the model puts into another class than their label.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = score_column(layer)
    name = corpus.methods[0] if method is None else method
    wanted = pa.array(sorted({word for _, word in (*keys, *wrong)}), pa.string())
    found: tuple[_Examples, _Examples] = ({}, {})
    tables = zip(
        corpus.tables("texts"), corpus.tables("words", ["row", "method", "word", "start", "end", "segment", column]),
        strict=True,
    )  # fmt: skip
    for texts, words in tables:
        lower = pc.utf8_lower(words["word"])
        mine = pc.and_(pc.equal(words["method"], name), pc.is_in(lower, value_set=wanted))
        some = words.append_column("lower", lower).filter(mine)
        places = pc.subtract(some["row"].combine_chunks(), texts["row"][0].as_py())
        some = some.append_column("class", pc.take(texts["prediction"].combine_chunks(), places))
        _take_higher(found[0], keys, some, texts, column)
        if wrong:
            differ = pc.not_equal(texts["label"], texts["prediction"]).combine_chunks()
            _take_higher(found[1], wrong, some.filter(pc.fill_null(pc.take(differ, places), False)), texts, column)
    return found


def _take_higher(found: _Examples, keys: _Keys, words: Any, texts: Any, column: str) -> None:
    """Of the words of one shard, those that score higher than what was found before."""
    import pyarrow.compute as pc

    for each in words.group_by(["class", "lower"]).aggregate([(column, "max")]).to_pylist():
        key, score = (each["class"], each["lower"]), each[f"{column}_max"]
        if key not in keys or score is None or score <= found.get(key, (0.0,))[0]:
            continue
        its = pc.and_(pc.equal(words["class"], key[0]), pc.equal(words["lower"], key[1]))
        row = words.filter(pc.and_(its, pc.equal(words[column], score))).slice(0, 1).to_pylist()[0]
        source = texts["pair" if row["segment"] else "text"][row["row"] - texts["row"][0].as_py()].as_py() or ""
        found[key] = (score, row["row"], _around(source, row["start"], row["end"]))


def _around(text: str, start: int, end: int) -> tuple[str, str, str]:
    before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
    return (
        ("…" if start > AROUND else "") + before,
        text[start:end],
        after + ("…" if end + AROUND < len(text) else ""),
    )


def _disagreeing(corpus: Corpus) -> list[ListedText]:
    """The texts on which the orders of words by the methods go together least: by the mean τ-b of every two."""
    if len(corpus.methods) < 2:
        return []
    columns = {name: score_column(corpus.layer(name)) for name in corpus.methods}
    heap: list[tuple[float, int, ListedText]] = []
    upper = np.triu_indices(len(columns), 1)
    wanted = ["row", "method", "position", *dict.fromkeys(columns.values())]
    for texts, words in zip(corpus.tables("texts"), corpus.frames("words", wanted), strict=True):
        rows = {row["row"]: row for row in texts.to_pylist()}
        for number, own in words.groupby("row", sort=True):
            scores = [own.loc[own["method"] == name, column].to_numpy(float) for name, column in columns.items()]
            if len({len(each) for each in scores}) > 1 or len(scores[0]) < 3:
                continue
            table = np.stack(scores)
            taus = kendall_tau(table, table)[upper]
            if not np.isfinite(taus).any():
                continue
            listed = _listed_text(rows[int(number)], float(np.nanmean(taus)))
            _keep(heap, -listed.value, listed)
    return _listed(heap)
