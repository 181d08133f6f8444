"""An attention audit on a terminal and on matplotlib axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whence.attention.attention_maps import AttentionLayer
from whence.attention.audit_record import AttentionAudit, RankCorrelation
from whence.errors import UnknownNameError
from whence.render.audit_page import LOOKERS
from whence.render.figure import AGAINST, AS_IS, FOR, SMALL, TINY, WIDTH, new_axes
from whence.render.visible import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours (apart for every kind of colour vision), each with a marker of its own
_LINES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#56b4e9", "v"), ("#e69f00", "P"))


def audit_view(audit: AttentionAudit) -> RenderableType:
    """What a terminal shows of an audit: the verdict with its reasons, then the numbers it comes from."""
    verdict = audit.verdict
    about = f"attention audit: {visible(audit.model.id)}, {audit.n_texts} text{'s' if audit.n_texts != 1 else ''}"
    return Group(
        Rule(Text(about, style="bold"), style="dim"),
        Padding(Text(verdict.answer, style="bold"), (1, 2)),
        *(Padding(Text(f"- {reason}"), (0, 2)) for reason in verdict.reasons),
        *(Padding(Text(f"! {warning}", style="bold yellow"), (0, 2)) for warning in audit.warnings),
        Text(),
        _correlation_table(audit),
        Padding(Text(_legend(audit), style="dim"), (1, 2, 0, 2)),
        Text(),
        _measure_table(audit),
    )


def _correlation_table(audit: AttentionAudit) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(len(audit.measures) + 2):
        table.add_column(justify="right", no_wrap=True)
    table.add_row("layer", *map(_heading, audit.measures), "entropy", "zeros", style="dim")
    for layer in audit.layers:
        spread = next(each for each in audit.attention if each.layer == layer and each.head is None)
        cells = [_cell(row) for row in audit.of_layer(layer)]
        table.add_row(str(layer), *cells, _number(spread.entropy), f"{1 - spread.nonzero:.0%}")
    return Padding(table, (0, 2))


def _cell(row: RankCorrelation) -> Text:
    """τ and its interval; below it what ties give and the texts left out, where there are any."""
    text = Text("–", style="dim")
    if not math.isnan(row.tau):
        text = Text(f"{row.tau:+.2f}", style="bold" if row.excess_low > 0 else "")
        text.append(f" ±{(row.high - row.low) / 2:.2f}", "dim")
    if row.tie_null >= 0.005:
        text.append(f"\nties {row.tie_null:.2f}", "dim")
    if row.n_undefined:
        text.append(f"\n{row.n_undefined} out", "dim")
    return text


def _heading(measure: str) -> Text:
    """A measure's name, one word per line."""
    return Text(measure.replace("_", "\n"), style="bold")


def _legend(audit: AttentionAudit) -> str:
    return (
        "Kendall's τ-b between the attention that tokens receive (mean over heads, "
        f"{LOOKERS.get(audit.queries, audit.queries)}) and the size of each measure's scores at the word embeddings "
        f"({audit.scale.replace('_', ' ')} of the prediction), ± half the 95 % interval of the mean over texts; "
        "ties: the τ that shared zeros alone explain, where there are any. Bold: surely more. "
        "Entropy 1 is uniform. Special tokens are left out."
    )


def _measure_table(audit: AttentionAudit) -> RenderableType:
    taus = {(each.first, each.second): each.tau for each in audit.between}
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(len(audit.measures) + 1):
        table.add_column(justify="right", no_wrap=True)
    table.add_row("τ between measures", *map(_heading, audit.measures), "entropy", style="dim")
    for one, row in zip(audit.measures, audit.importance, strict=True):
        cells = [_number(taus.get((one, other), taus.get((other, one), math.nan))) for other in audit.measures]
        table.add_row(Text(one, style="bold"), *cells, _number(row.entropy))
    return Padding(table, (0, 2))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def plot_rank_correlation(audit: AttentionAudit, ax: Axes | None = None) -> Axes:
    """Draw τ by layer, one line per measure with its interval, and dotted the τ that ties alone explain."""
    ax = ax or new_axes(2.4, WIDTH * 1.4)
    positions = np.arange(len(audit.layers))
    for number, measure in enumerate(audit.measures):
        colour, marker = _LINES[number % len(_LINES)]
        rows = [next(row for row in audit.of_layer(layer) if row.measure == measure) for layer in audit.layers]
        tau = np.array([row.tau for row in rows])
        error = np.abs(np.array([[row.low, row.high] for row in rows]).T - tau)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3, "linewidth": 1, "capsize": 1.5}
        ax.errorbar(positions, tau, yerr=error, label=measure, elinewidth=0.7, **style)
        ax.plot(positions, [row.tie_null for row in rows], color=colour, linestyle=":", linewidth=0.8)
    ax.axhline(0, color="0.3", linewidth=0.6)
    ax.set_xticks(positions, [str(layer) for layer in audit.layers], fontsize=SMALL)
    ax.set_xlabel("layer (dotted: what ties alone explain)", fontsize=SMALL)
    ax.set_ylabel("Kendall's τ-b with attention", fontsize=SMALL)
    ax.tick_params(labelsize=SMALL, length=2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=TINY, frameon=False, ncols=2, loc="best")
    ax.set_title(visible(f"{audit.model.id}, {audit.n_texts} texts"), fontsize=SMALL, loc="left", **AS_IS)
    return ax


def plot_heads(audit: AttentionAudit, measure: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw τ of every head with one measure (by default the first) as a map of layers and heads."""
    from matplotlib.colors import LinearSegmentedColormap

    measure = audit.measures[0] if measure is None else measure
    if measure not in audit.measures:
        raise UnknownNameError("measure", measure, audit.measures)
    rows = {(row.layer, row.head): row.tau for row in audit.rank_correlations if row.measure == measure and row.head}
    n_heads = max(head or 0 for _, head in rows)
    taus = np.array([[rows.get((layer, head + 1), math.nan) for head in range(n_heads)] for layer in audit.layers])
    ax = ax or new_axes(0.8 + 0.2 * len(audit.layers))
    colours = LinearSegmentedColormap.from_list("whence", [AGAINST, "white", FOR])
    edges = (np.arange(n_heads + 1) + 0.5, np.arange(len(audit.layers) + 1) - 0.5)
    mesh = ax.pcolormesh(*edges, taus, cmap=colours, vmin=-1, vmax=1, edgecolors="0.92", linewidth=0.4)
    ax.set_yticks(np.arange(len(audit.layers)), [_layer_name(layer) for layer in audit.layers], fontsize=SMALL)
    ax.set_xticks(range(1, n_heads + 1, -(-n_heads // 16)))
    ax.set_xlabel("head", fontsize=SMALL)
    ax.set_ylabel("layer", fontsize=SMALL)
    ax.tick_params(labelsize=SMALL, length=0)
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, fraction=0.05)
    bar.set_label(f"τ-b with {measure}", fontsize=SMALL)
    bar.ax.tick_params(labelsize=TINY, length=2)
    bar.outline.set_visible(False)
    return ax


def _layer_name(layer: AttentionLayer) -> str:
    return "pool" if layer == "pooling" else str(layer)
