"""The section of docs/diffmask.md on masks fitted to single sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wording import passage, table

COLUMNS = ("precision", "recall", "f1", "sparsity", "optimality")


def section_table_2(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Masks fitted to single sentences against the exact optimum, for each model there is a file of."""
    lines = ["", "## Masks fitted to single sentences (Table 2)"]
    lines += passage(
        "The paper gives no step sizes, and not how gates become sets. Settings were chosen on training sentences with"
        " the GRU, among some sixty; BERT takes them over."
    )
    for own in found.values():
        search = own["search"]
        lines += passage(
            f"**{own['model']['name']}** (accuracy {own['model']['accuracy']:.3f}): {search['short_enough']:,} of"
            f" {search['sentences_in_all']:,} {own['split']} sentences have at most {search['longest']} word pieces;"
            f" {_taken(search)} {search['not_solved']:,} were not solved within"
            f" {search['budget']:,} sets and are left out."
            f" Constraint: {own['constraint']}. Gates: {own['gates']}. Among equal optima: {own['ties']}. Seeds"
            f" {', '.join(map(str, own['seeds']))}; the optimum drops {search['sparsity']:.1f} %. 95 % intervals over"
            " sentences in brackets."
        )
        rows = [
            [f"paper: {name}", *(f"{row[column]:.1f}" for column in COLUMNS), ""] for name, row in own["paper"].items()
        ]
        for name, row in own["rows"].items():
            ends = row["confidence_intervals_95"]
            cells = [f"{row[column]:.1f} [{ends[column][0]:.1f}, {ends[column][1]:.1f}]" for column in COLUMNS]
            rows.append([name, *cells, f"{row['constraint met']:.1f}"])
        lines += table(["", *COLUMNS, "constraint met"], rows)
        lines += ["", "Settings:", ""]
        for name, row in own["rows"].items():
            settings = ", ".join(f"{key} {value}" for key, value in row["settings"].items() if value is not None)
            lines.append(f"- {name}: {settings}")
    return lines


def _taken(search: Mapping[str, Any]) -> str:
    if search["sentences"] == search["short_enough"]:
        return "all are taken."
    return f"{search['sentences']:,}, drawn by chance, are taken."
