"""The paper's tables as Markdown, the paper's number before ours in every cell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where intervals is

import numpy as np
import paper
from intervals import Interval, of_rank_correlation, over, with_seeds

PAIRS = [(encoder, projection) for encoder in paper.ENCODERS for projection in ("softmax", "sparsemax")]
NAMES = {
    "bilstm": "BiLSTM, additive",
    "transformer": "Transformer, dot",
    "sst": "SST",
    "20news": "20News",
    "imdb": "IMDb",
}
MEASURES = {"g_x": "gradient", "D_x": "leave-one-out"}
REMOVALS = {
    "D_h": "at the attention (a)",
    "D_h_weight": "weight set to 0, no renormalising",
    "D_h_last_block": "before the last block (b)",
    "D_h_input": "at the input, positions kept (c)",
}

UNIFORM = 0.99  # mean normalised entropy of attention from which words are ranked by its last digits

Results = dict[str, Any]


def find(results: Results, data: str, encoder: str, projection: str, **others: str) -> dict[str, Any] | None:
    """The group of classifiers with these settings, if it was run."""
    wanted = {
        "data": data,
        "encoder": encoder,
        "projection": projection,
        "vectors": "trained",
        "control": "none",
        **others,
    }
    return next((each for each in results["classifiers"] if wanted.items() <= each.items()), None)


def mean_of(results: Results, data: str, encoder: str, projection: str, quantity: str) -> float | None:
    """The mean of a quantity over the documents of a group of classifiers, if it was measured."""
    group = find(results, data, encoder, projection) or {}
    summary = group.get("influence") if quantity == "influence" else group.get("documents", {}).get(quantity)
    return summary["mean"] if summary else None


def in_order(pairs: Sequence[tuple[float | None, ...]]) -> str:
    """In how many pairs the first is the smaller one."""
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    return f"{sum(one < other for one, other in known)} of {len(known)}"


def measured_on(results: Results, data: str) -> str:
    """How many documents and seeds the numbers of a set rest on."""
    group = next((each for each in results["classifiers"] if each["data"] == data and "documents" in each), None)
    if group is None:
        return "not measured"
    seeds = max(len(each["seeds"]) for each in results["classifiers"] if each["data"] == data)
    return f"n = {group['documents']['n_words']['n_documents']:,}, {seeds} seed{'s' if seeds > 1 else ''}"


def _n(group: dict[str, Any] | None) -> list[str]:
    """Documents on which importance was measured, and seeds."""
    summary = (group or {}).get("documents", {}).get("n_words")
    return ["–", "–"] if group is None or summary is None else [f"{summary['n_documents']:,}", str(len(group["seeds"]))]


def _flag(group: dict[str, Any] | None) -> str:
    """A dagger for attention that is all but uniform."""
    entropy = (group or {}).get("documents", {}).get("entropy attention")
    return " †" if entropy and entropy["mean"] is not None and entropy["mean"] >= UNIFORM else ""


def uniform_in_sweep(results: Results, data: str, encoder: str) -> int:
    """At how many λ of the sweep attention is all but uniform, so that a τ with it is one of last digits."""
    swept = ("sparsemax" if value == 0 else f"sparsegen({value:g})" for value in paper.SPARSITIES)
    return sum(bool(_flag(find(results, data, encoder, projection))) for projection in swept)


def table_text(results: Results, table: str, data: Sequence[str]) -> str:
    """One table, of these sets."""
    makers = {"1": table_1, "2": table_2, "3": table_3, "5": table_5, "6": table_6, "controls": controls}
    return makers[table](results, [name for name in paper.SETS if name in data])


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def interval_of(summary: dict[str, Any]) -> Interval:
    """A mean with its interval over documents and seeds; over documents alone if there is one seed."""
    seeds = [each for each in summary["by_seed"] if each is not None]
    sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
    return with_seeds(summary["mean"], summary["low"], summary["high"], sd, len(seeds), within=(-1.0, 1.0))


def _spread(summary: dict[str, Any] | None) -> str:
    if not summary or summary["mean"] is None:
        return "–"
    number, seeds = interval_of(summary), [each for each in summary["by_seed"] if each is not None]
    each = f" ({', '.join(f'{value:.2f}' for value in seeds)})" if len(seeds) > 1 else ""
    return f"{number.value:.2f} ± {summary['spread']:.2f} [{number.low:.2f}, {number.high:.2f}]{each}"


def _undefined(summaries: Sequence[dict[str, Any] | None]) -> str:
    return " / ".join("–" if each is None else str(each["n_undefined"]) for each in summaries)


def table_1(results: Results, data: Sequence[str]) -> str:
    """Entropy of what influences a state."""
    rows = []
    for encoder, projection in PAIRS:
        row = [NAMES[encoder], projection]
        for name in data:
            group = find(results, name, encoder, projection) or {}
            theirs, ours = paper.TABLE_1[encoder, projection][name], group.get("influence")
            states = f" ({ours['spread_over_states']:.2f})" if ours else ""
            row.append(f"{theirs[0]:.2f} ± {theirs[1]:.2f} → **{_spread(ours)}**{states}")
        rows.append(
            [*row, _undefined([(find(results, each, encoder, projection) or {}).get("influence") for each in data])]
        )
    columns = [f"{NAMES[name]} ({measured_on(results, name)})" for name in data]
    return _markdown(["encoder", "attention", *columns, "undefined"], rows)


def table_2(results: Results, data: Sequence[str], quantity: str = "entropy g_x") -> str:
    """Correlation of λ with a quantity; the paper has numbers for the entropy of the gradient at the inputs alone."""
    rows = []
    for encoder in paper.ENCODERS:
        for name in data:
            found = next(
                (each for each in results["sweep"]
                 if (each["data"], each["encoder"], each["quantity"]) == (name, encoder, quantity)), None,
            )  # fmt: skip
            ours = ["–"] * 5
            if found and found["tau_of_means"] is not None:
                number = of_rank_correlation(found["tau_of_means"], found["n_models"])
                flag = " †" if quantity.startswith("tau") and uniform_in_sweep(results, name, encoder) else ""
                ours = [f"{number.value:.3f} [{number.low:.3f}, {number.high:.3f}]{flag}"]
                ours += [_number(found[key], 3) + flag for key in ("rho_of_means", "tau_of_documents")]
                ours += [
                    f"{found['n_models']}",
                    f"{found['n_sparsities']} × {found['n_models'] // found['n_sparsities']}",
                ]
            theirs = f"{paper.TABLE_2[encoder][name]:.3f}" if quantity == "entropy g_x" else "–"
            rows.append([NAMES[encoder], NAMES[name], theirs, *ours])
    head = [
        "encoder",
        "set",
        "paper",
        "τ-b over models",
        "ρ over models",
        "τ-b over documents",
        "n (models)",
        "λ × seeds",
    ]
    return _markdown(head, rows)


def sparsities(results: Results, data: Sequence[str]) -> str:
    """The sweep, λ by λ: does it still classify, how sparse is it, and what becomes of importance."""
    columns = {
        "support": "support s", "entropy attention": "entropy of attention", "entropy g_x": "entropy g(x)",
        "entropy D_x": "entropy D(x)", "tau g_x": "τ g(x)", "tau D_x": "τ D(x)", "tau g_h": "τ g(h)",
        "null g_h": "ties, g(h)",
    }  # fmt: skip
    rows = []
    for name in data:
        for encoder in paper.ENCODERS:
            for value in (None, *paper.SPARSITIES):
                projection = "softmax" if value is None else "sparsemax" if value == 0 else f"sparsegen({value:g})"
                group = find(results, name, encoder, projection)
                if group is None:
                    continue
                numbers = [
                    _number(mean_of(results, name, encoder, projection, key))
                    + (_flag(group) if key.startswith("tau") else "")
                    for key in columns
                ]
                shown = "softmax" if value is None else f"{value:g}"
                right = f"{np.mean(group['accuracy']):.3f}"
                rows.append([NAMES[name], NAMES[encoder], shown, *_n(group), right, *numbers])
    return _markdown(["set", "encoder", "λ", "n", "seeds", "accuracy", *columns.values()], rows)


def trials(results: Results, data: Sequence[str]) -> str:
    """The learning rates that were tried, each with its ROC-AUC on the dev part."""
    rows: dict[tuple[str, ...], dict[tuple[float, float], str]] = {}
    for trial in results["trials"]:
        job = trial["job"]
        if job["data"] in data:
            cell = f"{trial['dev_roc_auc']:.4f} ({trial['n_epochs']})"
            key = (NAMES[job["data"]], NAMES[job["encoder"]], job["projection"])
            rows.setdefault(key, {})[trial["learning_rate"], trial["attention_speed"]] = cell
    columns = sorted({rates for cells in rows.values() for rates in cells})
    head = ["set", "encoder", "attention", *(f"{rate:g}, ×{speed:g}" for rate, speed in columns)]
    return _markdown(head, [[*key, *(cells.get(rates, "–") for rates in columns)] for key, cells in rows.items()])


def detached(results: Results, data: Sequence[str]) -> str:
    """τ with the gradient at the inputs, through the attention and with the attention taken for a constant."""
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            group = find(results, name, encoder, projection)
            documents = (group or {}).get("documents", {})
            cells = [_spread(documents.get(key)) + _flag(group) for key in ("tau g_x", "tau g_x_detached")]
            rows.append([NAMES[name], NAMES[encoder], projection, *_n(group), *cells])
    head = ["set", "encoder", "attention", "n", "seeds", "through the attention", "attention constant"]
    return _markdown(head, rows)


def table_3(results: Results, data: Sequence[str]) -> str:
    """Sizes and accuracies."""
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            group = find(results, name, encoder, projection)
            ours, sizes, seeds, gate, auc = "–", "–", "–", "–", "–"
            if group:
                seeds = str(len(group["seeds"]))
                ours = f"**{_of_seeds(group['accuracy'], digits=3)}**"
                sizes = f"{group['sizes']['train']} / {group['sizes']['test']}"
                gate = "passed" if all(group["gate"]) else f"{sum(group['gate'])} of {len(group['gate'])} passed"
                auc = f"{np.mean(group['roc_auc']):.3f}"
            theirs = " / ".join(map(str, paper.SIZES[name]))
            wanted = f"{paper.ACCURACY[encoder][name]:.2f}"
            rows.append(
                [NAMES[name], f"{theirs} → {sizes}", NAMES[encoder], projection, seeds, wanted, ours, auc, gate]
            )
    head = [
        "set",
        "documents: train / test (n)",
        "encoder",
        "attention",
        "seeds",
        "accuracy, paper",
        "obtained (by seed)",
        "ROC-AUC",
        "gate",
    ]
    return _markdown(head, rows)


def table_5(results: Results, data: Sequence[str]) -> str:
    """Adversaries: as far from their base on the dev part as the paper's, or the farthest."""
    rows = []
    for encoder in paper.ENCODERS:
        for kind in ("frozen", "unfrozen"):
            for name in data:
                apart, right = paper.TABLE_5[encoder, kind][name]
                theirs = [f"{apart:.2f}", f"{right:.2f} ({right - paper.ACCURACY[encoder][name]:+.2f})"]
                rows.append(
                    [NAMES[encoder], kind, NAMES[name], *theirs, *_adversary_cells(results, name, encoder, kind)]
                )
    head = ["encoder", "adversary", "set", "JSD, paper", "accuracy (Δ), paper", "n", "seeds"]
    columns = [
        "JSD",
        "accuracy",
        "Δ",
        "accuracy of the base (by seed)",
        "mean move of ŷ",
        "weight",
        "epochs",
        "run",
    ]
    return _markdown([*head, *columns], rows)


