"""A board as the page of one-pass explanations reads it: who took part, with which seeds, and who is ahead of whom."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where surely_ahead is

from surely_ahead import surely_ahead

SAME_MEAN = 1e-5  # values of single texts are kept with five digits


@dataclass(frozen=True)
class Judged:
    """A board and, as far as they were kept, the faithfulness of its methods on each text."""

    title: str
    board: Mapping[str, Any]
    texts: Mapping[str, list[float]]

    @staticmethod
    def read(title: str, file: Path, other_runs: Path) -> Judged:
        """From BOARD.json and BOARD.run.json; what the latter lacks may be known from another run of that board in
        `other_runs`, if it judged the same texts with the same means."""
        board = json.loads(file.read_text(encoding="utf-8"))
        means = {each["entry"]: each["mean"] for each in board["rankings"]["faithfulness"]}
        texts: dict[str, list[float]] = {}
        for folder in (other_runs, file.parent):
            run = folder / f"{file.stem}.run.json"
            values = json.loads(run.read_text(encoding="utf-8")).get("faithfulness", {}) if run.exists() else {}
            texts |= {
                name: each for name, each in values.items() if abs(np.mean(each) - means.get(name, np.inf)) < SAME_MEAN
            }
        return Judged(title, board, texts)

    @cached_property
    def means(self) -> dict[str, float]:
        return {each["entry"]: each["mean"] for each in self.board["rankings"]["faithfulness"]}

    @cached_property
    def _ranks(self) -> dict[str, list[int]]:
        return {each["entry"]: each["ranks"] for each in self.board["rankings"]["faithfulness"]}

    @cached_property
    def _ahead(self) -> set[tuple[str, str]] | None:
        """Where all of the board's methods are known text by text."""
        if self.means.keys() != self.texts.keys():
            return None
        return surely_ahead(self.texts, self.board["settings"]["seed"])

    def seeds(self, method: str) -> list[str]:
        """The method as it ships, and with probes of further seeds."""
        return sorted(name for name in self.means if name == method or name.startswith(f"{method}_seed_"))

    def relation(self, one: str, other: str) -> str:
        """By the paired tests, or by the ranks that they left open."""
        if self._ahead is not None:
            above, below = (one, other) in self._ahead, (other, one) in self._ahead
        else:
            here, there = self._ranks[one], self._ranks[other]
            above, below = here[1] < there[0], here[0] > there[1]
        return "surely above" if above else "surely below" if below else "not told apart"
