"""`whence fit` from the terminal: what it writes and says, how it goes on, and explaining with what it wrote."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow
import pytest
import tiny_models
from pyarrow import parquet
from rich.console import Console
from tiny_models import PAIRS, TEXTS, tiny
from typer.testing import CliRunner, Result

import whence
from whence.cli import app
from whence.cli.fit import _saying_what_it_costs
from whence.learned import checkpoint
from whence.learned.diffmask.standing import Standing
from whence.learned.diffmask.validation import LayerResult
from whence.learned.training import Training
from whence.probes.owner import Owner
from whence.render.fit_progress import fit_bar, fit_view, standing_line

pytestmark = pytest.mark.usefixtures("quiet_only_here")
QUICK = ["--steps", "3", "--batch-size", "2", "-o", "start=0.0"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder as any user has one."""
    folder = tmp_path_factory.mktemp("model")
    tiny_models.build("bert").save_pretrained(folder)
    tiny_models.wordpiece().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("data") / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 4))
    return str(file)


@pytest.fixture(scope="module")
def probes(model: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("fitted") / "probes")
    done("--model", model, "--data", data, "--out", folder, "--kind", "hidden", *QUICK)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="whence")


def done(*arguments: str) -> Result:
    result = run("fit", *arguments)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def failed(code: int, *arguments: str) -> list[str]:
    result = run("fit", *arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return list(result.stderr.splitlines())


def weights(folder: str | Path) -> bytes:
    return (Path(folder) / "model.safetensors").read_bytes()


def test_probes_are_fitted_and_their_layers_listed(model: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "probes"
    result = done("--model", model, "--data", data, "--out", str(out), *QUICK)
    assert result.stderr == f"probes: {out}\n"
    assert "input probes for" in result.stdout
    table = [line.split() for line in result.stdout.splitlines() if line.strip() and line.startswith("  ")]
    assert table[0] == ["layer", "masked", "agreement", "divergence"]
    assert [row[0] for row in table[1:6]] == ["embeddings", "0", "1", "2", "3"]
    fitted = whence.DiffMask.load(out).fitted_
    assert fitted is not None
    assert fitted.probes.kind == "input"
    assert (fitted.recipe.steps, fitted.recipe.batch_size, fitted.recipe.start) == (3, 2, 0.0)
    assert [float(row[1]) for row in table[1:6]] == [round(each.masked, 3) for each in fitted.results]


def test_it_is_the_fit_of_python(model: str, data: str, tmp_path: Path) -> None:
    done("--model", model, "--data", data, "--out", str(tmp_path / "cli"), "--seed", "4", "--margin", "0.2", *QUICK)
    same = whence.DiffMask(steps=3, batch_size=2, start=0.0, margin=0.2)
    same.fit(whence.load(model), TEXTS * 4, seed=4, folder=tmp_path / "python")
    assert weights(tmp_path / "cli") == weights(tmp_path / "python")


def test_json_is_one_object_and_nothing_else(model: str, data: str, tmp_path: Path) -> None:
    result = done("--model", model, "--data", data, "--out", str(tmp_path), "--kind", "hidden", *QUICK, "--json")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert found["folder"] == str(tmp_path)
    assert (found["kind"], found["n_texts"], len(found["results"])) == ("hidden", 10, 5)
    assert found["results"][0].keys() == {"layer", "masked", "agreement", "divergence", "n_texts"}
    assert result.stdout.isascii()


@pytest.fixture
def sets(tmp_path: Path) -> str:
    """A folder with a known set: nine sentences to train on and two held out."""
    columns = {
        "sentence": [*TEXTS * 3, "a good film", "so sad"],
        "label": [0, 1] * 5 + [0],
        "split": ["train"] * 9 + ["dev"] * 2,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "sst2.parquet")
    return str(tmp_path)


SHARES = ["--explainer", "shapley", "--steps", "3", "-o", "width=16", "-o", "step_tokens=40", "-o", "pairs=2"]
SHARES += ["-o", "checked_texts=4", "-o", "checked_orders=3"]


def test_shapley_probes_are_fitted_and_explain(model: str, data: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "shares")
    result = done("--model", model, "--data", data, "--out", folder, *SHARES)
    assert "stated 90 % intervals that hold them" in result.stdout
    assert "whence.ShapleyProbes.load" in (tmp_path / "shares" / "README.md").read_text()
    found = json.loads(run("explain", TEXTS[0], "--model", model, "--probes", folder, "--json").stdout)
    assert (found["method"], found["target"]["scale"]) == ("one_pass", "probability")
    found = json.loads(
        run("explain", TEXTS[0], "--model", model, "--probes", folder, "--json", "--method", "amortised_shapley").stdout
    )
    assert found["method"] == "amortised_shapley"
    assert found["standard_errors"] is not None
    wrong = run("explain", TEXTS[0], "--model", model, "--probes", folder, "--method", "diffmask")
    assert wrong.exit_code
    assert "holds other things than probes of this kind" in wrong.stderr


def test_shapley_probes_as_json_and_what_they_do_not_take(model: str, data: str, tmp_path: Path) -> None:
    result = done("--model", model, "--data", data, "--out", str(tmp_path / "shares"), "--json", *SHARES)
    found = json.loads(result.stdout)
    assert found["explainer"] == "shapley"
    assert set(found["calibration"]) >= {"correlation", "coverage", "loss", "floor"}
    for option, value in {"--kind": "input", "--margin": "0.1", "--batch-size": "2"}.items():
        wrong = run("fit", "--model", model, "--data", data, "--out", str(tmp_path / "x"), *SHARES, option, value)
        assert wrong.exit_code == 2
        assert f"{option} is a setting of diffmask" in wrong.stderr
    wrong = run("fit", "--model", model, "--data", data, "--out", str(tmp_path / "x"), "--explainer", "gradient")
    assert "unknown explainer 'gradient'" in wrong.stderr


def test_of_a_known_set_the_training_part_is_taken(model: str, sets: str, tmp_path: Path) -> None:
    common = ["--model", model, "--data", "sst2", "--data-dir", sets, *QUICK, "--json", "--out"]
    found = json.loads(done(*common, str(tmp_path / "a")).stdout)
    assert found["n_texts"] == 8  # of nine, one is held out
    found = json.loads(done(*common, str(tmp_path / "b"), "--held-out", "sst2").stdout)
    assert (found["n_texts"], found["results"][0]["n_texts"]) == (9, 2)
    found = json.loads(done(*common, str(tmp_path / "c"), "--limit", "4", "--held-out", "sst2").stdout)
    assert (found["n_texts"], found["results"][0]["n_texts"]) == (4, 2)
    found = json.loads(done(*common, str(tmp_path / "d"), "--split", "dev").stdout)
    assert found["n_texts"] == 1


def test_held_out_texts_may_be_a_file_beside_a_known_set(model: str, sets: str, data: str, tmp_path: Path) -> None:
    result = done(
        "--model", model, "--data", "sst2", "--data-dir", sets, "--held-out", data, "--out", str(tmp_path / "probes"),
        *QUICK, "--json",
    )  # fmt: skip
    assert json.loads(result.stdout)["results"][0]["n_texts"] == 12


def test_pairs_come_from_a_column(model: str, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    lines = [f'"{text}","{pair}"\n' for text, pair in PAIRS * 2]
    file.write_text("text,pair\n" + "".join(lines))
    done("--model", model, "--data", str(file), "--out", str(tmp_path / "probes"), *QUICK)


def test_wrong_use_is_two(model: str, data: str, probes: str, tmp_path: Path) -> None:
    common = ["--model", model, "--data", data, "--out", str(tmp_path / "x")]
    for arguments, message in (
        (["--kind", "both"], "error: unknown kind 'both'"),
        (["--recipe", "papers"], "error: unknown recipe 'papers'"),
        (["-o", "stpes=3"], "error: unknown setting of a recipe 'stpes'"),
        (["-o", "margin"], "error: 'margin' is not an option"),
        (["--margin", "0"], "error: margin must be above 0, got 0.0"),
        (["--seed", "-1"], "error: seed must be a whole number from 0 to 2147483647, got -1"),
        (["--split", "dev"], "error: "),
    ):
        assert failed(2, *common, *arguments)[0].startswith(message), arguments
    assert failed(2, *common[:4], "--out", probes)[0] == f"error: {probes!r} already holds something"
    assert failed(2, "--model", model, "--data", "sst3", "--out", str(tmp_path / "y"))[0].startswith(
        "error: unknown data"
    )
    assert "error: missing option '--out'" in run("fit", "--data", data).stderr


def test_a_folder_that_cannot_be_made_is_one(model: str, data: str) -> None:
    lines = failed(1, "--model", model, "--data", data, "--out", f"{data}/probes")
    assert lines[0] == f"error: cannot make the folder '{data}/probes': Not a directory"


def test_texts_that_are_cut_are_told(model: str, tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("\n".join([*TEXTS, "good " * 100, "bad " * 100]))
    result = done("--model", model, "--data", str(file), "--out", str(tmp_path / "probes"), *QUICK)
    assert "warning: truncated: the model does not read 2 of 5 texts to their end\n" in result.stderr


# Going on


def test_ctrl_c_says_that_the_same_command_goes_on(
    model: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--model", model, "--data", data, "--kind", "hidden", "--steps", "6", "--batch-size", "2", "--out"]
    own = Training.train_step

    def interrupted(self: Training) -> None:
        if self.step == 3:
            raise KeyboardInterrupt
        own(self)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "train_step", interrupted)
        patch.setattr(checkpoint, "SECONDS", (1e9,))
        lines = failed(1, *command, str(tmp_path / "early"))
        assert lines == ["stopped: the same command begins anew, as nothing was saved yet"]
        patch.setattr(checkpoint, "SECONDS", (-1,))
        assert failed(1, *command, str(tmp_path / "probes")) == ["stopped: the same command goes on from there"]
    result = done(*command, str(tmp_path / "probes"))
    assert result.stderr.splitlines()[0] == f"note: going on with the fit begun in {tmp_path / 'probes'}"
    done(*command, str(tmp_path / "whole"))
    assert weights(tmp_path / "probes") == weights(tmp_path / "whole")


def test_a_killed_command_goes_on_by_itself(model: str, data: str, tmp_path: Path) -> None:
    script = "from whence.learned import checkpoint as c; c.SECONDS = (-1,); from whence.cli import main; main()"
    command = ["--model", model, "--data", data, "--batch-size", "2", "--steps", "120", "--out"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, "fit", *command, str(tmp_path / "probes")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 100
        while not (tmp_path / "probes" / "checkpoint.safetensors").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        output = process.communicate()
    assert process.returncode == -signal.SIGKILL, output
    assert not (tmp_path / "probes" / "config.json").exists()
    result = done(*command, str(tmp_path / "probes"))
    assert "going on with the fit" in result.stderr
    names = sorted(path.name for path in (tmp_path / "probes").iterdir())
    assert names == ["README.md", "config.json", "model.safetensors"]


# Explaining with what was fitted


def test_probes_explain_from_the_terminal(model: str, probes: str) -> None:
    expected = whence.DiffMask.load(probes).explain(whence.load(model), TEXTS[0])
    for arguments in (
        ["--probes", probes],
        ["--method", "diffmask", "--probes", probes],
        ["--method", "diffmask", "-o", f"probes={probes}"],
    ):
        result = run("explain", TEXTS[0], "--model", model, *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        found = json.loads(result.stdout)
        assert (found["method"], found["options"]["probes"]) == ("diffmask", probes)
        np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-6)
    shown = run("explain", TEXTS[0], "--model", model, "--probes", probes)
    assert "keep probability" in shown.stdout


def test_probes_are_compared_with_other_methods(model: str, probes: str) -> None:
    for arguments in (["--probes", probes], ["-o", f"probes={probes}"]):
        result = run("compare", TEXTS[0], "--model", model, "--methods", "diffmask,random", *arguments)
        assert result.exit_code == 0, result.stderr
        assert "diffmask" in result.stdout


def test_probes_of_another_model_or_method_are_refused(model: str, probes: str, tmp_path: Path) -> None:
    tiny_models.build("bert", seed=1).save_pretrained(tmp_path)
    tiny_models.wordpiece().save_pretrained(tmp_path)
    result = run("explain", TEXTS[0], "--model", str(tmp_path), "--probes", probes)
    assert result.exit_code == 1
    assert "this is another model" in result.stderr
    result = run("explain", TEXTS[0], "--model", model, "--method", "gradient", "--probes", probes)
    assert result.exit_code == 2
    assert "unknown option of gradient 'probes'" in result.stderr
    result = run("explain", TEXTS[0], "--model", model, "--method", "diffmask")
    assert result.exit_code == 2
    assert "no probes came with" in result.stderr
    assert "whence fit" in result.stderr


# What a terminal shows


def standing(step: int, validated: bool) -> Standing:
    results = [LayerResult("embeddings", 0.5, 0.9, 0.1, 10), LayerResult(0, 0.7, 0.8, 0.2, 10)]
    return Standing(step, 10, 2.0, 0.0512, 0.06, 0.431, results if validated else None)


def test_a_bar_shows_where_a_run_stands() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    with fit_bar(console) as show:
        for step in range(4, 8):  # one that goes on
            show(standing(step, step > 5))
            time.sleep(0.06)
    assert "7/10" in screen.getvalue()
    assert "steps/s" in screen.getvalue()
    assert "divergence 0.051 of 0.060 allowed, kept 43%, held out: masked 60%, agreement 0.850" in screen.getvalue()


def test_without_a_terminal_there_is_no_bar() -> None:
    screen = io.StringIO()
    with fit_bar(Console(file=screen, width=100)) as show:
        show(standing(4, True))
    assert screen.getvalue() == ""


def test_how_it_goes_in_words() -> None:
    assert standing_line(standing(1, False)) == "divergence 0.051 of 0.060 allowed, kept 43%"
    number = LayerResult(1, 0.25, None, 0.1, 10)
    plain = Standing(1, 2, 1.0, 0.0, 1.0, 1.0, [number])
    assert standing_line(plain) == "divergence 0.000 of 1.000 allowed, kept 100%, held out: masked 25%"


def test_a_view_names_a_hostile_model_harmlessly(probes: str) -> None:
    loaded = whence.DiffMask.load(probes)
    assert loaded.fitted_ is not None
    hostile = Owner(replace(loaded.fitted_.model, id="\x1b[31m[bold]x"), {})
    loaded.fitted_ = replace(loaded.fitted_, trained=replace(loaded.fitted_.trained, owner=hostile))
    console = Console(file=io.StringIO(), width=100, markup=False)
    console.print(fit_view(loaded))
    assert "␛[31m[bold]x" in console.file.getvalue()  # type: ignore[attr-defined]
    untrained = Console(file=io.StringIO())
    untrained.print(fit_view(whence.DiffMask()))
    assert "not trained" in untrained.file.getvalue()  # type: ignore[attr-defined]


def test_progress_in_python_is_a_bar_or_nothing_or_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for progress in (True, False, lambda step, done, total: shown.append(f"{step} {done}/{total}")):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        whence.DiffMask(steps=3, batch_size=2).fit(tiny("bert"), TEXTS, progress=progress)
        monkeypatch.undo()
        assert ("100%" in screen.getvalue()) == (progress is True)
    assert shown == ["fit 1/3", "fit 2/3", "fit 3/3"]


def test_the_command_shows_where_the_run_stands(
    model: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Standing] = []
    monkeypatch.setattr("whence.render.fit_progress.fit_bar", lambda: nullcontext(seen.append))
    done("--model", model, "--data", data, "--out", str(tmp_path / "probes"), *QUICK)
    assert [each.step for each in seen] == [1, 2, 3]


class Stands(NamedTuple):
    step: int
    steps: int
    seconds: float


def test_a_fit_says_once_what_it_will_cost(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Stands] = []
    watch = _saying_what_it_costs(seen.append, "cpu")
    for step in (1, 2, 3):
        watch(Stands(step, 2_500, 86.0 * step))
    _saying_what_it_costs(seen.append, "cuda")(Stands(11, 611, 2.2))
    _saying_what_it_costs(seen.append, "cuda")(Stands(1, 200, 0.2))
    assert capsys.readouterr().err.splitlines() == [
        "note: a step takes 86.0 s on the cpu; all 2,500 take 59.7 hours; --recipe sparing takes less, and so does a "
        "GPU",
        "note: a step takes 0.2 s on the cuda; all 611 take 2 minutes",
    ]
    assert len(seen) == 5
