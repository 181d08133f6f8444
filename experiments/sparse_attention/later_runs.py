"""Results of a later run beside those that were collected before it, each group marked with the run it is of."""

from __future__ import annotations

from collections import Counter
from typing import Any

SETTING = ("data", "encoder", "projection", "vectors", "control")


def beside(before: dict[str, Any], later: dict[str, Any], run: str) -> dict[str, Any]:
    """What was collected before, with a later run's adversaries and its classifiers that have more seeds.

    Groups stay whole: documents and seeds of two runs are never averaged, since their word vectors differ.
    """
    groups = {_setting(group): group for group in before["classifiers"]}
    taken = [
        {**group, "run": run}
        for group in later["classifiers"]
        if len(groups.get(_setting(group), {"seeds": []})["seeds"]) < len(group["seeds"])
    ]
    searched = _whole(later["adversaries"])
    kept = [search for search in before["adversaries"] if _attacked(search) not in searched]
    added = [{**search, "run": run} for search in later["adversaries"] if _attacked(search) in searched]
    sizes = Counter(group["data"] for group in taken for _ in group["seeds"])
    about = {
        "vectors": later["vectors"],
        "hardware": later["hardware"],
        "classifiers": dict(sizes),
        "bases": [_rates(group) for group in later["classifiers"] if _is_base(group, searched)],
    }
    return {
        **before,
        "classifiers": list((groups | {_setting(group): group for group in taken}).values()),
        "adversaries": [*kept, *added],
        "later_runs": {**before.get("later_runs", {}), run: about},
    }


def _setting(group: dict[str, Any]) -> tuple[str, ...]:
    return tuple(group[name] for name in SETTING)


def _attacked(search: dict[str, Any]) -> tuple[str, str]:
    return (search["job"]["data"], search["job"]["encoder"])


def _is_base(group: dict[str, Any], searched: set[tuple[str, str]]) -> bool:
    return (group["data"], group["encoder"]) in searched and _setting(group)[2:] == ("softmax", "trained", "none")


def _rates(base: dict[str, Any]) -> dict[str, Any]:
    """How the bases of a set and encoder were trained, which need not be told by the classifiers that are kept."""
    trained = base["training"][0]
    return {name: base[name] for name in ("data", "encoder", "seeds", "accuracy")} | {
        name: trained[name] for name in ("learning_rate", "attention_speed")
    }


def _whole(searches: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """The sets and encoders with frozen and unfrozen adversaries of the same seeds: others were cut off."""
    seeds: dict[tuple[str, str], dict[str, set[int]]] = {}
    for search in searches:
        kinds = seeds.setdefault(_attacked(search), {"frozen": set(), "unfrozen": set()})
        kinds[search["kind"]].add(search["job"]["seed"])
    return {attacked for attacked, kinds in seeds.items() if kinds["frozen"] == kinds["unfrozen"]}
