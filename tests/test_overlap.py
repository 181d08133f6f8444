"""Tokens that speak for classes: totals, overlaps and document frequencies, by hand and by brute force."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_explanations import made

import whence
from whence.explanation import Explanation, Prediction
from whence.metrics.document_frequency import DocumentFrequencies, read_document_frequencies
from whence.metrics.overlap import contradictions, overlap, overlap_curve, shared_tokens, token_totals, top_tokens


def said(text: str, scores: list[float], label: str, **changes: Any) -> Explanation:
    """An explanation by hand: scores of the words, large ones at the special tokens, and a predicted class."""
    return made(text, scores=[[9.0, *scores, 9.0]], prediction=Prediction(label, 0, 0.9, {label: 0.9}), **changes)


TEXTS = [
    said("a fine fine film", [0.0, 2.0, 1.0, 1.0], "good"),
    said("fine plot", [1.0, -3.0], "good"),
    said("a dull film", [0.0, 3.0, 1.0], "bad"),
]


def test_totals_by_hand() -> None:
    raw = token_totals(TEXTS, normalise=False)
    assert raw == {"good": {"a": 0, "fine": 4, "film": 1, "plot": -3}, "bad": {"a": 0, "dull": 3, "film": 1}}
    assert token_totals(TEXTS) == {
        "good": {"a": 0, "fine": 0.75 + 0.25, "film": 0.25, "plot": -0.75},
        "bad": {"a": 0, "dull": 0.75, "film": 0.25},
    }
    assert token_totals(TEXTS, normalise=False, repeats="mean")["good"]["fine"] == 1.5 + 1
    idf = {"a": 0.0, "fine": 1.0, "film": 0.5, "plot": 1.0, "dull": 2.0}
    weighted = {"good": {"a": 0, "fine": 4, "film": 0.5, "plot": -3}, "bad": {"a": 0, "dull": 6, "film": 0.5}}
    assert token_totals(TEXTS, normalise=False, weight=idf) == weighted
    assert token_totals(TEXTS, normalise=False, weight=idf.get) == weighted  # type: ignore[arg-type]


def test_a_layer_can_be_chosen() -> None:
    explanation = made("fine film", (0, 3), [[0, 1, 2, 0], [0, 3, 4, 0]])
    assert token_totals([explanation], normalise=False)["good"] == {"fine": 1, "film": 2}
    assert token_totals([explanation], layer=3, normalise=False)["good"] == {"fine": 3, "film": 4}


def test_a_text_without_scores_adds_nothing() -> None:
    assert token_totals([said("fine film", [0.0, 0.0], "good")]) == {"good": {"fine": 0.0, "film": 0.0}}


def test_wrong_totals_are_refused() -> None:
    with pytest.raises(whence.UsageError, match="the table of weights lacks 'a'"):
        token_totals(TEXTS, weight={"fine": 1.0})
    with pytest.raises(whence.UnknownNameError, match="known: sum, mean"):
        token_totals(TEXTS, repeats="all")  # type: ignore[arg-type]


def test_top_tokens_by_hand() -> None:
    weights = {"b": 2.0, "a": 2.0, "c": 5.0, "against": -9.0, "nothing": 0.0}
    assert top_tokens(weights, 2) == ["c", "a"], "equal ones by name"
    assert top_tokens(weights, 50) == ["c", "a", "b"], "what speaks against, or not at all, is left out"
    with pytest.raises(whence.UsageError, match="k must be at least 1"):
        top_tokens(weights, 0)


THREE = {
    "x": {"p": 3.0, "q": 2.0, "r": 1.0},
    "y": {"q": 3.0, "p": 2.0, "s": 1.0},
    "z": {"t": 3.0, "r": 2.0, "p": 1.0},
}


def test_overlap_by_hand() -> None:
    assert shared_tokens(THREE, 2) == {("x", "y"): ["p", "q"], ("x", "z"): [], ("y", "z"): []}
    assert overlap(THREE, 2) == 2 / (3 * 2)
    assert shared_tokens(THREE, 3) == {("x", "y"): ["p", "q"], ("x", "z"): ["p", "r"], ("y", "z"): ["p"]}
    assert overlap(THREE, 3) == pytest.approx(5 / (3 * 3))
    assert overlap_curve(THREE, [1, 2, 3]) == [0, overlap(THREE, 2), overlap(THREE, 3)]


def test_identical_and_disjoint() -> None:
    same = {"a": 1.0, "b": 2.0, "c": 3.0}
    other = {"d": 1.0, "e": 2.0, "f": 3.0}
    for k in (1, 2, 3, 4, 1000):
        assert overlap({"x": same, "y": dict(same)}, k) == 1, "also where k is larger than the vocabulary"
        assert overlap({"x": same, "y": other}, k) == 0
    assert overlap({"x": same, "y": {}}, 3) == 0
    with pytest.raises(whence.UsageError, match="at least two classes"):
        overlap({"x": same}, 3)


WEIGHTS = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-2, 9).map(float), min_size=0, max_size=10)


@given(st.lists(WEIGHTS, min_size=2, max_size=4), st.integers(1, 12))
def test_overlap_by_brute_force(classes: list[dict[str, float]], k: int) -> None:
    totals = {f"class {i}": weights for i, weights in enumerate(classes)}
    first = {}
    for label, weights in totals.items():
        ranked = sorted((-weight, token) for token, weight in weights.items() if weight > 0)
        first[label] = {token for _, token in ranked[:k]}
    shares = []
    for one, other in combinations(first, 2):
        room = min(len(first[one]), len(first[other]))
        shares.append(len(first[one] & first[other]) / room if room else 0)
    assert overlap(totals, k) == pytest.approx(sum(shares) / len(shares))
    if all(len(tokens) == k for tokens in first.values()):
        counts = Counter(token for tokens in first.values() for token in tokens)
        pairs = math.comb(len(first), 2)
        formula = sum(math.comb(count, 2) for count in counts.values()) / (pairs * k)
        assert overlap(totals, k) == pytest.approx(formula), "a token of c classes is shared by c choose 2 pairs"
    assert contradictions(shared_tokens(totals, k)) == []


def test_contradictions_are_found() -> None:
    right = {("x", "y"): ["p", "q"], ("x", "z"): ["p", "r"], ("y", "z"): ["p"]}
    assert contradictions(right) == []
    copied = {**right, ("x", "z"): ["p", "q"]}
    assert contradictions(copied) == [(("x", "y"), ("x", "z"), ("y", "z"), ["q"])]
    assert contradictions({("x", "y"): ["p"], ("x", "z"): ["p"]}) == [], "a pair that is not listed claims nothing"


# document frequencies -----------------------------------------------------------------------------------------------


def test_idf_by_hand() -> None:
    table = DocumentFrequencies(9, {"the": 9, "film": 4})
    assert table.idf("the") == 0
    assert table.idf("film") == pytest.approx(math.log(2))
    assert table.idf("unheard of") == pytest.approx(math.log(10))
    with pytest.raises(whence.UsageError, match="0 documents"):
        DocumentFrequencies(0, {})


def test_pieces_of_words_that_come_independently() -> None:
    """Ten thousand documents in which each of four words is in or out by its own chance."""
    generator = np.random.default_rng(0)
    chances = {"play": 0.5, "playing": 0.2, "acting": 0.1, "film": 0.3}
    pieces = {"play": ["play"], "playing": ["play", "##ing"], "acting": ["act", "##ing", "##ing"], "film": ["film"]}
    present = {word: generator.random(10_000) < chance for word, chance in chances.items()}
    table = DocumentFrequencies(10_000, {word: int(there.sum()) for word, there in present.items()})
    found = table.of_pieces(pieces.__getitem__)
    counted = {
        piece: int(np.any([there for word, there in present.items() if piece in pieces[word]], axis=0).sum())
        for piece in ("play", "##ing", "act", "film")
    }
    assert found.counts.keys() == counted.keys()
    for piece, count in counted.items():
        assert found.counts[piece] == pytest.approx(count, rel=0.03)
    everywhere = DocumentFrequencies(5, {"the": 5}).of_pieces(lambda word: [word])
    assert everywhere.counts["the"] == pytest.approx(5)
    assert everywhere.idf("the") == pytest.approx(0, abs=1e-6)


def test_frequencies_are_read_from_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "frequencies.parquet"
    parquet.write_table(pyarrow.table({"token": ["the", "film"], "df_50k": [49_000, 3], "df_all": [9, 9]}), path)
    table = read_document_frequencies(path)
    assert table.idf("film") == pytest.approx(math.log(50_001 / 4))
    with pytest.raises(whence.UsageError, match="counts up to 49000 documents, more than 10"):
        read_document_frequencies(path, n_documents=10)
    with pytest.raises(whence.FileError, match="cannot read document frequencies"):
        read_document_frequencies(path, column="df_none")
    with pytest.raises(whence.FileError, match="cannot read document frequencies"):
        read_document_frequencies(tmp_path / "absent.parquet")
    (tmp_path / "broken.parquet").write_text("no table")
    with pytest.raises(whence.FileError, match="cannot read document frequencies"):
        read_document_frequencies(tmp_path / "broken.parquet")
