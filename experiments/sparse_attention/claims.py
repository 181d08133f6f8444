"""The paper's claims as rows with a verdict: differences between cells of its tables, each the mean of its seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import paper
from intervals import Interval, of_rank_correlation, over
from tables import NAMES, PAIRS, UNIFORM, Results, chosen_adversary, find, sound_searches
from verdict import Asks, Claim, Here

SPARSE, DENSE = "sparsemax", "softmax"
WITHOUT = "one seed, bases trained anew"
Quantity = Callable[[Results, tuple[str, str, str], str], list[float]]  # of a cell, by seed


@dataclass(frozen=True)
class Cell:
    """A difference here, by seed, and in the paper; flagged if it ranks words by uniform attention."""

    here: list[float]
    paper: float
    uniform: bool


def claims(results: Results, data: Sequence[str], *, uniform: bool = True) -> list[Claim]:
    """All claims; without the cells of uniform attention if asked for."""

    def judged(words: str, asks: Asks, found: Sequence[Cell], note: str = "", without: str = "not measured") -> Claim:
        return _judged(words, asks, [cell for cell in found if uniform or not cell.uniform], note, without)

    return [
        judged("Figure 1: τ with gradients, states − inputs", "> 0", _levels(results, data, "g", _taus)),
        judged("Figure 4: leave-one-out", "> 0", _levels(results, data, "D", _taus)),
        judged("τ at states, sparsemax − softmax", "> 0", _sparser(results, data, ("g_h",), _taus)),
        judged("the same, share of what ties leave", "> 0", _sparser(results, data, ("g_h",), _shares)),
        judged("Figure 3: τ with inputs, sparsemax − softmax", "< 0", _sparser(results, data, ("g_x", "D_x"), _taus)),
        judged("Table 1: entropy of influence, sparsemax − softmax", "< 0", _influence(results, data)),
        _sweep(results, data),
        judged(
            f"{_of_table_5(results, data)}: accuracy, unfrozen − frozen adversaries",
            "> 0",
            _adversaries(results, data),
            _far_enough(results, data),
            WITHOUT,
        ),
    ]


def as_shares(results: Results, data: Sequence[str]) -> list[Claim]:
    """The claims on τ once more, each τ as the share of what ties leave open."""
    states, inputs = _sparser(results, data, ("g_h",), _shares), _sparser(results, data, ("g_x", "D_x"), _shares)
    return [
        _judged("Figure 1: gradients, states − inputs", "> 0", _levels(results, data, "g", _shares)),
        _judged("Figure 4: leave-one-out, states − inputs", "> 0", _levels(results, data, "D", _shares)),
        _judged("gradients at states, sparsemax − softmax", "> 0", states),
        _judged("Figure 3: inputs, sparsemax − softmax", "< 0", inputs),
    ]


def _judged(words: str, asks: Asks, found: Sequence[Cell], note: str = "", without: str = "not measured") -> Claim:
    """A claim on the mean of some cells."""
    cells = [cell for cell in found if cell.here]
    if not cells:
        return Claim(words, None, None, None, why_not=without)
    if len(cells) == 1:
        return Claim(words, None, None, None, why_not="one cell, without an interval")
    side = 1 if asks == "> 0" else -1
    seeds = [side * each > 0 for cell in cells for each in cell.here]
    counted = f"{sum(seeds)} of {len(seeds)} by seed{note}"
    number = over([float(np.mean(cell.here)) for cell in cells])
    theirs = float(np.mean([cell.paper for cell in cells]))
    if round(side * theirs, 2) <= 0:
        return Claim(words, None, None, None, why_not="the paper's own mean has another sign in these cells")
    here = Here(number, len(cells), _from_to({len(cell.here) for cell in cells}), "test", of="cells", note=counted)
    return Claim(words + "†" * any(cell.uniform for cell in cells), theirs, asks, here)


def _from_to(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def share_of_the_possible(tau: float, null: float) -> float:
    """How much of the rank correlation that ties leave open is reached: 0 by chance, 1 if all words are in order."""
    return (tau - null) / (1 - null)


def _seeds(results: Results, cell: tuple[str, str, str], quantity: str) -> list[float]:
    group = find(results, *cell) or {}
    summary = group.get("influence") if quantity == "influence" else group.get("documents", {}).get(quantity)
    return [each for each in summary["by_seed"] if each is not None] if summary else []


def _taus(results: Results, cell: tuple[str, str, str], measure: str) -> list[float]:
    return _seeds(results, cell, f"tau {measure}")


def _shares(results: Results, cell: tuple[str, str, str], measure: str) -> list[float]:
    taus, nulls = (_seeds(results, cell, f"{kind} {measure}") for kind in ("tau", "null"))
    return [share_of_the_possible(tau, null) for tau, null in zip(taus, nulls, strict=True)]


def is_uniform(results: Results, *cell: str) -> bool:
    """Whether the attention of these classifiers is so nearly uniform that ranking words by it says little."""
    found = (find(results, *cell) or {}).get("documents", {}).get("entropy attention")
    return bool(found) and found["mean"] >= UNIFORM


def _levels(results: Results, data: Sequence[str], kind: str, of: Quantity) -> list[Cell]:
    """τ with the importance of states, or the share of it that ties leave, less that of inputs."""
    cells = []
    for name in data:
        for encoder, projection in PAIRS:
            states, inputs = (of(results, (name, encoder, projection), f"{kind}_{level}") for level in "hx")
            there = paper.TABLE_6[encoder, projection][name]
            gap = there[f"{kind}_h"][0] - there[f"{kind}_x"][0]
            cells.append(Cell(_less(states, inputs), gap, is_uniform(results, name, encoder, projection)))
    return cells


def _sparser(
    results: Results,
    data: Sequence[str],
    measures: Sequence[str],
    of: Quantity,
) -> list[Cell]:
    """A quantity with sparsemax less the same with softmax, seed by seed."""
    return [
        Cell(
            _less(*(of(results, (name, encoder, each), measure) for each in (SPARSE, DENSE))),
            paper.TABLE_6[encoder, SPARSE][name][measure][0] - paper.TABLE_6[encoder, DENSE][name][measure][0],
            is_uniform(results, name, encoder, DENSE),
        )
        for name in data
        for encoder in paper.ENCODERS
        for measure in measures
    ]


def _influence(results: Results, data: Sequence[str]) -> list[Cell]:
    return [
        Cell(
            _less(*(_seeds(results, (name, encoder, each), "influence") for each in (SPARSE, DENSE))),
            paper.TABLE_1[encoder, SPARSE][name][0] - paper.TABLE_1[encoder, DENSE][name][0],
            False,
        )
        for name in data
        for encoder in paper.ENCODERS
    ]


def _adversaries(results: Results, data: Sequence[str]) -> list[Cell]:
    """Accuracy of the adversaries that learn everything less that of those that learn the attention alone."""
    cells = []
    for name in data:
        for encoder in paper.ENCODERS:
            unfrozen, frozen = (sound_searches(results, name, encoder, kind) for kind in ("unfrozen", "frozen"))
            both = sorted(unfrozen.keys() & frozen.keys())
            right = [[chosen_adversary(each[seed])["accuracy"] for seed in both] for each in (unfrozen, frozen)]
            there = paper.TABLE_5[encoder, "unfrozen"][name][1] - paper.TABLE_5[encoder, "frozen"][name][1]
            cells.append(Cell(_less(*right), there, False))
    return cells


def _of_table_5(results: Results, data: Sequence[str]) -> str:
    """The table, with the sets that its claim rests on if they are not all."""
    sound = [name for name in data if any(sound_searches(results, name, each, "frozen") for each in paper.ENCODERS)]
    return ", ".join(["Table 5", *(NAMES[name] for name in (sound if sound != list(data) else ()))])


def _far_enough(results: Results, data: Sequence[str]) -> str:
    """In how many searches frozen attention was moved as far as the paper's; elsewhere it is spared the loss."""
    frozen = [
        search
        for name in data
        for encoder in paper.ENCODERS
        for search in sound_searches(results, name, encoder, "frozen").values()
    ]
    far = [
        max(each["dev"]["jensen_shannon"] for each in search["adversaries"]) >= search["wanted"] for search in frozen
    ]
    return f", frozen far enough in {sum(far)} of {len(far)}"


