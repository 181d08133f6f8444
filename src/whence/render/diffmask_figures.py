"""What layers keep, on matplotlib axes: the frames of `whence.learned.diffmask.analyses` as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whence.render.figure import FOR, ROW_HEIGHT, SMALL, TINY, layer_ticks, new_axes
from whence.render.visible import visible

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

# Apart for every kind of colour vision (Okabe and Ito); the line styles tell further groups apart.
LINE_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")


def plot_layers_kept(frame: pandas.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how many layers keep a token, a row per group: dot the mean, thick line its interval, thin line one sd.

    Args:
        frame: what `whence.learned.diffmask.analyses.layers_kept` gives.
        ax: where to draw; new axes if none are given.
    """
    ax = ax or new_axes(0.7 + 1.5 * ROW_HEIGHT * len(frame))
    rows = np.arange(len(frame))
    ax.hlines(rows, frame["mean"] - frame["sd"], frame["mean"] + frame["sd"], color="0.7", linewidth=0.8)
    ax.hlines(rows, frame["low"], frame["high"], color=FOR, linewidth=3)
    ax.plot(frame["mean"], rows, "o", color=FOR, markersize=4)
    names = [f"{visible(str(name))} ({count:,})" for name, count in zip(frame["group"], frame["n_tokens"], strict=True)]
    ax.set_yticks(rows, names, fontsize=SMALL, parse_math=False)
    ax.set_ylim(len(frame) - 0.5, -0.5)
    n_layers = int(frame["n_layers"].iloc[0])
    ax.set_xlim(0, n_layers)
    ax.set_xlabel(f"layers that keep a token, of {n_layers}", fontsize=SMALL)
    ax.grid(axis="x", color="0.92", linewidth=0.6)
    _frame(ax)
    return ax


def plot_keep_by_layer(frame: pandas.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the keep probability from layer to layer, a line per group, with its interval as a band.

    Args:
        frame: what `whence.learned.diffmask.analyses.keep_by_layer` gives.
        ax: where to draw; new axes if none are given.
    """
    ax = ax or new_axes(max(2.3, 0.6 + ROW_HEIGHT * frame["group"].nunique()))
    for number, (group, rows) in enumerate(frame.groupby("group", sort=False)):
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        style = LINE_STYLES[number // len(LINE_COLOURS) % len(LINE_STYLES)]
        columns = np.arange(len(rows))
        ax.plot(columns, rows["mean"], style, color=colour, linewidth=1.3, label=visible(str(group)))
        ax.fill_between(columns, rows["low"], rows["high"], color=colour, alpha=0.18, linewidth=0)
    layer_ticks(ax, list(dict.fromkeys(frame["layer"])))
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("mean keep probability", fontsize=SMALL)
    ax.grid(axis="y", color="0.92", linewidth=0.6)
    legend = ax.legend(
        fontsize=TINY, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.02), borderaxespad=0.2, handlelength=1.6
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    _frame(ax)
    return ax


def plot_dropped_by_layer(frame: pandas.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw which share of a group's tokens is dropped at which layer, a row per group; the last column are those kept.

    Args:
        frame: what `whence.learned.diffmask.analyses.dropped_by_layer` gives.
        ax: where to draw; new axes if none are given.
    """
    from matplotlib.colors import LinearSegmentedColormap

    layers = list(dict.fromkeys(frame["layer"]))
    groups = list(dict.fromkeys(frame["group"]))
    shares = frame["mean"].to_numpy().reshape(len(groups), len(layers))
    ax = ax or new_axes(0.8 + 1.3 * ROW_HEIGHT * len(groups))
    edges = np.append(np.arange(len(layers)) - 0.5, [len(layers) - 1.1, len(layers) - 0.1])
    spaced = np.insert(shares, len(layers) - 1, np.nan, axis=1)  # a gap before those that no layer drops
    colours = LinearSegmentedColormap.from_list("share", ["white", FOR])
    mesh = ax.pcolormesh(
        edges, np.arange(len(groups) + 1) - 0.5, spaced, cmap=colours, vmin=0, edgecolors="0.92", linewidth=0.4
    )
    layer_ticks(ax, layers[:-1])
    ax.set_xticks([*ax.get_xticks(), len(layers) - 0.6], [*(t.get_text() for t in ax.get_xticklabels()), "kept"])
    ax.set_xlabel("layer that drops a token", fontsize=SMALL)
    ax.set_yticks(np.arange(len(groups)), [visible(str(name)) for name in groups], fontsize=SMALL, parse_math=False)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, fraction=0.05)
    bar.set_label("share of tokens", fontsize=SMALL)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)
    ax.tick_params(length=0, labelsize=SMALL)
    ax.spines[:].set_visible(False)
    return ax


def _frame(ax: Axes) -> None:
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("0.7")
