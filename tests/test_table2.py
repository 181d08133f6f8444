"""The experiment behind Table 2: its measures on paper, and the whole of it at toy size."""

from __future__ import annotations

import functools
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from planted_truth import needs_both

import whence
from whence.learned.diffmask.erasure import KeptSets, smallest_kept_sets

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
sys.path.insert(0, str(Path(__file__).parents[1] / "experiments" / "diffmask"))

import commands
import page_differences
import page_table2
import table2

THINGS, GRADES = ["film", "plot", "story"], ["awful", "bad", "plain", "good", "wonderful"]


def optimum(*sets: tuple[int, ...]) -> KeptSets:
    return KeptSets((), sets, len(sets[0]), True, 1)


@pytest.mark.parametrize(
    ("kept", "optima", "expected"),
    [
        ({1, 2}, [(1, 2)], (1, 1, 1)),
        ({1, 2, 3, 4}, [(1, 2)], (0.5, 1, 2 / 3)),
        ({1}, [(1, 2)], (1, 0.5, 2 / 3)),
        ({5}, [(1, 2)], (0, 0, 0)),
        ({1, 3}, [(1, 2), (2, 4), (1, 3)], (1, 1, 1)),
        (set(), [()], (1, 1, 1)),
        ({1}, [()], (0, 0, 0)),
        (set(), [(1,)], (0, 0, 0)),
    ],
)
def test_the_best_matching_optimum_counts(
    kept: set[int], optima: list[tuple[int, ...]], expected: tuple[float, ...]
) -> None:
    assert table2.against(kept, optimum(*optima)) == pytest.approx(expected)


def test_what_is_kept_is_judged_by_the_constraint() -> None:
    texts = ["this good old film", "good film"]
    moved = table2.moved_by(needs_both(), texts, [{1, 3}, {0}])
    assert moved[0] == pytest.approx(0, abs=1e-6)
    assert moved[1] > table2.MARGIN


def test_a_row_on_a_model_whose_optima_are_known() -> None:
    """Two texts whose smallest sets DiffMask finds: full marks, and the share of tokens dropped."""
    texts = ["this good old film", "good film"]
    model = needs_both()
    optima = smallest_kept_sets(model, texts, constraint="divergence", margin=table2.MARGIN)
    row = table2.measure(model, row="DiffMask", texts=texts, searched=optima, seeds=[0, 1], steps=300, rate=0.1)
    assert [row[name] for name in ("precision", "recall", "f1", "optimality", "constraint met")] == [100] * 5
    assert row["sparsity"] == pytest.approx(100 * 2 / 6, abs=0.01)
    assert row["each_seed"]["f1"] == [100, 100]
    few = table2.measure(model, row="DiffMask", texts=texts, searched=optima, seeds=[0], steps=1)
    assert (few["optimality"], few["sparsity"], few["recall"]) == (50, 0, 100), "one step drops nothing"
    assert few["f1"] == pytest.approx(100 * (2 / 3 + 1) / 2, abs=0.01)


def test_unsolved_sentences_are_bounded() -> None:
    """Nothing is known of the second but that one token at least must stay: one mask is surely optimal, one is not."""
    texts = ["this good old film", "good film"]
    model = needs_both()
    solved, other = smallest_kept_sets(model, texts, constraint="divergence", margin=table2.MARGIN)
    assert (solved.size, other.size) == (2, 2)
    for at_least, optimal in ((1, 0), (2, 100)):
        searched = [solved, KeptSets(other.tokens, (), at_least, False, 3)]
        row = table2.measure(model, row="DiffMask", texts=texts, searched=searched, seeds=[0], steps=300, rate=0.1)
        assert row["f1"] == row["optimality"] == 100, "of the solved sentence alone"
        assert row["sparsity"] == 50
        assert row["unsolved"] == {"kept": [2], "constraint met": [100], "surely optimal": [optimal]}


