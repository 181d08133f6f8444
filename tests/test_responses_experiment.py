"""The board of responses and its probes, from a file of questions to the results, on a tiny decoder."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import tiny_models
import torch
from test_chat import CHATML
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import whence

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
SCRIPTS = ("questions", "run", "fit", "search", "game_objective")

pytestmark = pytest.mark.filterwarnings("ignore::whence.WhenceWarning")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The scripts as their commands import them; other experiments have modules of the same names."""
    for folder in ("one_pass", "scoreboard"):
        monkeypatch.syspath_prepend(str(EXPERIMENTS / folder))
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield {name: importlib.import_module(name) for name in ("fit", "questions", "run")}
    for name in SCRIPTS:
        sys.modules.pop(name, None)


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    special = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_models._byte_level(special), bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        additional_special_tokens=special[3:], model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(tmp_path / "decoder")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, pad_token_id=2, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    tiny_models.shaken(LlamaForCausalLM(config)).save_pretrained(tmp_path / "decoder")
    return tmp_path / "decoder"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    context = "So long. A film {0}. The plot was dull {0}."
    rows = [
        {
            "split": split, "id": f"{split} {number}", "context": context.format(number), "question": " was it dull? ",
            "answers": {"text": ["dull", "dull"], "answer_start": [35]},
        }
        for split in ("train", "validation") for number in range(90)
    ]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "squad.parquet")
    return tmp_path


def test_from_questions_to_a_board(
    scripts: dict[str, Any], decoder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions, run, fit = (scripts[name] for name in ("questions", "run", "fit"))
    monkeypatch.setattr(questions, "MOST_TOKENS", 400)
    monkeypatch.setattr(run, "HELD_OUT", 6)
    monkeypatch.setattr(fit, "QUESTIONS", 24)
    monkeypatch.setattr(fit, "ASIDE", 6)
    short = {"steps": 2, "warm_up": 1, "step_tokens": 300, "pairs": 2, "checked_texts": 4, "checked_orders": 2}
    monkeypatch.setattr(fit, "RESPONSES", {**fit.RESPONSES, **short})
    monkeypatch.setattr(fit, "MASKS", {"layers": 2, "batch_size": 2, "steps": 2, "warm_up": 0})
    model = whence.load(decoder)
    (asked,) = questions.questions(model, data / "squad.parquet", "validation", 1)
    assert asked.messages[0]["content"].startswith("Answer with a few words of the text.\n\nText: A film ")
    assert asked.messages[0]["content"].endswith("Question: was it dull?")
    assert asked.right == ("dull",)
    right = [(asked, model.encode_response("a", " so Dull it was").ids[1:]), (asked, model.encode(" long").ids)]
    assert questions.accuracy(model, right)["accuracy"]["mean"] == 0.5
    given = argparse.Namespace(
        runs=["responses-0", "responses_diffmask-0"], data_dir=data, out=tmp_path / "probes", model=str(decoder),
        device="cpu", steps=None, results=tmp_path,
    )  # fmt: skip
    fit.main(given)
    assert list(json.loads((tmp_path / "stated_errors.json").read_text(encoding="utf-8"))) == ["responses-0"]
    names = ["gradient_x_input", "one_pass", "amortised_shapley", "diffmask"]
    command = [
        "--board", "responses", "--model", str(decoder), "--data-dir", str(data), "--work", str(tmp_path / "work"),
        "--results", str(tmp_path / "results"), "--probes", str(tmp_path / "probes"), "--limit", "3", "--beam", "1",
        "--methods", ",".join(names), "--metrics", "faithfulness",
    ]  # fmt: skip
    run.main(run.arguments.parse_args(command))
    board = json.loads((tmp_path / "results" / "responses.json").read_text(encoding="utf-8"))
    assert {entry["name"] for entry in board["entries"]} >= set(names)
    assert (board["n_texts"], board["settings"]["target"]) == (3, "response")
    answers = json.loads((tmp_path / "results" / "responses_answers.json").read_text(encoding="utf-8"))
    assert all(len(ids) <= questions.LONGEST_ANSWER for ids in answers.values())
    accuracy = json.loads((tmp_path / "results" / "responses_accuracy.json").read_text(encoding="utf-8"))
    assert (accuracy["model"], accuracy["n_texts"]) == ("decoder", 3)
