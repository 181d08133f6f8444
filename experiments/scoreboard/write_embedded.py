"""Writes what the boards found of each method into the folders of the embedded models, whose pages say it.

python experiments/scoreboard/write_embedded.py [--results DIR] [--out src/whence/embedded]

A method is no better than chance where its interval of faithfulness meets that of random scores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BOARDS = {"sentiment": ("sst2", "SST-2"), "topic": ("ag_news", "AG News")}
CONTROLS = ("random", "single_effects")

arguments = argparse.ArgumentParser(description="Write what the boards found beside the embedded models.")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--out", type=Path, default=ROOT / "src" / "whence" / "embedded")


def findings(board: Mapping[str, Any], data: str) -> dict[str, Any]:
    """Of one board: the methods to believe with the strength of that, those that fail, and all that were ranked."""
    ranked = {each["entry"]: each for each in board["rankings"]["faithfulness"]}
    chance = ranked["random"]["high"]
    judged = [name for name in ranked if name not in CONTROLS]
    return {
        "data": data,
        "n_texts": board["n_texts"],
        "strength": board["verdict"]["strength"],
        "believe": board["verdict"]["believe"],
        "flagged": [name for name in judged if name in board["flagged"]],
        "no_better_than_random": [name for name in judged if ranked[name]["low"] <= chance],
        "judged": judged,
    }


def main(given: argparse.Namespace) -> None:
    for name, (board, data) in BOARDS.items():
        found = findings(json.loads((given.results / f"{board}.json").read_text(encoding="utf-8")), data)
        file = given.out / name / "board.json"
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"{file}: {found['n_texts']} texts, {len(found['judged'])} methods")


if __name__ == "__main__":
    main(arguments.parse_args())
