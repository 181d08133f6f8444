"""What the documentation shows is run: Python blocks, shell commands, notebooks, and the doctests of the package; and
its links lead somewhere.
"""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import served
import tiny_models
import typer
from torch import nn
from typer.testing import CliRunner

import whence
from whence.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SNIPPETS = re.findall(r"^```python[^\n]*\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
RECIPES = dict(re.findall(r"^## (A new .*?)\n.*?```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^\.venv/bin/whence (.*)$", README, flags=re.MULTILINE)
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SHOWN = "".join(code for language, code in FENCED.findall(README) if not language)
ON_YOUR_OWN = [shlex.split(each, comments=True) for each in re.findall(r"^whence (.*)$", SHOWN, flags=re.MULTILINE)]
DOCS = ROOT / "docs"
TITLE_PAGES = ("index", "metrics", "responses", "encoder_decoders")
MADE_BY_HAND = [*(DOCS / f"{name}.md" for name in TITLE_PAGES), *sorted((DOCS / "guides").glob("*.md"))]
MODULES = [module.name for module in pkgutil.walk_packages(whence.__path__, "whence.")]


def test_python_in_the_readme_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From top to bottom; the models of one's own that the second block speaks of are small ones."""
    first, second = SNIPPETS
    names: dict[str, Any] = {}
    exec(compile(first, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith(("positive", "negative"))
    monkeypatch.chdir(tmp_path)
    module, tokenizer = tiny_models.build("bert"), tiny_models.tokenizer_of("bert")
    for part in (module, tokenizer):
        part.save_pretrained("my-model-folder")
    plain = tiny_models.build_plain("mlp")
    plain.head = nn.Linear(16, 2)  # no, yes
    vocabulary = tiny_models.word_tokenizer().vocabulary
    names |= {"hf_model": module, "tokenizer": tokenizer, "module": plain, "vocabulary": vocabulary}
    exec(compile(second, "README.md", "exec"), names)
    assert names["model"].n_layers == 2


@pytest.mark.parametrize("recipe", ["A new method", "A new metric", "A new task", "A new model family"])
def test_recipes_for_contributors_run(recipe: str) -> None:
    exec(compile(RECIPES[recipe], "CONTRIBUTING.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_the_readme_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.output.strip()


@pytest.mark.parametrize("command", ON_YOUR_OWN, ids=" ".join)
def test_commands_on_your_own_model_are_understood(command: list[str]) -> None:
    """Those of README that want a model and files of one's own: each option is there, and takes such a value."""
    understand(command)


def understand(command: list[str]) -> None:
    group = typer.main.get_command(app)
    with group.make_context("whence", command[:1]) as context:
        found = group.commands[command[0]]  # type: ignore[attr-defined]
        found.make_context(command[0], command[1:], parent=context)


def test_the_commands_of_the_readme_are_all_tried() -> None:
    shown = [line for line in SHOWN.splitlines() if not line.startswith("make ")]
    assert len(shown) == len(COMMANDS) + len(ON_YOUR_OWN) > 15


LANGUAGE_MODEL = Path("examples/tiny-language-model")
TRANSLATOR = Path("google-t5/t5-small")


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page: in which language, and what."""
    yield from FENCED.findall(page)


@pytest.mark.parametrize("page", MADE_BY_HAND, ids=lambda page: page.stem)
def test_every_snippet_of_the_manual_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in one folder and under one set of names, as a reader would."""
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / LANGUAGE_MODEL, tmp_path / LANGUAGE_MODEL, dirs_exist_ok=True)
    if TRANSLATOR.as_posix() in text:  # a folder goes before the hub: a small one of the same family
        tiny_models.build_writer("t5").save_pretrained(TRANSLATOR)
        tiny_models.sentences().save_pretrained(TRANSLATOR)
    names: dict[str, object] = {"__name__": "__main__"}
    for language, code in blocks(text):
        assert language in ("python", "sh", "text"), f"nobody knows how to run {language!r}"
        if language == "python":
            exec(compile(code, page.name, "exec"), names)
        for line in code.splitlines() if language == "sh" else ():
            program, _, command = line.partition(" ")
            assert program == "whence", line
            result = CliRunner().invoke(app, shlex.split(command))
            assert result.exit_code == 0, f"{line}\n{result.output}"


def test_what_the_manual_shows_of_a_server_is_tried(tmp_path: Path) -> None:
    """Blocks of text are commands of the guide on the live page: options are there, and a request is answered."""
    texts = [
        (page.stem, code) for page in MADE_BY_HAND for language, code in blocks(page.read_text()) if language == "text"
    ]
    lines = [line for _, code in texts for line in code.replace("\\\n", " ").splitlines()]
    assert {page for page, _ in texts} == {"live"}
    assert {line.split()[0] for line in lines} == {"pip", "whence", "curl"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for program, *given in (shlex.split(line, comments=True) for line in lines):
        if program == "pip":
            asked = re.fullmatch(r"whence\[(\w+)\]", given[-1])
            assert asked is not None
            assert asked[1] in extras
        elif program == "whence":
            understand(given)
        else:
            address = next(each for each in given if each.startswith("localhost:8765/"))
            body = json.loads(given[given.index("-d") + 1])
            with served.running({"sentiment": whence.load}) as server:
                answer = server.post(address.removeprefix("localhost:8765"), **body)
            assert answer.status == 200, answer.body
            (tmp_path / "answer.json").write_bytes(answer.body)
            found = whence.Explanation.load(tmp_path / "answer.json")
            assert (found.text, found.method) == (body["text"], body["method"])


def test_no_page_shows_what_is_not_run() -> None:
    shown = {
        path
        for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
        if any(language.startswith("python") or language == "sh" for language, _ in blocks(path.read_text("utf-8")))
    }
    elsewhere = {DOCS / "attention.md", ROOT / "README.md", ROOT / "CONTRIBUTING.md"}  # the first by its own test
    assert shown <= {*MADE_BY_HAND, *elsewhere}


def test_the_manual_shows_something() -> None:
    found = [language for page in MADE_BY_HAND for language, _ in blocks(page.read_text(encoding="utf-8"))]
    assert found.count("python") > 30
    assert found.count("sh") >= 12


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    """Links of a markdown file to files, or parts of files, that are not there."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        headings = (
            re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            if file.suffix == ".md" and file.is_file()
            else []
        )
        if not file.exists() or (anchor and anchor not in map(slug, headings)):
            found.append(target)
    return found


@pytest.mark.parametrize(
    "page",
    [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not any(part.startswith(".") or part == "build" for part in path.relative_to(ROOT).parts)
    ],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_link_test_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One thing\n[b](b.md) [gone](c.md) [part](#one-thing) [no part](b.md#two)\n")
    (tmp_path / "b.md").write_text("# Two things\n")
    assert broken_links(tmp_path / "a.md") == ["c.md", "b.md#two"]


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_BYTES = 150_000  # of a notebook: GitHub shows larger ones badly


def outputs(notebook: Any) -> list[tuple[str, str]]:
    """What the cells of a notebook gave: the kind of each output, and the words in it (no numbers)."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            kind = "image" if "image/png" in output.get("data", {}) else output["output_type"]
            found.append((kind, " ".join(re.findall(r"[^\W\d]{2,}", "".join(text)))))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_is_stored_with_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fresh kernel, from top to bottom; numbers may differ from machine to machine, words may not."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    from run_notebooks import executed

    stored = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < MOST_BYTES
    assert all(cell["execution_count"] for cell in stored["cells"] if cell["cell_type"] == "code")
    shutil.copytree(ROOT / LANGUAGE_MODEL, tmp_path / LANGUAGE_MODEL.name)
    assert outputs(executed(path, tmp_path)) == outputs(stored)


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["believe", "classifier", "language_model"]


def test_the_reference_knows_every_public_name() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    told = set(re.findall(r"^::: (whence[\w.]*)", pages, flags=re.MULTILINE))
    assert {f"whence.{name}" for name in whence.__all__} <= told


def test_the_readme_shows_something() -> None:
    assert SNIPPETS
    assert len(COMMANDS) >= 4


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not results.failed


def test_some_doctests_exist() -> None:
    finder = doctest.DocTestFinder()
    found = sum(bool(test.examples) for module in MODULES for test in finder.find(importlib.import_module(module)))
    assert found >= 5
