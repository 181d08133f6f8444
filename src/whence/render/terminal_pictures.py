"""Scores drawn with characters: a map of words and layers, bars, and columns of methods.

Colour is only ever a foreground: a shade character (░▒▓█) lets the terminal's own background through, so that strong
looks strong on dark and on light screens, and the same characters carry the picture where there is no colour at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from whence.explanation import Layer
from whence.render.rows import Row, number

if TYPE_CHECKING:
    from jaxtyping import Float

FOR, AGAINST = "#2f7fe0", "#d9730d"  # blue and orange: apart for every kind of colour vision
SHADES = "·░▒▓█"
FAINT = 0.03  # a score below this share of the largest counts as nothing


def level_of(share: float) -> int:
    return 0 if abs(share) < FAINT else min(4, math.ceil(abs(share) * 4 - 1e-9))


def hue_of(score: float, signed: bool) -> str:
    return AGAINST if signed and score < 0 else FOR


def largest_of(rows: Sequence[Row]) -> float:
    """What counts as full strength: the largest score of a word; special tokens would often drown all others."""
    return max((row.strength for row in rows if not row.special), default=0.0) or max(row.strength for row in rows)


def fitted(label: str, width: int) -> str:
    """A label cut or filled up to a width in columns."""
    return set_cell_size(label, width) if cell_len(label) <= width else set_cell_size(label, width - 1) + "…"


def _label_width(rows: Sequence[Row], most: int) -> int:
    return min(max(most, 4), max(cell_len(row.label) for row in rows))


@dataclass(frozen=True)
class HeatMap:
    """One line per row, one column per layer; layers that do not fit beside each other go below."""

    rows: Sequence[Row]
    layers: Sequence[Layer]
    signed: bool
    full: Float[np.ndarray, " layer"]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = 2 if self.signed else 1
        label = max(3, _label_width(self.rows, min(24, max(12, options.max_width - 3 - least * len(self.layers)))))
        room = max(least, options.max_width - label - 3)
        cell = max(least, min(7, room // len(self.layers)))
        fit = max(1, room // cell)
        for start in range(0, len(self.layers), fit):
            columns = slice(start, start + fit)
            names = [_layer_name(layer, cell) for layer in self.layers[columns]]
            yield Text(f"{'layer':>{label + 2}} " + _ticks(names, cell, int(cell > 1)), style="dim", no_wrap=True)
            for row in self.rows:
                line = Text("  ", no_wrap=True)
                line.append(fitted(row.label, label), "dim" if row.special else "bold")
                line.append(" ")
                for score, full in zip(row.scores[columns], self.full[columns], strict=True):
                    line.append_text(_tile(float(score), float(full), cell, self.signed))
                yield line


def _tile(score: float, full: float, width: int, signed: bool) -> Text:
    level = level_of(score / full) if full else 0
    mark = "" if width == 1 else " " if not signed or not level else "+" if score > 0 else "-"
    if not level:
        return Text((mark + SHADES[0]).center(width), "dim")
    return Text(mark + SHADES[level] * (width - len(mark)), hue_of(score, signed))


def _layer_name(layer: Layer, width: int) -> str:
    return "e" if layer == "embeddings" and width < 11 else str(layer)


def _ticks(names: Sequence[str], width: int, offset: int) -> str:
    """The names over their columns; where they would touch only every second, third … is written."""
    step = math.ceil((max(map(len, names)) + 1) / width)
    line = ""
    for column in range(0, len(names), step):
        line = line.ljust(offset + column * width) + names[column]
    return line


@dataclass(frozen=True)
class Bars:
    """One line per row: the number and a bar, to the left for scores below zero."""

    rows: Sequence[Row]
    signed: bool
    full: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        scores = [min(self.full, max(-self.full, float(row.scores[0]))) for row in self.rows]
        numbers = [number(float(row.scores[0]), self.full, sign=self.signed) for row in self.rows]
        errors = [
            f" ± {number(float(row.errors[0]), self.full)}" if row.errors is not None else "" for row in self.rows
        ]
        digits, spread = max(map(len, numbers)), max(map(len, errors))
        label = _label_width(self.rows, min(24, options.max_width // 3))
        room = max(4, options.max_width - label - digits - spread - 6)
        below, above = max(0.0, -min(scores)), max(0.0, max(scores))
        left = round(room * below / ((below + above) or 1.0))
        for row, score, shown, error in zip(self.rows, scores, numbers, errors, strict=True):
            line = Text("  ", no_wrap=True)
            line.append(fitted(row.label, label), "dim" if row.special else "bold")
            line.append(f"  {shown:>{digits}}{error:<{spread}} ", "dim" if row.special else "")
            size = abs(score) / ((below + above) or 1.0) * room
            bar = _bar(min(size, left or room), leftward=True) if score < 0 else _bar(size)
            line.append(bar.rjust(left) if score < 0 else " " * left, AGAINST)
            line.append("" if score < 0 else bar, FOR)
            yield line


def _bar(size: float, *, leftward: bool = False) -> str:
    whole, part = int(size), size - int(size)
    if leftward:
        return ("▐" if part >= 0.5 else "▕" if not whole and part > 0.05 else "") + "█" * whole
    return "█" * whole + " ▏▎▍▌▋▊▉"[int(part * 8)].strip()


@dataclass(frozen=True)
class Columns:
    """One line per word, one column per method: its number, and a bar to the left for scores below zero.

    Methods that do not fit beside each other go below.
    """

    rows: Sequence[Row]
    methods: Sequence[str]
    signed: Sequence[bool]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        label = _label_width(self.rows, min(20, options.max_width // 4))
        room = options.max_width - label - 3
        fit = min(len(self.methods), max(1, room // _NARROWEST_COLUMN))
        width = min(_WIDEST_COLUMN, room // fit)
        for start in range(0, len(self.methods), fit):
            columns = range(start, min(start + fit, len(self.methods)))
            if start:
                yield Text()
            names = [_folded(self.methods[column], width - 1) for column in columns]
            for line in range(max(map(len, names))):
                header = "".join(f"{(name[line] if line < len(name) else ''):<{width}}" for name in names)
                yield Text(" " * (label + 3) + header, style="dim", no_wrap=True)
            for row in self.rows:
                shown = Text("  ", no_wrap=True).append(fitted(row.label, label), "bold").append(" ")
                for column in columns:
                    shown.append_text(_signed_bar(float(row.scores[column]), width, self.signed[column]))
                yield shown


_NARROWEST_COLUMN, _WIDEST_COLUMN = 20, 32


def _signed_bar(share: float, width: int, signed: bool) -> Text:
    """A share of the largest as a number and a bar from the axis: of scores with a sign the axis is in the middle."""
    room = width - 8  # number, blank, axis, gap
    left = room // 2 if signed else 0
    text = Text(number(share, 1.0, sign=signed).rjust(5) + " ")
    text.append((_bar(-share * left, leftward=True) if share < 0 else "").rjust(left), AGAINST)
    text.append("│", "dim").append("" if share < 0 else _bar(share * (room - left)), FOR)
    text.append(" " * (width - text.cell_len))
    return text


def _folded(name: str, width: int) -> list[str]:
    """A name in lines of so many columns, broken after underscores where that is enough."""
    lines = [""]
    for piece in re.findall(r"[^_]*_?", name):
        if len(lines[-1]) + len(piece) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return [fitted(line, width).rstrip() for line in lines]
