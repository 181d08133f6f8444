"""The DiffMask experiments on sentiment and questions: their measures by hand, and all of them end to end, tiny."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import ready_processes
import tiny_models
import torch
from sklearn.metrics import f1_score
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification

import whence
from whence.probes.diffmask import Kind
from whence.targets import ClassLabels

HERE = Path(__file__).parents[1] / "experiments" / "diffmask"
sys.path.insert(0, str(HERE))

import masking  # noqa: E402
import squad  # noqa: E402
import sst  # noqa: E402
from wording import points  # noqa: E402

SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
SEEDS = (0, 1)
QUICK: dict[str, Any] = {"steps": 4, "batch_size": 4, "start": 0.2, "limit": None, "learning_rate": 1e-3}
PASSAGE = (
    "The Panthers used the San Jose State practice facility and stayed at the San Jose Marriott. The Broncos practiced"
    " at Stanford University and stayed at the Santa Clara Marriott."
)
QUESTIONS = {
    "Where did the Broncos practice for the Super Bowl?": "Stanford University",
    "Which hotel did the Panthers stay at for the Super Bowl?": "San Jose Marriott",
    "Who stayed in Santa Clara?": "The Broncos",
    "Who stayed in San Jose?": "The Panthers",
}
# an expensive method here and there is shortened; the scripts are otherwise run as they are
DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
import squad, squad_figures, sst, sst_figures, write_docs
sst_figures.STEPS = squad_figures.STEPS = squad_figures.PATH_STEPS = 2
sst_figures.PER_TEXT["steps"] = squad_figures.PER_TEXT["steps"] = 2
sst_figures.RARE = squad.RARE = 1
sst.SEEDS = (0, 1)
data, work, results, page = sys.argv[2:6]
where = ["--data-dir", data, "--work", work, "--out", results]
sst.main([*where, "--limit", "6"])
sst.main([*where, "--limit", "6", "--only", "sst", "--parts", "figures"])
sst.main([*where, "--limit", "6", "--only", "sst_gaps", "--parts", "numbers"])
squad.main([*where, "--questions", "4", "--search-budget", "20"])
squad.main([*where, "--search-budget", "20", "--parts", "figures"])
write_docs.main(["--results", results, "--out", page])
write_docs.main(["--results", results + "/others", "--out", page.replace("diffmask.md", "others.md")])
"""
GAPS_RECORD = {"train": 12, "steps": 3, "batch": 4, "phrase_epochs": 2, "epochs": 6.0, "gaps": 0.8, "agreement": 2.0}
MEASURES = {"precision": 80.0, "recall": 81.0, "f1": 88.0, "sparsity": 70.0, "optimality": 44.0, "constraint met": 99.0}
OTHERS: dict[str, Any] = {
    "toy": {
        "about": "KL and JS", "seeds": [0, 1], "n_texts": 10, "n_held_out": 2, "seconds": 3.0, "machine": {"cores": 2},
        "runs": [{"accuracy": 0.99}, {"accuracy": 1.0}],
        "figure_3": {"digits": [5, 0], "query": [5, 0], "shares": {"erasure": [1.0, 0.0], "DiffMask": [0.5, 0.5]}},
        "table": {
            "erasure, one-hot": {
                "paper": [None, 0.26], "notebook": None, "kl": None, "kl_sd_over_seeds": None, "js": 0.262,
                "js_sd_over_seeds": 0.001, "silent": 0.0,
            },
            "DiffMask, hidden": {
                "paper": [0.0, 0.0], "notebook": [0.0372, 0.0128], "kl": 0.0123, "kl_sd_over_seeds": 0.001,
                "js": 0.0045, "js_sd_over_seeds": 0.001, "silent": 0.0,
            },
        },
    },
    "table2_gru": {
        "model": {"name": "GRU", "accuracy": 0.4}, "split": "dev", "constraint": "KL", "gates": "half", "ties": "best",
        "seeds": [0], "paper": {"DiffMask": MEASURES, "REINFORCE": {**MEASURES, "f1": 80.0}},
        "search": {
            "sentences": 5, "short_enough": 6, "sentences_in_all": 9, "longest": 25, "not_solved": 1,
            "budget": 100, "sparsity": 75.0,
        },
        "rows": {
            name: {
                **measures, "confidence_intervals_95": {measure: [1.0, 99.0] for measure in MEASURES},
                "where_the_optimum_is_not_empty": {"f1": 85.0, "optimality": 40.0},
                "settings": {"margin": 0.1, "steps": 500},
            }
            for name, measures in (
                ("DiffMask", MEASURES), ("REINFORCE, corrected", {**MEASURES, "f1": 90.0, "optimality": 50.0}),
            )
        },
    },
}  # fmt: skip


