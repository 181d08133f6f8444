"""The command: what it prints where, its exit codes, and what it says when things go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
from typer.testing import CliRunner, Result

import whence
from whence.cli import app
from whence.cli.arguments import parse_options, parse_value
from whence.errors import UsageError
from whence.explanation import Explanation
from whence.methods import METHODS
from whence.methods.presets import PRESETS

pytestmark = pytest.mark.usefixtures("quiet_only_here")
LINE = "a good film"
HOSTILE = (
    "a 👩‍👩‍👧‍👦 e\u0301 שלום مرحبا <script>alert(1)</script> [/red] [bold]good[/bold] "
    "\x1b[31mred\0 \u202efilm\u202c \u200b :smile: $x$"
)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A two-block BERT with random weights and a WordPiece tokenizer, saved as any user's model would be."""
    folder = tmp_path_factory.mktemp("tiny")
    words = ["a", "good", "bad", "film", "un", "##happy", ".", ",", "-", "[", "]", "<", ">", "/", "red", "$", ":"]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, id2label={0: "bad", 1: "good", 2: "7"}, label2id={"bad": 0, "good": 1, "7": 2},
        initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def tagger_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tagger with random weights."""
    folder = tmp_path_factory.mktemp("tagger")
    tiny_models.build("bert", "token_classification").save_pretrained(folder)
    tiny_models.wordpiece().save_pretrained(folder)
    return str(folder)


def run(*arguments: str, standard_input: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=standard_input, prog_name="whence")


def done(*arguments: str, standard_input: str | bytes | None = None) -> Result:
    result = run(*arguments, standard_input=standard_input)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def failed(code: int, *arguments: str, standard_input: str | bytes | None = None) -> list[str]:
    """The lines on standard error of a command that must fail; nothing is on standard output, no traceback anywhere."""
    result = run(*arguments, standard_input=standard_input)
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return list(result.stderr.splitlines())


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


# explain


def test_a_text_is_explained_on_the_terminal(tiny_folder: str) -> None:
    result = done("explain", "an unhappy film", "--model", tiny_folder, "--method", "gradient_x_input")
    assert "gradient_x_input" in result.stdout
    assert "  unhappy " in result.stdout
    assert "layer" in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout  # no colour where nobody looks


def test_tokens_in_place_of_words(tiny_folder: str) -> None:
    command = ["explain", "an unhappy film", "--model", tiny_folder, "--method", "random"]
    assert "…happy" in done(*command, "--tokens").stdout
    assert "…happy" not in done(*command, "--words").stdout


def test_json_is_the_explanation_and_nothing_else(tiny_folder: str) -> None:
    command = ["explain", HOSTILE, LINE, "--model", tiny_folder, "--method", "leave_one_out", "--seed", "3", "--json"]
    result = done(*command)
    assert result.stdout.isascii()
    assert not set(map(chr, range(32))) - {"\n"} & set(result.stdout)
    found = [Explanation.from_dict(data) for data in objects(result)]
    expected = whence.explain(whence.load(tiny_folder), [HOSTILE, LINE], method="leave_one_out", seed=3)
    assert [each.text for each in found] == [HOSTILE, LINE]
    for one, other in zip(found, expected, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)
        assert (one.tokens, one.options, one.seed, one.model) == (other.tokens, other.options, 3, other.model)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("all", (0, 1, 2)),
        ("embeddings", ("embeddings",)),
        ("1,2", (1, 2)),
        ("embeddings, -1", ("embeddings", 2)),
        ("-1", (2,)),
    ],
)
def test_layers(tiny_folder: str, layers: str, expected: tuple[Any, ...]) -> None:
    result = done("explain", LINE, "--model", tiny_folder, "--method", "gradient", "--layers", layers, "--json")
    assert tuple(objects(result)[0]["layers"]) == expected


@pytest.mark.parametrize(
    ("arguments", "description"),
    [
        (["--target", "bad"], "bad"),
        (["--target", "1"], "good"),  # by number
        (["--target", "7"], "7"),  # a label of that name goes before the number
        (["--target", "bad", "--against", "good"], "bad rather than good"),
        (["--target", "predicted", "--against", "0"], "rather than bad"),
    ],
)
def test_targets(tiny_folder: str, arguments: list[str], description: str) -> None:
    result = done("explain", LINE, "--model", tiny_folder, "--method", "random", "--json", *arguments)
    assert description in objects(result)[0]["target"]["description"]


def test_the_tag_of_every_word(tagger_folder: str, tmp_path: Path) -> None:
    command = ["explain", "a good film, bad", "--model", tagger_folder, "--method", "gradient_x_input"]
    words = ["a", "good", "film", ",", "bad"]
    found = objects(done(*command, "--each-word", "--json"))
    assert [f"({word})" in each["target"]["description"] for word, each in zip(words, found, strict=True)] == [True] * 5
    page = tmp_path / "tags.html"
    shown = done(*command, "--each-word", "--html", str(page)).stdout
    assert "predicted" not in shown, "what the model says of some other word is beside the point"
    assert page.read_text(encoding="utf-8").count("whence.page") >= 1
    assert failed(2, *command, "--each-word", "--at", "2")[0] == "error: --each-word explains every word"


def test_tags_are_those_of_taggers(tiny_folder: str) -> None:
    problem = "error: --each-word is for taggers, and this model is for classification"
    assert failed(2, "explain", LINE, "--model", tiny_folder, "--each-word")[0] == problem


def test_options_that_were_left_open_say_nothing(tiny_folder: str) -> None:
    shown = done("explain", LINE, "--model", tiny_folder, "--method", "leave_one_out").stdout
    assert "None" not in shown
    assert "baseline=" in shown


def test_scale_pair_and_options_reach_the_method(tiny_folder: str) -> None:
    result = done(
        "explain", LINE, "--pair", "bad", "--model", tiny_folder, "--method", "integrated_gradients", "--json",
        "--scale", "probability", "-o", "steps=4", "--option", "baseline=pad", "--batch-tokens", "40",
    )  # fmt: skip
    (data,) = objects(result)
    assert data["pair"] == "bad"
    assert data["target"]["scale"] == "probability"
    assert data["options"]["steps"] == 4
    assert data["options"]["baseline"] == "pad"


def test_standard_input_is_a_text_a_line(tiny_folder: str) -> None:
    result = done(
        "explain", "-", "--model", tiny_folder, "--method", "random", "--json",
        standard_input="a good film\r\n\n  \nbad\u2028film\nunhappy".encode(),
    )  # fmt: skip
    assert [data["text"] for data in objects(result)] == ["a good film", "bad\u2028film", "unhappy"]
    assert result.stderr == "note: 2 blank lines of standard input passed over\n"


def test_texts_that_begin_with_a_dash(tiny_folder: str) -> None:
    result = done("explain", "--model", tiny_folder, "--method", "random", "--json", "--", "--good film", "- bad")
    assert [data["text"] for data in objects(result)] == ["--good film", "- bad"]


@pytest.mark.parametrize("command", [["explain", "--method", "random"], ["compare", "--methods", "random,gradient"]])
def test_hostile_text_does_nothing_on_the_terminal(tiny_folder: str, command: Sequence[str]) -> None:
    result = done(*command, HOSTILE, "--model", tiny_folder)
    assert "[/red]" in result.stdout
    assert "[bold]good[/bold]" in result.stdout
    assert "␛[31mred␀" in result.stdout
    assert ":smile:" in result.stdout
    assert not {"\x1b", "\0", "\u202e", "\u202c", "\u200b"} & set(result.stdout)


def test_save_writes_what_load_reads(tiny_folder: str, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    result = done("explain", LINE, "--model", tiny_folder, "--method", "random", "--save", str(path), "--json")
    assert Explanation.load(path) == Explanation.from_dict(objects(result)[0])


def test_ten_thousand_words_are_cut_loudly(tiny_folder: str) -> None:
    text = " ".join(["good"] * 10_000)
    command = ["explain", text, "--model", tiny_folder, "--method", "random"]
    result = done(*command)
    assert "read this first" in result.stdout
    assert "truncated" in result.stdout
    assert "not shown" in result.stdout
    assert len(result.stdout.splitlines()) < 100
    result = done(*command, "--json")
    assert result.stderr.startswith("warning: random, 'good good")
    assert "truncated" in result.stderr
    (data,) = objects(result)
    assert len(data["warnings"]) == 1


def test_all_tokens_leaves_nothing_out(tiny_folder: str) -> None:
    command = ["explain", " ".join(["good film"] * 30), "--model", tiny_folder, "--method", "random"]
    assert "22 of 62 lines are not shown" in done(*command).stdout
    assert "not shown" not in done(*command, "--all-tokens").stdout


# compare and methods


def test_the_name_of_a_file_is_noted(tiny_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.txt").write_text(LINE)
    (tmp_path / "films.csv").write_text(f"text\n{LINE}\n")
    (tmp_path / "good.py").touch()
    given = ["explain", "films.txt", "films.csv", "no.csv", "good.py", "good", "-m", tiny_folder, "--json"]
    result = run(*given, "--method", "random")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == given[1:6]
    assert result.stderr.splitlines() == [
        "note: 'films.txt' is explained as a text, though there is a file of this name",
        "      to explain its lines: whence explain - < films.txt",
        "note: 'films.csv' is explained as a text, though there is a file of this name",
        "      to explain the texts in it: whence explain --data films.csv",
    ]


def test_an_old_option_works_and_says_its_new_name(tiny_folder: str) -> None:
    old = run("lens", LINE, "-m", "sentiment", "--decoder", "sentiment", "--json")
    new = run("lens", LINE, "-m", "sentiment", "--head", "sentiment", "--json")
    assert old.exit_code == new.exit_code
    assert old.stdout == new.stdout
    assert "note: --decoder is now called --head" in old.stderr
    assert "is now called" not in new.stderr
    assert "--decoder" not in run("lens", "--help").stdout
    assert "--head" in run("lens", "--help").stdout


def test_methods_are_compared(tiny_folder: str) -> None:
    command = ["compare", "an unhappy film", "--model", tiny_folder, "--methods", "gradient_x_input, lime,random"]
    result = done(*command, "-o", "samples=20")
    assert "1 gradient_x_input" in result.stdout
    assert "Kendall's τ-b" in result.stdout
    found = objects(done(*command, "--json", "--option", "samples=20", "--target", "bad"))
    assert [data["method"] for data in found] == ["gradient_x_input", "lime", "random"]
    assert found[1]["options"]["samples"] == 20  # and the others have no such option
    assert all(data["target"]["description"] == "bad" for data in found)


def test_comparing_needs_one_text_and_known_options(tiny_folder: str) -> None:
    several = failed(2, "compare", "-", "--model", tiny_folder, "--methods", "random", standard_input="a\nb\n")
    assert several[0] == "error: one text is compared at a time, but there are 2"
    unknown = failed(2, "compare", LINE, "--model", tiny_folder, "--methods", "random,lime", "-o", "smaples=3")
    assert unknown[0] == "error: unknown option of random, lime 'smaples'"
    assert "did you mean 'samples'?" in unknown[1]


def test_methods_are_listed() -> None:
    result = done("methods")
    assert all(f"  {name}" in result.stdout for name in [*METHODS, *PRESETS])
    listed = objects(done("methods", "--json"))
    assert [data["name"] for data in listed] == [*METHODS, *PRESETS]
    by_name = {data["name"]: data for data in listed}
    lime = by_name["lime"]
    assert (lime["kind"], lime["needs"], lime["options"]["samples"]) == ("method", "a baseline", 200)
    assert lime["meaning"]["signed"] is True
    assert by_name["thermostat_lime"]["method"] == "lime"


# what goes wrong


def test_wrong_use_is_two(tiny_folder: str, tmp_path: Path) -> None:
    model = ["--model", tiny_folder]
    assert failed(2, "explain", LINE, *model, "--method", "nope")[0] == "error: unknown method 'nope'"
    assert "did you mean 'occlusion'" in failed(2, "explain", LINE, *model, "--method", "oclusion")[1]
    assert failed(2, "explain", LINE, *model, "--target", "nope")[1] == "known: bad (0), good (1), 7 (2)"
    assert failed(2, "explain", LINE, *model, "--layers", "3")[0] == "error: unknown layer 3"
    assert failed(2, "explain", LINE, *model, "-o", "nope=1")[0].startswith("error: unknown option of")
    assert failed(2, "explain", LINE, *model, "-o", "nope")[1] == "write NAME=VALUE, as in --option steps=50"
    assert failed(2, "explain", LINE, *model, "-o", "steps=none")[0].startswith("error: steps must be a number")
    assert failed(2, "explain", LINE, *model, "--scale", "miles")[0] == "error: unknown scale 'miles'"
    assert failed(2, "explain", LINE, *model, "--task", "nope")[0] == "error: unknown task 'nope'"
    assert failed(2, "explain", LINE, *model, "--span", "3")[0] == "error: '3' is not a span"
    assert "a span is a target of question answering" in failed(2, "explain", LINE, *model, "--span", "0:3")[0]
    assert failed(2, "explain", LINE, *model, "--span", "0:3", "--at", "1")[0] == "error: --span is a target of its own"
    assert failed(2, "explain", LINE, *model, "--seed", "-1")[0].startswith("error: seed must be")
    assert failed(2, "explain", "  ", *model)[0].startswith("error: text 0 is empty")
    assert failed(2, "explain", "-", *model, standard_input="\n")[-2] == "error: there is no text to explain"
    assert failed(2, "explain", "-", *model, standard_input=b"good \xff film")[0].startswith("error: standard input is")
    assert failed(2, "explain", "good \udcff film", *model)[0] == "error: a text is not valid Unicode"
    saved = failed(2, "explain", LINE, LINE, *model, "--save", str(tmp_path / "e.json"))
    assert saved[0] == "error: --save holds one explanation, but there are 2 texts"
    assert "no such option" in failed(2, "explain", LINE, "--nope")[0]
    assert failed(2, "explain")[0] == "error: there is no text to explain"
    assert failed(2, "nope")


def test_a_model_or_file_that_cannot_be_used_is_one(tiny_folder: str, tmp_path: Path) -> None:
    assert failed(1, "explain", LINE, "--model", str(tmp_path / "none"))[0].startswith("error: no model folder")
    assert "config.json" in failed(1, "explain", LINE, "--model", str(tmp_path))[0]
    model = ["--model", tiny_folder, "--method", "random"]
    assert failed(1, "explain", LINE, *model, "--save", str(tmp_path / "none" / "e.json"))[0].startswith(
        "error: cannot"
    )
    assert failed(1, "explain", LINE, *model, "--save", str(tmp_path))[0].startswith("error: cannot write")


def test_an_error_names_hostile_text_harmlessly(tiny_folder: str) -> None:
    lines = failed(2, "explain", LINE, "--model", tiny_folder, "--target", "\x1b[31m\0\u202e[/red]")
    assert lines[0].startswith("error: unknown label")
    assert "[/red]" in lines[0]
    assert not {"\x1b", "\0", "\u202e"} & set("".join(lines))


def test_what_was_not_foreseen_is_told_without_a_traceback(tiny_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("whence.models.loading.load", crash)
    lines = failed(1, "explain", LINE, "--model", tiny_folder)
    assert lines == [
        "error: RuntimeError: the disk↵is on fire",
        "this was not foreseen: --debug shows where it happened",
    ]
    assert isinstance(run("explain", LINE, "--model", tiny_folder, "--debug").exception, RuntimeError)


def test_debug_raises_our_own_errors_too(tiny_folder: str) -> None:
    result = run("explain", LINE, "--model", tiny_folder, "--target", "nope", "--debug")
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", 50), ("-3", -3), ("0.25", 0.25), ("1e-3", 0.001), ("true", True), ("False", False), ("none", None),
        ("mask", "mask"), ("0,pad", [0, "pad"]), ("1,2,", [1, 2]), ("", ""), ("a=b", "a=b"), ("[bold]", "[bold]"),
    ],
)  # fmt: skip
def test_option_values(text: str, value: Any) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)
    assert parse_options([f"name={text}"]) == {"name": value}


@pytest.mark.parametrize("option", ["name", "=3", "a b=3", "--x=1", ""])
def test_what_is_no_option(option: str) -> None:
    with pytest.raises(UsageError, match="is not an option"):
        parse_options([option])


# the process itself

# The commands alone, as if the package around them loaded nothing.
LIGHT = """
import sys, types, importlib.util
package = types.ModuleType("whence")
package.__path__ = list(importlib.util.find_spec("whence").submodule_search_locations)
sys.modules["whence"] = package
from whence.cli import main
sys.argv = ["whence", *sys.argv[1:]]
try:
    main()
finally:
    heavy = {"torch", "transformers", "numpy", "matplotlib", "pandas", "captum"} & set(sys.modules)
    print("loaded:", *sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize(("option", "said"), [("--version", "whence "), ("--help", "explain")])
def test_help_and_version_load_nothing_heavy(option: str, said: str) -> None:
    result = subprocess.run([sys.executable, "-c", LIGHT, option], capture_output=True, text=True, check=True)
    assert said in result.stdout
    assert result.stderr == "loaded:\n"


def test_help_lists_the_commands_from_first_need_to_last() -> None:
    listed = [line.split()[0] for line in done("--help").stdout.split("Commands:\n")[1].splitlines()]
    assert listed[:2] == ["explain", "compare"]


def test_a_closed_pipe_is_no_traceback(tiny_folder: str) -> None:
    texts = "a good film\n" * 400
    command = [sys.executable, "-c", "from whence.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "explain", "-", "--model", tiny_folder, "--method", "random", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(texts)
    process.stdin.close()
    first = process.stdout.readline()
    process.stdout.close()  # as `| head -1` does
    assert json.loads(first)["text"] == "a good film"
    assert process.stderr.read() == ""  # neither a traceback nor the libraries' own progress bars
    assert process.wait(timeout=60) in (0, 1)
