"""What benchmarks/README.md says of long prompts: `benchmarks/long_prompts.py` beside captum and inseq."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

from long_prompts import WITH_ERROR
from page_writing import paragraph


def long_prompts_section(report: dict[str, Any]) -> list[str]:
    lengths, settings, rows = report["settings"]["lengths"], report["settings"], report["rows"]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    return [
        "",
        f"## Long prompts: {report['hardware']}",
        "",
        *paragraph(f"""The next token of {report["model"]} explained from prompts of {lengths[0]:,} to {lengths[-1]:,}
        tokens, n = 1 of each length (`benchmarks/long_prompts.py`): seconds, and at its peak the growth of the resident
        set, or on a GPU of its tensors. A process whose resident set took more than {settings["most_mb"]:,.0f} MB was
        ended. *slope* is kilobytes per token between the two longest prompts. *work* are the processor seconds of the
        longest prompt, all threads together, and *others* how many processors others kept busy on average meanwhile,
        or, with a ~, how many processes were running when the row began: where that is not near zero, seconds say
        little, work says more, memory says the same, and a GPU's memory that ran out may have been full of theirs.
        Not all rows are of one run: one that is measured again takes the place of the row before. {versions}."""),
        "",
        f"| package | method | {' | '.join(f'{length:,}' for length in lengths)} | slope | work | others |",
        f"|---|---|{'---|' * len(lengths)}---|---|---|",
        *(_line(row, lengths) for row in rows),
        *_beside(rows),
    ]


def _line(row: dict[str, Any], lengths: list[int]) -> str:
    points = {point["tokens"]: f"{point['seconds']:.0f} s, {point['peak_mb']:,.0f} MB" for point in row["points"]}
    if failed := row.get("failed"):
        points[failed["tokens"]] = failed["why"].replace("|", "/").split(". ")[0][:80]
    slope = "" if row["slope_kb"] is None else f"{row['slope_kb']:,.0f} KB"
    cells = " | ".join(points.get(length, "") for length in lengths)
    worked = row["points"][-1].get("processor_seconds") if row["points"] else None
    work = "" if worked is None else f"{worked:.0f} s"
    others = f"{row['busy_others']:.1f}" if "busy_others" in row else f"~{row['others']:.1f}"
    return f"| {row['package']} | {row['method']} | {cells} | {slope} | {work} | {others} |"


def _beside(rows: list[dict[str, Any]]) -> list[str]:
    """How much work each peer did for one of whence, at every length, where both were measured so."""
    ours = {row["method"]: row for row in rows if row["package"] == "whence"}
    told = []
    for row in rows:
        same = row["method"].removesuffix(WITH_ERROR)
        mine = {point["tokens"]: point for point in ours.get(same, row)["points"]}
        ratios = [
            f"{point['processor_seconds'] / mine[point['tokens']]['processor_seconds']:.2f} at {point['tokens']:,}"
            for point in row["points"]
            if "processor_seconds" in point and "processor_seconds" in mine.get(point["tokens"], {})
        ]
        if row["package"] != "whence" and ratios:
            told.append(f"{row['package']}, {row['method']}: {', '.join(ratios)}")
    if not told:
        return []
    return [
        "",
        *paragraph(f"""The peers' work over that of whence (below one: whence worked longer), by tokens:
        {"; ".join(told)}. Integrated gradients of whence always run a forward pass more than captum's usual ones, for
        what the scores should add up to: by count an eighth of the work with two steps, next to nothing with twenty.
        Captum tells what they miss on request, for two passes more. A ratio below .88 has another reason besides, which
        was not looked for."""),
    ]