def classifier() -> BertForSequenceClassification:
    names = {"id2label": dict(enumerate(SENTIMENTS)), "label2id": {name: i for i, name in enumerate(SENTIMENTS)}}
    return tiny_models.shaken(BertForSequenceClassification(config(**names)))


def config(**settings: Any) -> BertConfig:
    small = {**tiny_models.SMALL, "max_position_embeddings": 256, "vocab_size": len(tiny_models.wordpiece())}
    return BertConfig(**{**small, **settings})


def fitted(model: whence.LayeredModel, kind: Kind, texts: list[Any], seed: int = 0) -> whence.DiffMask:
    return whence.DiffMask(kind, **QUICK).fit(model, texts, seed=seed, progress=False, patience=None, validations=1)


@pytest.mark.parametrize("kind", ["input", "hidden"])
@pytest.mark.parametrize("task", ["classification", "question_answering"])
def test_many_probes_at_once_do_what_validate_does_for_each(kind: Kind, task: str) -> None:
    torch.manual_seed(0)
    model = whence.load(tiny_models.build("bert", task), tiny_models.wordpiece())
    texts: list[Any] = tiny_models.TEXTS if task == "classification" else tiny_models.PAIRS
    probes = {str(seed): fitted(model, kind, texts * 4, seed) for seed in range(2)}
    encodings = [model.encode(*(text if isinstance(text, tuple) else (text,))) for text in texts]
    whole, found = masking.mask_all(model, probes, encodings)
    shares = []
    for name, own in probes.items():
        for number, result in enumerate(own.validate(model, texts)):
            assert found[name].masked[number].mean() == pytest.approx(result.masked, abs=1e-6)
            assert found[name].same[number].mean() == pytest.approx(result.agreement, abs=1e-6)
            assert found[name].moved[number].mean() == pytest.approx(result.divergence, abs=1e-5)
            shares.append(result.masked)
        keep = sst.keep_probabilities(model, own, texts)
        for mine, explanation in zip(keep, own.explain(model, texts), strict=True):
            np.testing.assert_allclose(mine, explanation.scores, atol=1e-6)
    assert 0 < np.mean(shares) < 1, "some tokens are masked, or nothing was compared"
    if task == "classification":
        said = [whence.explain(model, text, "random").prediction.index for text in texts]
        assert whole.tolist() == said


def test_macro_f1_is_that_of_scikit_learn_under_any_weights() -> None:
    random = np.random.default_rng(0)
    gold, said = random.integers(0, 5, 40), random.integers(0, 4, 40)
    weights = masking.draws(40, resamples=5)
    assert weights[0].tolist() == [1] * 40
    expected = [f1_score(gold, said, average="macro", sample_weight=row, zero_division=0) for row in weights]
    np.testing.assert_allclose(masking.macro_f1(gold, said, weights), expected)


def test_the_released_f1_by_hand() -> None:
    gold, said = np.array([0, 0, 2]), np.array([0, 2, 2])
    # class 0: precision 1, recall 1/2; class 1: never said, absent: 0; class 2: precision 1/2, recall 1
    assert masking.released_macro_f1(gold, said) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    # a second batch in which all is right, of class 0 alone, counts as much as the first
    twice = masking.released_macro_f1(np.array([0, 0, 2, 0]), np.array([0, 2, 2, 0]), batch=3)
    assert twice == pytest.approx((4 / 9 + 1) / 2)


def made(masked: list[float], same: list[list[float]]) -> masking.Masked:
    shares = np.repeat(np.array(masked)[:, None], 2, axis=1)
    numbers = np.zeros_like(shares)
    layers: tuple[whence.Layer, ...] = ("embeddings", 0, 1)
    return masking.Masked(layers[: len(masked)], shares, np.array(same), numbers, numbers.astype(int))


def test_a_layer_has_collapsed_if_all_is_masked_and_the_answer_is_constant() -> None:
    found = masking.by_layer(made([1.0, 1.0, 0.2], [[1, 0], [1, 1], [0, 1]]))
    assert masking.collapsed_layers(found, largest_class=0.5) == ["embeddings"]
    assert masking.collapsed_layers(found, largest_class=0.4) == [], "better than a constant answer by a tenth"


