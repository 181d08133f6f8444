"""The experiment on SQuAD, end to end on a tiny decoder and made-up paragraphs; and its package beside whence."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import ready_processes
import tiny_models
from transformers import PreTrainedTokenizerFast

import whence
from whence.citing.answering import answered
from whence.citing.designs import drawn_as_context_cite
from whence.citing.documents import sourced_prompt
from whence.citing.scoring import SCORES

FOLDER = Path(__file__).parent.parent / "experiments" / "citing"
HAS_PACKAGE = importlib.util.find_spec("context_cite") is not None
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder")
    backend = tiny_models.tokenizer_of("gpt2").backend_tokenizer
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        chat_template=TEMPLATE,
        pad_token="!",
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(path)
    tiny_models.build("gpt2", "causal_lm", n_positions=1024).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tiny_models.WORDS
    rows = []
    for number in range(8):
        sentences = [
            f"{words[number]} {words[number + k + 3]} was {words[2 * number + k]}." for k in range(3 + number % 2)
        ]
        context = " ".join(sentence.capitalize() for sentence in sentences)
        for split in ("validation", "train"):
            rows.append(
                {
                    "split": split,
                    "id": f"{split}{number}",
                    "title": f"t{number}",
                    "context": context,
                    "question": "why?",
                }
            )
    path = tmp_path_factory.mktemp("data") / "squad.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def run(script: str, *arguments: object) -> str:
    done = ready_processes.run(FOLDER / script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not HAS_PACKAGE, reason="context-cite is not installed: pip install --no-deps context-cite==0.0.4")
def test_the_package_of_the_authors_gives_the_same(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from package import Package  # type: ignore[import-not-found]

    question, n_ablations = "Why?", 24
    prompt = sourced_prompt(question, {"1": "She made a film. It was dull. They say it is long. The end was sad."})
    answer = answered(whence.load(str(model)), prompt, "The film was dull.", max_new_tokens=8)
    # one at a time: it pads on the left without telling the model, which learned positions do not forgive
    package = Package(answer, question, n_ablations, batch_size=1)
    whole = (np.arange(len(answer.encoding.response)),)
    ablations = answer.ablations()
    assert (package.sets == drawn_as_context_cite(n_ablations, 4)).all()
    assert package.sets.any(axis=1).all()  # of none it keeps a space that whence deletes
    own = ablations.log_probabilities(package.sets).sum(axis=1)
    np.testing.assert_allclose(package.log_probabilities(), own, atol=1e-4)
    found = SCORES["context_cite"](ablations, whole, n_ablations, 0)
    np.testing.assert_allclose(package.scores(n_ablations), found.scores[0], atol=1e-3)


def test_the_experiment_runs_resumes_and_writes_its_page(model: Path, data: Path, tmp_path: Path) -> None:
    given: tuple[object, ...] = ("--model", model, "--data", data, "--out", tmp_path / "dev")
    if HAS_PACKAGE:
        given = (*given, "--package", "16")
    run("run.py", *given, "--texts", 1)
    first = (tmp_path / "dev" / "distractors.jsonl").read_text()
    said = run("run.py", *given, "--texts", 2)
    assert "1 of 2" not in said
    lines = (tmp_path / "dev" / "distractors.jsonl").read_text()
    assert lines.startswith(first)
    records = [json.loads(line) for line in lines.splitlines()]
    assert len(records) == 2
    assert records[0]["n_sources"] > records[0]["n_own"] >= 3
    entries = records[0]["entries"]
    assert {"balanced 16", "balanced auto", "context_cite 256", "leave_one_out", "attention", "random"} <= set(entries)
    best = max(entry["top_1"] for entry in entries.values())
    assert entries["leave_one_out"]["top_1"] == pytest.approx(best)  # by definition
    assert entries["balanced 256"]["sets"] <= 256
    paragraphs = [json.loads(line) for line in (tmp_path / "dev" / "paragraph.jsonl").read_text().splitlines()]
    assert all(record["entries"]["balanced 16"]["covered"] for record in paragraphs)  # all sets of three or four
    page = tmp_path / "page.md"
    run("write_page.py", "--results", tmp_path, "--out", page)
    assert "| balanced 64 |" in page.read_text()
    assert "### Among paragraphs of other articles" in page.read_text()
