"""The sparse-attention experiment: its loaders by hand and on the real files if they are there, and all of it tiny."""

import importlib.util
import json
import os
import sys
from collections import Counter
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ready_processes
import torch

from whence.attention.documents import Documents
from whence.attention.vocabulary import Vocabulary

parquet = pytest.importorskip("pyarrow.parquet")
import pyarrow  # noqa: E402

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("WHENCE_DATA", ROOT.parent / "shared" / "data"))


def script(name):
    """A file of the experiment as a module, under a name that no installed package has."""
    path = ROOT / "experiments" / "sparse_attention" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"sparse_attention_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


corpora = script("corpora")
schedule = script("schedule")


def test_the_rates_of_the_paper_are_tried_first():
    rates = script("training_plan").RATES
    assert (rates["bilstm"][0], rates["transformer"][0]) == (1e-4, 1e-5)


def needs(file):
    return pytest.mark.skipif(not (DATA / file).exists(), reason=f"no {file}: set WHENCE_DATA to the data folder")


def write(path, rows):
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_the_length_filter_drops_short_documents_and_the_longest_of_each_part(tmp_path):
    def text(n, word="w"):
        return " ".join([word] * n)

    rows = [
        {"text": text(length, word), "label": length % 2, "exp_split": split}
        for split, word in (("train", "seen"), ("dev", "new"), ("test", "seen"))
        for length in (5, 6, 7, 9, 9, 8)
    ]
    write(tmp_path / "sst_jain_wallace.parquet", rows)
    corpus = corpora.read("sst", tmp_path)
    assert [len(row) - 2 for row in corpus.test.ids] == [6, 7, 8]
    assert corpus.test.labels == (0, 1, 0)
    assert corpus.vocabulary.words[4:] == ("seen",)
    assert corpus.test.ids[0] == (2, 4, 4, 4, 4, 4, 4, 3)
    assert corpus.dev.ids[0] == (2, 1, 1, 1, 1, 1, 1, 3)


def test_words_of_imdb_are_those_of_keras():
    assert corpora.keras_words("It's <br />GOOD, well-made; 10/10!") == [
        "it's",
        "br",
        "good",
        "well",
        "made",
        "10",
        "10",
    ]


def test_imdb_is_split_once_and_for_all(tmp_path):
    rows = [
        {"text": f"w{i} " * (7 + i % 5), "label": i % 2, "split": split}
        for split in ("train", "test")
        for i in range(50)
    ]
    write(tmp_path / "imdb.parquet", [*rows, {"text": "long " * 400, "label": 0, "split": "train"}])
    parts = corpora._imdb(tmp_path / "imdb.parquet")
    assert {part: len(texts) for part, (texts, _) in parts.items()} == {"train": 40, "dev": 10, "rest": 40, "test": 10}
    assert not set(parts["train"][0]) & set(parts["dev"][0])
    assert parts == corpora._imdb(tmp_path / "imdb.parquet")


def test_corpora_come_back_from_their_files(tmp_path):
    write(
        tmp_path / "sst_jain_wallace.parquet",
        [
            {"text": " ".join(f"w{j}" for j in range(i)), "label": i % 2, "exp_split": split}
            for split in corpora.SPLITS
            for i in range(5, 12)
        ],
    )
    corpus = corpora.read("sst", tmp_path)
    vectors = torch.randn(len(corpus.vocabulary), 3).half().float()
    corpora.write(replace(corpus, vectors=vectors), tmp_path / "out")
    again = corpora.load("sst", tmp_path / "out")
    assert (again.train, again.dev, again.test) == (corpus.train, corpus.dev, corpus.test)
    assert again.vocabulary.words == corpus.vocabulary.words
    assert torch.equal(again.vectors, vectors)


@needs("sst_jain_wallace.parquet")
def test_sst_is_that_of_the_paper():
    corpus = corpora.read("sst", DATA)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (6_355, 821, 1_725)
    assert len(corpus.vocabulary) == 13_826
    assert Counter(corpus.train.labels) == {0: 3_034, 1: 3_321}
    assert Counter(corpus.test.labels) == {0: 863, 1: 862}
    assert min(len(row) - 2 for row in corpus.test.ids) == 6
    assert sum(len(row) - 2 for row in corpus.train.ids) / 6_355 == pytest.approx(18.7, abs=0.05)
    assert len(corpus.train) / sum(corpus.train.labels) - 1 == pytest.approx(0.9136, abs=1e-4)


