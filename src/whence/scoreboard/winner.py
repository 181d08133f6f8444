"""The method that a board says to believe, as a run can use it: by name, with its options, at its layer."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.errors import UsageError
from whence.explanation import Layer
from whence.methods.names import method_named
from whence.scoreboard.board import Scoreboard


@dataclass(frozen=True)
class Winner:
    """What was most faithful on a board, with the name of the model it was judged on."""

    method: str
    options: dict[str, Any]
    layer: Layer
    model: str


def believed_method(folder: str | Path) -> Winner:
    """The first of those that the board in a folder says to believe that is a method of whence."""
    board = Scoreboard.load(folder)
    for name in board.verdict.believe:
        entry = board.entries[board.index(name)]
        if entry.kind != "method":
            continue
        method = method_named(name.partition("@")[0].partition(" (")[0]).name
        return Winner(method, {key: _value(value) for key, value in entry.options.items()}, entry.layer, board.model.id)
    raise UsageError(f"the board in {str(folder)!r} tells no method of whence to believe", "name a method")


def _value(written: str) -> Any:
    """An option as a board writes it down: a plain value, or the string itself."""
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written
