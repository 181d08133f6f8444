"""Figures 3 and 12 of the digit-counting task, drawn from what `toy.py` found for one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from toy_task import Example

import whence
from whence.render.figure_file import write_figure

matplotlib.use("Agg")

from matplotlib import pyplot

GROUPS = {"the first digit asked about": "#2b6cb0", "the second": "#c05621", "any other": "#a0aec0"}


def clusters(model: whence.LayeredModel, examples: Sequence[Example], layer: int) -> dict[str, np.ndarray]:
    """The states of all digits of the texts at a layer, by what they are to the question."""
    inputs = model.collate([model.encode(example.text) for example in examples])
    states = model.states(inputs).at(layer).numpy()
    found: dict[str, list[np.ndarray]] = {group: [] for group in GROUPS}
    names = list(GROUPS)
    for row, example in zip(states, examples, strict=True):
        for state, digit in zip(row, example.digits, strict=False):
            found[names[example.query.index(digit) if digit in example.query else 2]].append(state)
    return {group: np.array(points).reshape(-1, 2) for group, points in found.items()}


def draw_shares(example: Mapping[str, Any], path: Path) -> Path:
    """Figure 3: every method's shares of one text, in two rows."""
    digits, panels = example["digits"], example["shares"]
    columns = (len(panels) + 1) // 2
    figure, axes = pyplot.subplots(
        2, columns, figsize=(2.3 * columns, 5.2), sharey=True, squeeze=False, layout="constrained"
    )
    asked = [digit in example["query"] for digit in digits]
    for ax, (name, shares) in zip(axes.flat, panels.items(), strict=False):
        ax.bar(range(len(digits)), shares, color=["#2b6cb0" if each else "#a0aec0" for each in asked])
        ax.set_xticks(range(len(digits)), [str(digit) for digit in digits])
        ax.set_title(name.replace(", ", "\n"), fontsize=12)
        ax.tick_params(labelsize=12)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("share of the score", fontsize=12)
    figure.suptitle("Are there more {} than {}?".format(*example["query"]), fontsize=13)
    return write_figure(figure, path, dpi=130)


def draw_clusters(found: Mapping[str, np.ndarray], path: Path) -> Path:
    """Figure 12: the states of digits, where a layer has two neurons."""
    figure, ax = pyplot.subplots(figsize=(4.2, 3.6), layout="constrained")
    for group, points in found.items():
        ax.scatter(points[:, 0], points[:, 1], s=4, alpha=0.5, color=GROUPS[group], label=group, linewidths=0)
    ax.set_xlabel("first neuron")
    ax.set_ylabel("second neuron")
    ax.legend(fontsize=7, markerscale=3, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return write_figure(figure, path, dpi=150)
