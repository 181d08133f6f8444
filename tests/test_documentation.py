"""What the documentation shows is run: Python blocks, shell commands, and the doctests of the package."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import whence
from whence.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
RECIPES = dict(re.findall(r"^## (A new .*?)\n.*?```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^\.venv/bin/whence (.*)$", README, flags=re.MULTILINE)
MODULES = [module.name for module in pkgutil.walk_packages(whence.__path__, "whence.")]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_python_in_the_readme_runs(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith(("positive", "negative"))


@pytest.mark.parametrize("recipe", ["A new method", "A new metric", "A new task", "A new model family"])
def test_recipes_for_contributors_run(recipe: str) -> None:
    exec(compile(RECIPES[recipe], "CONTRIBUTING.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_in_the_readme_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.output.strip()


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
