"""What a corpus run wrote, read back: as explanations, as data frames, by other libraries, and on the terminal."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from test_corpus import METHOD, folder, run, write_texts
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.corpus.top_words import MERGED_AT, top_words
from whence.errors import FileError, UnknownNameError, UsageError
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.verdict import Verdict
from whence.scoreboard.winner import Winner, believed_method

assert folder  # a fixture


@pytest.fixture(scope="module")
def corpus(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> whence.Corpus:
    place = tmp_path_factory.mktemp("corpus")
    return run(folder, write_texts(place / "reviews.csv", 40, bad=11), place / "out", layers="all", id_column="nr")


def test_a_text_comes_back_as_its_explanation(folder: Path, corpus: whence.Corpus) -> None:
    model = whence.load(str(folder))
    for row in (0, 17, 39):
        found = corpus.explanation(row)
        direct = whence.explain(model, found.text, METHOD, layers="all")
        assert found.method == METHOD
        assert found.layers == direct.layers
        assert found.prediction.label == direct.prediction.label
        assert found.prediction.probabilities == pytest.approx(direct.prediction.probabilities, abs=1e-6)
        assert found.meaning == direct.meaning
        assert dict(found.options) == dict(direct.options)
        for layer in direct.layers:
            mine, its = found.words(layer), direct.words(layer)
            assert [(word.text, word.start, word.end) for word in mine] == [(w.text, w.start, w.end) for w in its]
            assert [word.score for word in mine] == pytest.approx([word.score for word in its], abs=1e-5)
        assert whence.Explanation.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_texts_are_read_as_they_are_asked_for(corpus: whence.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = whence.Corpus._table

    def noted(self: whence.Corpus, receipt: object, name: str, columns: object) -> object:
        read.append(f"{name} {receipt.index}")  # type: ignore[attr-defined]
        return real(self, receipt, name, columns)  # type: ignore[arg-type]

    monkeypatch.setattr(whence.Corpus, "_table", noted)
    first = next(iter(corpus))
    assert first.text == "a witty film"
    assert read == ["texts 0", "words 0"]
    corpus.explanation(39)
    assert read[2:] == ["texts 4", "words 4"]
    assert len(list(corpus)) == 39  # one failed


def test_a_text_that_failed_or_is_not_there_is_told(corpus: whence.Corpus) -> None:
    with pytest.raises(UsageError, match="text 11 has no explanation: review is empty"):
        corpus.explanation(11)
    with pytest.raises(UsageError, match="there is no text 40"):
        corpus.explanation(40)
    with pytest.raises(UnknownNameError, match="unknown method of this corpus 'lime'"):
        corpus.explanation(0, "lime")
    with pytest.raises(UnknownNameError, match="unknown column of words 'scores'"):
        corpus.words(["scores"])
    with pytest.raises(FileError, match="no manifest"):
        whence.Corpus.open(corpus.folder / "texts")


def test_pandas_and_datasets_read_the_files(corpus: whence.Corpus) -> None:
    import datasets

    texts = pandas.read_parquet(corpus.folder / "texts")
    words = pandas.read_parquet(corpus.folder / "words")
    pandas.testing.assert_frame_equal(texts, corpus.texts())
    pandas.testing.assert_frame_equal(words, corpus.words())
    files = str(corpus.folder / "words" / "*.parquet")
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(corpus.folder / "cache"))
    assert loaded["word"] == list(words["word"])
    assert loaded["score_2"] == list(words["score_2"])


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
def test_polars_reads_the_files(corpus: whence.Corpus) -> None:
    import polars

    texts = polars.scan_parquet(corpus.folder / "texts" / "*.parquet").filter(polars.col("error").is_null()).collect()
    words = polars.read_parquet(corpus.folder / "words" / "*.parquet")
    assert texts.height == 39
    assert words["word"].to_list() == list(corpus.words()["word"])
    assert words["score_1"].to_numpy() == pytest.approx(corpus.words()["score_1"].to_numpy())


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
def test_duckdb_reads_the_files(corpus: whence.Corpus) -> None:
    import duckdb

    found = duckdb.sql(
        f"select t.prediction, w.word, avg(w.score_0) as mean from '{corpus.folder}/words/*.parquet' w "
        f"join '{corpus.folder}/texts/*.parquet' t using (row) where w.word = 'film' group by all order by all"
    )
    assert found is not None
    rows = found.fetchall()
    frame = corpus.words().merge(corpus.texts(["row", "prediction"]), on="row")
    mine = frame[frame["word"] == "film"].groupby("prediction")["score_0"].mean()
    assert [row[0] for row in rows] == list(mine.index)
    assert [row[2] for row in rows] == pytest.approx(list(mine), abs=1e-6)


def test_top_words_are_means_over_texts(corpus: whence.Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    found = top_words(corpus, "prediction", layer=2)
    frame = corpus.words().merge(corpus.texts(["row", "prediction"]), on="row")
    frame["word"] = frame["word"].str.lower()
    in_texts = frame.groupby(["prediction", "word", "row"])["score_2"].mean()
    by_word = in_texts.groupby(level=[0, 1])
    assert len(found) == len(by_word)
    for _, row in found.iterrows():
        scores = by_word.get_group((row["prediction"], row["word"])).to_numpy(float)
        assert row["texts"] == len(scores)
        assert row["mean"] == pytest.approx(scores.mean(), abs=1e-6)
        assert row["total"] == pytest.approx(scores.sum(), abs=1e-5)
        if len(scores) > 1:
            half = 1.96 * scores.std(ddof=1) / np.sqrt(len(scores))
            assert row["high"] - row["mean"] == pytest.approx(half, abs=1e-5)
    assert (found.groupby("prediction")["mean"].diff().dropna() <= 0).all()
    monkeypatch.setattr("whence.corpus.top_words.MERGED_AT", 3)
    pandas.testing.assert_frame_equal(top_words(corpus, "prediction", layer=2), found)
    assert MERGED_AT > 3
    assert set(top_words(corpus, min_texts=10)["word"]) < set(top_words(corpus)["word"])
    with pytest.raises(UnknownNameError, match="unknown column of texts 'stars'"):
        top_words(corpus, "stars")


def test_the_table_command(corpus: whence.Corpus, tmp_path: Path) -> None:
    words = ["table", str(corpus.folder), "--top-words", "--by", "label"]
    shown = CliRunner().invoke(app, [*words, "--layer", "1", "--limit", "2"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[0].strip() == "40 texts, scores at layer 1"
    assert len(shown.output.splitlines()) == 2 + 2 * 2
    printed = CliRunner().invoke(app, [*words, "--json"])
    rows = [json.loads(line) for line in printed.output.splitlines()]
    expected = top_words(corpus, "label")
    assert [row["word"] for row in rows] == list(expected["word"])
    written = CliRunner().invoke(app, [*words, "--csv", str(tmp_path / "words.csv")])
    assert written.exit_code == 0
    assert list(pandas.read_csv(tmp_path / "words.csv", keep_default_na=False)["word"]) == list(expected["word"])
    texts = CliRunner().invoke(app, ["table", str(corpus.folder), "--limit", "3"])
    assert "a witty film" in texts.output
    wrong = CliRunner().invoke(app, ["table", str(corpus.folder), "--by", "label"])
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, "error: --by goes with --top-words")


def test_the_method_of_a_board(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"options": {"shapley": {"samples": 4}}, "metrics": ["comprehensiveness"]}
    board = whence.evaluate(whence.load(str(folder)), ["a witty film", "so dull"], methods=["shapley"], **settings)
    board.save(tmp_path / "board")
    data = write_texts(tmp_path / "reviews.csv", 8)
    believed = Verdict("", ("random", "shapley"), (), "strong")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scoreboard, "verdict", believed)
        assert believed_method(tmp_path / "board") == Winner("shapley", {"samples": 4}, "embeddings", str(folder))
        said: list[str] = []
        corpus = run("sentiment", data, tmp_path / "out", methods=f"board:{tmp_path / 'board'}", announce=said.append)
        patch.setattr(Scoreboard, "verdict", replace(believed, believe=("random",)))
        with pytest.raises(UsageError, match="tells no method of whence to believe"):
            run(folder, data, tmp_path / "none", methods=f"board:{tmp_path / 'board'}")
    assert corpus.methods == ("shapley",)
    assert corpus.manifest.methods[0].options["samples"] == 4
    assert "the board says to believe shapley at layer embeddings" in said
    assert f"that board judged {str(folder)!r}, not 'whence/sentiment'" in said


def test_explain_takes_a_file_of_texts(folder: Path, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv", 5)
    explain = ["explain", "--model", str(folder), "--method", METHOD, "--json", "--data"]
    result = CliRunner().invoke(app, [*explain, str(data)])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()][:2] == [
        "a witty film",
        "the plot was dull and the film bad film",
    ]
    assert result.stderr.splitlines()[0] == "note: texts from column 'review', labels from column 'sentiment'"
    both = CliRunner().invoke(app, [*explain, str(data), "a text"])
    assert (both.exit_code, both.stderr.splitlines()[0]) == (2, "error: --data is where the texts are")
    empty = CliRunner().invoke(app, [*explain, str(write_texts(tmp_path / "bad.csv", 5, bad=2))])
    assert (empty.exit_code, empty.stderr.splitlines()[1]) == (1, "error: bad.csv, line 4: review is empty")
    many = CliRunner().invoke(app, [*explain, str(write_texts(tmp_path / "many.csv", 1001))])
    assert (many.exit_code, many.stderr.splitlines()[2]) == (2, "whence run --data ... --out FOLDER takes any number")
    assert CliRunner().invoke(app, ["explain"]).exit_code == 2