def chosen_adversary(record: dict[str, Any]) -> dict[str, Any]:
    """The first adversary as far from its base as wanted on dev, or the farthest: its numbers on the test part."""
    far = [each for each in record["adversaries"] if each["dev"]["jensen_shannon"] >= record["wanted"]]
    farthest = max(record["adversaries"], key=lambda each: each["dev"]["jensen_shannon"])
    return (far[0] if far else farthest)["test"]


FEWEST_SEEDS = 3


def sound_searches(results: Results, data: str, encoder: str, kind: str) -> dict[int, dict[str, Any]]:
    """The searches that a claim may rest on, by seed: each of one base, at least three of them."""
    found = {
        search["job"]["seed"]: search
        for search in _searches(results, data, encoder, kind)
        if len({each.get("base") for each in search["adversaries"]}) == 1 and "base" in search["adversaries"][0]
    }
    return found if len(found) >= FEWEST_SEEDS else {}


def _searches(results: Results, data: str, encoder: str, kind: str) -> list[dict[str, Any]]:
    found = [
        search
        for search in results["adversaries"]
        if (search["job"]["data"], search["job"]["encoder"], search["kind"]) == (data, encoder, kind)
    ]
    return sorted(found, key=lambda search: search["job"]["seed"])


def _adversary_cells(results: Results, data: str, encoder: str, kind: str) -> list[str]:
    records = _searches(results, data, encoder, kind)
    if not records:
        return ["–"] * 10
    tests = [chosen_adversary(record) for record in records]
    by_seed = [{each["test"]["base_accuracy"] for each in record["adversaries"]} for record in records]
    bases = [each for own in by_seed for each in sorted(own)]
    keys = ("jensen_shannon", "accuracy", "base_accuracy", "prediction_distance")
    apart, right, base, moved = ([each[key] for each in tests] for key in keys)
    change = [one - other for one, other in zip(right, base, strict=True)]
    weights = ", ".join(f"{weight:g}" for weight in sorted({each["settings"]["divergence_weight"] for each in tests}))
    epochs = ", ".join(f"{each['n_epochs']} of {each['settings']['max_epochs']}" for each in tests)
    return [
        f"{tests[0]['n_documents']:,}", str(len(records)), _of_seeds(apart), _of_seeds(right), _of_seeds(change, "+"),
        ", ".join(f"{each:.3f}" for each in bases), f"{np.mean(moved):.2f}", weights, epochs,
        records[0].get("run", "first"),
    ]  # fmt: skip


