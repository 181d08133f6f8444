"""The figures of docs/diffmask.md, drawn from the results files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas

from whence.render.diffmask_figures import plot_keep_by_layer, plot_layers_kept
from whence.render.figure import FOR
from whence.render.figure_file import write_figure
from whence.render.visible import visible

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

COLOURS = LinearSegmentedColormap.from_list("kept", ["white", FOR])
OTHER_METHODS = (
    "attention", "information bottleneck (Schulz et al.)", "noise tolerance (Guan et al.)", "integrated gradients",
    "DiffMask, hidden",
)  # fmt: skip
WITHOUT_AMORTISATION = (
    "DiffMask, input", "DiffMask, hidden", "per text, hidden, learned baseline", "per text, hidden, zero baseline",
)  # fmt: skip
ROOM_FOR_LAYERS = 8  # of more, every other one is named
SMALL, TITLE = 10, 11  # points; pages show figures at about two thirds of their size
RECIPE_COLOURS = {"whence": "#0072b2", "released": "#d55e00", "paper": "#009e73"}


def heat_map(ax: Axes, values: np.ndarray, tokens: Sequence[str], layers: Sequence[Any], title: str) -> None:
    """Tokens x layers, from 0 to 1."""
    ax.set_facecolor("0.85")  # where a method has no value
    ax.pcolormesh(values, cmap=COLOURS, vmin=0, vmax=1, edgecolors="0.92", linewidth=0.4)
    shown = slice(None, None, 1 if len(layers) <= ROOM_FOR_LAYERS else 2)
    names = ["e" if layer == "embeddings" else str(layer) for layer in layers]
    ax.set_xticks(np.arange(len(layers))[shown] + 0.5, names[shown])
    ax.set_yticks(np.arange(len(tokens)) + 0.5, [visible(token) for token in tokens], parse_math=False)
    ax.set_ylim(len(tokens), 0)
    ax.tick_params(length=0, labelsize=SMALL)
    ax.set_xlabel("layer", fontsize=SMALL)
    ax.set_title(title, fontsize=TITLE)
    ax.spines[:].set_visible(False)


def figure_5(found: Mapping[str, Any], folder: Path, name: str = "figure-5") -> Path:
    """One sentence by five methods, each column divided by its largest value."""
    figure, axes = pyplot.subplots(1, len(OTHER_METHODS), figsize=(11, 3.4), layout="constrained", sharey=True)
    every = found["maps"]["DiffMask, hidden"]["layers"]
    for ax, method in zip(axes, OTHER_METHODS, strict=True):
        drawn = found["maps"][method]
        values = np.full((len(found["tokens"]), len(every)), np.nan)
        values[:, [every.index(layer) for layer in drawn["layers"]]] = drawn["scores"]
        largest = np.nanmax(np.where(np.isnan(values), 0, values), axis=0)
        heat_map(ax, values / np.maximum(largest, 1e-12), found["tokens"], every, method.replace(" (", "\n("))
    return write_figure(figure, folder / f"{name}.png", dpi=130)


def figure_7(found: Mapping[str, Any], folder: Path) -> Path:
    figure, axes = pyplot.subplots(1, len(WITHOUT_AMORTISATION), figsize=(9.5, 3.4), layout="constrained", sharey=True)
    for ax, name in zip(axes, WITHOUT_AMORTISATION, strict=True):
        drawn = found["maps"][name]
        heat_map(ax, np.array(drawn["scores"]), found["tokens"], drawn["layers"], name.replace("hidden, ", "hidden,\n"))
    return write_figure(figure, folder / "figure-7.png", dpi=130)


def figure_6(rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    ax = plot_keep_by_layer(pandas.DataFrame(rows))
    return write_figure(ax.figure, folder / "figure-6.png", dpi=130)  # type: ignore[arg-type]


def figure_8(found: Mapping[str, Any], folder: Path) -> Path:
    panels = {
        "a  inputs, by part of speech": "input_by_part_of_speech",
        "b  inputs, by sentiment of the word": "input_by_sentiment",
        "c  hidden states, by sentiment of the word": "hidden_by_sentiment",
        "d  hidden states, by part of speech": "hidden_by_part_of_speech",
    }
    figure, axes = pyplot.subplots(
        2, 2, figsize=(9, 7.6), layout="constrained", height_ratios=[2.6, 1], gridspec_kw={"wspace": 0.06}
    )
    corners = [axes[0, 0], axes[1, 0], axes[1, 1], axes[0, 1]]
    for ax, (title, name) in zip(corners, panels.items(), strict=True):
        plot_layers_kept(pandas.DataFrame(found[name]), ax)
        ax.set_title(title, fontsize=TITLE, loc="left")
    return write_figure(figure, folder / "figure-8.png", dpi=130)


def sst_layers(found: Mapping[str, Any], folder: Path) -> Path:
    """Five seeds of our recipe, and the two published ones."""
    groups: dict[str, dict[str, Any]] = {"whence, five seeds": {}, "released": {}, "paper": {}}
    for key, run in found["runs"].items():
        recipe = key.split("-")[1]
        groups[recipe if recipe in groups else "whence, five seeds"][key] = run
    return _layer_by_layer(groups, list(RECIPE_COLOURS.values()), folder / "sst-layers.png")


def models_by_layer(plain: Mapping[str, Any], gaps: Mapping[str, Any], folder: Path) -> Path:
    """Five seeds of our recipe on either model."""
    seeds = {key: run for key, run in plain["runs"].items() if key in gaps["runs"]}
    colours = [RECIPE_COLOURS["released"], RECIPE_COLOURS["whence"]]
    return _layer_by_layer({"plain model": seeds, "with gaps": gaps["runs"]}, colours, folder / "sst-gaps-layers.png")


def _layer_by_layer(groups: Mapping[str, Mapping[str, Any]], colours: Sequence[str], path: Path) -> Path:
    """Agreement and share masked at each layer, one line per run, one colour per group."""
    figure, axes = pyplot.subplots(2, 2, figsize=(8, 4.6), layout="constrained", sharex=True, sharey=True)
    for row, kind in enumerate(("input", "hidden")):
        for (group, runs), colour in zip(groups.items(), colours, strict=True):
            for number, run in enumerate(run for key, run in runs.items() if key.startswith(kind)):
                values = (
                    [layer["agreement"]["value"] for layer in run["layers"]],
                    [layer["masked"] for layer in run["layers"]],
                )
                for ax, line in zip(axes[row], values, strict=True):
                    ax.plot(line, color=colour, linewidth=1.2, alpha=0.8, label=None if number else group)
        for ax, what in zip(axes[row], ("agreement with the unmasked model", "share masked"), strict=True):
            ax.set_title(f"{kind}: {what}", fontsize=TITLE, loc="left")
            _plain(ax, [layer["layer"] for layer in run["layers"]])
    axes[0, 0].legend(fontsize=SMALL, frameon=False)
    return write_figure(figure, path, dpi=130)


def figure_2(found: Mapping[str, Any], folder: Path) -> Path:
    """Every method's scores of one question and its passage, each divided by its largest."""
    names, tokens = list(found["scores"]), found["tokens"]
    values = np.array([np.array(found["scores"][name]) / max(found["scores"][name]) for name in names])
    figure, ax = pyplot.subplots(figsize=(11, 3.6), layout="constrained")
    ax.pcolormesh(values, cmap=COLOURS, vmin=0, vmax=1, edgecolors="0.92", linewidth=0.4)
    ax.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=SMALL)
    ax.set_ylim(len(names), 0)
    ax.set_xticks(
        np.arange(len(tokens)) + 0.5,
        [visible(token) for token in tokens],
        rotation=90,
        fontsize=SMALL,
        parse_math=False,
    )
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return write_figure(figure, folder / "figure-2.png", dpi=130)


