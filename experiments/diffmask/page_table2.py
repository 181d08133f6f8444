"""The section on masks fitted to single sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from intervals import Interval, difference, with_seeds
from wording import passage, table

COLUMNS = ("precision", "recall", "f1", "sparsity", "optimality")
BEST_STEP, RIVAL, RELEASED = "DiffMask", "REINFORCE, corrected", "REINFORCE, released"


def section_table_2(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Masks fitted to single sentences against the exact optimum, for each model there is a file of."""
    lines = ["", "## Masks fitted to single sentences (Table 2)"]
    lines += passage(
        "The paper gives no step sizes, and not how gates become sets. Settings were chosen on training sentences with"
        " the GRU, by hand and without a record; other models take them over, but for step sizes that are said to be"
        " tuned. “DiffMask” and “REINFORCE, …” without “last step” take, of all steps, the smallest set that meets the"
        " constraint by which it is judged: a choice with hindsight that the paper may not have made, so the last step"
        " stands beside it. “Corrected” gives REINFORCE the multiplier of the constraint, which the released code"
        " leaves out."
    )
    for own in found.values():
        search = own["search"]
        solved, empty = search["sentences"] - search["not_solved"], search.get("sizes", {}).get("0", 0)
        lines += passage(
            f"**{own['model']['name']}** (accuracy {own['model']['accuracy']:.3f}): {search['short_enough']:,} of"
            f" {search['sentences_in_all']:,} {own['split']} sentences have at most {search['longest']} word pieces;"
            f" {_taken(search)} {search['not_solved']:,} were not solved within"
            f" {search['budget']:,} sets and are left out: n = {solved}. Of {empty} the optimum is the"
            f" empty set, which scores an F1 of 1 if it is found; the last two columns are the other {solved - empty}."
            f" Constraint: {own['constraint']}. Gates: {own['gates']}. Among equal optima: {own['ties']}"
            f"{_not_listed(search)}.{_measured(own)} Seeds"
            f" {', '.join(map(str, own['seeds']))}; the optimum drops {search['sparsity']:.1f} %. Intervals are over"
            f" sentences{_over_seeds(own)}.{_tuned(own)}"
        )
        rows = [
            [f"paper: {name}", *(f"{row[column]:.1f}" for column in COLUMNS), "", "", "", ""]
            for name, row in own["paper"].items()
        ]
        for name, row in own["rows"].items():
            cells = [
                f"{number.value:.1f} [{number.low:.1f}, {number.high:.1f}]"
                for number in (scored(own, name, column) for column in COLUMNS)
            ]
            without = ["–" if each is None else f"{each:.1f}" for each in not_empty(own, name)]
            seeds = ", ".join(f"{each:.1f}" for each in row.get("each_seed", {}).get("f1", [])) or "–"
            rows.append([name, *cells, seeds, f"{row['constraint met']:.1f}", *without])
        more = ["f1 by seed", "constraint met", "f1, optimum not empty", "optimality, optimum not empty"]
        lines += table(["", *COLUMNS, *more], rows)
        lines += _order(own)
        lines += _unsolved(own)
        lines += ["", "Settings:", ""]
        for name, row in own["rows"].items():
            settings = ", ".join(f"{key} {value}" for key, value in row["settings"].items() if value is not None)
            lines.append(f"- {name}: {settings}")
    return lines


def _tuned(own: Mapping[str, Any]) -> str:
    """Which step size each side was given, where a record says of which it is the best."""
    said = []
    for family, found in own.get("tuned", {}).items():
        tried = ", ".join(f"{float(rate):g}: {f1:.1f}" for rate, f1 in found["f1_by_rate"].items())
        said.append(f"{family} {found['rate']:g} ({tried}; n = {found['n']})")
    return f" Step sizes are tuned, by F1 on training sentences: {'; '.join(said)}." if said else ""


def scored(own: Mapping[str, Any], name: str, measure: str) -> Interval:
    """A mean in percent, its interval over sentences widened by the seeds where their means are recorded."""
    row = own["rows"][name]
    each = row.get("each_seed", {}).get(measure, [])
    sd = float(np.std(each, ddof=1)) if len(each) > 1 else None
    low, high = row["confidence_intervals_95"][measure]
    return with_seeds(row[measure], low, high, sd, len(each), within=(0, 100))


