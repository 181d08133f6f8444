"""Gather the records of all runs into one small file of results: means, spreads, intervals, counts.

    python experiments/sparse_attention/collect.py --work WORK --out experiments/sparse_attention/results/results.json

Where WORK holds a later run alone, `--beside RESULTS --run NAME` adds it to what was collected before: its adversaries,
and the classifiers that have more seeds than those there.
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from later_runs import beside
from training_plan import DIVERGENCE_WEIGHTS

from whence.metrics.confidence import bootstrap

IMPORTANCE = ("documents", "influence", "forms")
SWEPT = ("entropy g_x", "entropy D_x", "tau g_x", "tau D_x")


def collect(work: Path, *, ungated: bool = False) -> dict[str, Any]:
    """The results of every group of runs that differ in their seed alone, of the sweep, and of the adversaries.

    Importance is left out for classifiers that fall short of the paper's accuracy, unless `ungated`.
    """
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for record in _read(work / "runs"):
        if record["gate"] is False and not ungated:
            record = {key: value for key, value in record.items() if key not in IMPORTANCE}
        job = record["job"]
        groups[job["data"], job["encoder"], job["projection"], job["vectors"], job["control"]].append(record)
    vectors = work / "corpora" / "vectors.json"
    return {
        "vectors": json.loads(vectors.read_text()) if vectors.exists() else None,
        "trials": _read(work / "rates"),
        "classifiers": [_classifier(key, records) for key, records in groups.items()],
        "hardware": _hardware(groups),
        "sweep": _sweep(groups),
        "adversaries": _adversaries(_read(work / "adversaries")),
    }


def _read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _hardware(groups: dict[tuple[str, ...], list[dict[str, Any]]]) -> dict[str, dict[str, int]]:
    """How many classifiers of each set were trained and measured where; early records do not say."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (data, *_), records in groups.items():
        found[data].update(record.get("hardware", "not recorded") for record in records)
    return {data: dict(counts) for data, counts in found.items()}


def _adversaries(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adversaries of one base and kind together, by growing divergence weight; searches that were cut off left out."""
    searches: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in sorted(records, key=lambda each: each["dev"]["settings"]["divergence_weight"]):
        key = (*record["job"].values(), record["kind"])
        search = searches.setdefault(key, {**{k: record[k] for k in ("job", "kind", "wanted")}, "adversaries": []})
        search["adversaries"].append({part: record[part] for part in ("base", "dev", "test") if part in record})
    return [search for search in searches.values() if _came_to_an_end(search)]


def _came_to_an_end(search: dict[str, Any]) -> bool:
    """Whether a weight leads as far as wanted and the next smaller one does not, or the largest does not either."""
    far = {each["dev"]["settings"]["divergence_weight"]: each["dev"]["jensen_shannon"] >= search["wanted"]
           for each in search["adversaries"]}  # fmt: skip
    turns = any(far.get(one) is False and far.get(other) is True for one, other in pairwise(DIVERGENCE_WEIGHTS))
    return turns or far.get(DIVERGENCE_WEIGHTS[0]) is True or far.get(DIVERGENCE_WEIGHTS[-1]) is False


def _classifier(key: tuple[str, ...], records: list[dict[str, Any]]) -> dict[str, Any]:
    measured = [record for record in records if "documents" in record]
    summary: dict[str, Any] = dict(zip(("data", "encoder", "projection", "vectors", "control"), key, strict=True))
    alike = ("accuracy", "roc_auc", "gate", "training", "seconds")
    summary |= {
        "seeds": [record["job"]["seed"] for record in records],
        "measured_seeds": [record["job"]["seed"] for record in measured],
        "sizes": records[0]["sizes"],
        "n_words": records[0]["n_words"],
        **{name: [record[name] for record in records] for name in alike},
    }
    if measured:
        names = measured[0]["documents"]
        summary["documents"] = {name: _summary([record["documents"][name] for record in measured]) for name in names}
    influences = [record["influence"] for record in measured if "influence" in record]
    if influences:
        summary["influence"] = _summary([each["entropy"] for each in influences])
        squares = np.mean([each["square"] for each in influences])
        summary["influence"]["spread_over_states"] = math.sqrt(max(0.0, squares - summary["influence"]["mean"] ** 2))
    forms = [record["forms"] for record in measured if "forms" in record]
    if forms:
        summary["forms"] = {name: _summary([each[name] for each in forms]) for name in forms[0]}
    return summary


def _summary(rows: list[list[float | None]]) -> dict[str, Any]:
    """A row per seed, a number per document: mean, spread over documents (of seeds' mean), interval, means by seed."""
    values = np.array(rows, dtype=float)
    by_seed = [float(np.nanmean(row)) if np.isfinite(row).any() else None for row in values]
    defined = np.isfinite(values).any(axis=0)
    if not defined.any():
        return {"mean": None, "n_undefined": int(values.size)}
    averaged = np.nanmean(values[:, defined], axis=0)
    low, high = bootstrap(averaged)
    return {
        "mean": float(np.nanmean(values)),
        "spread": float(np.mean([np.nanstd(row) for row in values if np.isfinite(row).any()])),
        "low": float(low),
        "high": float(high),
        "by_seed": by_seed,
        "n_documents": values.shape[1],
        "n_undefined": int((~np.isfinite(values)).sum()),
    }


def _sweep(groups: dict[tuple[str, ...], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Correlation of λ with entropies and with τ: over the models' means, and over all documents of all of them."""
    from scipy.stats import kendalltau, spearmanr

    found = []
    settings = {key[:2] for key in groups if key[2].startswith("sparsegen")}
    for data, encoder in sorted(settings):
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        pooled: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for key, records in groups.items():
            sparsity = _sparsity(key[2])
            if key[:2] != (data, encoder) or key[3:] != ("trained", "none") or sparsity is None:
                continue
            for record in records:
                for name in SWEPT if "documents" in record else ():
                    values = [value for value in record["documents"][name] if value is not None]
                    pooled[name] += [(sparsity, value) for value in values]
                    points[name] += [(sparsity, float(np.mean(values)))] if values else []
        for name in points:
            models, documents = np.array(points[name]).T, np.array(pooled[name]).T
            found.append(
                {
                    "data": data,
                    "encoder": encoder,
                    "quantity": name,
                    "n_models": models.shape[1],
                    "n_sparsities": len(set(models[0])),
                    "tau_of_means": _number(kendalltau(*models).statistic),
                    "rho_of_means": _number(spearmanr(*models).statistic),
                    "tau_of_documents": _number(kendalltau(*documents).statistic),
                }
            )
    return found


def _sparsity(projection: str) -> float | None:
    if projection == "sparsemax":
        return 0.0
    return float(projection[10:-1]) if projection.startswith("sparsegen") else None


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ungated", action="store_true", help="also classifiers that fall short of the accuracy")
    parser.add_argument("--beside", type=Path, help="results that were collected before this run, and stay")
    parser.add_argument("--run", help="what the later run is called in them")
    args = parser.parse_args()
    if (args.beside is None) != (args.run is None):
        parser.error("--beside and --run go together")
    results = rounded(collect(args.work, ungated=args.ungated))
    if args.beside is not None:
        results = beside(json.loads(args.beside.read_text()), results, args.run)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(results, indent=1) + "\n")
