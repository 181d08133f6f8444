"""The training scripts, end to end at toy size: they learn, and what they write loads."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import ready_processes
import torch
from transformers import AutoTokenizer, BertForMaskedLM, BertForSequenceClassification

from whence.embedded import load_embedded

TRAINING = Path(__file__).parents[1] / "training"
THINGS, PRAISE, BLAME = ["film", "food", "book"], ["good", "great", "lovely", "fine"], ["bad", "awful", "dull", "poor"]


def run(script, *arguments):
    finished = ready_processes.run(TRAINING / script, *arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def write_reviews(path, n_rows, seed, shuffled_labels=False):
    chance = random.Random(seed)
    rows = []
    for _ in range(n_rows):
        label = chance.randrange(2)
        text = f"the {chance.choice(THINGS)} was {chance.choice(PRAISE if label else BLAME)} ."
        rows.append({"text": text, "label": chance.randrange(2) if shuffled_labels else label})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    work = tmp_path_factory.mktemp("training")
    chance = random.Random(0)
    documents = []  # each in one mood, so that pretraining has a mood to find
    for number in range(400):
        mood = PRAISE if number % 2 else BLAME
        documents.append(" ".join(f"the {chance.choice(THINGS)} was {chance.choice(mood)} ." for _ in range(10)))
    (work / "text.txt").write_text("\n".join(documents))
    toy = ["--vocabulary", 100, "--layers", 2, "--hidden", 32, "--heads", 2, "--positions", 32]
    run(
        "pretrain.py", "--text", work / "text.txt", "--out", work / "pretrained", *toy, "--steps", 400,
        "--batch-tokens", 1024, "--rate", 1e-2, "--warmup-steps", 20, "--no-compile",
    )  # fmt: skip
    write_reviews(work / "train.jsonl", 512, seed=1)
    write_reviews(work / "heldout.jsonl", 100, seed=2)
    for name, extra in {"teacher": [], "student": ["--teachers", work / "teacher"]}.items():
        run("finetune.py", *finetuning(work, name), *extra)
    run(
        "export.py", "--pretrained", work / "pretrained", "--sentiment", work / "teacher", work / "student",
        "--topic", work / "teacher", "--out", work / "embedded",
    )  # fmt: skip
    return work


def finetuning(work, name, train="train.jsonl"):
    return [
        "--pretrained", work / "pretrained", "--train", work / train, "--heldout", work / "heldout.jsonl",
        "--labels", "negative", "positive", "--out", work / name, "--batch", 32, "--epochs", 30, "--rate", 3e-3,
    ]  # fmt: skip


def record(work, name, file="finetuning.json"):
    return json.loads((work / name / file).read_text())


def test_pretraining_learns_and_loads(work):
    curve = [point["loss"] for point in record(work, "pretrained", "pretraining.json")["curve"]]
    assert curve[-1] < curve[0]
    assert curve[-1] < 2.0  # a guess over 100 pieces costs 4.6
    model = BertForMaskedLM.from_pretrained(work / "pretrained")
    tokenizer = AutoTokenizer.from_pretrained(work / "pretrained")
    inputs = tokenizer("the film was [MASK] .", return_tensors="pt")
    filler = tokenizer.decode([int(model(**inputs).logits[0, 4].argmax())])
    assert filler in PRAISE + BLAME


@pytest.mark.parametrize("name", ["teacher", "student"])
def test_finetuning_learns_and_loads(work, name):
    assert record(work, name)["heldout_accuracy"] >= 0.95
    model = BertForSequenceClassification.from_pretrained(work / name)
    assert model.config.id2label == {0: "negative", 1: "positive"}


def test_finetuning_can_fail(work):
    write_reviews(work / "nonsense.jsonl", 512, seed=3, shuffled_labels=True)
    run("finetune.py", *finetuning(work, "nonsense", "nonsense.jsonl"))
    assert record(work, "nonsense")["heldout_accuracy"] < 0.95


def test_finetuning_leaves_the_words_alone(work):
    before = BertForMaskedLM.from_pretrained(work / "pretrained").bert.embeddings.word_embeddings.weight
    after = BertForSequenceClassification.from_pretrained(work / "student").bert.embeddings.word_embeddings.weight
    assert torch.equal(before, after)


def test_export_loads_as_the_embedded_files_do(work):
    model, tokenizer, head = load_embedded("sentiment", work / "embedded")
    inputs = tokenizer("the food was awful .", return_tensors="pt")
    names: Any = model.config.id2label
    assert names[int(model(**inputs).logits.argmax())] == "negative"

    pretrained = BertForMaskedLM.from_pretrained(work / "pretrained").eval()
    states = pretrained.bert(**inputs).last_hidden_state
    torch.testing.assert_close(head(states), pretrained.cls(states), atol=2e-2, rtol=1e-2)  # embedded as fp16


def test_export_refuses_words_that_were_trained(work):
    model = BertForSequenceClassification.from_pretrained(work / "teacher")
    model.bert.embeddings.word_embeddings.weight.data += 1
    model.save_pretrained(work / "moved")
    (work / "moved" / "finetuning.json").write_text(json.dumps(record(work, "teacher")))
    with pytest.raises(AssertionError, match="they must stay frozen"):
        run(
            "export.py", "--pretrained", work / "pretrained", "--sentiment", work / "moved",
            "--topic", work / "teacher", "--out", work / "refused",
        )  # fmt: skip


def test_an_encoder_stored_in_half_precision_is_fine_tuned_in_full(work: Path) -> None:
    """The ordinary way: all weights, words too, and no loss but the task's."""
    half = BertForMaskedLM.from_pretrained(work / "pretrained").to(torch.float16)  # type: ignore[arg-type]
    half.save_pretrained(work / "half")
    AutoTokenizer.from_pretrained(work / "pretrained").save_pretrained(work / "half")
    options = [work / "half" if each == work / "pretrained" else each for each in finetuning(work, "ordinary")]
    run("finetune.py", *options, "--masked-lm-weight", 0, "--train-words", "--epochs", 10)
    told = record(work, "ordinary")
    assert told["heldout_accuracy"] > 0.9
    assert (told["knobs"]["masked_lm_weight"], told["knobs"]["train_words"]) == (0, True)
    tuned = BertForSequenceClassification.from_pretrained(work / "ordinary")
    before = half.bert.embeddings.word_embeddings.weight.float()
    assert tuned.dtype == torch.float32
    assert not torch.allclose(tuned.bert.embeddings.word_embeddings.weight, before, atol=1e-3)
