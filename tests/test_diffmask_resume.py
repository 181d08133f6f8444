"""A fit that is killed, at any moment, goes on to the very same probes; one that cannot go on says why."""

from __future__ import annotations

import json
import random
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import ready_processes
import tiny_models
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_models import TEXTS, tiny

import whence
from whence import DiffMask
from whence.learned import checkpoint
from whence.learned.diffmask.standing import Standing
from whence.learned.training import Training
from whence.probes.diffmask import Kind

FILES = ["README.md", "config.json", "model.safetensors"]
CHECKPOINT = "checkpoint.safetensors"

# A fit that writes a checkpoint after every step. It is ended by the system after so many seconds, or kills itself just
# before or after so many files were put in their place.
SCRIPT = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import tiny_models, whence
from whence.learned import checkpoint
folder, kind, recipe, steps, how, much = sys.argv[2:]
checkpoint.SECONDS = (0,)
replace, calls = os.replace, 0

def replacing(source, target):
    global calls
    calls += 1
    if calls == int(much) and how == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if calls == int(much) and how == "after":
        os.kill(os.getpid(), signal.SIGKILL)

probes = whence.DiffMask(kind, recipe, steps=int(steps), batch_size=2, start=0.0, warm_up=3, learning_rate=0.05)
model = tiny_models.tiny("bert")
if how == "seconds":
    signal.setitimer(signal.ITIMER_REAL, float(much))
else:
    os.replace = replacing
probes.fit(model, tiny_models.TEXTS * 3, folder=folder, validations=4, seed=5)
"""


def run(folder: Path, kind: Kind, recipe: str, steps: int, how: str = "before", much: float = 0) -> int:
    """Fit in a process of its own and give its exit code: below zero if it was killed."""
    done = ready_processes.run(SCRIPT, Path(__file__).parent, folder, kind, recipe, steps, how, much)
    assert done.returncode <= 0, done.stderr
    return done.returncode


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def step_of(folder: Path) -> int:
    if not (folder / CHECKPOINT).exists():
        return 0
    with safe_open(folder / CHECKPOINT, framework="pt") as file:
        return int(json.loads(file.metadata()["record"])["state"]["step"])


@pytest.mark.parametrize(("kind", "recipe"), [("hidden", "whence"), ("input", "released")])
def test_a_fit_killed_at_random_moments_ends_with_the_same_probes(kind: Kind, recipe: str, tmp_path: Path) -> None:
    steps = 40
    assert run(tmp_path / "whole", kind, recipe, steps) == 0
    expected = (tmp_path / "whole" / "model.safetensors").read_bytes()
    chance = random.Random(0)
    reached: list[int] = []
    while not (tmp_path / "killed" / "config.json").exists():
        code = run(tmp_path / "killed", kind, recipe, steps, "seconds", chance.uniform(0.05, 0.15 * (len(reached) + 2)))
        assert code in (0, -signal.SIGALRM)
        finished = (tmp_path / "killed" / "config.json").exists() and not (tmp_path / "killed" / CHECKPOINT).exists()
        if code and not finished:  # it may be killed just after it has put its checkpoint away
            reached.append(step_of(tmp_path / "killed"))
        assert len(reached) < 60
    assert reached == sorted(reached)
    assert any(0 < step < steps for step in reached), "it was never killed in the middle"
    if (tmp_path / "killed" / CHECKPOINT).exists():  # killed between its last two breaths
        assert run(tmp_path / "killed", kind, recipe, steps) == 0
    assert (tmp_path / "killed" / "model.safetensors").read_bytes() == expected


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fit_killed_around_any_of_its_writes_ends_with_the_same_probes(when: str, tmp_path: Path) -> None:
    """Three checkpoints, then the weights, the card and the config: killed at each of them."""
    steps, writes = 3, 6
    assert run(tmp_path / "whole", "hidden", "whence", steps) == 0
    expected = (tmp_path / "whole" / "model.safetensors").read_bytes()
    for number in range(1, writes + 1):
        folder = tmp_path / str(number)
        assert run(folder, "hidden", "whence", steps, when, number) == -signal.SIGKILL
        assert run(folder, "hidden", "whence", steps) == 0
        assert (folder / "model.safetensors").read_bytes() == expected
        assert listing(folder) == FILES  # nothing half-written is left
    assert run(tmp_path / "more", "hidden", "whence", steps, when, writes + 1) == 0  # these were all


# What is left when a run breaks off


class StoppedError(Exception):
    """What ends a run in these tests."""


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that broke off after three of eight steps."""
    monkeypatch.setattr(checkpoint, "SECONDS", (-1,))

    def stop(standing: Standing) -> None:
        if standing.step == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        fit(tmp_path / "probes", watch=stop)
    assert listing(tmp_path / "probes") == [CHECKPOINT]
    return tmp_path / "probes"