def test_the_page_says_how_far_unsolved_sentences_could_move_the_claim() -> None:
    unsolved = {"kept": [9.0, 10.0], "constraint met": [100.0, 100.0], "surely optimal": [0.0, 50.0]}
    rows = {name: {"f1": f1, "unsolved": unsolved} for name, f1 in (("DiffMask", 70.0), ("REINFORCE, corrected", 80.0))}
    search = {"not_solved": 10, "sentences": 100, "not_solved_keep_at_least": 8.5}
    said = " ".join(page_table2._unsolved({"rows": rows, "search": search}))
    assert "The 10 unsolved sentences need 8.50 tokens or more on average." in said
    assert "DiffMask 9.50 (9.00, 10.00), 100 %, 25 %;" in said
    assert "over all 100 would lie between -19.0 and +1.0 (solved alone: -10.0)." in " ".join(said.split())
    assert page_table2._unsolved({"rows": rows, "search": {**search, "not_solved": 0}}) == []


def test_several_processes_share_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done before is not asked again, whoever did it."""
    model, done = needs_both(), list[Any]()

    def asked(number: int, own: Any) -> int:
        done.append(own)
        return number

    monkeypatch.setattr(table2, "load", lambda folder, device: model)
    monkeypatch.setattr(table2, "_OWN_MODEL", [])
    initializer = functools.partial(table2._read_model, tmp_path, "cpu")
    with ThreadPoolExecutor(1, initializer=initializer) as pool:  # processes would import torch each
        workers = table2.Workers(model, pool)
        work = {str(number): functools.partial(asked, number) for number in range(3)}
        progress = table2.Progress(tmp_path / "part.json", {"seed": 0})
        assert progress.all_of({"1": work["1"]}, workers) == {"1": 1}
        assert progress.all_of(work, workers) == {"0": 0, "1": 1, "2": 2}
    assert done == [model] * 3
    assert table2.Progress(tmp_path / "part.json", {"seed": 0}).all_of(work, table2.Workers(model, None))["2"] == 2
    assert len(done) == 3
    assert "0" not in table2.Progress(tmp_path / "part.json", {"seed": 1}).done, "another run's"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    chance = random.Random(0)
    rows: list[dict[str, Any]] = []
    for split, number in (("train", 200), ("dev", 12)):
        for _ in range(number):
            label = chance.randrange(5)
            text = f"the {chance.choice(THINGS)} is {GRADES[label]} ."
            rows.append({"split": split, "sentence": text, "label": label, "token_labels": [2] * len(text.split())})
    rows.append({"split": "dev", "sentence": "so very " * 20, "label": 2, "token_labels": [2] * 40})
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "sst5_trees.parquet")
    return folder


def run(data: Path, out: Path, arguments: str) -> None:
    table2.main([*arguments.split(), "--device", "cpu", "--data-dir", str(data), "--out", str(out)])


def test_the_whole_table_at_toy_size(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table2, "ROWS", {name: table2.ROWS[name] for name in ("DiffMask", "REINFORCE, released")})
    run(data, tmp_path / "table2.json", "--limit 6 --seeds 0 1 --steps 40 --width 8 --epochs 3 --budget 300")
    record = json.loads((tmp_path / "table2.json").read_text())
    assert record["paper"]["DiffMask"]["optimality"] == 45.33
    assert (record["search"]["sentences"], record["search"]["sentences_in_all"]) == (6, 13)
    assert sum(record["search"]["sizes"].values()) == 6 - record["search"]["not_solved"]
    assert set(record["rows"]) == {"DiffMask", "REINFORCE, released"}
    for row in record["rows"].values():
        assert (
            0 <= row["confidence_intervals_95"]["f1"][0] <= row["f1"] <= row["confidence_intervals_95"]["f1"][1] <= 100
        )
        assert row["settings"]["steps"] == 40
        assert row["constraint met"] == 100, "the smallest mask within the margin was chosen"
    assert "/" not in json.dumps(record["model"]), "no path of this machine"


def test_tuned_step_sizes_are_told_with_the_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ("DiffMask", "REINFORCE, corrected")
    monkeypatch.setattr(table2, "ROWS", {name: table2.ROWS[name] for name in rows})
    monkeypatch.setattr(table2, "RATES", (0.03, 0.3))
    settings = "--limit 4 --budget 300 --tune 3 --steps 5 --seeds 0 1 --epochs 1 --width 8"
    run(data, tmp_path / "table2.json", settings)
    own = json.loads((tmp_path / "table2.json").read_text())
    command = commands.commands({"table2_gru": own})[0]
    assert command.endswith(f"--data-dir DATA --split dev --longest 25 {settings}")
    page = " ".join(" ".join(page_table2.section_table_2({"table2_gru": own})).split())
    tried = own["tuned"]["DiffMask"]["f1_by_rate"]
    assert f"Step sizes are tuned, by F1 on training sentences: DiffMask {max(tried, key=tried.get)} (0.03: " in page
    assert {own["rows"][name]["settings"]["rate"] for name in rows} <= {0.03, 0.3}


def test_what_was_not_tried_follows_from_the_records() -> None:
    found = {"table2_bert": {"model": {"name": "BERT"}, "seeds": [0]}}
    assert "Table 2 on BERT was run with one seed" in " ".join(page_differences.section_missing(found))
    found["table2_bert"]["seeds"] = [0, 1, 2]
    assert "one seed" not in " ".join(page_differences.section_missing(found))


def test_the_gru_learns(data: Path) -> None:
    model = table2.train_gru(data, "cpu", width=16, epochs=20, seed=0)
    assert table2.accuracy(model, data, "train") > 0.6
    assert all(weight.requires_grad is False for weight in model.stack.embedding.parameters())
    words: Any = whence.load().stack.embedding.weight
    learnt: Any = model.stack.embedding.weight
    assert np.array_equal(learnt.numpy(), words.detach().numpy())


def test_a_folder_serves_as_the_model(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = whence.load()
    monkeypatch.setattr(table2, "load", lambda folder, device: embedded)
    monkeypatch.setattr(table2, "ROWS", {"REINFORCE, corrected": table2.ROWS["REINFORCE, corrected"]})
    out = tmp_path / "new" / "table2.json"
    run(data, out, "--model some-folder --limit 2 --seeds 0 --steps 5 --budget 50")
    record = json.loads(out.read_text())
    assert record["model"]["name"] == "BERT"
    assert record["search"]["sentences"] == 2


def test_the_page_shows_every_seed_and_says_which_intervals_cover_them() -> None:
    def row(f1: list[float]) -> dict[str, Any]:
        seeds = dict.fromkeys((*page_table2.COLUMNS, "constraint met"), f1)
        means = {name: float(np.mean(values)) for name, values in seeds.items()}
        ends = {name: [mean - 1, mean + 1] for name, mean in means.items()}
        return {**means, "confidence_intervals_95": ends, "each_seed": seeds, "settings": {"steps": 3}}

    rows = {"DiffMask": row([60, 70, 80]), "REINFORCE, corrected": row([50, 51, 52])}
    search = {"sentences": 9, "short_enough": 12, "sentences_in_all": 20, "longest": 25, "not_solved": 2, "budget": 70,
              "sizes": {"0": 1}, "sparsity": 76.0}  # fmt: skip
    own = {"paper": table2.PAPER, "rows": rows, "constraint": "", "gates": "", "ties": "", "search": search,
           "model": {"name": "BERT", "accuracy": 0.5}, "split": "dev", "seeds": [0, 1, 2]}  # fmt: skip
    page = "\n".join(page_table2.section_table_2({"table2_bert": own}))
    half = np.hypot(
        1, 4.302652729749464 * 10 / np.sqrt(3)
    )  # over sentences, and Student's t with two degrees over seeds
    assert f"70.0 [{70 - half:.1f}, {70 + half:.1f}]" in page
    assert "| 60.0, 70.0, 80.0 |" in page
    assert "Intervals are over sentences and seeds." in " ".join(page.split())
    assert "(f1 70.0 against 51.0, intervals overlap, difference +19.0 [" in " ".join(page.split())
    assert "comes before in both; in the paper before." in " ".join(page.split())
    del rows["DiffMask"]["each_seed"]["precision"]
    page = " ".join(page_table2.section_table_2({"table2_bert": own}))
    assert "sentences and, of recall, f1, sparsity, optimality, seeds." in " ".join(page.split())
    single = {**own, "seeds": [0], "rows": {"DiffMask": row([60])}}
    page = " ".join(" ".join(page_table2.section_table_2({"table2_bert": single})).split())
    assert "over sentences, with one seed." in page
