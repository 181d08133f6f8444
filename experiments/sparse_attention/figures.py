"""The paper's four figures: a quantity over the projections, softmax first, then sparsegen from dense to sparse."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import numpy as np
import paper
from matplotlib import pyplot
from tables import NAMES, Results, find, interval_of

from whence.render.figure_file import write_figure

FIGURES = {
    "figure_1": (
        {"tau g_x": "inputs", "tau g_h": "states"},
        "Figure 1: τ of attention with the gradient at inputs and at states",
    ),
    "figure_2": (
        {"entropy g_x": "gradient", "entropy D_x": "leave-one-out"},
        "Figure 2: normalised entropy of the importance of inputs",
    ),
    "figure_3": (
        {"tau g_x": "gradient", "tau D_x": "leave-one-out"},
        "Figure 3: τ of attention with the importance of inputs",
    ),
    "figure_4": (
        {"tau D_x": "inputs", "tau D_h": "states"},
        "Figure 4: τ of attention with leave-one-out of inputs and of states (dotted: what ties alone explain)",
    ),
}
SMALL, TITLE = 10, 11  # points; panels are narrow enough for both to be read at half the size that pages show
COLOURS = ("#0072b2", "#d55e00")
PROJECTIONS = ("softmax", *("sparsemax" if value == 0 else f"sparsegen({value:g})" for value in paper.SPARSITIES))
LABELS = ("softmax", *(f"{value:g}" if number % 2 == 0 else "" for number, value in enumerate(paper.SPARSITIES)))
"""Of two neighbours one: all of them could not be read."""
PLACES = np.array([-0.5, *range(1, len(LABELS))])  # softmax stands apart


def draw(results: Results, folder: Path) -> None:
    """All figures as SVG: one row per encoder, one column per set; bars are intervals over documents and seeds."""
    data = [name for name in paper.SETS if any(each["data"] == name for each in results["classifiers"])]
    for name, (quantities, about) in FIGURES.items():
        figure, axes = pyplot.subplots(
            len(paper.ENCODERS),
            len(data),
            figsize=(2.4 * len(data), 5.6),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for row, encoder in enumerate(paper.ENCODERS):
            for column, each in enumerate(data):
                _panel(results, each, encoder, quantities, axes[row, column])
        axes[0, 0].legend(fontsize=SMALL, frameon=False)
        figure.suptitle(textwrap.fill(about, 28 * len(data)), fontsize=TITLE)
        figure.supxlabel("softmax alone, then sparsegen by λ, from dense to sparse", fontsize=SMALL)
        write_figure(figure, folder / f"{name}.svg")


def _panel(results: Results, data: str, encoder: str, quantities: dict[str, str], ax: pyplot.Axes) -> None:
    groups = [find(results, data, encoder, projection) for projection in PROJECTIONS]
    measured = {number: group["documents"] for number, group in enumerate(groups) if group and "documents" in group}
    for (quantity, label), colour in zip(quantities.items(), COLOURS, strict=True):
        found = {number: each[quantity] for number, each in measured.items() if each[quantity]["mean"] is not None}
        means = np.array([each["mean"] for each in found.values()])
        ends = [interval_of(each)[1:] for each in found.values()]
        errors = np.abs(np.array(ends).reshape(-1, 2).T - means)
        style: dict[str, Any] = {"color": colour, "markersize": 3, "linewidth": 0.9, "elinewidth": 0.7, "capsize": 1.5}
        sweep = [number > 0 for number in found]
        ax.errorbar(PLACES[list(found)][sweep], means[sweep], yerr=errors[:, sweep], marker="o", label=label, **style)
        alone = [not swept for swept in sweep]
        ax.errorbar(PLACES[list(found)][alone], means[alone], yerr=errors[:, alone], marker="D", linestyle="", **style)
        if quantity.startswith("tau"):
            sparse = [number for number in found if number > 0]
            nulls = [measured[number][quantity.replace("tau", "null")]["mean"] for number in sparse]
            ax.plot(sparse, nulls, color=colour, linestyle=":", linewidth=0.8)
    ax.set_xticks(PLACES, LABELS, rotation=90, fontsize=SMALL)
    ax.set_xlim(PLACES[0] - 0.5, PLACES[-1] + 0.5)
    ax.tick_params(labelsize=SMALL, length=2)
    ax.set_title(f"{NAMES[data]}\n{NAMES[encoder]}", fontsize=TITLE, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
