"""Corpus runs: what is written, that it is the same however it was made, and that nothing finished is ever lost."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import tiny_models
from typer.testing import CliRunner

import whence
from whence import memory
from whence.cli import app
from whence.cli.run import TextLines
from whence.corpus import shards
from whence.corpus.estimate import Estimate
from whence.corpus.job import told_options
from whence.corpus.manifest import read_manifest
from whence.corpus.shards import receipt_path
from whence.data import streams
from whence.errors import FileError, UnknownNameError, UsageError

METHOD = "gradient_x_input"
SENTENCES = ["a witty film", "the plot was dull and the film bad", "gorgeous", "not a bad film , not at all", "so dull"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier with its tokenizer, as a folder that every worker can load."""
    folder = tmp_path_factory.mktemp("model")
    tiny_models.build("bert").save_pretrained(folder)
    tiny_models.wordpiece().save_pretrained(folder)
    return folder


def write_texts(path: Path, count: int, bad: int | None = None) -> Path:
    """A file of sentences with a label, an id and more; the text of one row is perhaps empty."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["nr", "review", "sentiment", "stars"])
        for number in range(count):
            text = "" if number == bad else f"{SENTENCES[number % len(SENTENCES)]} {'film ' * (number % 7)}".strip()
            writer.writerow([f"r{number}", text, number % 2, number % 5])
    return path


def run(folder: Any, data: Any, out: Path, **settings: Any) -> whence.Corpus:
    usual: dict[str, Any] = {"methods": METHOD, "workers": 1, "shard_texts": 8, "id_column": None}
    return whence.run(str(folder) if isinstance(folder, Path) else folder, data, out, **{**usual, **settings})


def digests(folder: Path) -> dict[str, str]:
    """Every file of a run, by its contents."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# what is written


