"""Explanations on matplotlib axes, fit for a column of a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.explanation import Explanation, Layer
from whence.render.rows import MOST_ROWS, Row, rows_of, strongest
from whence.render.visible import shortened, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOR, AGAINST = "#1f5fb4", "#c4570a"  # blue and orange: apart for every kind of colour vision, and in grey from white
WIDTH = 3.3  # inches: a column
SCREEN = 220  # dots per inch: on a screen, where an inch is a hundred dots, twice as large as in print
ROW_HEIGHT = 0.145
SMALL, TINY = 7, 6  # points

# User text is never mathematics: "$" is a dollar sign, with or without a TeX installation.
AS_IS: dict[str, Any] = {"parse_math": False, "usetex": False}


def plot(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Draw tokens x layers as a heat map, or one layer as bars, on `ax` or on new axes, and return the axes.

    Nothing is shown or saved: `explanation.plot().figure.savefig("why.pdf")`. Of a long text the strongest tokens
    are drawn, and the axis says so.
    """
    every = rows_of(explanation, words=False)
    rows, left_out = strongest(every, MOST_ROWS)
    ax = ax or new_axes(0.75 + ROW_HEIGHT * len(rows))
    draw = _bars if len(explanation.layers) == 1 else _heat_map
    draw(explanation, rows, ax)
    ax.set_yticks(np.arange(len(rows)), [shortened(row.label, 18) for row in rows], fontsize=SMALL, **AS_IS)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for tick, row in zip(ax.get_yticklabels(), rows, strict=True):
        tick.set_color("0.5" if row.special else "black")
    if left_out:
        ax.set_ylabel(f"the {len(rows)} strongest of {len(every)} tokens", fontsize=SMALL)
    ax.tick_params(length=0, labelsize=SMALL)
    title = (f"predicted: {explanation.prediction}", f"explained: {explanation.target}")
    ax.set_title("\n".join(shortened(line, 60) for line in title), fontsize=SMALL, loc="left", **AS_IS)
    return ax


def _heat_map(explanation: Explanation, rows: Sequence[Row], ax: Axes) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    scores = np.array([row.scores for row in rows])
    words = [row.strength for row in rows if not row.special]
    full = max(words, default=0.0) or float(np.abs(scores).max()) or 1.0
    signed = explanation.meaning.signed
    colours = LinearSegmentedColormap.from_list("whence", [AGAINST, "white", FOR] if signed else ["white", FOR])
    mesh = ax.pcolormesh(
        np.arange(scores.shape[1] + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, scores, cmap=colours,
        vmin=-full if signed else 0, vmax=full, edgecolors="0.92", linewidth=0.4,
    )  # fmt: skip
    layer_ticks(ax, explanation.layers)
    ax.spines[:].set_visible(False)
    beyond = bool((np.abs(scores) > full).any())  # special tokens may: they do not set the scale
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, fraction=0.05, extend=_extend(beyond, signed))
    bar.set_label(visible(explanation.meaning.name), fontsize=SMALL, **AS_IS)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)


def _extend(beyond: bool, signed: bool) -> str:
    return "neither" if not beyond else "both" if signed else "max"


def _bars(explanation: Explanation, rows: Sequence[Row], ax: Axes) -> None:
    scores = np.array([row.scores[0] for row in rows])
    spread = (
        None
        if explanation.standard_errors is None
        else [float(row.errors[0]) for row in rows if row.errors is not None]
    )
    against = explanation.meaning.signed & (scores < 0)
    ax.barh(
        np.arange(len(rows)), scores, height=0.75, color=np.where(against, AGAINST, FOR), xerr=spread,
        error_kw={"linewidth": 0.6, "ecolor": "0.3"},
    )  # fmt: skip
    ax.locator_params(axis="x", nbins=5)
    ax.axvline(0, color="0.3", linewidth=0.6)
    ax.set_xlabel(f"{visible(explanation.meaning.name)} (layer {explanation.layers[0]})", fontsize=SMALL, **AS_IS)
    ax.spines[["top", "right", "left"]].set_visible(False)


def new_axes(height: float, width: float = WIDTH) -> Axes:
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), dpi=SCREEN, layout="constrained")[1]


def layer_ticks(ax: Axes, layers: Sequence[Layer]) -> None:
    """Names of layers below their columns; of many every second, third … one."""
    columns = range(0, len(layers), -(-len(layers) // 16))
    ax.set_xticks(columns, [str(layers[column]).replace("embeddings", "e") for column in columns], fontsize=SMALL)
    said: dict[Layer, str] = {"embeddings": "e: word embeddings", 0: "0: embedding output"}
    about = ", ".join(said[layer] for layer in layers if layer in said)
    ax.set_xlabel(f"layer ({about})" if about else "layer", fontsize=SMALL)
