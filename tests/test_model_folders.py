"""Models in folders: what loads, how it is computed, and what is said of one that cannot be loaded."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from complaints import complaint
from tiny_models import SHORT, tiny
from typer.testing import CliRunner

import whence
from whence.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model as `save_pretrained` writes it."""
    tiny_models.build("bert").save_pretrained(tmp_path / "model")
    tiny_models.wordpiece().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_loads(folder: Path) -> None:
    for source in (folder, str(folder)):
        model = whence.load(source)
        assert model.record.id == str(folder)
        found = whence.explain(model, SHORT, "gradient_x_input")
        np.testing.assert_allclose(
            found.scores, whence.explain(tiny("bert"), SHORT, "gradient_x_input").scores, atol=1e-6
        )
        assert [token.text for token in found.tokens] == ["[CLS]", "a", "witty", "film", "[SEP]"]


def test_a_folder_loads_for_another_task(folder: Path) -> None:
    assert whence.load(folder, task="token_classification").record.architecture == "BertForTokenClassification"


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return (Path.touch, (self.file,))


def test_pickled_weights_are_refused_and_never_opened(folder: Path, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Trap(sprung)}))
    problem, advice = complaint(whence.FileError, whence.load, folder)
    assert problem.startswith(f"cannot load {str(folder)!r}: ")
    assert "safetensors" in problem
    assert advice == "give a folder, a hub id, or one of: sentiment, topic"
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists(), "the trap would have been seen"


@pytest.fixture
def with_code(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A folder whose model is its own code, and the file that this code leaves behind when it runs."""
    ran = tmp_path / "ran"
    auto = '"auto_map": {"AutoConfig": "theirs.Config", "AutoModelForSequenceClassification": "theirs.Model"},\n'
    config = (folder / "config.json").read_text()
    assert '"model_type": "bert"' in config
    config = config.replace("{", "{" + auto, 1).replace('"model_type": "bert"', '"model_type": "theirs"')
    (folder / "config.json").write_text(config)
    (folder / "theirs.py").write_text(
        f"""import pathlib
from transformers import BertConfig, BertForSequenceClassification
pathlib.Path({str(ran)!r}).touch()
class Config(BertConfig):
    model_type = "theirs"
class Model(BertForSequenceClassification):
    config_class = Config
"""
    )
    return folder, ran


def test_remote_code_does_not_run(with_code: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where standard input would say yes to transformers' question."""
    folder, ran = with_code
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 5))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    problem, advice = complaint(whence.FileError, whence.load, folder)
    assert problem.startswith(f"cannot load {str(folder)!r}: ")
    assert advice == "if you trust the code that comes with it, say so: trust_remote_code=True, --trust-remote-code"
    assert not ran.exists()


def test_remote_code_runs_if_the_user_says_so(with_code: tuple[Path, Path], tmp_path: Path, monkeypatch: Any) -> None:
    folder, ran = with_code
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    model = whence.load(folder, trust_remote_code=True)
    assert ran.exists()
    assert model.record.architecture == "Model"


@pytest.mark.parametrize(("arguments", "code"), [([], 1), (["--trust-remote-code"], 0)])
def test_the_command_runs_remote_code_only_if_told(
    with_code: tuple[Path, Path], arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ran = with_code
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    command = ["explain", SHORT, "-m", str(folder), "--method", "random", *arguments]
    result = CliRunner().invoke(app, command, input="y\ny\n")
    assert result.exit_code == code, result.output
    assert ran.exists() == bool(arguments)


def test_a_gguf_file_reaches_config_model_and_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads the file is transformers' affair: here it is only seen that all three are told of it."""
    asked = {}

    def answering(name: str, answer: Any) -> Any:
        def from_pretrained(source: str, **options: Any) -> Any:
            asked[name] = (source, options.get("gguf_file"))
            return answer

        return from_pretrained

    model = tiny_models.build("llama", "causal_lm")
    model.config.architectures = None  # as GGUF files leave it
    for name, answer in {
        "AutoConfig": model.config,
        "AutoModelForCausalLM": (model, {"missing_keys": []}),
        "AutoTokenizer": tiny_models.metaspace(),
    }.items():
        monkeypatch.setattr(f"transformers.{name}.from_pretrained", answering(name, answer))
    (tmp_path / "small.gguf").touch()
    ways: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path, {}), (tmp_path, {"gguf_file": "small.gguf"}), (tmp_path / "small.gguf", {}),
    ]  # fmt: skip
    for source, options in ways:
        asked.clear()
        assert whence.load(source, **options).record.task == "causal_lm"
        assert asked == dict.fromkeys(
            ["AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"], (str(tmp_path), "small.gguf")
        )


def test_which_of_two_gguf_files(tmp_path: Path) -> None:
    for name in ("large.gguf", "small.gguf"):
        (tmp_path / name).touch()
    problem, advice = complaint(whence.FileError, whence.load, tmp_path)
    assert problem == f"{str(tmp_path)!r} holds 2 GGUF files"
    assert advice == "say which: whence.load(..., gguf_file='large.gguf')"