def test_a_row_per_text_and_a_row_per_word(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    corpus = run(
        folder, write_texts(tmp_path / "reviews.csv", 20), tmp_path / "out", id_column="nr", keep_columns=["stars"],
        layers="all", announce=said.append,
    )  # fmt: skip
    texts, words = corpus.texts(), corpus.words()
    assert said[0] == "texts from column 'review', labels from column 'sentiment', ids from column 'nr'"
    assert said[1].startswith("about 20 texts, ")
    assert list(texts["id"][:2]) == ["r0", "r1"]
    assert list(texts["stars"][:3]) == ["0", "1", "2"]
    assert list(texts["source"][:1]) == ["reviews.csv, line 2"]
    assert len(texts) == len(corpus) == 20
    assert corpus.failed == 0
    model = whence.load(str(folder))
    names = model.reading.labels.names  # type: ignore[attr-defined]
    assert list(texts["label"][:2]) == [names[0], names[1]]  # numbers are the model's
    for row in (0, 3, 19):
        direct = whence.explain(model, texts["text"][row], METHOD, layers="all", units="word")
        mine = words[words["row"] == row]
        assert direct.units is not None
        assert texts["prediction"][row] == direct.prediction.label
        assert texts["probability"][row] == pytest.approx(direct.prediction.probability, abs=1e-6)
        assert texts["values"][row][0] == pytest.approx(direct.target.value, abs=1e-5)
        assert (texts["forwards"][row], texts["backwards"][row]) == (direct.cost.forwards, direct.cost.backwards)
        assert list(mine["word"]) == [word.text for word in direct.gathered()]
        assert list(mine["start"]) == [unit.start for unit in direct.units.units]
        for index, layer in enumerate(direct.layers):
            assert list(mine[f"score_{layer}"]) == pytest.approx(list(direct.units.scores[index]), abs=1e-5)


def test_the_manifest_says_with_what_it_was_made(folder: Path, tmp_path: Path) -> None:
    corpus = run(folder, write_texts(tmp_path / "reviews.csv", 20, bad=3), tmp_path / "out", seed=7)
    manifest = corpus.manifest
    assert manifest.complete
    assert (manifest.seed, manifest.units, manifest.device, manifest.dtype) == (7, "word", "cpu", "float32")
    assert manifest.counts == {
        "shards": 3, "texts": 20, "failed": 1, "warned": 0, "truncated": 0, "words": len(corpus.words()),
    }  # fmt: skip
    assert manifest.methods[0].name == METHOD
    assert set(manifest.versions) >= {"whence", "torch", "transformers"}
    for receipt in manifest.shards:
        for name, file in receipt.files.items():
            content = (tmp_path / "out" / name).read_bytes()
            assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert not corpus.broken()
    assert manifest == read_manifest(tmp_path / "out")


def test_a_text_that_fails_is_a_row_with_its_error(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(
        '{"text": "a witty film"}\n{"text": "  "}\nno json\n{"text": 5}\n{"text": "\\ud800"}\n{"text": "so dull"}\n'
        '{"text": "\\u200b"}\n'
    )
    corpus = run(folder, file, tmp_path / "out")
    texts = corpus.texts()
    assert [None if isinstance(error, float) or error is None else error for error in texts["error"]] == [
        None,
        "text is empty",
        "line 3 of 'texts.jsonl' is not JSON: Expecting value (line 1, column 1)",
        "text is not a text but int",
        "text is not valid Unicode: half a character at character 0",
        None,
        "the text is '\\u200b', of which no token is left: there is nothing to explain",
    ]
    assert corpus.failed == 5
    assert list(corpus.words()["row"].unique()) == [0, 5]


def test_a_text_that_breaks_the_model_leaves_its_neighbours_as_they_are(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_texts(tmp_path / "reviews.csv", 20)
    whole = run(folder, data, tmp_path / "whole")
    real = shards.explain_each.__globals__["explain"]

    def fragile(model: Any, texts: Any, *args: Any, **settings: Any) -> Any:
        if any(text == "gorgeous film film" for text in texts):
            raise RuntimeError("out of memory\nand more")
        return real(model, texts, *args, **settings)

    monkeypatch.setitem(shards.explain_each.__globals__, "explain", fragile)
    corpus = run(folder, data, tmp_path / "out")
    failed = [row for row, text in enumerate(whole.texts()["text"]) if text == "gorgeous film film"]
    assert failed
    assert corpus.failed == len(failed)
    assert corpus.texts()["error"][failed[0]] == "RuntimeError: out of memory"
    one, other = whole.words(), corpus.words()
    one = one[~one["row"].isin(failed)].reset_index(drop=True)
    assert list(one["word"]) == list(other["word"])
    assert list(one["score_0"]) == pytest.approx(list(other["score_0"]), abs=1e-5)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_other_formats_say_the_same(folder: Path, tmp_path: Path, kind: str) -> None:
    data = write_texts(tmp_path / "reviews.csv", 20, bad=4 if kind == "jsonl" else None)
    one = run(folder, data, tmp_path / "one", keep_columns=["stars"])
    other = run(folder, data, tmp_path / "other", keep_columns=["stars"], format=kind)
    assert sorted(path.name for path in (tmp_path / "other" / "words").iterdir())[0] == f"part-000000.{kind}"
    for name in ("texts", "words"):
        assert [table.to_pylist() for table in one.tables(name)] == [table.to_pylist() for table in other.tables(name)]
    assert one.explanation(5).scores.tolist() == other.explanation(5).scores.tolist()


def test_several_methods_and_tokens(folder: Path, tmp_path: Path) -> None:
    corpus = run(
        folder, write_texts(tmp_path / "reviews.csv", 6), tmp_path / "out", methods=[METHOD, "gradient_shap"],
        options={"gradient_shap": {"samples": 3}}, units="token", layers="embeddings",
    )  # fmt: skip
    words = corpus.words()
    assert list(words["method"].unique()) == [METHOD, "gradient_shap"]
    assert words["special"].sum() == 2 * 2 * 6
    assert words[words["method"] == METHOD]["standard_error_embeddings"].isna().all()
    assert words[words["method"] == "gradient_shap"]["standard_error_embeddings"].notna().all()
    assert len(corpus.texts()["values"][0]) == 2
    explanation = corpus.explanation(3, "gradient_shap")
    direct = whence.explain(
        whence.load(str(folder)), explanation.text, "gradient_shap", samples=3, layers="embeddings", units="token"
    )
    assert explanation.scores == pytest.approx(direct.scores, abs=1e-5)
    assert [word.text for word in explanation.words()] == [word.text for word in direct.words()]
    assert explanation.target.scale == direct.target.scale


def test_sentences_are_scored_as_a_whole(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A witty film. But the plot was dull.\n")
    explanation = run(folder, tmp_path / "a.txt", tmp_path / "out", units="sentence").explanation(0)
    assert [each.text for each in explanation.gathered()] == ["A witty film.", "But the plot was dull."]
    assert explanation.units is not None
    assert explanation.units.kind == "sentence"


# where texts come from


def test_files_folders_globs_and_compression_give_the_same_texts(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("a witty film\nso dull\n")
    with gzip.open(data / "b.txt.gz", "wt") as file:
        file.write("gorgeous\n")
    said: list[str] = []
    whole = run(folder, data, tmp_path / "1", announce=said.append)
    globbed = run(folder, f"{data}/*.txt*", tmp_path / "2")
    listed = run(folder, [data / "a.txt", data / "b.txt.gz"], tmp_path / "3")
    assert "2 files, from 'a.txt' to 'b.txt.gz'" in said
    for corpus in (whole, globbed, listed):
        assert list(corpus.texts()["text"]) == ["a witty film", "so dull", "gorgeous"]
        assert list(corpus.texts()["source"]) == ["a.txt, line 1", "a.txt, line 2", "b.txt.gz, line 1"]


def test_data_sets_of_datasets(folder: Path, tmp_path: Path) -> None:
    import datasets

    rows = [{"sentence": text, "label": at % 2, "stars": at} for at, text in enumerate(SENTENCES)]
    whole = datasets.Dataset.from_list(rows)
    corpus = run(folder, whole, tmp_path / "1", keep_columns=["stars"])
    streamed = run(folder, whole.to_iterable_dataset(), tmp_path / "2", keep_columns=["stars"])
    assert list(corpus.texts()["text"]) == SENTENCES
    assert list(corpus.texts()["stars"]) == [0, 1, 2, 3, 4]  # numbers stay numbers
    assert corpus.texts().drop(columns="source").equals(streamed.texts().drop(columns="source"))


def test_standard_input_is_lines_or_objects(folder: Path, tmp_path: Path) -> None:
    common = ["run", "--model", str(folder), "--data", "-", "--methods", METHOD, "--workers", "1"]
    plain = CliRunner().invoke(app, [*common, "--out", str(tmp_path / "1")], input="a witty film\n\nso dull\n")
    objects = CliRunner().invoke(
        app, [*common, "--out", str(tmp_path / "2")], input='{"text": "a witty film"}\n{"text": "so dull"}\n'
    )
    assert (plain.exit_code, objects.exit_code) == (0, 0), plain.output + objects.output
    for name in "12":
        assert list(whence.Corpus.open(tmp_path / name).texts()["text"]) == ["a witty film", "so dull"]


def test_parquet_keeps_its_numbers(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    rows = [{"text": text, "score": at / 2, "ok": at == 1, "tags": ["x"]} for at, text in enumerate(SENTENCES)]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    texts = run(folder, tmp_path / "a.parquet", tmp_path / "out", keep_columns=["score", "ok", "tags"]).texts()
    assert list(texts["score"]) == [0, 0.5, 1, 1.5, 2]
    assert list(texts["ok"]) == [False, True, False, False, False]
    assert texts["tags"][0] == '["x"]'


# the same, however it was made


def test_the_usual_method_does_not_depend_on_what_came_before(tmp_path: Path) -> None:
    """Probes remember what texts of a length are without any token; a shard may not profit from another's."""
    data = write_texts(tmp_path / "reviews.csv", 12)
    whence.run("sentiment", data, tmp_path / "one", workers=1, shard_texts=6)
    whence.run(whence.load(), data, tmp_path / "two", workers=1, shard_texts=6)
    (tmp_path / "two" / "shards" / "part-000000.json").unlink()
    whence.run("sentiment", data, tmp_path / "two", workers=1, shard_texts=6, resume=True)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert whence.Corpus.open(tmp_path / "one").methods == ("one_pass",)


def test_several_processes_write_the_same_files_and_one_that_is_killed_is_replaced(
    folder: Path, tmp_path: Path
) -> None:
    data = write_texts(tmp_path / "reviews.csv", 400, bad=13)
    run(folder, data, tmp_path / "one")
    killed: list[int] = []
    reports: list[tuple[str, int, int]] = []
    said: list[str] = []

    def kill_one(step: str, done: int, total: int) -> None:
        reports.append((step, done, total))
        if not killed:
            own = [int(line.split()[0]) for line in processes("--ppid", os.getpid()) if "whence.corpus.worker" in line]
            os.kill(own[0], signal.SIGKILL)
            killed.append(own[0])
            (tmp_path / "two" / "words" / f".part-000007.parquet.{own[0]}").write_bytes(b"half a file")

    run(folder, data, tmp_path / "two", workers=2, progress=kill_one, announce=said.append)
    assert any(line.startswith("a worker was lost (exit code -9)") for line in said)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert reports[-1] == ("explained", 400, 400)


def processes(chosen_by: str, number: int) -> list[str]:
    """Those with this parent (--ppid) or in this session (--sid), with their command lines."""
    listing = subprocess.run(["ps", "-o", "pid=,args=", chosen_by, str(number)], capture_output=True, text=True)
    return listing.stdout.splitlines()


def command(folder: Path, data: Path, out: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-c", "from whence.cli import main; main()", "run", "--model", str(folder), "--data", str(data),
        "--out", str(out), "--methods", METHOD, "--workers", "2", "--shard-texts", "20", "--resume", *more,
    ]  # fmt: skip


def test_a_run_that_was_killed_goes_on(folder: Path, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv", 600)
    run(folder, data, tmp_path / "one", shard_texts=20)
    out = tmp_path / "two"
    process = subprocess.Popen(command(folder, data, out), stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(list((out / "shards").glob("part-*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    while processes("--sid", process.pid) and time.monotonic() < deadline:  # workers notice that they are alone
        time.sleep(0.1)
    assert not processes("--sid", process.pid)
    finished = {path: path.stat().st_mtime_ns for path in (out / "shards").glob("part-*.json")}
    assert 4 <= len(finished) < 30
    assert not whence.Corpus.open(out).complete
    assert len(whence.Corpus.open(out)) == 20 * len(finished)
    run(folder, data, out, shard_texts=20, resume=True)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished  # never computed twice
    assert digests(tmp_path / "one") == digests(out)


def test_what_is_broken_is_made_again_and_the_rest_is_kept(folder: Path, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv", 40)
    out = tmp_path / "out"
    run(folder, data, out)
    before = digests(out)
    (out / "words" / "part-000001.parquet").write_bytes(b"PAR1")
    receipt_path(out, 2).write_text("{")
    (out / "texts" / ".part-000003.parquet.77").write_bytes(b"half")
    corpus = whence.Corpus.open(out)
    assert corpus.broken() == ["words/part-000001.parquet"]
    with pytest.raises(
        FileError, match=r"part-000001.parquet' cannot be read: .*\ngive the command that made it again"
    ):
        corpus.words()
    times = {path: path.stat().st_mtime_ns for path in (out / "texts").glob("part-*")}
    said: list[str] = []
    run(folder, data, out, resume=True, announce=said.append)
    assert [line for line in said if "made again" in line] == [
        "shard 1 is made again: words/part-000001.parquet is broken",
        "shard 2 is made again: its receipt cannot be read",
    ]
    assert digests(out) == before
    changed = [path.name for path, written in times.items() if path.stat().st_mtime_ns != written]
    assert sorted(changed) == ["part-000001.parquet", "part-000002.parquet"]


def test_changed_texts_are_explained_again_and_those_gone_are_removed(folder: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "reviews.csv", tmp_path / "out"
    run(folder, write_texts(data, 40), out)
    run(folder, write_texts(data, 20, bad=9), out, resume=True)
    run(folder, data, tmp_path / "fresh")
    assert digests(out) == digests(tmp_path / "fresh")


def test_a_broken_manifest_loses_nothing(folder: Path, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "reviews.csv", 24), tmp_path / "out"
    run(folder, data, out)
    before = digests(out)
    times = {path: path.stat().st_mtime_ns for path in (out / "words").iterdir()}
    (out / "manifest.json").write_text('{"schema": "whence.corpus/1", "complete": tr')
    with pytest.raises(FileError, match=r"manifest.json' is broken: .*\nits shards are not lost: remove this file"):
        run(folder, data, out, resume=True)
    with pytest.raises(FileError, match="is broken"):
        whence.Corpus.open(out)
    (out / "manifest.json").unlink()
    run(folder, data, out, resume=True)
    assert digests(out) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_full_disk_loses_nothing_finished(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_texts(tmp_path / "reviews.csv", 40), tmp_path / "out"
    run(folder, data, tmp_path / "whole")
    real, written = os.fsync, []

    def full(handle: int) -> None:
        written.append(handle)
        if len(written) == 8:  # the manifest, two shards of three files each, and one table of the third
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"No space left on device\nmake room or mend it, then go on with --resume"):
        run(folder, data, out)
    monkeypatch.undo()
    assert len(whence.Corpus.open(out)) == 16
    assert not list(out.rglob(".part-*"))
    run(folder, data, out, resume=True)
    assert digests(out) == digests(tmp_path / "whole")


@pytest.mark.skipif(not Path("/dev/shm").is_dir() or os.geteuid() != 0, reason="needs to mount a small disk: not root")
def test_a_disk_that_is_really_full(folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs to mount a small disk: not allowed here")
    try:
        data = write_texts(tmp_path / "reviews.csv", 400)
        with pytest.raises(FileError, match="No space left on device"):
            run(folder, data, disk / "out", workers=2)
        finished = whence.Corpus.open(disk / "out")
        assert len(finished)
        assert not finished.broken()
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        run(folder, data, disk / "out", resume=True)
        run(folder, data, tmp_path / "whole")
        assert digests(disk / "out") == digests(tmp_path / "whole")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_an_input_that_cannot_be_read_to_its_end_loses_nothing_finished(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PIECE", 4096)
    whole = gzip.compress(
        b"".join(f"a witty film {number} times, not the same twice\n".encode() for number in range(4000))
    )
    (tmp_path / "a.txt.gz").write_bytes(whole[: len(whole) // 2])
    out = tmp_path / "out"
    with pytest.raises(FileError, match=r"cannot read '.*a.txt.gz': .*\nit may have been cut off: fetch it again"):
        run(folder, tmp_path / "a.txt.gz", out, shard_texts=100)
    made = len(whence.Corpus.open(out))
    assert 0 < made < 4000
    (tmp_path / "a.txt.gz").write_bytes(whole)
    run(folder, tmp_path / "a.txt.gz", out, shard_texts=100, resume=True, limit=made + 50)
    assert len(whence.Corpus.open(out)) == made + 50


# wrong use


def test_a_folder_in_use_is_not_touched(folder: Path, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "reviews.csv", 8)
    run(folder, data, tmp_path / "out")
    with pytest.raises(UsageError, match=r"holds a run already\ngo on with it by --resume"):
        run(folder, data, tmp_path / "out")
    with pytest.raises(UsageError, match="holds a run with other seed: 0 and 1"):
        run(folder, data, tmp_path / "out", resume=True, seed=1)
    with pytest.raises(UsageError, match="holds a run with other methods"):
        run(folder, data, tmp_path / "out", resume=True, methods="random")


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        ({"methods": "gradient_y_input"}, UnknownNameError, "unknown method 'gradient_y_input'"),
        ({"methods": [METHOD, METHOD]}, UsageError, "a method is named twice"),
        ({"options": {"lime": {}}}, UnknownNameError, "unknown method with options 'lime'"),
        ({"options": {METHOD: {"stepz": 2}}}, UnknownNameError, "unknown option of gradient_x_input 'stepz'"),
        ({"layers": 9}, UnknownNameError, "unknown layer 9"),
        ({"target": "sideways"}, UsageError, "unknown label 'sideways'"),
        ({"units": "chapter"}, UnknownNameError, "unknown unit 'chapter'"),
        ({"format": "xml"}, UnknownNameError, "unknown format 'xml'"),
        ({"engine": "spark"}, UnknownNameError, "unknown engine 'spark'"),
        ({"text_column": "texts"}, UnknownNameError, "unknown column of reviews.csv 'texts'"),
        ({"keep_columns": ["stars", "moon"]}, UnknownNameError, "unknown column of reviews.csv 'moon'"),
        ({"split": "test"}, UsageError, "'reviews.csv' has no column 'split'"),
        ({"data_format": "xls"}, UnknownNameError, "unknown format 'xls'"),
        ({"limit": 0}, UsageError, "limit must be 1 or more, got 0"),
        ({"workers": 0}, UsageError, "workers must be"),
        ({"methods": "board:nowhere"}, FileError, "nowhere"),
    ],
)  # fmt: skip
def test_wrong_settings_are_told_before_anything_runs(
    folder: Path, tmp_path: Path, settings: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        run(folder, write_texts(tmp_path / "reviews.csv", 8), tmp_path / "out", **settings)
    assert not list((tmp_path / "out").rglob("part-*"))


def test_a_refused_run_is_in_nobodys_way(folder: Path, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "reviews.csv", 4), tmp_path / "out"
    with pytest.raises(UnknownNameError, match="unknown layer 99"):
        run(folder, data, out, layers=99)
    assert len(run(folder, data, out)) == 4


def test_a_source_without_texts_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,count\nx,1\n")
    with pytest.raises(FileError, match=r"'a.csv' has no column of a usual name; its columns: name, count\nsay which"):
        run(folder, tmp_path / "a.csv", tmp_path / "out")
    (tmp_path / "b.csv").write_text('text\n" "\n')
    with pytest.raises(FileError, match=r"nothing can be explained: b.csv, line 2: text is empty"):
        run(folder, tmp_path / "b.csv", tmp_path / "out", resume=True)
    with pytest.raises(FileError, match="no file is called as"):
        run(folder, f"{tmp_path}/*.parquet", tmp_path / "out", resume=True)
    with pytest.raises(UsageError, match="cannot read texts from int"):
        run(folder, [5], tmp_path / "out", resume=True)


def test_a_loaded_model_works_in_this_process(tmp_path: Path, bert: whence.LayeredModel) -> None:
    said: list[str] = []
    data = write_texts(tmp_path / "reviews.csv", 8)
    corpus = whence.run(bert, data, tmp_path / "out", methods=METHOD, workers=4, announce=said.append)
    assert "a loaded model works in this process alone: give its name for several workers" in said
    assert len(corpus) == 8


def test_options_that_cannot_be_told_are_refused(tmp_path: Path) -> None:
    assert told_options("one_pass", {"probes": tmp_path}) == {"probes": str(tmp_path)}
    with pytest.raises(UsageError, match=r"option probes of one_pass is object, which other processes cannot be told"):
        told_options("one_pass", {"probes": object()})


# the command


def test_the_command_counts_failures_and_ends_with_1(folder: Path, tmp_path: Path) -> None:
    arguments = [
        "run", "--model", str(folder), "--data", str(write_texts(tmp_path / "reviews.csv", 20, bad=3)), "--out",
        str(tmp_path / "out"), "--methods", METHOD, "--workers", "1", "--keep-columns", "stars", "--id-column", "nr",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    lines = result.stderr.splitlines()
    assert lines[0] == "note: texts from column 'review', labels from column 'sentiment', ids from column 'nr'"
    assert lines[1].startswith("note: about 20 texts, ")
    assert lines[-2].startswith("20 texts in 0:")
    assert lines[-1] == "1 of them could not be explained: see the column 'error' of the table of texts"
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2
    assert "holds a run already" in again.stderr


def test_lines_of_progress_tell_rate_and_time_left() -> None:
    now = iter([0.0, 1.0, 5.0, 11.0, 12.0, 31.0])
    lines: list[str] = []
    report = TextLines(lines.append, clock=lambda: next(now))
    for done in (100, 140, 200, 220, 400):
        report("explained", done, 400)
    assert lines == [
        "explained 200 of 400 texts, 10 a second, 0:20 left",
        "explained 400 of 400 texts, 10 a second, 0:00 left",
    ]


def test_an_estimate_in_words() -> None:
    assert str(Estimate(2_000_000, 0.02, 900, 4)) == "about 2,000,000 texts, 200.0 a second: 2.8 h, 1.8 GB of tables"
    assert str(Estimate(None, 0.02, 900, 1)).startswith("an unknown number of texts, about 50.0 a second")


@pytest.fixture(autouse=True)
def no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_DATA", raising=False)


def test_memory_is_given_back_every_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(memory, "give_memory_back", lambda: given.append(1))
    told = memory.giving_memory_back()
    for batch in range(1, 2 * memory.BATCHES + 1):
        told("one_pass", batch, 100)
        assert len(given) == batch // memory.BATCHES
