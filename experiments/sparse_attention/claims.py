"""What the paper claims, and in how many of the cells it holds in these results; every number is computed."""

from __future__ import annotations

from collections.abc import Sequence

import paper
from tables import NAMES, PAIRS, Results, chosen_adversary, find, in_order, mean_of

SPARSE = ("softmax", "sparsemax")


def claims(results: Results, data: Sequence[str]) -> str:
    """The claims as a list."""
    makers = (_states_over_inputs, _sparsity_and_states, _sparsity_and_inputs, _spread_out, _adversaries, _forms)
    return "\n".join(f"- {text}" for each in makers if (text := each(results, data)))


def _states_over_inputs(results: Results, data: Sequence[str]) -> str:
    cells = [
        tuple(mean_of(results, name, *pair, quantity) for quantity in ("tau g_x", "tau g_h"))
        for name in data
        for pair in PAIRS
    ]
    return (
        "**Attention says more about states than about inputs** (Figure 1): τ with the gradient is larger at the "
        f"states than at the inputs in 12 of 12 of the paper's cells, here in {in_order(cells)}."
    )


def _sparsity_and_states(results: Results, data: Sequence[str]) -> str:
    """The jump from softmax to sparsemax, before and after what ties explain is taken away."""
    raw, beyond_ties = [], []
    for name in data:
        for encoder in paper.ENCODERS:
            taus = [mean_of(results, name, encoder, each, "tau g_h") for each in SPARSE]
            nulls = [mean_of(results, name, encoder, each, "null g_h") for each in SPARSE]
            raw.append(tuple(taus))
            beyond_ties.append(
                tuple(
                    None if tau is None or null is None else tau - null for tau, null in zip(taus, nulls, strict=True)
                )
            )
    return (
        "**Sparse attention ranks words more like the importance of states**: sparsemax has the larger τ than softmax "
        f"in {in_order(raw)} cells (paper: 5 of 6). Less what ties alone explain, it is larger in "
        f"{in_order(beyond_ties)}: words with zero weight have zero gradient by construction."
    )


def _sparsity_and_inputs(results: Results, data: Sequence[str]) -> str:
    cells = [
        tuple(mean_of(results, name, encoder, each, quantity) for each in reversed(SPARSE))
        for name in data
        for encoder in paper.ENCODERS
        for quantity in ("tau g_x", "tau D_x")
    ]
    return (
        "**Sparse attention ranks words less like the importance of inputs** (Figure 3): sparsemax has the smaller τ "
        f"in {in_order(cells)} cells (paper: 7 of 12)."
    )


def _spread_out(results: Results, data: Sequence[str]) -> str:
    lowest = [
        (value, f"{NAMES[group['data']]}, {NAMES[group['encoder']]}, {group['projection']}")
        for group in results["classifiers"]
        if (group["vectors"], group["control"]) == ("trained", "none") and group["data"] in data
        for quantity in ("entropy g_x", "entropy D_x")
        if (value := mean_of(results, group["data"], group["encoder"], group["projection"], quantity)) is not None
    ]
    if not lowest:
        return ""
    value, where = min(lowest)
    return (
        "**Importance is spread over the inputs whatever the projection** (Figure 2): the lowest mean normalised "
        f"entropy is {value:.2f} ({where}; {len(lowest)} means)."
    )


def _adversaries(results: Results, data: Sequence[str]) -> str:
    changes: dict[str, dict[str, float]] = {}
    for record in results["adversaries"]:
        test, job = chosen_adversary(record), record["job"]
        where = f"{NAMES[job['data']]}, {NAMES[job['encoder']]}" + (f", seed {job['seed']}" if job["seed"] else "")
        changes.setdefault(where, {})[record["kind"]] = test["accuracy"] - test["base_accuracy"]
    cells = [(each.get("frozen"), each.get("unfrozen")) for each in changes.values()]
    both = [
        f"{where} {each['frozen']:+.2f} and {each['unfrozen']:+.2f}"
        for where, each in changes.items()
        if len(each) == 2
    ]
    return (
        "**A model trained anew can attend elsewhere at little cost, a frozen one cannot** (Table 5): the unfrozen "
        f"adversary keeps more accuracy than the frozen one for {in_order(cells)} bases (accuracy less the base's, "
        f"frozen and unfrozen: {'; '.join(both)})."
        if cells
        else ""
    )


def _forms(results: Results, data: Sequence[str]) -> str:
    """The appendix's claim that the norm of a state and its coordinates give nearly the same."""
    said = []
    for name in data:
        for encoder, projection in PAIRS:
            forms = (find(results, name, encoder, projection) or {}).get("forms")
            if forms:
                tau, norm, coordinates = (forms[key]["mean"] for key in ("tau", "entropy norm", "entropy coordinates"))
                where = f"{NAMES[name]}, {NAMES[encoder]}, {projection}"
                said.append(f"{where}: τ {tau:.2f}, entropies {norm:.2f} and {coordinates:.2f}")
    if not said:
        return ""
    return (
        "**The norm of a state and its coordinates are influenced alike** (appendix A): the gradient of the norm "
        f"against the whole Jacobian, on a sample of the shorter documents: {'; '.join(said)}."
    )
