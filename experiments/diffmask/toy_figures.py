"""Figures 3 and 12 of the digit-counting task, drawn from what `toy.py` found for one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from toy_task import Example

import whence
from whence.render.figure_file import write_figure

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


def draw(found: Mapping[str, Any], folder: Path) -> None:
    """Write toy-figure-3.png and toy-figure-12.png."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    example = found["figure_3"]
    digits, panels = example["digits"], example["shares"]
    figure, axes = plt.subplots(1, len(panels), figsize=(1.9 * len(panels), 2.4), sharey=True, layout="constrained")
    asked = [digit in example["query"] for digit in digits]
    for ax, (name, shares) in zip(axes, panels.items(), strict=True):
        ax.bar(range(len(digits)), shares, color=["#2b6cb0" if each else "#a0aec0" for each in asked])
        ax.set_xticks(range(len(digits)), [str(digit) for digit in digits])
        ax.set_title(name.replace(", ", "\n"), fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("share of the score")
    figure.suptitle("Are there more {} than {}?".format(*example["query"]), fontsize=9)
    write_figure(figure, folder / "toy-figure-3.png", dpi=150)

    figure, ax = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
    for group, points in found["figure_12"].items():
        ax.scatter(points[:, 0], points[:, 1], s=4, alpha=0.5, color=GROUPS[group], label=group, linewidths=0)
    ax.set_xlabel("first neuron")
    ax.set_ylabel("second neuron")
    ax.legend(fontsize=7, markerscale=3, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    write_figure(figure, folder / "toy-figure-12.png", dpi=150)