def _of_seeds(values: Sequence[float], sign: str = "", digits: int = 2) -> str:
    """The mean of the seeds with its interval, and each of them; of one seed its number. A share ends at 0 and 1."""
    mean, low_end, high_end = over(values)
    least = -1.0 if sign else 0.0
    numbers = (mean, max(least, low_end), min(1.0, high_end), *values)
    value, low, high, *each = (f"{number:{sign}.{digits}f}" for number in numbers)
    return f"{value} [{low}, {high}] ({', '.join(each)})" if len(values) > 1 else value


def table_6(results: Results, data: Sequence[str]) -> str:
    """τ with attention: paper → ours | what ties explain; inputs, then states."""
    rows = []
    for level, names in {"inputs x": ("g_x", "D_x"), "states h": ("g_h", "D_h")}.items():
        for encoder, projection in PAIRS:
            row, counts = [level, NAMES[encoder], projection], []
            for name in data:
                group = find(results, name, encoder, projection)
                documents = (group or {}).get("documents", {})
                for measure in names:
                    theirs = paper.TABLE_6[encoder, projection][name][measure]
                    ours, null = documents.get(f"tau {measure}"), documents.get(f"null {measure}")
                    shown = _number(null["mean"] if null else None)
                    row.append(f"{theirs[0]:.2f} ± {theirs[1]:.2f} → **{_spread(ours)}**{_flag(group)} \\| {shown}")
                    counts.append(ours)
            rows.append([*row, _undefined(counts)])
    columns = [f"{NAMES[name]} {kind} ({measured_on(results, name)})" for name in data for kind in MEASURES.values()]
    return _markdown(["of", "encoder", "attention", *columns, "undefined"], rows)