def _over_seeds(own: Mapping[str, Any]) -> str:
    """Which intervals cover seeds too: those of which each seed's mean was recorded."""
    if len(own["seeds"]) == 1:
        return ", with one seed"
    known = [column for column in COLUMNS if all(column in row.get("each_seed", {}) for row in own["rows"].values())]
    return " and seeds" if len(known) == len(COLUMNS) else f" and, of {', '.join(known)}, seeds"


def _measured(own: Mapping[str, Any]) -> str:
    """Where, if a record says so: another machine than that of the other sections."""
    return f" Measured on {own['hardware']}, torch {own['versions']['torch']}." if "hardware" in own else ""


def _not_listed(search: Mapping[str, Any]) -> str:
    """Sentences with so many equal optima that the search kept some of them only."""
    left = search.get("not_all_optima_listed", 0)
    return f" (of {left} not all were listed)" if left else ""


def not_empty(own: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """F1 and optimality where the optimum keeps a token."""
    found = own["rows"][name].get("where_the_optimum_is_not_empty", {})
    return found.get("f1"), found.get("optimality")


def _order(own: Mapping[str, Any]) -> list[str]:
    """Who comes first, said: of the smallest sets, and of the last steps."""
    lines = []
    for words, ending in (("Smallest sets", ""), ("Last steps", ", last step")):
        ours, rivals = BEST_STEP + ending, RIVAL + ending
        if not {ours, rivals} <= set(own["rows"]):
            continue
        said, places = [], []
        for measure in ("f1", "optimality"):
            one, other = (scored(own, name, measure) for name in (ours, rivals))
            apart = "intervals overlap" if one.high >= other.low and other.high >= one.low else "intervals are disjoint"
            gap = difference(one, other)
            said.append(
                f"{measure} {one.value:.1f} against {other.value:.1f}, {apart}, difference {gap.value:+.1f}"
                f" [{gap.low:+.1f}, {gap.high:+.1f}]"
            )
            places.append("before" if one.value >= other.value else "behind")
        order = f"{places[0]} in both" if len(set(places)) == 1 else f"{places[0]} in f1, {places[1]} in optimality"
        lines += passage(
            f"{words}: DiffMask beside corrected REINFORCE ({'; '.join(said)}) comes {order}; in the paper before."
        )
    return lines


def _unsolved(own: Mapping[str, Any]) -> list[str]:
    """What can be said of the sentences that the search left, and how far they could move the claim at most."""
    n, n_all = own["search"]["not_solved"], own["search"]["sentences"]
    known = {name: row["unsolved"] for name, row in own["rows"].items() if "unsolved" in row}
    if not n or not known:
        return []
    said = "; ".join(
        f"{name} {np.mean(each['kept']):.2f} ({', '.join(f'{kept:.2f}' for kept in each['kept'])}),"
        f" {np.mean(each['constraint met']):.0f} %, {np.mean(each['surely optimal']):.0f} %"
        for name, each in known.items()
    )
    lines = passage(
        f"The {n} unsolved sentences need {own['search']['not_solved_keep_at_least']:.2f} tokens or more on average."
        f" Tokens that are kept of them (by seed), how often within the constraint, and how often surely optimal, as"
        f" few as can be: {said}."
    )
    if {BEST_STEP, RIVAL} <= set(own["rows"]):
        gap = own["rows"][BEST_STEP]["f1"] - own["rows"][RIVAL]["f1"]
        low, high = (((n_all - n) * gap + end * n) / n_all for end in (-100, 100))
        lines += passage(
            f"Whatever F1 they would get, DiffMask − corrected REINFORCE over all {n_all} would lie between {low:+.1f}"
            f" and {high:+.1f} (solved alone: {gap:+.1f})."
        )
    return lines


def _taken(search: Mapping[str, Any]) -> str:
    if search["sentences"] == search["short_enough"]:
        return "all are taken."
    return f"{search['sentences']:,}, drawn by chance, are taken."
