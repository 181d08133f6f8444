"""Curves of the games on matplotlib axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.engine.result import GameResult
from whence.metrics.answered import Measure
from whence.render.figure import AS_IS, SMALL, new_axes
from whence.render.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 2.6


def plot_curve(
    result: GameResult,
    ax: Axes | None = None,
    *,
    measure: Measure | None = None,
    label: str | None = None,
    band: bool = True,
    **line: Any,
) -> Axes:
    """Draw one game's curve, with its confidence band, on `ax` or on new axes, and return the axes.

    `line` goes to matplotlib's `plot` (color, linestyle, ...).
    """
    ax = ax or new_axes(_HEIGHT)
    curve = result.curve(measure)
    percent = 100 * np.array(curve.grid)
    drawn = ax.plot(percent, curve.mean, label=visible(label or str(result.settings["method"])), **line)[0]
    if band:
        ax.fill_between(percent, curve.low, curve.high, color=drawn.get_color(), alpha=0.15, linewidth=0)
    verb = "hidden" if result.game == "hiding" else "revealed"
    ax.set_xlabel(f"tokens {verb}, %", fontsize=SMALL)
    ax.set_ylabel(curve.measure, fontsize=SMALL)
    ax.set_xlim(percent[0], percent[-1])
    ax.tick_params(labelsize=SMALL, length=2)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_curves(results: Mapping[str, GameResult], ax: Axes | None = None, *, measure: Measure | None = None) -> Axes:
    """Draw several methods' curves of one game together, with a legend that gives their areas."""
    for name, result in results.items():
        ax = plot_curve(result, ax, measure=measure, label=f"{name} ({result.areas(measure).mean():.3f})", band=False)
    if ax is None:
        raise ValueError("there is no curve to draw")
    legend = ax.legend(fontsize=SMALL - 1, frameon=False)
    for text in legend.get_texts():
        text.set(**AS_IS)
    return ax