@needs("20news_sports_jain_wallace.parquet")
def test_20news_is_that_of_the_base_code():
    corpus = corpora.read("20news", DATA)
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (1_145, 278, 357)
    assert Counter(corpus.test.labels) == {0: 179, 1: 178}
    assert len(corpus.vocabulary) == pytest.approx(6_515, abs=5)


def test_tasks_wait_for_each_other_and_outlive_a_failure():
    done = []

    def work(name, *, fails=False):
        if fails:
            raise ValueError(name)
        done.append(name)
        return {"name": name}

    tasks = [
        schedule.Task("table", work, ("table",), frozenset({"rates"})),
        schedule.Task("broken", lambda: work("broken", fails=True), ()),
        schedule.Task("rates", work, ("rates",)),
        schedule.Task("rates", work, ("again",)),
        schedule.Task("late", work, ("late",), frozenset({"broken"})),
    ]
    outcomes = {task.name: outcome for task, outcome in schedule.side_by_side(tasks, 1)}
    assert done == ["rates", "table", "late"]
    assert str(outcomes.pop("broken")) == "broken"
    assert outcomes == {name: {"name": name} for name in done}
    assert list(schedule.side_by_side(tasks, 1, seconds=0)) == []


def test_a_worker_that_dies_takes_no_other_task_with_it():
    tasks = [schedule.Task("dies", os._exit, (1,)), *(schedule.Task(f"{i}", dict, ({"i": i},)) for i in range(3))]
    outcomes = {task.name: outcome for task, outcome in schedule.side_by_side(tasks, 2)}
    assert isinstance(outcomes.pop("dies"), BrokenExecutor)
    assert outcomes == {f"{i}": {"i": i} for i in range(3)}


def made(n, seed):
    """Class 1 has word 5, class 0 word 4, among fillers."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    rows = random.integers(8, 30, (n, 8))
    rows[np.arange(n), random.integers(0, 8, n)] = 4 + labels
    return Documents(tuple((2, *row, 3) for row in rows.tolist()), tuple(labels.tolist()))


def run(name, *arguments):
    finished = ready_processes.run(ROOT / "experiments" / "sparse_attention" / f"{name}.py", *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_experiment_end_to_end(tmp_path):
    """A tiny set in place of SST: trained, gated, measured, collected, and made into the page."""
    vocabulary = Vocabulary([f"w{i}" for i in range(26)])
    corpora.write(corpora.Corpus("sst", vocabulary, made(48, 0), made(16, 1), made(6, 2)), tmp_path / "corpora")
    common = ["--data", "sst", "--encoders", "transformer", "--work", tmp_path, "--rates", 1e-3, "--max-epochs", 1]
    small = ["--attention-speeds", 1, 10, "--sample", 1]
    gated = run("run", "--table", 6, *common, *small)
    assert gated.count("BELOW THE GATE") == 2
    assert gated.count("dev ROC-AUC") == 4
    assert "0.67 ± 0.12 → **–**" in gated
    printed = run("run", "--table", 6, *common, *small, "--ungated")
    record = json.loads((tmp_path / "runs" / "sst-transformer-sparsemax-seed0.json").read_text())
    tried = [json.loads(path.read_text()) for path in (tmp_path / "rates").glob("*sparsemax*")]
    best = max(tried, key=lambda trial: trial["dev_roc_auc"])
    assert [trial["attention_speed"] for trial in tried] in ([1, 10], [10, 1])
    assert record["training"]["attention_speed"] == best["attention_speed"]
    assert len(record["documents"]["tau D_h_last_block"]) == 6
    assert all(0 <= value <= 1 for value in record["influence"]["entropy"])
    mean = np.mean([value for value in record["documents"]["tau g_x"] if value is not None])
    assert f"0.67 ± 0.12 → **{mean:.2f}" in printed
    run("collect", "--work", tmp_path, "--out", tmp_path / "results.json", "--ungated")
    run("report", "--results", tmp_path / "results.json", "--out", tmp_path / "page.md")
    first = (tmp_path / "page.md").read_text()
    assert "|Table 5: accuracy, unfrozen − frozen adversaries|–|" in first
    page = (tmp_path / "page_appendix.md").read_text()
    assert "run.py --table 1 3 6 2 --data sst --seeds 0 --sample 1 --work WORK" in page
    assert f"0.67 ± 0.12 → **{mean:.2f}" in page
    assert all(f"**C{number}.**" in page for number in range(1, 13))
    assert {path.name for path in (tmp_path / "figures" / "sparse_attention").iterdir()} == {
        f"figure_{number}.svg" for number in range(1, 5)
    }
