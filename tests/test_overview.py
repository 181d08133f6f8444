"""The overview of a corpus: numbers that can be counted by hand, a page that is safe and can be used by anybody."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from test_corpus import METHOD, folder, run
from test_page import data_of
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.corpus.overview import LEAST_TEXTS, MOST_LISTED, decisive_words, overview
from whence.render.overview import named_rows, overview_page, page_data, texts_page

assert folder  # a fixture

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
WORDS = [
    "a",
    "witty",
    "film",
    "the",
    "plot",
    "was",
    "dull",
    "and",
    "bad",
    "gorgeous",
    "not",
    "fine",
    "so",
    "very",
    "long",
]


def write(path: Path, count: int) -> Path:
    chance = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "desk", "nr"])
        for number in range(count):
            text = "" if number == 7 else " ".join(chance.choice(WORDS, 4 + number % 9))
            writer.writerow([text, ("bad", "fair", "good")[number % 3], ("day", "night")[number % 2], number])
        writer.writerow(["film " * 600, "good", "day", count])
        writer.writerow([f"a {HOSTILE} film \x1b[31m", HOSTILE, HOSTILE, HOSTILE])
    return path


@pytest.fixture(scope="module")
def corpus(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> whence.Corpus:
    place = tmp_path_factory.mktemp("overview")
    return run(
        folder, write(place / "texts.csv", 60), place / "out", methods=[METHOD, "leave_one_out"],
        layers="embeddings", keep_columns=["desk", "nr"], id_column="nr",
    )  # fmt: skip


def test_classes_confusion_and_mistakes_are_counted(corpus: whence.Corpus) -> None:
    found = overview(corpus)
    texts = corpus.texts()
    sound = texts[texts["error"].isna()]
    assert {name: sum(bins) for name, bins in found.histograms.items()} == dict(Counter(sound["prediction"]))
    for name, bins in found.histograms.items():
        own = sound[sound["prediction"] == name]["probability"].to_numpy()
        assert bins == np.histogram(own, bins=np.linspace(0, 1, 11))[0].tolist()
    judged = sound[sound["label"].isin(["bad", "fair", "good"])]
    assert found.confusion == dict(Counter(zip(judged["label"], judged["prediction"], strict=True)))
    assert found.judged == len(judged)
    assert found.right == int((judged["label"] == judged["prediction"]).sum())
    wrong = judged[judged["label"] != judged["prediction"]].sort_values("probability", ascending=False)
    assert [each.row for each in found.mistakes] == list(wrong["row"])[:MOST_LISTED]


def test_driving_words_have_counts_intervals_and_examples(corpus: whence.Corpus) -> None:
    found = overview(corpus)
    texts, words = corpus.texts(), corpus.words()
    words = words[words["method"] == METHOD].merge(texts[["row", "prediction", "label", "text"]], on="row")
    for which in (found.decisive, found.frequent):
        for name, some in which.items():
            for each in some:
                own = words[(words["prediction"] == name) & (words["word"].str.lower() == each.word)]
                assert each.occurrences == len(own)
                assert each.texts == own["row"].nunique()
                best = own.loc[own["score_embeddings"].idxmax()]
                assert each.row == best["row"]
                assert each.example is not None
                assert each.example[1].lower() == each.word
                assert each.example[1] in best["text"]
    for some in found.decisive.values():
        assert all(each.texts >= LEAST_TEXTS and each.low is not None and each.low > 0 for each in some), "not surely"
    for some in found.frequent.values():
        assert [each.total for each in some] == sorted((each.total for each in some), reverse=True)
    mistaken = words[(words["label"] != words["prediction"]) & words["label"].notna()]
    for name, some in found.wrong.items():
        own = mistaken[mistaken["prediction"] == name]
        assert {each.word for each in some} <= set(own["word"].str.lower())
        for each in some:
            its = own[own["word"].str.lower() == each.word]
            assert each.row == its.loc[its["score_embeddings"].idxmax()]["row"], "of a text that the model gets right"


def test_a_word_of_few_texts_or_of_either_sign_is_not_decisive() -> None:
    rows = [
        ("once", 1, 9.0, np.nan, np.nan),
        ("four", LEAST_TEXTS - 1, 8.0, 7.0, 9.0),
        ("unsure", 50, 7.0, -1.0, 15.0),
        ("sure", LEAST_TEXTS, 3.0, 2.0, 4.0),
        ("surer", 9, 2.9, 2.8, 3.0),
    ]
    frame = pandas.DataFrame(rows, columns=["word", "texts", "mean", "low", "high"])
    frame = frame.assign(occurrences=frame["texts"], total=frame["texts"] * frame["mean"])
    assert [each.word for each in decisive_words(frame)] == ["surer", "sure"]


def test_texts_on_which_methods_disagree(corpus: whence.Corpus) -> None:
    from scipy.stats import kendalltau

    found = overview(corpus).disagreeing
    words = corpus.words()
    taus = {}
    for row, own in words.groupby("row"):
        one, other = (own[own["method"] == name]["score_embeddings"].to_numpy() for name in corpus.methods)
        if len(one) >= 3:
            taus[row] = kendalltau(one, other).statistic
    lowest = sorted(value for value in taus.values() if np.isfinite(value))[:MOST_LISTED]
    assert [each.value for each in found] == pytest.approx(lowest, abs=1e-6)


def test_errors_truncations_and_facets(corpus: whence.Corpus) -> None:
    found = overview(corpus)
    assert dict(found.errors) == {"text is empty": 1}
    assert [each.row for each in found.failed] == [7]
    assert [each.row for each in found.truncated] == [60]
    assert set(found.facets) == {"desk"}  # numbers of texts are no facet
    by_desk = {each.value: each.texts for each in found.facets["desk"]}
    assert by_desk == {"day": 31, "night": 29, HOSTILE: 1}


def test_nothing_of_a_text_becomes_markup(corpus: whence.Corpus) -> None:
    content = overview_page(overview(corpus), texts="texts.html")
    assert "<script>alert" not in content
    assert "<img" not in content
    assert "\x1b" not in content
    assert data_of(content)["schema"] == "whence.overview/1"
    assert HOSTILE in json.dumps(data_of(content))


def test_the_page_names_files_and_models_without_their_folders(corpus: whence.Corpus) -> None:
    content = overview_page(overview(corpus))
    assert data_of(content)["data"] == "texts.csv"
    assert str(corpus.folder.parent) not in content
    assert str(corpus.manifest.model.id) not in content, "a folder"


def test_a_corpus_of_nothing_but_an_error_or_two_can_be_shown(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a film\n")
    found = overview(run(folder, tmp_path / "a.txt", tmp_path / "out"))
    data = page_data(found)
    assert data["confusion"] is None
    assert data["mistakes"] == data["wrong"] == data["disagreeing"] == data["facets"] == []


def test_the_command_writes_both_pages(corpus: whence.Corpus, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["overview", str(corpus.folder), "--html", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    assert data_of((tmp_path / "page.html").read_text())["texts"] == "page-texts.html"
    assert len(data_of((tmp_path / "page-texts.html").read_text())["texts"]) == len(named_rows(overview(corpus)))
    alone = ["overview", str(corpus.folder), "--html", str(tmp_path / "alone.html"), "--no-texts"]
    assert CliRunner().invoke(app, alone).exit_code == 0
    assert not (tmp_path / "alone-texts.html").exists()
    nowhere = CliRunner().invoke(app, ["overview", str(tmp_path), "--html", str(tmp_path / "x.html")])
    assert (nowhere.exit_code, nowhere.stderr.splitlines()[0][:22]) == (1, "error: no manifest.jso")


# in a browser


@pytest.fixture(scope="module")
def place(corpus: whence.Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    found = overview(corpus)
    (folder / "page.html").write_text(overview_page(found, texts="page-texts.html"))
    (folder / "page-texts.html").write_text(texts_page(found))
    return folder / "page.html"


def opened(browser: Any, place: Path, width: int = 1280, **settings: Any) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 900}, **settings)
    page.said = []
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("console", lambda message: page.said.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: page.said.append(dialog.message))
    page.goto(f"file://{place}")
    return page


@pytest.mark.parametrize("width", [320, 400, 1280, 3840])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole_and_accessible(browser: Any, place: Path, width: int, scheme: str) -> None:
    page = opened(browser, place, width, color_scheme=scheme)
    assert page.said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    page.close()


def test_words_that_a_reader_may_not_know_are_explained(browser: Any, place: Path) -> None:
    page = opened(browser, place)
    page.locator("#words-note .term", has_text="interval").focus()
    assert page.inner_text("#meaning").startswith("interval: where the mean would lie")
    assert "at layer embeddings" not in page.inner_text("main")
    assert "gold" not in page.inner_text("main")
    page.close()


def test_words_can_be_chosen_by_keyboard_and_texts_opened(browser: Any, place: Path) -> None:
    page = opened(browser, place)
    before = page.locator("#driving-words").inner_text()
    page.focus("#which")
    page.keyboard.press("ArrowDown")
    assert page.locator("#which").input_value() == "frequent"
    assert page.locator("#driving-words").inner_text() != before
    link = page.locator("#mistakes a").first
    text = link.inner_text()
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/page-texts.html#text-*")
    assert text[:10] in page.locator("main").inner_text()
    page.close()


def test_the_page_prints(browser: Any, place: Path) -> None:
    page = opened(browser, place)
    page.emulate_media(media="print")
    assert page.locator(".tools").is_hidden()
    assert page.locator("#driving-words li").first.is_visible()
    assert len(page.pdf()) > 10_000
    page.close()


def test_a_hundred_thousand_texts_open_at_once(
    browser: Any, corpus: whence.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards of a small run, repeated until they are 100,000 texts: the page does not grow with them."""
    times, size = 20, len(corpus)
    whole: dict[str, Any] = {}
    for name in ("texts", "words"):
        table = pa.concat_tables(corpus.tables(name))
        rows = np.asarray(table["row"])
        copies = [table.set_column(0, "row", pa.array(rows + turn * size)) for turn in range(times)]
        whole[name] = pa.concat_tables(copies).combine_chunks()

    def repeated(self: whence.Corpus, name: str, columns: Any = None) -> Any:
        table = (
            whole[name]
            if columns is None
            else whole[name].select([n for n in whole[name].column_names if n in columns])
        )
        rows = np.asarray(table["row"])
        for turn in range(100_000 // (times * size) + 1):
            yield table.set_column(0, "row", pa.array(rows + turn * times * size))

    monkeypatch.setattr(whence.Corpus, "tables", repeated)
    monkeypatch.setattr("whence.corpus.overview._disagreeing", lambda corpus: [])  # a τ each takes minutes
    found = overview(corpus)
    assert found.judged > 90_000
    content = overview_page(found)
    assert len(content) < 500_000
    (tmp_path / "page.html").write_text(content)
    page = opened(browser, tmp_path / "page.html")
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert page.said == []
    assert timing < 2_000
    page.close()