def fit(folder: Path, model: whence.LayeredModel | None = None, texts: Any = None, **settings: Any) -> DiffMask:
    recipe = {"steps": 8, "batch_size": 2, "start": 0.0, **settings.pop("recipe", {})}
    probes = DiffMask(settings.pop("kind", "hidden"), **recipe)
    settings = {"validations": 4, "progress": False, **settings}
    return probes.fit(model or tiny("bert"), texts or TEXTS * 2, folder=folder, **settings)


def test_it_goes_on_where_it_stopped(stopped: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    resumed = fit(stopped, progress=lambda step, done, total: seen.append(done))
    whole = fit(tmp_path / "whole")
    assert seen == [4, 5, 6, 7, 8]
    assert listing(stopped) == FILES
    for one, other in zip(resumed.fitted_.probes.parameters(), whole.fitted_.probes.parameters(), strict=True):  # type: ignore[union-attr]
        assert torch.equal(one, other)
    assert resumed.fitted_.history == whole.fitted_.history  # type: ignore[union-attr]
    assert resumed.fitted_.margin == whole.fitted_.margin  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 1}, "had other seed (0, now 1)"),
        ({"texts": [*TEXTS, "a good film", "so sad", "no plot"]}, "had other texts"),
        ({"held_out": ["a good film"]}, "had other texts"),
        ({"recipe": {"margin": 0.3}}, "had other margin"),
        ({"recipe": {"steps": 9}}, "had other steps (8, now 9)"),
        ({"kind": "input"}, "had other kind ('hidden', now 'input')"),
        ({"patience": None}, "had other patience (5, now None)"),
        ({"validations": 2}, "had other steps between validations (2, now 4)"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(settings: dict[str, Any], message: str, stopped: Path) -> None:
    before = (stopped / CHECKPOINT).read_bytes()
    with pytest.raises(whence.UsageError) as caught:
        fit(stopped, **settings)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"the fit begun in {str(stopped)!r} {message}")
    assert second == "finish it with the settings it was begun with, or choose another folder"
    assert (stopped / CHECKPOINT).read_bytes() == before


def test_a_checkpoint_on_another_model_is_refused(stopped: Path) -> None:
    other = whence.load(tiny_models.build("bert", seed=1), tiny_models.wordpiece())
    with pytest.raises(whence.UsageError, match=r"was on another model \(.* differs\)"):
        fit(stopped, other)


@pytest.mark.parametrize("how", ["cut", "empty", "foreign", "without a record", "without a part"])
def test_a_damaged_checkpoint_says_so(how: str, stopped: Path) -> None:
    path = stopped / CHECKPOINT
    tensors = load_file(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-1000])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign":
        path.write_bytes(b"PK\x03\x04 what torch.save writes")
    elif how == "without a record":
        save_file(tensors, path)
    else:
        save_file({name: value for name, value in tensors.items() if "baselines" not in name}, path, metadata)
    with pytest.raises(whence.FileError) as caught:
        fit(stopped)
    first, second = str(caught.value).splitlines()
    assert first == f"{str(path)!r} is no checkpoint of a fit"
    assert second == "remove it to start anew, or choose another folder"


# When checkpoints are written


class Clock:
    """Time that passes only while a step is trained."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds_per_step: float) -> None:
        self.now = 0.0
        own = Training.train_step

        def slow_step(training: Training) -> None:
            own(training)
            self.now += seconds_per_step

        monkeypatch.setattr(Training, "train_step", slow_step)
        monkeypatch.setattr(checkpoint, "monotonic", lambda: self.now)


def saved_steps(folder: Path, steps: int) -> list[int]:
    """The steps of which a checkpoint is there at some time."""
    seen: list[int] = []
    fit(folder, progress=lambda *step: seen.append(step_of(folder)), recipe={"steps": steps})
    return sorted({step for step in seen if step})


def test_checkpoints_come_within_seconds_and_then_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, seconds_per_step=2.5)
    found = [2.5 * step for step in saved_steps(tmp_path / "quick", 35)]
    waits = [later - earlier for earlier, later in pairwise([0.0, *found])]
    assert waits == [2.5, 5.0, 10.0, 17.5, 22.5, 22.5]  # the first step that ends 2, 4, 8, 16 or 20 s later


def test_the_first_checkpoint_does_not_wait_for_the_second_of_slow_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(monkeypatch, seconds_per_step=3)
    assert saved_steps(tmp_path / "slow", 4) == [1, 3]


def test_a_short_run_writes_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, seconds_per_step=0.2)
    seen: list[list[str]] = []
    fit(tmp_path / "probes", watch=lambda standing: seen.append(listing(tmp_path / "probes")))
    assert seen == [[]] * 8
    assert listing(tmp_path / "probes") == FILES
