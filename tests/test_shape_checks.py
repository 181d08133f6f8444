"""Shapes in annotations are checked in every test: a wrong axis fails, a true one does not."""

from __future__ import annotations

import doctest
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import shape_checks
import tiny_models
import torch
from shape_checks import ShapeError

from whence.methods.question import Scores

MODULE = '''
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Rows = list[Float[np.ndarray, " token"]]

def outer(a: Float[np.ndarray, " row"], b: Float[np.ndarray, " column"]) -> Float[np.ndarray, "row column"]:
    """
    >>> outer(np.ones(1), np.ones(1)).shape
    (1, 1)
    """
    return a[:, None] * b

def turned(a: Float[np.ndarray, " row"], b: Float[np.ndarray, " column"]) -> Float[np.ndarray, "row column"]:
    return b[:, None] * a

def maybe(a: Float[np.ndarray, " row"] | None = None, *, b: Rows | Int[np.ndarray, "row 2"] | None = None) -> int:
    return 0

def refuses(a: Float[np.ndarray, " row"], b: Float[np.ndarray, " row"]) -> None:
    raise ValueError("a and b differ")

def made(n: int) -> Callable[..., object]:
    def inner(a: Float[np.ndarray, " row"], rows: list[Float[np.ndarray, " row"]]) -> int:
        return n
    return inner

@dataclass(frozen=True)
class Record:
    scores: Float[np.ndarray, "layer token"]
    errors: Float[np.ndarray, "layer token"] | None = None

    @property
    def first(self) -> Float[np.ndarray, " token"]:
        return self.scores[0]

    @classmethod
    def of(cls, row: Float[np.ndarray, " token"]) -> Record:
        return cls(row[None])
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "shaped").mkdir()
    (tmp_path / "shaped" / "__init__.py").touch()
    (tmp_path / "shaped" / "functions.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    finder = shape_checks.install("shaped")
    yield importlib.import_module("shaped.functions")
    sys.meta_path.remove(finder)
    for name in ("shaped", "shaped.functions"):
        del sys.modules[name]


def test_a_true_shape_passes_and_a_wrong_axis_fails(module: ModuleType) -> None:
    assert module.outer(np.ones(2), np.ones(3)).shape == (2, 3)
    assert module.turned(np.ones(2), np.ones(2)).shape == (2, 2)
    with pytest.raises(ShapeError, match=r"shaped.functions.turned: return .* row .* \(a float64 \(2,\), b float64"):
        module.turned(np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match="a should be"):
        module.outer(np.ones((2, 1)), np.ones(3))
    with pytest.raises(ShapeError, match="a should be"):
        module.outer(np.ones(2, dtype=int), b=np.ones(3))


def test_unions_lists_and_what_is_named_for_types_alone(module: ModuleType) -> None:
    row = np.ones(2)
    assert module.maybe() == module.maybe(None, b=None) == module.maybe(row, b=[np.ones(3), np.ones(4)]) == 0
    assert module.maybe(row, b=np.ones((2, 2), dtype=int)) == 0
    for wrong in ([np.ones(3), np.ones((3, 1))], np.ones((3, 2), dtype=int), "text"):
        with pytest.raises(ShapeError, match="b should be"):
            module.maybe(row, b=wrong)


def test_functions_in_functions_are_checked_each_time(module: ModuleType) -> None:
    for n in (1, 2):
        assert module.made(n)(np.ones(2), [np.ones(2)]) == n
        with pytest.raises(ShapeError):
            module.made(n)(np.ones(2), [np.ones(3)])


def test_what_a_function_refuses_itself_is_its_own_affair(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="differ"):
        module.refuses(np.ones(2), np.ones(3))


def test_records_are_checked_when_they_are_made(module: ModuleType) -> None:
    record = module.Record.of(np.ones(3))
    assert record.first.shape == (3,)
    assert module.Record(np.ones((2, 3)), errors=np.ones((2, 3))).errors.shape == (2, 3)
    with pytest.raises(ShapeError, match="Record: errors should be"):
        module.Record(np.ones((2, 3)), errors=np.ones((3, 2)))
    with pytest.raises(ShapeError, match="Record: scores should be"):
        module.Record.of(np.ones((1, 3)))


def test_doctests_of_checked_functions_are_still_found(module: ModuleType) -> None:
    found = {test.name: len(test.examples) for test in doctest.DocTestFinder().find(module)}
    assert found["shaped.functions.outer"] == 1


def test_whence_itself_is_checked() -> None:
    with pytest.raises(ShapeError, match=r"Scores: values should be .*batch \*output layer token"):
        Scores(torch.zeros(2, 3))
    model = tiny_models.tiny("bert")
    inputs = model.collate([model.encode("a good film")])
    states = model.states(inputs)
    with pytest.raises(ShapeError, match=r"hidden should be .*this array has 2 dimensions"):
        model.resume(1, states.at(1)[0], inputs)
