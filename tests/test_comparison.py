"""`whence.compare`: the methods' own explanations side by side, and how far they rank the words alike."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import kendalltau
from tiny_models import SHORT, tiny

import whence
from whence.comparison import Comparison
from whence.errors import FileError, InputError, UnknownNameError, UsageError

METHODS = ["leave_one_out", "gradient_x_input", "lime"]


def test_each_method_says_what_it_says_alone() -> None:
    model = tiny("bert")
    found = whence.compare(model, SHORT, METHODS, seed=3, samples=20)
    assert found.methods == tuple(METHODS)
    alone = whence.explain(model, SHORT, "lime", seed=3, samples=20)
    assert found.of("lime").options == alone.options
    assert np.array_equal(found.of("lime").scores, alone.scores)
    with pytest.raises(UnknownNameError, match="unknown method 'shapley'"):
        found.of("shapley")


def test_rank_correlations_are_those_of_the_words_sizes() -> None:
    found = whence.compare(tiny("bert"), SHORT, METHODS, samples=20)
    sizes = [[abs(word.score) for word in each.words()] for each in found.explanations]
    expected = [[kendalltau(one, other).statistic for other in sizes] for one in sizes]
    assert found.rank_correlations == pytest.approx(np.array(expected), abs=1e-9)


def test_several_texts_give_a_list_and_progress_tells_of_every_method() -> None:
    steps: list[Any] = []
    found = whence.compare(
        tiny("bert"), [SHORT, (SHORT, "bad")], METHODS[:2], progress=lambda *step: steps.append(step)
    )
    assert [(each.explanations[0].text, each.explanations[0].pair) for each in found] == [(SHORT, None), (SHORT, "bad")]
    assert [step for step in steps if step[1] == step[2]] == [(name, 2, 2) for name in METHODS[:2]]


def test_a_comparison_is_shown_saved_and_tabled(tmp_path: Path) -> None:
    found = whence.compare(tiny("bert"), SHORT, METHODS[:2], layers=[0, 1])
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(found)
    assert "2 methods" in console.export_text()
    frame = found.to_dataframe()
    assert list(frame.columns) == ["method", "layer", "word", "start", "end", "segment", "score"]
    assert len(frame) == 2 * 2 * len(found.explanations[0].words())
    assert found.to_html(tmp_path / "c.html") == (tmp_path / "c.html").read_text(encoding="utf-8")
    found.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json") == found
    data = json.loads((tmp_path / "c.json").read_text())
    assert np.shape(data["rank_correlations"]) == (2, 2)
    data["explanations"][1]["text"] = "another text"
    with pytest.raises(UsageError, match="different texts"):
        Comparison.from_dict(data)
    with pytest.raises(FileError, match="explanations: expected a list"):
        Comparison.from_dict({"schema": "whence.comparison/1"})
    with pytest.raises(FileError, match="not a comparison"):
        Comparison.from_dict(found.explanations[0].to_dict())


def test_what_cannot_be_compared() -> None:
    model = tiny("bert")
    with pytest.raises(UnknownNameError, match="option of leave_one_out, lime 'setps'"):
        whence.compare(model, SHORT, ["leave_one_out", "lime"], setps=3)
    with pytest.raises(UnknownNameError, match="unknown method 'lim'"):
        whence.compare(model, SHORT, ["lim"])
    with pytest.raises(UsageError, match="no method"):
        whence.compare(model, SHORT, [])
    with pytest.raises(UsageError, match="no method"):
        whence.compare(model, SHORT, "lime")
    with pytest.raises(InputError, match="texts is int"):
        whence.compare(model, 3, ["lime"])  # type: ignore[call-overload]
