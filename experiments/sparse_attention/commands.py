"""The commands that made the results, with the settings that the results record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paper
from tables import find

HERE = "python experiments/sparse_attention"
TABLES = ("1", "3", "6", "2")


def before(results: dict[str, Any]) -> list[str]:
    """What makes the word vectors and the sets."""
    lines = []
    if about := results["vectors"]:
        size = f"--size {about['size']} --epochs {about['epochs']}"
        lines.append(f"{HERE}/word_vectors.py --text DATA/pretraining_corpus.txt.xz --out WORK/vectors {size}")
    return [*lines, f"{HERE}/prepare.py --data-dir DATA --vectors WORK/vectors --out WORK/corpora"]


def runs(results: dict[str, Any], data: Sequence[str]) -> list[str]:
    """A command a set for the tables, one for its controls, one for its adversaries: sets differ in their settings."""
    lines = []
    for name in data:
        groups = [each for each in results["classifiers"] if each["data"] == name]
        main = [
            find(results, name, encoder, projection)
            for encoder in paper.ENCODERS
            for projection in ("softmax", "sparsemax")
        ]
        first = next(each for each in main if each)
        common = [f"--data {name}", f"--seeds {_all(first['seeds'])}", *_sizes(first)]
        lines.append(f"{HERE}/run.py --table {' '.join(TABLES)} {' '.join(common)} --work WORK")
        controls = [each for each in groups if each["control"] != "none" or each["vectors"] != "trained"]
        if controls:
            seeds = f"--data {name} --seeds {_all(controls[0]['seeds'])}"
            lines.append(f"{HERE}/run.py --table controls {' '.join([seeds, *_measured(first)])} --work WORK")
        adversaries = [each for each in results["adversaries"] if each["job"]["data"] == name]
        if adversaries:
            seeds = _all(sorted({each["job"]["seed"] for each in adversaries}))
            epochs = adversaries[0]["adversaries"][0]["test"]["settings"]["max_epochs"]
            lines.append(
                f"{HERE}/run.py --table 5 --data {name} --seeds {seeds} --adversary-epochs {epochs} --work WORK"
            )
    return lines


def after() -> list[str]:
    return [
        f"{HERE}/collect.py --work WORK --out experiments/sparse_attention/results/results.json",
        f"{HERE}/report.py",
    ]


def _sizes(group: dict[str, Any]) -> list[str]:
    sample = [f"--sample {group['forms']['tau']['n_documents']}"] if "forms" in group else []
    return [*_measured(group), *sample]


def _measured(group: dict[str, Any]) -> list[str]:
    """How many test documents importance was measured on, where that was not all."""
    n_measured = group["documents"]["n_words"]["n_documents"] if "documents" in group else group["sizes"]["test"]
    return [] if n_measured == group["sizes"]["test"] else [f"--n-measured {n_measured}"]


def _all(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