def removals(results: Results, data: Sequence[str]) -> str:
    """τ of attention with leave-one-out of states, under each meaning of "leave out"."""
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            group = find(results, name, encoder, projection)
            documents = (group or {}).get("documents", {})
            theirs = paper.TABLE_6[encoder, projection][name]["D_h"][0]
            cells = []
            for measure in REMOVALS:
                ours, null = documents.get(f"tau {measure}"), documents.get(f"null {measure}")
                cells.append(f"{_spread(ours)}{_flag(group)} \\| {_number(null['mean'] if null else None)}")
            rows.append([NAMES[name], NAMES[encoder], projection, *_n(group), f"{theirs:.2f}", *cells])
    return _markdown(["set", "encoder", "attention", "n", "seeds", "paper", *REMOVALS.values()], rows)


def ties(results: Results, data: Sequence[str]) -> str:
    """How sparse attention is, and the τ with the states' importance that shared zeros alone explain."""
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            group = find(results, name, encoder, projection)
            documents = (group or {}).get("documents")
            if documents is None:
                continue
            keys = (
                "n_words",
                "support",
                "entropy attention",
                "null shared",
                "null g_h",
                "tau g_h",
                "null D_h",
                "tau D_h",
            )
            numbers = [
                _number(documents[key]["mean"]) + (_flag(group) if key.startswith("tau") else "") for key in keys
            ]
            for measure, place in (("g_h", 6), ("D_h", 9)):
                tau, null = (documents[f"{kind} {measure}"]["by_seed"] for kind in ("tau", "null"))
                shares = [(one - other) / (1 - other) for one, other in zip(tau, null, strict=True)]
                numbers.insert(place, ", ".join(f"{share:.2f}" for share in shares))
            rows.append([NAMES[name], NAMES[encoder], projection, *_n(group), *numbers])
    head = [
        "set",
        "encoder",
        "attention",
        "n",
        "seeds",
        "words w",
        "support s",
        "entropy",
        "(w − s) / (w − (s + 1) / 2)",
    ]
    of_states = [f"{what}, {of}" for of in ("g(h)", "D(h)") for what in ("ties", "τ", "share of the possible by seed")]
    return _markdown([*head, *of_states], rows)