def test_stability_by_hand() -> None:
    one, other = [np.array([[0.2, 0.6]]), np.array([[1.0]])], [np.array([[0.4, 0.2]]), np.array([[1.0]])]
    found = sst.stability([one, other], [0])
    assert found["by_layer_ddof_1"] == {"0": found["ddof_1"]}
    assert found["ddof_0"] == pytest.approx((0.1 + 0.2 + 0.0) / 3)
    assert found["ddof_1"] == pytest.approx((0.1 + 0.2 + 0.0) / 3 * np.sqrt(2))
    assert found["ddof_1_mean_of_sentences"]["value"] == pytest.approx((0.3 / 2 + 0) / 2 * np.sqrt(2))
    assert found["share_of_decisions_that_differ"] == pytest.approx(1 / 3)
    assert found["n_cells"] == 3


def test_the_change_in_f1_is_against_the_unmasked_answers() -> None:
    gold, whole = np.array([0, 1, 2, 3, 4, 0]), np.array([0, 1, 2, 3, 4, 1])
    zeros = np.zeros((2, 6))
    said = np.stack([whole, gold])
    found = masking.Masked(("embeddings", 0), zeros, np.ones((2, 6)), zeros, said)
    report = sst.score_run(gold, whole, found, masking.draws(6))
    before = f1_score(gold, whole, average="macro")
    assert report["top"]["macro_f1"]["value"] == pytest.approx(1.0)
    assert report["top"]["macro_f1_change"]["value"] == pytest.approx(1 - before)
    assert report["mean"]["macro_f1_change"]["value"] == pytest.approx((1 - before) / 2)
    assert report["layers"][0]["accuracy"] == pytest.approx(5 / 6)
    together = sst.over_seeds(gold, whole, [found, found], [report, report], masking.draws(6))
    assert together["top"]["macro_f1_change"]["value"] == pytest.approx(1 - before)
    assert together["top"]["macro_f1_change"]["sd"] == pytest.approx(0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny models and probes where fine-tuning and fitting would leave them, tiny data, and the scripts run on them."""
    root = tmp_path_factory.mktemp("diffmask")
    data, work = root / "data", root / "work"
    sentences = [
        "a witty film",
        "the plot was not bad",
        "too long and dull",
        "very funny and fine",
        "the worst",
        "good",
    ]
    write_data(data, sentences)
    torch.manual_seed(0)
    qa = tiny_models.shaken(BertForQuestionAnswering(config()))
    for name, module, record in (
        ("sst5", classifier(), {"train": 12, "steps": 3, "batch": 4}),
        ("sst5-gaps", classifier(), GAPS_RECORD),
        ("squad", qa, {"train": 8, "steps": 3, "dev": {"n": 4, "exact": 0.25}}),
    ):
        module.save_pretrained(work / name)
        tiny_models.wordpiece().save_pretrained(work / name)
        (work / name / "results.json").write_text(json.dumps(record))
    model = whence.load(work / "sst5", dtype=torch.float32)
    with_gaps = whence.load(work / "sst5-gaps", dtype=torch.float32)
    reader = whence.load(work / "squad", dtype=torch.float32)
    for kind in sst.KINDS:
        for seed, name in enumerate([*map(str, SEEDS), *sst.PUBLISHED]):
            fitted(model, kind, sentences * 3, seed).save(work / "probes" / f"sst5-{kind}-{name}")
        for seed in SEEDS:
            fitted(with_gaps, kind, sentences * 3, seed).save(work / "probes" / f"sst5-gaps-{kind}-{seed}")
        pairs = [(question, PASSAGE) for question in QUESTIONS]
        fitted(reader, kind, pairs * 3).save(work / "probes" / f"squad-{kind}")
    results, page = root / "results", root / "docs" / "diffmask.md"
    results.mkdir()
    (results / "others").mkdir()
    for name, record in OTHERS.items():
        (results / "others" / f"{name}.json").write_text(json.dumps(record))
    (results / "sweep.json").write_text((HERE / "results" / "sweep.json").read_text())
    done = ready_processes.run(DRIVER, HERE, data, work, results, page)
    assert done.returncode == 0, done.stderr
    return {"results": results, "page": page}


def write_data(folder: Path, sentences: list[str]) -> None:
    folder.mkdir()
    trees = [
        {
            "sentence": text,
            "label": i % 5,
            "split": split,
            "token_labels": [(i + k) % 5 for k in range(text.count(" ") + 1)],
        }
        for split in ("train", "dev", "test")
        for i, text in enumerate(sentences)
    ]
    questions = [
        {
            "question": question, "context": PASSAGE, "split": split,
            "answers": {"text": [answer], "answer_start": [PASSAGE.index(answer)]},
        }
        for split in ("train", "validation")
        for question, answer in QUESTIONS.items()
    ]  # fmt: skip
    tables = {
        "sst5_trees": trees,
        "sst2": [{"sentence": text, "label": i % 2, "split": "dev"} for i, text in enumerate(sentences)],
        "ag_news": [{"text": text, "label": i % 4, "split": "test"} for i, text in enumerate(sentences)],
        "squad": questions,
    }
    for name, rows in tables.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")
    tagger = {"weights": {"bias": {"NN": 1.0}}, "tagdict": {"the": "DT", "good": "JJ"}, "classes": ["NN"]}
    (folder / "pos_tagger.json.gz").write_bytes(gzip.compress(json.dumps(tagger).encode()))


def results_of(folders: dict[str, Path], name: str) -> Any:
    return json.loads((folders["results"] / f"{name}.json").read_text())


def test_figures_by_themselves_are_those_beside_the_numbers(folders: dict[str, Path]) -> None:
    whole, alone = results_of(folders, "squad"), results_of(folders, "squad_figures")
    names = [name for name in whole if name.startswith("figure_")]
    assert set(names) == {name for name in alone if name.startswith("figure_")} == {"figure_2", "figure_9", "figure_14"}
    assert "hidden" not in alone
    for name in ("figure_9", "figure_14"):
        assert alone[name] == whole[name]
    assert alone["figure_2"]["question"] == whole["figure_2"]["question"]
    whole, alone = results_of(folders, "sst"), results_of(folders, "sst_figures")
    assert "runs" not in alone
    assert alone["n_texts"] == whole["n_texts"]
    assert alone["figures"]["input_by_part_of_speech"] == whole["figures"]["input_by_part_of_speech"]
    assert alone["figures"].keys() == whole["figures"].keys()


def test_the_record_of_sentiment(folders: dict[str, Path]) -> None:
    found = results_of(folders, "sst")
    assert found["n_texts"] == 6
    assert set(found["runs"]) == {f"{kind}-{name}" for kind in sst.KINDS for name in (*map(str, SEEDS), *sst.PUBLISHED)}
    for kind in sst.KINDS:
        tops = [found["runs"][f"{kind}-{seed}"]["top"]["masked"]["value"] for seed in SEEDS]
        assert found["recipes"][kind]["top"]["masked"]["value"] == pytest.approx(np.mean(tops), abs=1e-5)
        assert found["recipes"][kind]["top"]["masked"]["sd"] == pytest.approx(np.std(tops, ddof=1), abs=1e-5)
        assert 0 < found["stability"][kind]["ddof_0"] < found["stability"][kind]["ddof_1"]
        assert found["runs"][f"{kind}-0"]["settings"]["recipe"]["steps"] == QUICK["steps"]
    assert found["test"]["recipes"] == found["recipes"], "here the two parts hold the same sentences"
    gaps = results_of(folders, "sst_gaps")
    assert set(gaps["runs"]) == {f"{kind}-{seed}" for kind in sst.KINDS for seed in SEEDS}
    assert "figures" not in gaps
    maps = found["figures"]["figure_5"]["maps"]
    assert len(maps) == 8
    for drawn in maps.values():
        assert np.array(drawn["scores"]).shape == (len(found["figures"]["figure_5"]["tokens"]), len(drawn["layers"]))
    embedded = results_of(folders, "sentiment")
    assert [len(embedded[name]["input"]["layers"]) for name in ("sentiment", "topic")] == [8, 8]


def test_the_record_of_questions(folders: dict[str, Path]) -> None:
    found = results_of(folders, "squad")
    assert (found["n_drawn"], found["n_texts"]) == (4, 4)
    shares = [row["all_layers"]["value"] for row in found["input"]["answers_kept"].values()]
    assert shares == sorted(shares, reverse=True), "a higher threshold keeps no more answers"
    assert found["figure_2"]["search"]["evaluations"] <= 20
    assert {row["group"] for row in found["hidden"]["by_role"]} == set(squad.Roles)
    question = found["figure_9"][1]
    said = "".join(token for token, inside in zip(question["tokens"], question["answer"], strict=True) if inside)
    assert said, "the predicted answer is marked"


def appendix_of(page: Path) -> str:
    """On one line, since paragraphs are wrapped wherever their words end."""
    return " ".join(page.with_stem(f"{page.stem}_appendix").read_text().split())


def test_the_first_screen_judges_the_claims(folders: dict[str, Path]) -> None:
    page = folders["page"].read_text()
    change = results_of(folders, "sst")["test"]["recipes"]["hidden"]["mean"]["macro_f1_change"]["value"]
    assert f"|at least +1.0|{100 * change:+.1f} [" in page, "on test"
    kept = results_of(folders, "squad")["input"]["answers_kept"]["0.5"]["all_layers"]
    assert f"|at least 0.94|{kept['value']:.2f} [{kept['low']:.2f}, {kept['high']:.2f}]; n = 4, 1 seed, dev|" in page
    assert "gaps" not in page, "a control is no reproduction"
    assert page.index("|claim|") < page.index("![") < page.index("## What this means for you")


def test_the_appendix_holds_the_numbers(folders: dict[str, Path]) -> None:
    page = appendix_of(folders["page"])
    unmasked = results_of(folders, "sst")["unmasked"]["macro_f1"]
    kept = results_of(folders, "squad")["input"]["answers_kept"]["0.5"]["all_layers"]
    for number in (unmasked, kept):
        assert f"{number['value']:.3f} [{number['low']:.3f}, {number['high']:.3f}]" in page
    assert page.index("## Five-class SST") < page.index("## Question answering") < page.index("## A positive control")
    gaps = results_of(folders, "sst_gaps")["test"]["recipes"]["hidden"]["mean"]["macro_f1_change"]
    assert f"| {points(gaps)} |" in page, "of both models"
    assert "0.0553" in page, "the paper's numbers stand beside ours"
    assert "A seed changes the first weights" in page
    assert "1h4 collapses at layer" in page
    assert "By hand, not reproducible" in page
    assert "training texts 7,944 → " in page, "what changed since the run of the sweep"
    assert "hidden | seed 0 | top entry" not in page, "where [CLS] alone is read"
    assert "(Table 2)" not in page, "no section without its file"
    links = [part.split(")")[0] for part in page.split("](")[1:]]
    assert len(links) == 11
    for link in links:
        assert (folders["page"].parent / link).is_file(), link


def test_sections_of_other_files_appear_with_them(folders: dict[str, Path]) -> None:
    first = folders["page"].with_name("others.md")
    page = appendix_of(first)
    assert "| DiffMask, hidden | 0.00 / 0.00 | 0.04 / 0.01 | 0.0123 ± 0.0010 | 0.0045 ± 0.0010 | 0.0 % |" in page
    assert "| erasure, one-hot | ∞ / 0.26 | | ∞ | 0.2620 ± 0.0010 |" in page
    assert "88.0 [1.0, 99.0]" in page
    assert "| 99.0 | 85.0 | 40.0 |" in page, "without the empty optima"
    assert "(f1 88.0 against 90.0, intervals overlap, difference -2.0 [" in page
    made = "table2.py --model gru --data-dir DATA --split dev --longest 25 --limit 5 --budget 100 --steps 500 --seeds 0"
    assert made in page
    assert "- DiffMask: margin 0.1, steps 500" in page
    assert "## Five-class SST" not in page
    row = next(line for line in first.read_text().splitlines() if line.startswith("|Table 2, GRU"))
    assert row.endswith("|not reproduced|")
    assert "|+8.0, > 0|-2.0 [" in row
    assert "n = 4, 1 seed, dev" in row, "one sentence was not solved"


def fine_tuned(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    trees = [
        {"sentence": "a witty film", "tree": "(4 (2 a) (4 (4 witty) (2 film)))", "label": 4},
        {"sentence": "too dull", "tree": "(1 (2 too) (1 dull))", "label": 1},
    ]
    rows = [{**tree, "split": split, "token_labels": [2]} for split in ("train", "dev", "test") for tree in trees]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "sst5_trees.parquet")
    return ready_processes.run(HERE / "finetune.py", "sst5", "--data-dir", folder, "--out", folder / "model", *options)


def test_a_model_is_fine_tuned_on_phrases_and_with_gaps(tmp_path: Path) -> None:
    how = ("--batch", "2", "--phrase-epochs", "1", "--epochs", "4", "--gaps", "0.8", "--agreement", "2")
    done = fine_tuned(tmp_path, *how)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "model" / "results.json").read_text())
    phrases = {"a", "witty", "film", "witty film", "a witty film", "too", "dull", "too dull"}
    assert record["steps"] == len(phrases) // 2 + 4
    assert (record["gaps"], record["agreement"]) == (0.8, 2.0)
    model = whence.load(tmp_path / "model", dtype=torch.float32)
    labels = model.reading.labels
    assert isinstance(labels, ClassLabels)
    assert labels.names == SENTIMENTS


def test_agreement_is_between_a_text_and_its_gaps(tmp_path: Path) -> None:
    done = fine_tuned(tmp_path, "--agreement", "2")
    assert done.returncode == 2
    assert "--agreement needs --gaps" in done.stderr
