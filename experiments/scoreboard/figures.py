"""A board as a picture: how faithful each method is, with its interval, and beside it what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.render.figure_file import write_figure

SMALL = 8
BEST, OTHER, CONTROL = "#1f5fa8", "#444444", "#a0a0a0"


def draw_board(board: Mapping[str, Any], path: Path) -> None:
    """Entries from best to worst; those to believe in blue, controls in grey."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ranking = board["rankings"]["faithfulness"]
    names = [ranked["entry"] for ranked in ranking]
    colours = [
        BEST if ranked["entry"] in board["verdict"]["believe"] else OTHER if ranked["ranks"][0] else CONTROL
        for ranked in ranking
    ]
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(8, 0.9 + 0.23 * len(names)), sharey=True, width_ratios=(3, 2), layout="constrained"
    )
    for row, (ranked, colour) in enumerate(zip(ranking, colours, strict=True)):
        left.plot([ranked["low"], ranked["high"]], [row, row], color=colour, linewidth=1.6)
        left.plot(ranked["mean"], row, "o", color=colour, markersize=4)
        passes = passes_per_text(board, ranked["entry"])
        if passes is not None:
            right.plot(passes, row, "o", color=colour, markersize=4)
    left.axvline(0, color=CONTROL, linewidth=0.6)
    left.set_yticks(range(len(names)), names, fontsize=SMALL, parse_math=False)
    left.invert_yaxis()
    left.set_xlabel("faithfulness, with its 95 % interval", fontsize=SMALL)
    right.set_xscale("log")
    right.xaxis.set_major_formatter("{x:g}")
    right.set_xlabel("passes per text, a backward one counted as two", fontsize=SMALL)
    for axes in (left, right):
        axes.tick_params(labelsize=SMALL, length=2)
        axes.grid(axis="y", color="#eeeeee", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    write_figure(figure, path, dpi=130)


def passes_per_text(board: Mapping[str, Any], entry: str) -> float | None:
    """Forward passes and twice the backward ones; None where an entry came from elsewhere and did not say."""
    forwards, backwards = (board["means"].get(metric, {}).get(entry) for metric in ("forwards", "backwards"))
    if forwards is None:
        return None
    return float(forwards["mean"] + 2 * (0.0 if backwards is None else backwards["mean"]))
