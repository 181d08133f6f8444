"""The commands as a family: one style of errors, what a shell completes, and `whence metrics`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import shellingham
from test_cli import done, failed, objects
from typer.testing import CliRunner

from whence.cli import app
from whence.methods import METHODS
from whence.methods.presets import PRESETS
from whence.metrics.table import GROUPS, METRICS

pytestmark = pytest.mark.usefixtures("quiet_only_here")

NAMES = [command.callback.__name__ for command in app.registered_commands if command.callback]

WRONG = {
    "no such option": (["explain", "a film", "--colour"], "no such option: --colour"),
    "no such command": (["explian", "a film"], "no such command 'explian'"),
    "nothing given": (["compare"], "missing argument 'TEXT'"),
    "option missing": (["compare", "a film"], "missing option '--methods'"),
    "two missing": (["evaluate", "--data", "x.csv"], "missing option '--out'"),
    "no number": (["explain", "a film", "--seed", "many"], "invalid value for '--seed'"),
    "out of range": (["audit", "a film", "--limit", "0"], "invalid value for '--limit'"),
    "too many": (["lens", "a film", "another"], "got unexpected extra argument"),
    "option without value": (["cite", "--question"], "option '--question' requires an argument"),
    "unknown method": (["explain", "a film", "--method", "shaply"], "unknown method 'shaply'"),
    "unknown metric": (["evaluate", "--data", "x.csv", "--out", "o", "--metrics", "beauty"], "unknown metric 'beauty'"),
    "unknown model": (["lens", "a film", "--model", "./nowhere"], "no"),
    "unknown budget": (["evaluate", "--data", "x", "--out", "o", "--budget", "big"], "unknown budget 'big'"),
    "no page there": (["lens", "a film", "--html", "/nowhere/page.html"], "there is no folder '/nowhere' for the page"),
    "a folder": (["audit", "a film", "--html", "/tmp"], "'/tmp' is a folder"),
    "no data": (["run", "--data", "nothing.csv", "--out", "o"], "no"),
    "no corpus": (["table", "nowhere"], "no"),
    "no corpus to look over": (["overview", "nowhere", "--html", "page.html"], "no"),
    "no recipe": (["fit", "--data", "x.csv", "--out", "o", "--recipe", "salty"], "unknown recipe 'salty'"),
    "no decoder": (["cite", "--question", "why?", "--documents", "x.txt"], "no model is named"),
}


@pytest.mark.parametrize(("arguments", "problem"), WRONG.values(), ids=WRONG)
def test_every_error_says_what_is_wrong_and_then_what_to_do(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments, prog_name="whence")
    lines = result.stderr.splitlines()
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert lines[0].startswith(f"error: {problem}"), lines
    assert not lines[0].endswith(".")
    assert len(lines) >= 2, "the next line says what to do"
    assert "Usage:" not in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_use_has_code_2_and_names_the_command_that_helps() -> None:
    assert failed(2, "explain", "a film", "--colour")[1] == "whence explain --help tells what it takes"
    assert failed(2, "explian")[1] == "whence --help tells what it takes"


def test_no_command_shows_the_help() -> None:
    result = CliRunner().invoke(app, [], prog_name="whence")
    assert result.exit_code == 2
    assert "Usage: whence" in result.output
    assert all(name in result.output for name in NAMES)


# completion


def completed(line: str, shell: str = "bash") -> list[str]:
    """What a shell is told may come at the end of a line."""
    words = line.split(" ")
    environment = {
        "_WHENCE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    result = CliRunner().invoke(app, [], prog_name="whence", env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_commands_options_and_names_are_completed() -> None:
    assert completed("whence me") == ["methods", "metrics"]
    assert completed("whence explain --meth") == ["--method"]
    assert set(completed("whence explain --method ")) == {*METHODS, *PRESETS}
    assert completed("whence explain --method gradient_x") == ["gradient_x_input"]
    assert completed("whence compare x --methods lime,gradient_x") == ["lime,gradient_x_input"]
    assert set(completed("whence evaluate --metrics ")) == {*METRICS, *GROUPS}
    assert completed("whence explain --units s") == ["sentence"]
    assert completed("whence explain --scale p") == ["probability"]
    assert completed("whence lens --model t") == ["topic"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_too(shell: str) -> None:
    assert "gradient_x_input" in " ".join(completed("whence explain --method gradient_x", shell))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_the_shell_it_is_called_from_is_printed(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/bin/{shell}"))
    script = done("--show-completion").stdout
    assert "_WHENCE_COMPLETE" in script
    assert f"complete_{shell}" in script


# metrics


def test_every_metric_is_listed_under_its_group() -> None:
    shown = done("metrics").stdout
    lines = [line.strip() for line in shown.splitlines()]
    for name, metric in METRICS.items():
        arrow = {"higher": "↑", "lower": "↓", None: "·"}[metric.better]
        assert any(line.startswith(f"{name} {arrow} ") for line in lines), name
    groups = {metric.group for metric in METRICS.values()}
    assert all(any(line.startswith(f"{group}   ") for line in lines) for group in groups)
    assert max(map(len, shown.splitlines())) <= 80
    assert "faithfulness ranks the methods" in " ".join(lines)


def test_metrics_as_json() -> None:
    found = objects(done("metrics", "--json"))
    assert [each["name"] for each in found] == list(METRICS)
    assert json.loads(json.dumps(found[0]))["better"] == "higher"
    assert found[0]["sentence"] == METRICS["faithfulness"].sentence
