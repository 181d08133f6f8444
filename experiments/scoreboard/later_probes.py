"""A board that was read again with later probes: what these get, on the same texts, beside fewer methods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parents[1] / "one_pass" / "results"
READ_AGAIN = ("decoder",)
"""Boards whose probes learnt the shares of the network held still: those of a decoder came to learn AttnLRP's."""
LEARNED = ("one_pass", "amortised_shapley")
SAME = 0.005  # by how much the random scores of a text may differ on two machines


@dataclass(frozen=True)
class LaterProbes:
    """The later board and what each of its methods got on each text."""

    board: Mapping[str, Any]
    texts: Mapping[str, Sequence[float]]

    @staticmethod
    def of(name: str, board: Mapping[str, Any], texts: Mapping[str, Sequence[float]]) -> LaterProbes | None:
        """Those of a board that was read again: the same model and texts, on which random scores got what they got
        before."""
        file, run = FOLDER / f"{name}.json", FOLDER / f"{name}.run.json"
        if name not in READ_AGAIN or not (file.exists() and run.exists() and "random" in texts):
            return None
        later = LaterProbes(_read(file), _read(run)["faithfulness"])
        same = board["model"]["id"] == later.board["model"]["id"] and _near(texts["random"], later.texts["random"])
        return later if same else None

    @property
    def means(self) -> dict[str, float]:
        """Of the methods whose probes are later."""
        return {name: each["mean"] for name, each in self.board["means"]["faithfulness"].items() if name in LEARNED}

    def told(self) -> str:
        """A paragraph of the board's section."""
        found = {name: self.board["means"]["faithfulness"][name] for name in LEARNED}
        said = " and ".join(
            f"{name} gets {each['mean']:.2f} [{each['low']:.2f}, {each['high']:.2f}]" for name, each in found.items()
        )
        others = [each for each in self.board["entries"] if each["kind"] == "method" and each["name"] not in LEARNED]
        return (
            "The probes of this board learnt the shares of the network held still. With probes as they are fitted "
            f"now, which learn those of attn_lrp, {said} on the same n = {self.board['n_texts']} texts, read again "
            f"beside {len(others)} of the other methods: {self.board['verdict']['answer']} "
            "See [one_pass.md](one_pass.md)."
        )


def _near(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and bool(np.abs(np.subtract(one, other)).max() < SAME)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
