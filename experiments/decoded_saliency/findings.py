"""What the numbers say, in sentences that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from whence.metrics.many_comparisons import holm

GAME_WORDS = ("revealing", "hiding")
RANKED = ("package", "sane")
SURE = 0.05
ZERO = ("Smooth (AllenNLP)",)
"""Explainers whose scores are zero by construction: features of a gradient sum to zero below a LayerNorm."""
SAID = {"better": "better than", "worse": "worse than", "not told apart": "not told apart from"}


def comparison(row: dict[str, Any], p: float) -> str:
    """Better, worse, or not told apart: higher is better in revealing, lower in hiding."""
    if p >= SURE:
        return "not told apart"
    gain = row["mean"] if row["game"] == "revealing" else -row["mean"]
    return "better" if gain > 0 else "worse"


def findings(games: dict[str, Any], overlaps: dict[str, Any] | None) -> list[str]:
    """What one data set shows, one point per line."""
    chosen = games["chosen"].get("Decoded Grad-CAM")
    if chosen is None:
        return ["Decoded Grad-CAM was not played."]
    facts = games["contestants"]
    n_layers = len(games["head"]["probability"]) - 1
    here, there = ([facts[name][game]["reporting"]["auc"] for game in GAME_WORDS] for name in (chosen, "Random"))
    points = [
        f"Of the decoded layers, {facts[chosen]['layer']} of {n_layers} is chosen on one half of the texts. On the "
        f"other half it reveals at {here[0]:.3f} and hides at {here[1]:.3f}; random orders get {there[0]:.3f} and "
        f"{there[1]:.3f}."
    ]
    verdicts = _verdicts(games["differences"])
    for game in GAME_WORDS:
        by_verdict: dict[str, list[str]] = {}
        for what, verdict in verdicts.items():
            by_verdict.setdefault(verdict.get(game, "not played against"), []).append(what)
        said = [f"{SAID[verdict]} {'; '.join(whats)}" for verdict, whats in sorted(by_verdict.items())]
        points += [f"In {game} it is {', and it is '.join(said)}."] if said else []
    controls = any(each["group"] == "control" for each in facts.values())
    earned = _earned(verdicts) if controls else []
    return [*points, *earned, *_ranks(facts, chosen), *_below_chance(facts), *(_overlap(overlaps) if overlaps else [])]


def _verdicts(rows: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What the chosen layer is in each game, against each rival."""
    found: dict[str, dict[str, str]] = {}
    for row, p in zip(rows, holm(np.array([row["p"] for row in rows])), strict=True):
        ambiguous = row["what"].startswith(("the best", "the undecoded score at its"))
        rival = f"{row['what']} ({row['rival']})" if ambiguous else row["what"]
        found.setdefault(rival, {})[row["game"]] = comparison(row, p)
    return found


def _earned(verdicts: dict[str, dict[str, str]]) -> list[str]:
    """Whether the gain, if there is one, is the decoding's: each control must be beaten, and never win."""
    controls = {
        "the undecoded score at its own best layer": "the choice of a layer alone",
        "ones in place of the score": "the head without a score",
        "a head with shuffled vocabulary": "a wrong head",
        "scores shuffled among positions": "scores at the wrong positions",
    }
    beaten: list[str] = []
    unbeaten: list[str] = []
    for control, reason in controls.items():
        for what, verdict in verdicts.items():
            if what.startswith(control):
                won = "better" in verdict.values() and "worse" not in verdict.values()
                (beaten if won else unbeaten).append(reason)
    if not beaten and not unbeaten:
        return []
    if not unbeaten:
        return [f"Decoding earns what it gains: it beats {', '.join(beaten)}, in a game at least, and loses to none."]
    also = f" It beats {', '.join(beaten)}." if beaten else ""
    return [f"Decoding alone does not explain the result: it does not beat {', '.join(unbeaten)}.{also}"]


def _ranks(facts: dict[str, Any], chosen: str) -> list[str]:
    rivals = [name for name, each in facts.items() if each["group"] in RANKED]
    if not rivals:
        return []
    ranks, leaders = [], []
    for game in GAME_WORDS:
        sign = -1 if game == "revealing" else 1
        order = sorted([*rivals, chosen], key=lambda name: sign * facts[name][game]["reporting"]["auc"])
        ranks.append(f"{_ordinal(order.index(chosen) + 1)} in {game}")
        leaders.append(f"{order[0]} ({facts[order[0]][game]['reporting']['auc']:.3f}) in {game}")
    return [f"Among {len(rivals) + 1} explainers it is {' and '.join(ranks)}; first are {' and '.join(leaders)}."]


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _below_chance(facts: dict[str, Any]) -> list[str]:
    """The explainers that do not beat random orders, text by text (Holm over the explainers of a game)."""
    found = []
    ranked = [name for name, each in facts.items() if each["group"] in RANKED]
    for game in GAME_WORDS:
        rows = [{"game": game, **facts[name][game]["minus_random"]} for name in ranked]
        corrected = holm(np.array([row["p"] for row in rows]))
        lost = [
            name for name, row, p in zip(ranked, rows, corrected, strict=True) if comparison(row, p) != "better"
        ]  # fmt: skip
        if lost:
            found.append(f"Not better than random orders in {game}: {', '.join(lost)}.")
    return found


def _overlap(overlaps: dict[str, Any]) -> list[str]:
    chosen, methods = overlaps["chosen"], overlaps["methods"]
    if chosen is None or methods.get(chosen, {}).get("overlap") is None:
        return []
    base = f"Its first {overlaps['k']} tokens of two classes overlap by {methods[chosen]['overlap']:.1%}"
    others, lower = _others(overlaps), as_few(overlaps)
    if not others:
        return [f"{base}."]
    if not lower:
        return [f"{base}, and those of no other explainer by as little."]
    return [
        f"{base}; no more do {', '.join(lower)} ({len(lower)} of {len(others)}): the paper's contrast in overlap is "
        "not found here."
    ]


def as_few(overlaps: dict[str, Any]) -> list[str]:
    """The other explainers whose classes share no more tokens than those of the chosen layer."""
    ours = overlaps["methods"][overlaps["chosen"]]["overlap"]
    return sorted(name for name, value in _others(overlaps).items() if value <= ours)


def _others(overlaps: dict[str, Any]) -> dict[str, float]:
    return {
        name: each["overlap"] for name, each in overlaps["methods"].items()
        if each["overlap"] is not None and not name.startswith(("Decoded", "Grad-CAM l")) and name not in ZERO
    }  # fmt: skip
