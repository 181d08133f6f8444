"""Texts to work on: what is read from files and known sets, and what is said when they are not as they should be."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from whence.cli.arguments import DataDir, DataName, Limit, Split
from whence.data import KNOWN, Answer, Example, labels_as_ids, read
from whence.errors import FileError, UnknownNameError, UsageError
from whence.targets import ClassLabels

ROWS = [{"text": "a fine film", "label": 1}, {"text": 'so "dull",\tso long', "label": 0}]
AS_EXAMPLES = [Example("a fine film", label=1), Example('so "dull",\tso long', label=0)]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def said(error: type[Exception], source: str | Path, **options: Any) -> list[str]:
    with pytest.raises(error) as caught:
        read(source, **options)
    assert len(str(caught.value).splitlines()) == 2  # what is wrong, what to do
    return str(caught.value).splitlines()


@pytest.fixture(autouse=True)
def no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHENCE_DATA", raising=False)


# files


def test_every_format_gives_the_same_examples(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    assert read(write(tmp_path / "a.jsonl", lines)) == AS_EXAMPLES
    assert read(write_parquet(tmp_path / "a.parquet", ROWS)) == AS_EXAMPLES
    assert read(write_csv(tmp_path / "a.csv", ROWS)) == AS_EXAMPLES
    assert read(str(tmp_path / "a.csv")) == AS_EXAMPLES
    assert read(write(tmp_path / "A.TSV", "label\ttext\n1\ta fine film\n")) == AS_EXAMPLES[:1]
    assert read(write(tmp_path / "a.txt", "a fine film\r\n\n  \nsecond\u2028line")) == [
        Example("a fine film"),
        Example("second\u2028line"),
    ]


def test_pairs_names_and_missing_labels(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "a", "pair": "b", "label": "yes"}, {"text": "c", "pair": "d", "label": None}]
    expected = [Example("a", "b", "yes"), Example("c", "d")]
    for file in (write_csv(tmp_path / "a.csv", rows), write_parquet(tmp_path / "a.parquet", rows)):
        assert read(file) == expected
    assert [example.as_input for example in expected] == [("a", "b"), ("c", "d")]
    assert Example("a").as_input == "a"


def test_numbers_of_labels_in_every_writing(tmp_path: Path) -> None:
    assert [e.label for e in read(write(tmp_path / "a.csv", "text,label\na,1.0\nb,-1\nc,\nd,+02\n"))] == [
        1,
        -1,
        None,
        2,
    ]
    lines = ['{"text": "a", "label": true}', '{"text": "b", "label": 2.0}', '{"text": "c", "label": NaN}']
    assert [e.label for e in read(write(tmp_path / "a.jsonl", "\n".join(lines)))] == [1, 2, None]
    assert (
        read(write(tmp_path / "b.jsonl", '{"text": "a", "label": "1"}'))[0].label == "1"
    )  # a name that was written so
    assert type(read(write(tmp_path / "c.jsonl", '{"text": "a", "label": true}'))[0].label) is int


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name, content in {"a.txt": "a", "a.csv": "text\na\n", "a.tsv": "text\na\n", "a.jsonl": '{"text": "a"}'}.items():
        assert read(write(tmp_path / name, b"\xef\xbb\xbf" + content.encode())) == [Example("a")]


def test_a_very_long_text_in_a_csv_file(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    long = "word " * 100_000
    assert read(write(tmp_path / "a.csv", f'text\n"{long}"\n'))[0].text == long
    assert csv.field_size_limit() == limit  # which belongs to the whole process


VISIBLE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip())


@given(texts=st.lists(VISIBLE, min_size=1, max_size=5))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back_as_it_was_written(tmp_path: Path, texts: list[str]) -> None:
    rows = [{"text": text, "label": "x"} for text in texts]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    assert [e.text for e in read(write(tmp_path / "a.jsonl", lines))] == texts
    assert [e.text for e in read(write_parquet(tmp_path / "a.parquet", rows))] == texts
    assert [e.text for e in read(write_csv(tmp_path / "a.csv", rows))] == texts


def test_a_part_of_a_file(tmp_path: Path) -> None:
    rows = [{"text": f"t{i}", "split": split} for i, split in enumerate(["train", "validation", "train", "test"])]
    file = write_csv(tmp_path / "a.csv", rows)
    assert [e.text for e in read(file, split="train")] == ["t0", "t2"]
    assert [e.text for e in read(file, split="dev")] == ["t1"]
    assert len(read(file)) == 4
    assert said(UnknownNameError, file, split="tset") == [
        "unknown split of a.csv 'tset'",
        "did you mean 'test'? known: train, validation, test",
    ]
    without = write(tmp_path / "b.csv", "text,label\na,1\n")
    assert said(UsageError, without, split="test")[0] == "'b.csv' has no column 'split'; its columns: text, label"


def test_limits_take_the_first_or_a_repeatable_sample_in_order(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "\n".join(str(number) for number in range(1000)))
    numbers = {seed: [int(e.text) for e in read(file, limit=20, seed=seed)] for seed in (0, 1)}
    assert [int(e.text) for e in read(file, limit=20)] == list(range(20))
    assert numbers[0] == sorted(set(numbers[0]))
    assert len(numbers[0]) == 20
    assert numbers[0] == [int(e.text) for e in read(file, limit=20, seed=0)]
    assert numbers[0] != numbers[1]
    assert max(numbers[0]) > 500  # from the whole file
    assert len(read(file, limit=5000, seed=0)) == 1000
    assert said(UsageError, file, limit=0)[0] == "limit must be 1 or more, got 0"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"text": "a"}\n\n{"text": \n', "line 3 of 'a.jsonl' is not JSON: Expecting value"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b", "label": 1, "label": 0}',
         "line 2 of 'a.jsonl' is not JSON: 'label' stands twice in one object"),
        ("a.jsonl", '{"text": "a"}\n{"text": "so \\ud83d dull"}',
         "text in line 2 of 'a.jsonl' is not valid Unicode: half a character, \\ud83d, at character 3"),
        ("a.jsonl", '{"text": "a", "pair": "\\udc00"}', "pair in line 1 of 'a.jsonl' is not valid Unicode"),
        ("a.jsonl", '{"text": "a", "label": "\\udc00"}', "the label in line 1 of 'a.jsonl' is not valid Unicode"),
        ("a.jsonl", '{"text": "a", "label": ' + "9" * 5000 + "}", "line 1 of 'a.jsonl' is not JSON: "),
        ("a.jsonl", "[1, 2]", "line 1 of 'a.jsonl' is not a JSON object"),
        ("a.jsonl", "[" * 100_000, "line 1 of 'a.jsonl' is not JSON: "),
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}', "line 2 of 'a.jsonl' has no text"),
        ("a.jsonl", '{"text": 3}', "text in line 1 of 'a.jsonl' is not a text but int"),
        ("a.jsonl", '{"sentence": "a", "label": 1}', "'a.jsonl' has no column 'text'; its columns: sentence, label"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": "x"}',
         "the labels of 'a.jsonl' are of two kinds: 1 in line 1, 'x' in line 2"),
        ("a.jsonl", '{"text": "a", "label": 0.5}', "the label 0.5 in line 1 of 'a.jsonl' is neither"),
        ("a.jsonl", '{"text": "a", "label": Infinity}', "the label inf in line 1 of 'a.jsonl' is neither"),
        ("a.jsonl", '{"text": "a", "label": [1]}', "the label [1] in line 1 of 'a.jsonl' is neither"),
        ("a.csv", "text,label\na,1\nb,pos\n",
         "the labels of 'a.csv' are of two kinds: 1 in line 2, 'pos' in line 3"),
        ("a.csv", "text,label\na,1\nb\n", "line 3 of 'a.csv' has 1 values, but there are 2 columns: text, label"),
        ("a.csv", "text,label\n,1\n", "line 2 of 'a.csv' has no text"),
        ("a.csv", 'text,label\n"a,1\nb,2\n', "line 3 of 'a.csv' cannot be read: unexpected end of data"),
        ("a.csv", "text,text\na,b\n", "two columns of 'a.csv' have one name: text, text"),
        ("a.csv", "text,label\n", "'a.csv' holds no texts"),
        ("a.csv", "text\na\n".encode("utf-16-le"), "'a.csv' is not a text file, or in UTF-16 without a byte order"),
        ("a.csv", "text\na\n".encode("utf-16") + b"\0", "'a.csv' is not UTF-16 at byte 16"),
        ("a.tsv", 'text\tlabel\n"a\t1\nb"\t2\n', "the row that ends in line 3 of 'a.tsv' runs over tabs or lines"),
        ("a.txt", b"fine\nd\xffll", "'a.txt' is not UTF-8 at byte 6"),
        ("a.txt", " \n\n", "'a.txt' holds no texts"),
        ("a.txt", "", "'a.txt' holds no texts"),
        ("a.parquet", "text,label\na,1\n", "'a.parquet' cannot be read as Parquet: "),
        ("a.parquet", "", "'a.parquet' cannot be read as Parquet: "),
        ("a.pkl", b"\x80\x04.", "cannot read texts from 'a.pkl'"),
        ("a.json", "[]", "cannot read texts from 'a.json'"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_as_it_should_be(tmp_path: Path, name: str, content: str | bytes, problem: str) -> None:
    assert said(FileError, write(tmp_path / name, content))[0].startswith(problem)


def test_parquet_of_other_shape(tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "a.parquet", [{"text": "a"}, {"text": None}])
    assert said(FileError, rows)[0] == "row 2 of 'a.parquet' has no text"
    binary = write_parquet(tmp_path / "b.parquet", [{"text": b"a"}])
    assert said(FileError, binary)[0] == "text in row 1 of 'b.parquet' is not a text but bytes"
    empty = tmp_path / "c.parquet"
    parquet.write_table(pa.table({"text": pa.array([], pa.string())}), empty)
    assert said(FileError, empty)[0] == "'c.parquet' holds no texts"


def test_what_is_no_file(tmp_path: Path) -> None:
    assert said(FileError, tmp_path / "none.csv")[0].startswith("no file ")
    assert said(FileError, tmp_path)[0] == f"{str(tmp_path)!r} is a folder"
    assert said(UnknownNameError, "sst3") == [
        "unknown data set or file (of .jsonl, .csv, .tsv, .parquet, .txt) 'sst3'",
        "did you mean 'sst5'? known: sst2, sst5, ag_news, imdb, squad, 20news",
    ]
    file = write(tmp_path / "a.txt", "a")
    assert said(UsageError, file, data_dir=tmp_path)[1] == "leave out data_dir"


# known sets


def sst2(folder: Path) -> Path:
    rows = [
        {"split": "train", "sentence": "dull ", "label": 0},
        {"split": "dev", "sentence": "fine ", "label": 1},
        {"split": "test", "sentence": "hidden ", "label": -1},
    ]
    return write_parquet(folder / "sst2.parquet", rows)


def test_a_known_set_comes_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sst2(tmp_path)
    expected = [Example("fine ", label=1, label_name="positive")]
    assert read("sst2", data_dir=tmp_path) == expected  # the part to measure on
    assert read("sst2", data_dir=str(tmp_path), split="validation") == expected
    assert read("sst2", data_dir=tmp_path, split="train")[0].label_name == "negative"
    assert read("sst2", data_dir=tmp_path, split="test") == [Example("hidden ")]
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    assert read("sst2") == expected


def test_a_folder_without_the_set_says_what_it_holds(tmp_path: Path) -> None:
    sst2(tmp_path)
    assert said(FileError, "imdb", data_dir=tmp_path) == [
        f"no imdb.parquet in {str(tmp_path)!r}, where imdb should be",
        "its Parquet files: sst2.parquet; without data_dir the hub is asked",
    ]
    assert said(FileError, "imdb", data_dir=tmp_path / "none")[1] == "there is no such folder"


def test_questions_stand_before_their_context(tmp_path: Path) -> None:
    row = {
        "split": "validation", "id": "1", "question": "Who?", "context": "It was Jane.",
        "answers": {"text": ["Jane", "Jane."], "answer_start": [7, 7]},
    }  # fmt: skip
    write_parquet(tmp_path / "squad.parquet", [row])
    (example,) = read("squad", data_dir=tmp_path)
    assert example.as_input == ("Who?", "It was Jane.")
    assert example.answers == (Answer("Jane", 7), Answer("Jane.", 7))
    assert [example.as_input[1][answer.start : answer.end] for answer in example.answers] == ["Jane", "Jane."]


def test_leaves_of_the_treebank(tmp_path: Path) -> None:
    row = {"split": "dev", "sentence": "so good", "label": 4, "token_labels": [2, 3], "tree": "(4 (2 so) (3 good))"}
    write_parquet(tmp_path / "sst5_trees.parquet", [row])
    assert read("sst5", data_dir=tmp_path) == [
        Example("so good", label=4, label_name="very positive", token_labels=(2, 3))
    ]


def test_a_known_set_of_another_shape(tmp_path: Path) -> None:
    write_parquet(tmp_path / "imdb.parquet", [{"split": "test", "review": "a"}])
    assert (
        said(FileError, "imdb", data_dir=tmp_path)[0]
        == "'imdb.parquet' has no column 'text'; its columns: split, review"
    )


# the hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the real loader takes for a repository of the hub."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in KNOWN:
        monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], hub=str(folder)))
    return folder


def test_without_a_folder_a_known_set_comes_from_the_hub(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(hub / "train.parquet", [{"idx": 0, "sentence": "dull ", "label": 0}])
    write_parquet(hub / "validation.parquet", [{"idx": 0, "sentence": "fine ", "label": 1}])
    monkeypatch.setenv("WHENCE_DATA", str(hub))  # which holds no sst2.parquet
    assert read("sst2") == [Example("fine ", label=1, label_name="positive")]
    assert read("sst2", split="train") == [Example("dull ", label=0, label_name="negative")]
    assert said(UnknownNameError, "sst2", split="tests")[1].endswith("known: train, validation")


def test_of_the_newsgroups_on_the_hub_only_the_two_of_sport(hub: Path) -> None:
    groups = ["sci.space", "rec.sport.hockey", "rec.sport.baseball", "rec.sport.hockey"]
    texts = ["moon", "ice", "bat", " \n"]
    rows = [{"text": t, "label": i, "label_text": g} for i, (t, g) in enumerate(zip(texts, groups, strict=True))]
    write_parquet(hub / "test.parquet", rows)
    assert read("20news") == [
        Example("ice", label=1, label_name="hockey"),
        Example("bat", label=0, label_name="baseball"),
    ]


def test_without_a_network_the_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unreachable(name: str) -> None:
        asked.append(name)
        raise ConnectionError("Couldn't reach the Hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    assert said(FileError, "ag_news") == [
        "cannot get 'ag_news' from the hub (fancyzhx/ag_news): Couldn't reach the Hub",
        "put ag_news.parquet into a folder and name it: data_dir= in Python, --data-dir, or WHENCE_DATA",
    ]
    assert asked == ["fancyzhx/ag_news"]


# labels


def labelled(*labels: str | int | None, names: tuple[str, ...] = ()) -> list[Example]:
    return [
        Example("t", label=label, label_name=names[label] if names and isinstance(label, int) else None)
        for label in labels
    ]


@pytest.mark.parametrize(
    ("examples", "model", "expected"),
    [
        (labelled("bad", "Good"), ("good", "BAD"), [1, 0]),
        (labelled(0, 1), ("LABEL_0", "LABEL_1"), [0, 1]),
        (labelled(0, 1, names=("negative", "positive")), ("Negative", "Neutral", "Positive"), [0, 2]),
        (labelled(0, 1, names=("negative", "positive")), ("positive", "negative"), [1, 0]),
        (labelled(0, 1, names=("negative", "positive")), ("LABEL_0", "LABEL_1"), [0, 1]),
        (labelled(1, 5), ("1", "2", "3", "4", "5"), [0, 4]),  # stars: a label of that name goes before the number
        (labelled(1, 0), ("a", "A"), [1, 0]),  # names that differ only in case are no help
        ([], ("a", "b"), []),
    ],
)
def test_gold_labels_in_the_numbering_of_the_model(
    examples: list[Example], model: tuple[str, ...], expected: list[int]
) -> None:
    assert labels_as_ids(examples, ClassLabels(model)) == expected


def test_labels_that_do_not_fit_are_listed_on_both_sides() -> None:
    model = ClassLabels(("negative", "positive"))
    with pytest.raises(UsageError) as caught:
        labels_as_ids(labelled("pos", "neg", "pos"), model)
    assert str(caught.value).splitlines() == [
        "the labels of the examples are not the model's: 'pos' (2), 'neg' (1)",
        "the model's: negative (0), positive (1)",
    ]
    with pytest.raises(UsageError, match=r"not the model's: 0 \(1\), 4 \(1\)"):
        labels_as_ids(labelled(0, 4), model)
    with pytest.raises(UsageError, match=r", \.\.\. \(30 in all\)"):
        labels_as_ids(labelled(*range(30)), model)
    with pytest.raises(UsageError, match="example 2 of 2 has no label"):
        labels_as_ids(labelled(0, None), model)


def test_a_language_model_has_no_classes() -> None:
    class Vocabulary:
        def name(self, index: int) -> str:
            raise NotImplementedError

        def index(self, label: str | int) -> int:
            raise NotImplementedError

    with pytest.raises(UsageError, match="not among classes"):
        labels_as_ids(labelled(0), Vocabulary())


# the command line


def test_the_arguments_of_commands_are_those_of_read(tmp_path: Path) -> None:
    app = typer.Typer()

    @app.command()
    def count(data: DataName, data_dir: DataDir = None, split: Split = None, limit: Limit = None) -> None:
        typer.echo(len(read(data, data_dir=data_dir, split=split, limit=limit)))

    sst2(tmp_path)
    result = CliRunner().invoke(app, ["--data", "sst2", "--data-dir", str(tmp_path), "--split", "dev", "--limit", "3"])
    assert result.output == "1\n"
    assert CliRunner().invoke(app, ["--data", "sst2", "--limit", "0"]).exit_code == 2


# the real sets

DATA = Path(os.environ.get("WHENCE_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.mark.skipif(not (DATA / "sst2.parquet").exists(), reason="no sst2.parquet: set WHENCE_DATA to the data folder")
@pytest.mark.parametrize(
    ("name", "count"),
    [("sst2", 872), ("sst5", 1101), ("ag_news", 7600), ("imdb", 25_000), ("squad", 10_570), ("20news", 387)],
)
def test_the_real_sets(name: str, count: int) -> None:
    examples = read(name, data_dir=DATA)
    assert len(examples) == count
    known: set[str | None] = set(KNOWN[name].labels)
    assert {example.label_name for example in examples} == (known or {None})
    for example in examples:
        assert all((example.pair or "")[answer.start : answer.end] == answer.text for answer in example.answers)
        if example.token_labels is not None:
            assert len(example.token_labels) == len(example.text.split(" "))