@pytest.mark.parametrize(
    ("stored", "options", "computed"),
    [
        (torch.float16, {}, torch.float32),
        (torch.float16, {"dtype": torch.float16}, torch.float16),
        (torch.float16, {"dtype": "auto"}, torch.float16),
        (torch.bfloat16, {}, torch.bfloat16),
    ],
    ids=str,
)
def test_a_folder_in_half_precision(
    folder: Path, stored: torch.dtype, options: dict[str, Any], computed: torch.dtype
) -> None:
    """On a CPU float16 is many times slower than float32, bfloat16 is not."""
    module = tiny_models.build("bert").to(stored)
    module.save_pretrained(folder)
    model = whence.load(folder, **options)
    assert {weight.dtype for weight in model.module.parameters()} == {computed}
    for name, weight in model.module.named_parameters():
        assert torch.equal(weight, module.get_parameter(name).to(computed)), "the numbers are those of the folder"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    problem, advice = complaint(whence.FileError, whence.load, tmp_path / "nowhere")
    assert problem == f"no model folder {str(tmp_path / 'nowhere')!r}"
    assert advice == "give a folder with config.json and model.safetensors"


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    problem, advice = complaint(whence.FileError, whence.load, tmp_path)
    assert problem == f"{str(tmp_path)!r} holds no config.json"
    assert advice == "give a folder that save_pretrained wrote"


def test_a_file_is_no_folder(folder: Path) -> None:
    problem, _ = complaint(whence.FileError, whence.load, folder / "model.safetensors")
    assert problem == f"no model folder {str(folder / 'model.safetensors')!r}"


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model"])
def test_a_name_that_nothing_has(name: str) -> None:
    problem, advice = complaint(whence.FileError, whence.load, name)
    assert problem.startswith(f"cannot load {name!r}: ")
    assert advice == "give a folder, a hub id, or one of: sentiment, topic"


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"not what it should be", b"\x00\xff" * 50], ids=["empty", "text", "bytes"])
def test_a_broken_file(folder: Path, broken: str, content: bytes) -> None:
    (folder / broken).write_bytes(content)
    problem, advice = complaint(whence.FileError, whence.load, folder)
    assert problem.startswith(f"cannot load {str(folder)!r}: ")
    assert advice == "give a folder, a hub id, or one of: sentiment, topic"


def test_missing_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    problem, _ = complaint(whence.FileError, whence.load, folder)
    assert problem.startswith(f"cannot load {str(folder)!r}: ")
    assert "model.safetensors" in problem


def test_a_missing_tokenizer(folder: Path) -> None:
    """Of nothing transformers makes a tokenizer that knows no word, without a word."""
    for file in folder.glob("tokenizer*"):
        file.unlink()
    problem, advice = complaint(whence.FileError, whence.load, folder)
    assert problem == f"{str(folder)!r} holds no tokenizer"
    assert advice == "save it there too: tokenizer.save_pretrained(folder)"


def test_weights_of_another_size(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 300}))
    problem, _ = complaint(whence.FileError, whence.load, folder)
    assert problem.startswith(f"cannot load {str(folder)!r}: ")


def test_a_config_that_does_not_tell_the_task(folder: Path) -> None:
    tiny_models.build("bert").base_model.save_pretrained(folder)
    problem, advice = complaint(whence.UsageError, whence.load, folder)
    assert problem == f"{str(folder)!r} does not say what it is for (architectures: BertModel)"
    assert advice.startswith("say task= one of: classification, ")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1", b'{"schema": 99}', b"\xff\xfe"], ids=repr)
def test_a_file_that_holds_no_explanation(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "explanation.json"
    file.write_bytes(content)
    with pytest.raises(whence.FileError) as caught:
        whence.Explanation.load(file)
    assert str(caught.value).splitlines()[0]


def test_an_explanation_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(whence.FileError, match=r"nothing\.json"):
        whence.Explanation.load(tmp_path / "nothing.json")


def test_a_head_that_was_never_trained_is_refused(tmp_path: Path) -> None:
    tiny_models.build("bert", "masked_lm").save_pretrained(tmp_path)
    tiny_models.wordpiece().save_pretrained(tmp_path)
    assert whence.load(tmp_path).record.task == "masked_lm"
    problem, advice = complaint(whence.ModelError, whence.load, tmp_path, task="classification")
    assert "holds no weights for" in problem
    assert "classifier" in problem
    assert advice.startswith("its classification head would be random")
    assert "task='similarity'" in advice


@pytest.mark.parametrize("setting", [{"task": "masked_lm"}, {"revision": "main"}, {"dtype": "bfloat16"}])
def test_an_embedded_model_comes_as_it_is(setting: dict[str, str]) -> None:
    problem, advice = complaint(whence.UsageError, whence.load, "sentiment", **setting)
    assert problem == "'sentiment' is embedded and comes as it is"
    assert advice == "leave out task, revision and other options"
