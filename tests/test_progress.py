"""`progress=` means one thing everywhere: bars, nothing, or a function of (step, done, in all)."""

from __future__ import annotations

import io
import sys

import pytest

from whence.progress import Progress, reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(progress: Progress, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with reporter(progress) as report:
        report("reading [all]", 0, 3)
        report("reading [all]", 3, 3)
        report("writing", 1, 2)
    return stream.getvalue()


def test_true_draws_a_bar_per_step_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = shown(True, Terminal(), monkeypatch)
    assert "reading [all]" in drawn
    assert "100%" in drawn
    assert "writing" in drawn
    assert " 50%" in drawn
    assert capsys.readouterr().out == ""


def test_a_file_gets_no_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(True, io.StringIO(), monkeypatch) == ""


@pytest.mark.parametrize("progress", [False, None])
def test_without_progress_nothing_is_drawn(progress: Progress, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(progress, Terminal(), monkeypatch) == ""


def test_a_function_is_called_with_step_done_and_all() -> None:
    calls = []
    with reporter(lambda *call: calls.append(call)) as report:
        report("reading", 1, 2)
    assert calls == [("reading", 1, 2)]
