"""The commands that made the results, with the settings that the results record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paper

HERE = "python experiments/sparse_attention"


def before(results: dict[str, Any]) -> list[str]:
    """What makes the word vectors and the sets, for every run."""
    vectors = {None: results["vectors"]}
    vectors |= {run: about["vectors"] for run, about in results.get("later_runs", {}).items()}
    return [line for run, about in vectors.items() for line in _prepared(_work(run), about)]


def _prepared(work: str, vectors: dict[str, Any] | None) -> list[str]:
    prepare = f"{HERE}/prepare.py --data-dir DATA"
    if vectors is None:
        return [f"{prepare} --out {work}/corpora"]
    made = f"--out {work}/vectors --size {vectors['size']} --epochs {vectors['epochs']}"
    return [
        f"{HERE}/word_vectors.py --text DATA/pretraining_corpus.txt.xz {made}",
        f"{prepare} --vectors {work}/vectors --out {work}/corpora",
    ]


def _work(run: str | None) -> str:
    """The folder of a run: each later one has its own."""
    return "WORK" if run is None else f"WORK-{'-'.join(run.split())}"


def runs(results: dict[str, Any], data: Sequence[str]) -> list[str]:
    """A command a set for the tables, one for its controls, one for its adversaries: sets differ in their settings."""
    lines = []
    for name in data:
        groups = [each for each in results["classifiers"] if each["data"] == name]
        trained = [each for each in groups if (each["control"], each["vectors"]) == ("none", "trained")]
        compared = [each for each in trained if each["projection"] in ("softmax", "sparsemax")]
        first, swept = compared[0], [each for each in trained if each not in compared] or compared[:1]
        alike = all(first.get(each) == swept[0].get(each) for each in ("seeds", "run"))
        for tables, group in {"1 3 6 2": first}.items() if alike else {"1 3 6": first, "2": swept[0]}.items():
            common = [f"--data {name}", f"--seeds {_all(group['seeds'])}", *_sizes(first)]
            lines.append(f"{HERE}/run.py --table {tables} {' '.join(common)} --work {_work(group.get('run'))}")
        controls = [each for each in groups if each["control"] != "none" or each["vectors"] != "trained"]
        if controls:
            common = [f"--data {name}", f"--seeds {_all(controls[0]['seeds'])}", *_measured(first)]
            lines.append(f"{HERE}/run.py --table controls {' '.join(common)} --work {_work(controls[0].get('run'))}")
        lines += [f"{HERE}/run.py --table 5 --data {name} {each}" for each in _attacks(results, name)]
    return lines


def _attacks(results: dict[str, Any], data: str) -> list[str]:
    """Encoders, seeds and epochs of the adversaries of a set: one line for those that are alike."""
    alike: dict[str, list[str]] = {}
    for encoder in paper.ENCODERS:
        own = [each for each in results["adversaries"]
               if (each["job"]["data"], each["job"]["encoder"]) == (data, encoder)]  # fmt: skip
        if own:
            seeds = sorted({each["job"]["seed"] for each in own})
            epochs = own[0]["adversaries"][0]["test"]["settings"]["max_epochs"]
            work = _work(own[0].get("run"))
            alike.setdefault(f"--seeds {_all(seeds)} --adversary-epochs {epochs} --work {work}", []).append(encoder)
    return [
        options if len(encoders) == len(paper.ENCODERS) else f"--encoders {' '.join(encoders)} {options}"
        for options, encoders in alike.items()
    ]


def after(results: dict[str, Any]) -> list[str]:
    """What gathers the runs, a later one beside those before it, and writes the pages."""
    gathered = "experiments/sparse_attention/results/results.json"
    later = [
        f'{HERE}/collect.py --work {_work(run)} --beside {gathered} --run "{run}" --out {gathered}'
        for run in results.get("later_runs", {})
    ]
    return [f"{HERE}/collect.py --work WORK --out {gathered}", *later, f"{HERE}/report.py"]


def _sizes(group: dict[str, Any]) -> list[str]:
    sample = [f"--sample {group['forms']['tau']['n_documents']}"] if "forms" in group else []
    return [*_measured(group), *sample]


def _measured(group: dict[str, Any]) -> list[str]:
    """How many test documents importance was measured on, where that was not all."""
    n_measured = group["documents"]["n_words"]["n_documents"] if "documents" in group else group["sizes"]["test"]
    return [] if n_measured == group["sizes"]["test"] else [f"--n-measured {n_measured}"]


def _all(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