def _less(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=False)]


def _sweep(results: Results, data: Sequence[str]) -> Claim:
    """Table 2, over its settings."""
    words = "Table 2: τ of λ with the entropy of input importance"
    found = {
        (each["data"], each["encoder"]): falls_surely(each)
        for each in results["sweep"]
        if each["quantity"] == "entropy g_x" and each["tau_of_means"] is not None and each["data"] in data
    }
    if not found:
        return Claim(words, None, None, None, why_not="not measured")
    sure = sum(number.high < 0 for number in found.values())
    theirs = float(np.mean([paper.TABLE_2[encoder][name] for name, encoder in found]))
    seeds = {
        each["n_models"] // each["n_sparsities"]
        for each in results["sweep"]
        if (each["data"], each["encoder"]) in found
    }
    here = Here(
        over([number.value for number in found.values()]), len(found), _from_to(seeds), "test", of="cells",
        note=f"surely < 0 in {sure} of {len(found)}",
    )  # fmt: skip
    return Claim(words, theirs, "< 0", here)


def falls_surely(swept: dict[str, float]) -> Interval:
    """The rank correlation of one setting of the sweep, with its interval over models."""
    return of_rank_correlation(swept["tau_of_means"], int(swept["n_models"]))


def summary(results: Results, data: Sequence[str]) -> list[str]:
    """What follows for a user; numbers only where they are computed."""
    left = {
        projection: [
            each
            for name in data
            for encoder in paper.ENCODERS
            for each in _shares(results, (name, encoder, projection), "g_h")
        ]
        for projection in (SPARSE, DENSE)
    }
    said = " and ".join(f"{np.mean(each):.2f} ({name}, n = {len(each)})" for name, each in left.items() if each)
    low = [
        f"{NAMES[encoder]} {min(entropies):.3f}, n = {len(entropies)}"
        for encoder in paper.ENCODERS
        if (entropies := [e for name in data for e in _seeds(results, (name, encoder, DENSE), "entropy attention")])
        and min(entropies) >= UNIFORM
    ]
    points = [
        f"A τ near 1 of sparse attention with states is mostly zeros in common: classifiers reach, of what these leave,"
        f" {said}.",
        "Do not read attention, sparse or not, as words' importance: it ranks inputs poorly.",
    ]
    if low:
        points.append(f"Some softmax attention is uniform (lowest entropy: {', '.join(low)}): look before ranking.")
    return points
