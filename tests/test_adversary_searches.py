"""Table 5 of the sparse-attention experiment, tiny: searches of one base each, a later run beside an earlier one."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ready_processes

from whence.attention.documents import Documents
from whence.attention.vocabulary import Vocabulary

FOLDER = Path(__file__).parents[1] / "experiments" / "sparse_attention"


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"sparse_attention_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def documents(n: int, seed: int) -> Documents:
    """Class 1 has word 5, class 0 word 4, among fillers."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    rows = random.integers(8, 30, (n, 8))
    rows[np.arange(n), random.integers(0, 8, n)] = 4 + labels
    return Documents(tuple((2, *row, 3) for row in rows.tolist()), tuple(labels.tolist()))


def run(name: str, *arguments: object) -> str:
    finished = ready_processes.run(FOLDER / f"{name}.py", *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def attack(work: Path) -> str:
    return run(
        "run", "--table", 5, "--data", "sst", "--seeds", 0, 1, 2, "--work", work, "--rates", 1e-3, "--max-epochs", 1,
        "--attention-speeds", 1, "--adversary-epochs", 2, "--n-measured", 1, "--sample", 1,
    )  # fmt: skip


def searched(work: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted((work / "adversaries").iterdir())}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    corpora = module("corpora")
    vocabulary = Vocabulary([f"w{i}" for i in range(26)])
    sst = corpora.Corpus("sst", vocabulary, documents(48, 0), documents(16, 1), documents(6, 2))
    corpora.write(sst, work / "corpora")
    attack(work)
    return work


def test_a_search_asks_three_of_seven_weights_of_one_base(attacked: Path) -> None:
    bases: dict[str, set[str]] = {}
    for name, record in searched(attacked).items():
        bases.setdefault(name.split("-weight")[0], set()).add(record["base"])
    assert len(bases) == 2 * 2 * 3  # encoders, kinds, seeds
    assert len(searched(attacked)) == 3 * len(bases)
    assert all(len(each) == 1 for each in bases.values())
    assert len({base for each in bases.values() for base in each}) == 2 * 3, "frozen and unfrozen share theirs"


def test_a_cell_is_searched_with_all_its_seeds_before_the_next(attacked: Path) -> None:
    lines = [line.split() for line in attack(attacked).splitlines() if "frozen  weight" in line]
    asked = [(name.split("-")[1], name[-1], kind) for name, kind in (line[3:5] for line in lines)]
    seeds_and_kinds = [(seed, kind) for seed in "012" for kind in ("unfrozen", "frozen")]
    assert asked == [(encoder, *each) for encoder in ("bilstm", "transformer") for each in seeds_and_kinds]


def test_a_search_is_not_continued_with_another_base(attacked: Path, tmp_path: Path) -> None:
    work = shutil.copytree(attacked, tmp_path / "work")
    first = searched(work)
    cut = sorted(name for name in first if name.startswith("sst-transformer-softmax-seed1-frozen"))
    (work / "adversaries" / cut[0]).unlink()
    shutil.rmtree(work / "models")
    lost = work / "adversaries" / cut[1]
    lost.write_text(json.dumps({**first[cut[1]], "base": "gone"}))
    attack(work)
    again = searched(work)
    assert len({again[name]["base"] for name in cut}) == 1
    assert {name for name in first if again[name] != first[name]} <= set(cut), "finished searches stay as they were"
    assert [path.name for path in (work / "models").iterdir()] == ["sst-transformer-softmax-seed1"]


def accuracy_of(search: dict[str, Any]) -> float:
    """On test, of the adversary that went as far as the paper's with the smallest weight, or else farthest, on dev."""
    by_weight = sorted(search["adversaries"], key=lambda each: each["dev"]["settings"]["divergence_weight"])
    far = [each for each in by_weight if each["dev"]["jensen_shannon"] >= search["wanted"]]
    found = far[0] if far else max(by_weight, key=lambda each: each["dev"]["jensen_shannon"])
    return float(found["test"]["accuracy"])


def test_a_verdict_needs_three_seeds_and_one_base(attacked: Path, tmp_path: Path) -> None:
    def row_of(results: dict[str, Any]) -> list[str]:
        (tmp_path / "results.json").write_text(json.dumps(results))
        run("report", "--results", tmp_path / "results.json", "--out", tmp_path / "page.md")
        [line] = [each for each in (tmp_path / "page.md").read_text().splitlines() if each.startswith("|Table 5")]
        return line.split("|")[1:-1]

    run("collect", "--work", attacked, "--out", tmp_path / "collected.json", "--ungated")
    results = json.loads((tmp_path / "collected.json").read_text())
    _, paper, here, verdict = row_of(results)
    right = {
        (each["job"]["encoder"], each["kind"], each["job"]["seed"]): accuracy_of(each)
        for each in results["adversaries"]
    }
    cells = [
        np.mean([right[encoder, "unfrozen", seed] - right[encoder, "frozen", seed] for seed in range(3)])
        for encoder in ("bilstm", "transformer")
    ]
    assert here.startswith(f"{np.mean(cells):+.2f} [")
    assert "n = 2 cells, 3 seeds, test; " in here
    assert (paper, verdict != "not tried") == ("+0.04, > 0", True)
    poor = json.loads((tmp_path / "collected.json").read_text())
    for search in poor["adversaries"]:
        search["adversaries"][0]["base"] = "another"
    assert row_of(poor)[3] == "not tried"
    few = {**results, "adversaries": [each for each in results["adversaries"] if each["job"]["seed"] < 2]}
    assert row_of(few)[3] == "not tried"
    assert "**Not tried well enough for a verdict.**" in (tmp_path / "page_appendix.md").read_text()


def test_a_later_run_is_told_with_its_own_commands(attacked: Path, tmp_path: Path) -> None:
    run("collect", "--work", attacked, "--out", tmp_path / "results.json", "--ungated")
    before = json.loads((tmp_path / "results.json").read_text())
    before["adversaries"] = [each for each in before["adversaries"] if each["job"]["seed"] == 0]
    (tmp_path / "before.json").write_text(json.dumps({**before, "vectors": VECTORS}))
    run(
        "collect", "--work", attacked, "--beside", tmp_path / "before.json", "--run", "three seeds", "--ungated",
        "--out", tmp_path / "results.json",
    )  # fmt: skip
    run("report", "--results", tmp_path / "results.json", "--out", tmp_path / "page.md")
    page = (tmp_path / "page_appendix.md").read_text()
    script = "python experiments/sparse_attention"
    assert f"{script}/run.py --table 5 --data sst --seeds 0 1 2 --adversary-epochs 2 --work WORK-three-seeds" in page
    assert (
        f'{script}/collect.py --work WORK-three-seeds --beside RESULTS --run "three seeds" --out RESULTS'.replace(
            "RESULTS", "experiments/sparse_attention/results/results.json"
        )
        in page
    )
    assert f"{script}/prepare.py --data-dir DATA --out WORK-three-seeds/corpora" in page
    assert "with word vectors that start at random. Its adversaries are in Table 5" in page
    bases = json.loads((tmp_path / "results.json").read_text())["later_runs"]["three seeds"]["bases"]
    assert [(each["encoder"], each["seeds"], each["learning_rate"]) for each in bases] == [
        ("bilstm", [0, 1, 2], 0.001), ("transformer", [0, 1, 2], 0.001)
    ]  # fmt: skip
    right = ", ".join(f"{each:.3f}" for each in bases[1]["accuracy"])
    assert f"SST Transformer, dot 0.001 and ×1 (accuracy {right})" in page
    assert f"{script}/prepare.py --data-dir DATA --vectors WORK/vectors --out WORK/corpora" in page


VECTORS = {"algorithm": "skip-gram", "size": 300, "epochs": 2, "running_words": 1_000}


def test_a_search_that_was_cut_off_is_left_out(attacked: Path, tmp_path: Path) -> None:
    work = shutil.copytree(attacked, tmp_path / "work")
    last = sorted((work / "adversaries").glob("sst-bilstm-softmax-seed0-frozen-weight3*"))
    assert last, "where the paper's divergence is not reached, the largest weight was tried"
    last[0].unlink()
    run("collect", "--work", work, "--out", tmp_path / "results.json")
    found = json.loads((tmp_path / "results.json").read_text())["adversaries"]
    assert len(found) == 2 * 2 * 3 - 1
    before = {"classifiers": [], "adversaries": [{"job": {"data": "sst", "encoder": "bilstm"}, "kind": "frozen"}]}
    beside = module("later_runs").beside(before, json.loads((tmp_path / "results.json").read_text()), "second")
    assert beside["adversaries"][0] == before["adversaries"][0], "a cell is taken over whole or not at all"
    assert {(each["job"]["encoder"], each["run"]) for each in beside["adversaries"][1:]} == {("transformer", "second")}


def test_classifiers_of_a_later_run_need_more_seeds() -> None:
    def group(data: str, seeds: list[int], accuracy: float) -> dict[str, Any]:
        return {"data": data, "encoder": "bilstm", "projection": "softmax", "vectors": "trained", "control": "none",
                "seeds": seeds, "accuracy": accuracy}  # fmt: skip

    before = {"classifiers": [group("imdb", [0], 0.1), group("sst", [0, 1, 2], 0.2)], "adversaries": [], "vectors": 1}
    later = {
        "classifiers": [group("imdb", [0, 1, 2], 0.3), group("sst", [0, 1, 2], 0.4), group("20news", [0], 0.5)],
        "adversaries": [], "vectors": {"running_words": 2}, "hardware": {"imdb": {"cpu": 3}},
    }  # fmt: skip
    found = module("later_runs").beside(before, later, "second")
    assert [(each["accuracy"], each.get("run")) for each in found["classifiers"]] == [
        (0.3, "second"), (0.2, None), (0.5, "second")
    ]  # fmt: skip
    assert found["vectors"] == 1
    assert found["later_runs"]["second"]["vectors"] == {"running_words": 2}
    assert found["later_runs"]["second"]["classifiers"] == {"imdb": 3, "20news": 1}
