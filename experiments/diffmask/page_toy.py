"""The section of docs/diffmask.md on the digit-counting task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wording import passage, percent, picture, table


def section_toy(found: Mapping[str, Any], figures: Path, page: Path) -> list[str]:
    lines = ["", "## The digit-counting task (Table 1, Figures 3 and 12)"]
    accuracy = [run["accuracy"] for run in found["runs"]]
    lines += passage(
        f"{found['about']}. Seeds {', '.join(map(str, found['seeds']))}; {found['n_texts']:,} texts,"
        f" n = {found['n_held_out']:,} of them held out; accuracy of the models {min(accuracy):.4f} to"
        f" {max(accuracy):.4f}; {found['seconds']:.0f} s on {found['machine']['cores']} cores for the whole table."
    )

    def pair(numbers: Sequence[float | None] | None) -> str:
        return "" if numbers is None else " / ".join("∞" if each is None else f"{each:.2f}" for each in numbers)

    def ours(row: Mapping[str, Any], metric: str) -> str:
        if row[metric] is None:
            return "∞"
        sd = row[f"{metric}_sd_over_seeds"]
        return f"{row[metric]:.4f}" + ("" if sd is None else f" ± {sd:.4f}")

    rows = [
        [name, pair(row["paper"]), pair(row["notebook"]), ours(row, "kl"), ours(row, "js"), percent(row["silent"])]
        for name, row in found["table"].items()
    ]
    lines += table(["method", "paper: KL / JS", "notebook: KL / JS", "KL", "JS", "texts without any score"], rows)
    lines += passage("± is the standard deviation over seeds.")
    for number in (3, 12):
        path = figures / f"toy-figure-{number}.png"
        if path.exists():
            lines += picture(path, page, f"Figure {number}")
    return lines
