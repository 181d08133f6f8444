"""Finished work on the disk: keys made of contents, checksums, and one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from whence.errors import FileError, UsageError
from whence.scoreboard import memory
from whence.store import Piece, Store, content_key


def piece() -> Piece:
    return Piece({"scores": np.linspace(0, 1, 7, dtype=np.float32), "n": np.arange(3)}, {"note": "done", "bytes": 12})


def refuse() -> Piece:
    pytest.fail("made again")


# -- keys


@dataclass(frozen=True)
class Setting:
    name: str
    at: Any


class Held:
    """An ordinary object."""

    def __init__(self, numbers: torch.Tensor) -> None:
        self.numbers = numbers


class Sealed:
    """An object that says itself what it holds."""

    def __init__(self, value: int) -> None:
        self.value, self.used = value, object()

    def content_key(self) -> object:
        return self.value


def scaled(factor: float) -> Any:
    return lambda value: factor * value


SAME = [
    (lambda: {"a": 1, "b": [None, True]}, lambda: {"b": [None, True], "a": 1}),
    (lambda: np.arange(6.0).reshape(2, 3).T, lambda: np.ascontiguousarray(np.arange(6.0).reshape(2, 3).T)),
    (lambda: torch.arange(4).bfloat16(), lambda: torch.arange(4).bfloat16()),
    (lambda: Held(torch.ones(2)), lambda: Held(torch.ones(2))),
    (lambda: Sealed(3), lambda: Sealed(3)),
    (lambda: Setting("x", np.ones(2)), lambda: Setting("x", np.ones(2))),
    (lambda: scaled(2.0), lambda: scaled(2.0)),
    (lambda: {"x", "y", "zz"}, lambda: {"zz", "y", "x"}),
]
OTHER = [
    (lambda: 1, lambda: "1"),
    (lambda: 1, lambda: True),
    (lambda: ["a", "b"], lambda: ["ab"]),
    (lambda: [["a"], "b"], lambda: ["a", ["b"]]),
    (lambda: np.zeros(2), lambda: np.zeros(2, dtype=np.float32)),
    (lambda: np.zeros(2), lambda: torch.zeros(2, dtype=torch.float64)),
    (lambda: np.zeros((1, 2)), lambda: np.zeros((2, 1))),
    (lambda: torch.zeros(10_000), lambda: torch.zeros(10_000).index_fill(0, torch.tensor([7_777]), 1e-7)),
    (lambda: Held(torch.ones(2)), lambda: Held(torch.zeros(2))),
    (lambda: Sealed(3), lambda: Sealed(4)),
    (lambda: Setting("x", 1), lambda: Setting("x", 2)),
    (lambda: scaled(2.0), lambda: scaled(3.0)),
    (lambda: lambda x: x + 1, lambda: lambda x: x + 2),
    (lambda: partial(pow, 2), lambda: partial(pow, 3)),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_is_the_same_has_one_key(one: Any, other: Any) -> None:
    assert content_key(one()) == content_key(other())


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_differs_has_another_key(one: Any, other: Any) -> None:
    assert content_key(one()) != content_key(other())


def test_a_module_is_known_by_its_numbers() -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    assert content_key(one) != content_key(other)
    other.load_state_dict(one.state_dict())
    assert content_key(one) == content_key(other)


def test_a_folder_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_text("same")
    assert content_key(tmp_path / "one") == content_key(tmp_path / "other")
    (tmp_path / "other" / "deep" / "file").write_text("SAME")
    assert content_key(tmp_path / "one") != content_key(tmp_path / "other")


@pytest.mark.parametrize("value", [object(), (i for i in range(0)), sys.stdin, np.array([object()])])
def test_what_has_no_contents_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="no contents to tell finished work by"):
        content_key(value)


# -- pieces


def test_a_piece_comes_back_and_is_made_once(tmp_path: Path) -> None:
    with Store(tmp_path, {}) as store:
        store.kept("scores", "a/b <c>", {"steps": 1}, piece)
        assert store.has("scores", "a/b <c>", {"steps": 1})
        assert not store.has("scores", "a/b <c>", {"steps": 2})
    with Store(tmp_path, {}) as store:
        again = store.kept("scores", "a/b <c>", {"steps": 1}, refuse)
    assert again.facts == piece().facts
    assert all(np.array_equal(again.arrays[name], array) for name, array in piece().arrays.items())


def test_every_flipped_bit_is_found_out(tmp_path: Path) -> None:
    with Store(tmp_path, {}) as store:
        store.kept("scores", "any", 0, piece)
        (file,) = (tmp_path / "work").glob("*.safetensors")
        whole = file.read_bytes()
        for position in range(len(whole)):
            spoilt = bytearray(whole)
            spoilt[position] ^= 1 << (position % 8)
            file.write_bytes(bytes(spoilt))
            with pytest.raises(FileError, match="is broken"):
                store.kept("scores", "any", 0, refuse)
        file.write_bytes(whole)
        store.kept("scores", "any", 0, refuse)


# -- one process at a time


HOLDER = """
import sys
from whence.store import Store
with Store({folder!r}, {{}}):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    code = HOLDER.format(folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another process is at work"):
            Store(tmp_path, {})
        os.kill(other.pid, signal.SIGKILL)
    with Store(tmp_path, {}), pytest.raises(UsageError, match="another process is at work"):
        Store(tmp_path, {})


def test_a_folder_of_another_run_is_free_again_when_refused(tmp_path: Path) -> None:
    with Store(tmp_path, {"seed": 1}):
        pass
    with pytest.raises(UsageError, match="a run with another seed"):
        Store(tmp_path, {"seed": 2})
    with Store(tmp_path, {"seed": 1}):
        pass


# -- memory


def test_memory_is_counted_in_the_pages_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATUS", type("Status", (), {"read_text": staticmethod(lambda: "9 5 1 1 0 1 0")}))
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PAGE_SIZE": 65_536}[name])
    assert memory._resident() == 5 * 65_536
