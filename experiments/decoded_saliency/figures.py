"""The figures of the page, drawn from the results files."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from wording import TITLES

from whence.render.figure_file import write_figure
from whence.render.visible import visible
from whence.render.word_cloud import word_cloud

COLOURS = ("#1f5fb4", "#c4570a", "#2b8a3e", "#8e44ad", "#b8860b", "#c0392b", "#16808a", "#6c757d", "#d6336c", "#495057")
CLASS_COLOURS = ("#c4570a", "#1f5fb4", "#2b8a3e", "#8e44ad")
SMALL, TITLE = 12, 14  # points; pages show figures at about half their size
LEGEND: dict[str, Any] = {"loc": "outside lower center", "ncols": 2, "fontsize": SMALL, "frameon": False}
SAY = {"hiding": "hidden", "revealing": "revealed"}


def draw_games(found: dict[str, Any], path: Path) -> None:
    """Figures 2 and 3: the chosen decoded layer, the undecoded baseline, the packages' explainers, chance."""
    wanted = [
        name for name, facts in found["contestants"].items()
        if facts["group"] in ("package", "random") or name in ("Grad-CAM l0", found["chosen"].get("Decoded Grad-CAM"))
    ]  # fmt: skip
    _curves(found, wanted, path)


def draw_layers(found: dict[str, Any], path: Path) -> None:
    """Figures 5 and 6: decoded Grad-CAM at every layer."""
    wanted = [name for name, facts in found["contestants"].items() if facts["group"] in ("decoded", "random")]
    _curves(found, wanted, path, gradual=True)


def _curves(found: dict[str, Any], wanted: list[str], path: Path, *, gradual: bool = False) -> None:
    figure, axes = pyplot.subplots(
        1, 2, figsize=(9, 4.2 + 0.13 * len(wanted)), sharey=True, layout="constrained"
    )  # the legend below in two columns
    percent = [100 * share for share in found["grid"]]
    shades = matplotlib.colormaps["viridis"]
    for axis, game in zip(axes, ("revealing", "hiding"), strict=True):
        for number, name in enumerate(wanted):
            facts = found["contestants"][name]
            chance = facts["group"] == "random"
            colour = shades(0.9 * number / max(1, len(wanted) - 1)) if gradual else COLOURS[number % len(COLOURS)]
            bold = name == found["chosen"].get("Decoded Grad-CAM")
            areas = " / ".join(f"{facts[each]['auc']:.3f}" for each in ("revealing", "hiding"))
            line = axis.plot(
                percent, facts[game]["curve"], label=f"{name}: {areas}",
                color="black" if chance else colour, linestyle=":" if chance else "--" if number >= 10 else "-",
                linewidth=2.2 if bold else 1.1,
            )[0]  # fmt: skip
            if bold or chance:
                axis.fill_between(
                    percent, facts[game]["curve_low"], facts[game]["curve_high"], color=line.get_color(), alpha=0.12,
                    linewidth=0,
                )  # fmt: skip
        axis.set_xlabel(f"tokens {SAY[game]}, %", fontsize=SMALL)
        axis.set_title(f"{TITLES[found['data']]}, n = {found['n_texts']:,}: {game}", fontsize=TITLE)
        axis.tick_params(labelsize=SMALL)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy", fontsize=SMALL)
    areas = "area under the curve: revealing / hiding"
    figure.legend(*axes[0].get_legend_handles_labels(), title=areas, title_fontsize=SMALL, **LEGEND)
    write_figure(figure, path, dpi=130)


def draw_overlaps(overlaps: dict[str, Any], path: Path) -> None:
    """Figures 4 and 9: overlap, as a share and as a count, over k."""
    figure, axes = pyplot.subplots(2, len(overlaps), figsize=(9, 8), layout="constrained", squeeze=False)
    lines: dict[str, Any] = {}
    for column, found in enumerate(overlaps.values()):
        shown = [
            name for name, facts in found["methods"].items()
            if facts["group"] == "package" or name in ("Grad-CAM l0", found["chosen"])
        ]  # fmt: skip
        for row, (kind, title) in enumerate({"curve": "share of the first k", "counts": "tokens in common"}.items()):
            axis = axes[row][column]
            for number, name in enumerate(shown):
                lines["Decoded Grad-CAM, chosen layer" if name == found["chosen"] else name] = axis.plot(
                    found["ks"], found["methods"][name][kind], color=COLOURS[number % len(COLOURS)],
                    linestyle="--" if number >= 10 else "-", linewidth=2.2 if name == found["chosen"] else 1.1,
                )[0]  # fmt: skip
            axis.set_title(f"{TITLES[found['data']]}, n = {found['n_texts']:,}: {title}", fontsize=TITLE)
            axis.set_ylim(bottom=0)
            axis.yaxis.get_major_locator().set_params(integer=kind == "counts")
            axis.set_xlabel("k", fontsize=SMALL)
            axis.tick_params(labelsize=SMALL)
            axis.spines[["top", "right"]].set_visible(False)
    figure.legend(list(lines.values()), list(lines), **LEGEND)
    write_figure(figure, path, dpi=130)


def draw_clouds(top: dict[str, dict[str, float]], figures: Path, name: str) -> dict[str, Path]:
    """Figures 7 and 8: a cloud for each predicted class."""
    paths = {}
    for number, (label, weights) in enumerate(top.items()):
        paths[label] = figures / f"{name}-{''.join(c for c in label.lower() if c.isalnum())}.svg"
        colour = CLASS_COLOURS[number % len(CLASS_COLOURS)]
        paths[label].write_text(
            word_cloud(weights, title=label, width=420, height=260, colour=colour), encoding="utf-8"
        )
    return paths


def draw_examples(examples: list[dict[str, Any]], methods: list[str], figures: Path, name: str) -> list[Path]:
    """A picture per example: the text once per method, each word on a ground as strong as its share of the scores."""
    paths = []
    for number, example in enumerate(examples):
        path = figures / f"{name}-example-{number + 1}.svg"
        path.write_text(_highlighted(example, methods), encoding="utf-8")
        paths.append(path)
    return paths


def _highlighted(example: dict[str, Any], methods: list[str]) -> str:
    width, letter, line = 820, 7.2, 19  # a monospaced font of 12 pixels
    said = f"{example['predicted']} ({example['probability']:.3f}), gold {example['gold']}"
    parts = [f'<text x="8" y="18" font-weight="bold">{escape(visible(said))}</text>']
    y = 42
    for method in methods:
        parts.append(f'<text x="8" y="{y}" fill="#555" font-size="11">{escape(visible(method))}</text>')
        y += line
        scores = example["scores"][method]
        full = max((abs(score) for score in scores), default=0.0) or 1.0
        x = 20.0
        for word, score in zip(example["words"], scores, strict=True):
            shown = visible(word)
            wide = letter * len(shown) + 4
            if x + wide > width - 8:
                x, y = 20.0, y + line
            ground = "#1f5fb4" if score > 0 else "#c4570a"
            parts.append(
                f'<rect x="{x:.1f}" y="{y - 13}" width="{wide:.1f}" height="17" fill="{ground}" '
                f'fill-opacity="{0.75 * abs(score) / full:.2f}"/>'
                f'<text x="{x + 2:.1f}" y="{y}" textLength="{wide - 4:.1f}" lengthAdjust="spacingAndGlyphs">'
                f"{escape(shown)}</text>"
            )
            x += wide + 3
        y += line + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img" '
        f'font-family="monospace" font-size="12"><title>{escape(visible(said))}</title>'
        f'<rect width="{width}" height="{y}" fill="white"/>{"".join(parts)}</svg>\n'
    )
