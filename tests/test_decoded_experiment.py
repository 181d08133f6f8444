"""The experiments on decoded saliency, end to end at toy size: scripts run, and the page follows from the numbers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ready_processes

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

HERE = Path(__file__).parents[1] / "experiments" / "decoded_saliency"
REVIEWS = {
    "unflinchingly bleak and desperate": 0, "a gorgeous witty film": 1, "dull and lifeless": 0, "truly funny": 1,
    "awful plot": 0, "warm and lovely": 1,
}  # fmt: skip
NEWS = {
    "Striker scores in cup final": 1, "Shares fall again": 2, "Troops clash in Iraq": 0, "Free Internet software": 3,
    "Coach praises the team": 1, "Oil prices rise": 2,
}  # fmt: skip
PLAYED = (
    "Decoded Grad-CAM", "Grad-CAM", "Simple (AllenNLP)", "Shapley (ThermoStat)", "gradient x input", "ones decoded",
    "shuffled head", "shuffled positions", "pooled Grad-CAM decoded", "tau 1",
)  # fmt: skip

DRIVER = """
import shutil
import sys
sys.path.insert(0, sys.argv[1])
import overlap, scores, tables, write_page
from contestants import CONTESTANTS
scores.PART = 4
given = tables.arguments.parse_args(sys.argv[2:-1])
tables.main(given)
overlap.main(given)
write_page.main(write_page.arguments.parse_args(["--results", str(given.out), "--out", sys.argv[-1]]))
given.sets, given.out, given.only = ["sst2"], given.out.parent / "again", ["Grad-CAM", "Decoded Grad-CAM"]
before = {path: path.stat().st_mtime_ns for path in given.cache.iterdir()}
tables.main(given)
assert {path: path.stat().st_mtime_ns for path in given.cache.iterdir()} == before, "scores were computed again"
results = given.out.parent / "results"
shutil.copytree(given.out, results / "ordinary")
given.sets, given.out, given.only = ["ag_news"], results / "all_texts", list(CONTESTANTS)
given.groups, given.no_ablations, given.random_orders = ["decoded", "undecoded"], True, 2
tables.main(given)
overlap.main(given)
page = str(given.out.parents[1] / "with_ordinary.md")
write_page.main(write_page.arguments.parse_args(["--results", str(results), "--out", page]))
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("decoded")
    data = work / "data"
    data.mkdir()
    for file, column, split, rows in (("sst2", "sentence", "dev", REVIEWS), ("ag_news", "text", "test", NEWS)):
        table = {"split": [split] * len(rows), column: list(rows), "label": list(rows.values())}
        parquet.write_table(pyarrow.table(table), data / f"{file}.parquet")
    words = {"the": 49_000, "a": 48_000, "and": 48_500, "in": 47_000, "film": 3_000, "gorgeous": 20}
    frequencies = pyarrow.table({"token": list(words), "df_50k": list(words.values())})
    parquet.write_table(frequencies, data / "wikipedia_document_frequencies.parquet")
    done = ready_processes.run(
        DRIVER, HERE, "--data-dir", data, "--out", work / "results", "--cache", work / "cache",
        "--only", *PLAYED, work / "page.md",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return work


def results(work: Path, name: str) -> Any:
    return json.loads((work / "results" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["sst2", "ag_news"])
def test_every_contestant_played_both_games(work: Path, name: str) -> None:
    found = results(work, f"{name}-games")
    assert found["n_texts"] == 6
    assert found["n_choosing"] == found["n_reporting"] == 3
    contestants = found["contestants"]
    expected = {f"{method} l{layer}" for method in PLAYED for layer in range(7) if f"{method} l0" in contestants}
    assert {f"Decoded Grad-CAM l{layer}" for layer in range(7)} < expected <= contestants.keys()
    assert {"Random", "Simple (AllenNLP)", "Grad-CAM l0, ties at random", "gradient x input, absolute"} < set(
        contestants
    )
    for facts in contestants.values():
        for game in ("hiding", "revealing"):
            assert len(facts[game]["curve"]) == 21
            assert facts[game]["low"] <= facts[game]["auc"] <= facts[game]["high"]
        assert facts["revealing"]["curve"][-1] == pytest.approx(found["accuracy"], abs=1e-4), "all revealed"
        assert facts["hiding"]["curve"][0] == pytest.approx(found["accuracy"], abs=1e-4), "nothing hidden"
        assert facts["hiding"]["curve"][-1] == pytest.approx(facts["revealing"]["curve"][0], abs=1e-4)
    assert contestants["Random"]["hiding"]["without_order"] == 6
    assert found["head"]["shares_the_word_embeddings"] is True
    assert found["chosen"]["Decoded Grad-CAM"].startswith("Decoded Grad-CAM l")
    assert {row["rival"] for row in found["differences"]} >= {"Random", "Grad-CAM l0"}


def test_controls_are_other_scores(work: Path) -> None:
    contestants = results(work, "sst2-games")["contestants"]
    for control in ("ones decoded", "shuffled head", "shuffled positions"):
        curves = [contestants[f"{control} l{layer}"]["hiding"]["probability"] for layer in range(1, 6)]
        ours = [contestants[f"Decoded Grad-CAM l{layer}"]["hiding"]["probability"] for layer in range(1, 6)]
        assert curves != ours


def test_what_an_ordinary_fine_tuning_shows_stands_beside_it(work: Path) -> None:
    without, beside = ((work / f"{name}.md").read_text() for name in ("page", "with_ordinary"))
    assert without.count(", ordinary|–|–|not tried|") == without.count("ordinary|") == 2
    assert beside.count(", ordinary|–|–|not tried|") == 1
    for game in ("revealing", "hiding"):
        assert f"SST-2, {game}: decoded − layer 0, ordinary|" in beside


def test_few_groups_without_ablations_play_on_many_texts(work: Path) -> None:
    played, all_played = (results(work, f"{folder}ag_news-games") for folder in ("all_texts/", ""))
    assert {facts["group"] for facts in played["contestants"].values()} == {"decoded", "undecoded", "random"}
    assert not any(", " in called for called in played["contestants"]), "neither absolute scores nor ties at random"
    assert (played["floor"], played["random_orders"]) == ({}, 2)
    for called, facts in played["contestants"].items():
        if called != "Random":
            assert facts["hiding"]["auc"] == all_played["contestants"][called]["hiding"]["auc"]
    assert "## All texts" in (work / "with_ordinary_appendix.md").read_text()
    assert "## All texts" not in (work / "page_appendix.md").read_text()


def test_overlaps_are_consistent(work: Path) -> None:
    found = results(work, "ag_news-overlap")
    for facts in found["methods"].values():
        counts = [len(tokens) for tokens in facts["shared"].values()]
        assert len(counts) == 6
        assert facts["counts"][found["ks"].index(50)] == sum(counts)
        assert 0 <= facts["low"] <= facts["middle"] <= facts["high"] <= 1
    example = results(work, "sst2-overlap")["examples"][0]
    assert example["words"] == ["unflinchingly", "bleak", "and", "desperate"]
    assert all(len(scores) == 4 for scores in example["scores"].values())


def test_the_first_screen_judges_the_claims(work: Path) -> None:
    page = (work / "page.md").read_text()
    assert page.index("kept decodable") < page.index("|claim|") < page.index("## What this means for you")
    row = next(each for each in results(work, "sst2-games")["differences"] if each["rival"] == "Grad-CAM l0")
    assert f"{row['mean']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]; n = 3, 1 seed, half of dev|" in page


def test_the_page_holds_the_numbers(work: Path) -> None:
    page = (work / "page_appendix.md").read_text()
    for name in ("sst2", "ag_news"):
        found = results(work, f"{name}-games")
        for called in ("Random", "Simple (AllenNLP)", "Decoded Grad-CAM l3"):
            area = found["contestants"][called]["revealing"]
            assert f"{area['auc']:.3f} [{area['low']:.3f}, {area['high']:.3f}]" in page
        assert f"| {found['differences'][0]['what']}" in page
    assert "| Simple (AllenNLP) | 0.799 | 0.756 |" in page, "the paper's numbers stand beside ours"
    assert "C13" in page
    assert "is a copy of" in page
    for link in [part.split(")")[0] for part in page.split("](")[1:]]:
        folder = HERE.parents[1] / "docs" if link.startswith("../") else work  # where the page is to stand, or stands
        assert (folder / link).is_file(), link
    assert "| World and Business | 16, " in page


def test_a_second_run_reads_the_scores_and_gives_the_same_numbers(work: Path) -> None:
    of_parts = 2 * 2 * len(PLAYED)  # two sets, six texts in parts of four
    of_the_example = len([name for name in PLAYED if name in results(work, "sst2-overlap")["methods"]]) + 2  # by layer
    assert len(list((work / "cache").iterdir())) == of_parts + of_the_example
    again = json.loads((work / "again" / "sst2-games.json").read_text())["contestants"]
    before = results(work, "sst2-games")["contestants"]
    assert {name for name in again if name.startswith("Decoded")} == {
        f"Decoded Grad-CAM l{layer}" for layer in range(7)
    }
    for name, facts in again.items():
        assert facts == before[name]


def findings() -> Any:
    spec = importlib.util.spec_from_file_location("findings", HERE / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_holm_by_its_definition() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        p_values = generator.random(int(generator.integers(1, 9))) ** 3
        found = findings().holm(p_values)
        for p, corrected in zip(p_values, found, strict=True):
            steps = [min(1.0, (p_values >= other).sum() * other) for other in p_values if other <= p]
            assert corrected == pytest.approx(max(steps))


def test_words_follow_the_numbers() -> None:
    words = findings()
    up = {"game": "revealing", "mean": 0.1}
    assert words.comparison(up, 0.01) == "better"
    assert words.comparison({**up, "game": "hiding"}, 0.01) == "worse"
    assert words.comparison(up, 0.2) == "not told apart"
    control, other = "ones in place of the score, same layer", "a head with shuffled vocabulary, same layer"
    win, lose, draw = (
        {"revealing": verdict, "hiding": "not told apart"} for verdict in ("better", "worse", "not told apart")
    )
    assert words._earned({control: win, other: win})[0].startswith("Decoding earns what it gains")
    assert (
        "does not beat a wrong head. It beats the head without a score" in words._earned({control: win, other: draw})[0]
    )
    assert "does not beat the head without a score, a wrong head." in words._earned({control: lose, other: draw})[0]
    assert words._earned({"random orders": win}) == []
