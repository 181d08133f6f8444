"""Writes docs/scoreboard.md from the results files, so that no number there is typed in.

python experiments/scoreboard/write_page.py [--results DIR] [--out docs/scoreboard.md]
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TITLES = {
    "sst2": "Sentiment: the embedded model on SST-2",
    "ag_news": "Topics: the embedded model on AG News",
    "leaves": "Against people: the embedded model on SST with the labels of its words",
    "decoder": "A decoder, read at the next token",
}
COLUMNS = {
    "faithfulness": "faithfulness", "comprehensiveness": "compr.", "sufficiency": "suff.", "monotonicity": "monot.",
    "seed_stability": "seeds", "randomisation": "random weights", "auprc": "AUPRC", "forwards": "forwards",
    "backwards": "backwards", "seconds": "seconds",
}  # fmt: skip

arguments = argparse.ArgumentParser(description="Write the page of the scoreboards.")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "scoreboard.md")


def main(given: argparse.Namespace) -> None:
    lines = [
        "# Which explanation should I believe?",
        "",
        *_wrapped(
            "Made by `experiments/scoreboard/write_page.py` from the files in its folder `results/`. What each column "
            "says is defined in [metrics.md](metrics.md). Ranks that the texts leave open are given as a range; "
            "*random* and *oracle* are controls."
        ),
    ]
    for name, title in TITLES.items():
        path = given.results / f"{name}.json"
        if path.exists():
            lines += ["", f"## {title}", "", *_section(json.loads(path.read_text(encoding="utf-8")))]
    given.out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(given.out)


def _section(board: dict[str, Any]) -> list[str]:
    verdict = board["verdict"]
    lines = [f"**{verdict['answer']}** {board['n_texts']} texts, `{board['model']['id']}`.", ""]
    for reason in verdict["reasons"]:
        lines += textwrap.wrap(reason, 118, initial_indent="- ", subsequent_indent="  ")
    columns = [metric for metric in COLUMNS if metric in board["means"]]
    lines += ["", f"| rank | method | layer | {' | '.join(COLUMNS[metric] for metric in columns)} |"]
    lines.append("|---:|---|---|" + "---:|" * len(columns))
    layers = {entry["name"]: entry["layer"] for entry in board["entries"]}
    for place in board["rankings"]["faithfulness"]:
        first, last = place["ranks"]
        rank = "" if not first else str(first) if first == last else f"{first}–{last}"
        name = place["entry"] if first else f"*{place['entry']}*"
        flag = " (ignores the model)" if first and place["entry"] in board["flagged"] else ""
        cells = [_cell(board["means"][metric][place["entry"]], metric) for metric in columns]
        lines.append(f"| {rank} | {name}{flag} | {layers[place['entry']]} | {' | '.join(cells)} |")
    return lines


def _cell(found: dict[str, float] | None, metric: str) -> str:
    if found is None:
        return "–"
    if metric in ("forwards", "backwards"):
        return f"{found['mean']:.0f}"
    if metric == "faithfulness":
        return f"{found['mean']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
    return f"{found['mean']:.3f}" if metric == "seconds" else f"{found['mean']:.2f}"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, 120)


if __name__ == "__main__":
    main(arguments.parse_args())