def forms(results: Results, data: Sequence[str]) -> str:
    """The norm of a state against its coordinates (appendix A of the paper), on a few of the shorter documents."""
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            found = (find(results, name, encoder, projection) or {}).get("forms")
            if found:
                tau, norm, coordinates = (found[key] for key in ("tau", "entropy norm", "entropy coordinates"))
                cells = [_spread(tau), _number(norm["mean"]), _number(coordinates["mean"])]
                rows.append([NAMES[name], NAMES[encoder], projection, str(tau["n_documents"]), *cells])
    return _markdown(["set", "encoder", "attention", "n", "τ", "entropy, norm", "entropy, coordinates"], rows)


def controls(results: Results, data: Sequence[str]) -> str:
    """Trained classifiers beside untrained ones, ones trained on random labels, and ones with random word vectors."""
    kinds = {
        "trained": {},
        "untrained": {"control": "untrained"},
        "random labels": {"control": "random_labels"},
        "random word vectors": {"vectors": "random"},
    }
    rows = []
    for name in data:
        for encoder, projection in PAIRS:
            for kind, others in kinds.items():
                group = find(results, name, encoder, projection, **others)
                if group is None:
                    continue
                documents = group.get("documents", {})
                cells = [
                    _spread(documents.get(key)) + (_flag(group) if key.startswith("tau") else "")
                    for key in ("tau g_x", "tau D_x", "tau g_h", "tau D_h", "entropy g_x")
                ]
                right = f"{np.mean(group['accuracy']):.3f}"
                rows.append([NAMES[name], NAMES[encoder], projection, kind, *_n(group), right, *cells])
    head = [
        "set",
        "encoder",
        "attention",
        "classifier",
        "n",
        "seeds",
        "accuracy",
        "τ g(x)",
        "τ D(x)",
        "τ g(h)",
        "τ D(h)",
        "entropy g(x)",
    ]
    return _markdown(head, rows)