def figure_9(found: Sequence[Mapping[str, Any]], folder: Path, name: str = "figure-9") -> Path:
    """Keep probabilities at every layer, two questions on one passage; the predicted answer in bold."""
    figure, axes = pyplot.subplots(
        1, 2 * len(found), figsize=(11, 0.17 * len(found[0]["tokens"])), layout="constrained"
    )
    for number, one in enumerate(found):
        for half, (kind, keep) in enumerate(one["keep"].items()):
            ax = axes[2 * number + half]
            heat_map(ax, np.array(keep), one["tokens"], one["layers"], f"question {number + 1}, {kind}")
            for label, in_answer in zip(ax.get_yticklabels(), one["answer"], strict=True):
                label.set_fontweight("bold" if in_answer else "normal")
    return write_figure(figure, folder / f"{name}.png", dpi=130)


def figure_10(found: Mapping[str, Any], folder: Path) -> Path:
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
    for ax, kind in zip(axes, ("input", "hidden"), strict=True):
        plot_layers_kept(pandas.DataFrame(found[kind]["by_part_of_speech"]), ax)
        ax.set_title({"input": "a  inputs", "hidden": "b  hidden states"}[kind], fontsize=TITLE, loc="left")
    return write_figure(figure, folder / "figure-10.png", dpi=130)


def squad_roles(found: Mapping[str, Any], folder: Path) -> Path:
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for ax, kind in zip(axes, ("input", "hidden"), strict=True):
        plot_keep_by_layer(pandas.DataFrame(found[kind]["by_role"]), ax)
        ax.set_title({"input": "inputs", "hidden": "hidden states"}[kind], fontsize=TITLE, loc="left")
    axes[0].get_legend().remove()
    return write_figure(figure, folder / "squad-roles.png", dpi=130)


def _plain(ax: Axes, layers: Sequence[Any]) -> None:
    ax.set_xticks(range(len(layers)), ["e" if layer == "embeddings" else str(layer) for layer in layers])
    ax.set_ylim(-0.02, 1.02)
    ax.grid(axis="y", color="0.92", linewidth=0.6)
    ax.tick_params(length=0, labelsize=SMALL)
    ax.spines[["top", "right"]].set_visible(False)
