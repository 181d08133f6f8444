"""What benchmarks/README.md says of responses: `benchmarks/responses.py` beside captum and inseq."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "experiments"))

from page_writing import paragraph


def responses_section(report: dict[str, Any]) -> list[str]:
    settings, rows = report["settings"], report["rows"]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    return [
        "",
        f"## Responses: {report['hardware']}",
        "",
        *paragraph(f"""A response (n = 1) of {settings["response_tokens"]} tokens that {report["model"]} wrote after a
        prompt of {settings["prompt_tokens"]}, the same token ids for every package (`benchmarks/responses.py`).
        *tokens* are those of the response whose scores are compared; *apart* is the largest difference over the largest
        score; whence's seconds are of the whole response in every row. *ratio* is of seconds, *of work* of processor
        seconds, which say more where others kept processors busy (*others*: how many on average, while whence ran and
        while the peer did). *for all* is the ratio if a peer that was given only some tokens took as long for each of
        the others: reckoned, not run. {versions}."""),
        "",
        "| method | peer | tokens | whence | peer | ratio | of work | for all | others | apart |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_line(row, settings["response_tokens"]) for row in rows),
        "",
        *paragraph(f"""{_slower(rows)} Gradient x input of every token by itself takes a backward pass for each token,
        here as anywhere: what whence saves beside the others are their forward passes, one a token, and their work
        around them, which leaves no factor of five. Asked for the response as a whole, whence takes one backward pass,
        and the others have no such way."""),
    ]


def _line(row: dict[str, Any], response_tokens: int) -> str:
    others = " / ".join(f"{busy:.1f}" for busy in row.get("busy_others", ()))
    return (
        f"| {row['method']} | {row['package']}, {row['setting']}{', earlier run' if row.get('earlier') else ''} "
        f"| {row['tokens']} | {row['whence_seconds']:.1f} s | {row['seconds']:.1f} s | **{row['ratio']:.1f}** "
        f"| {_number(row.get('processor_ratio'))} | {_number(_for_all(row, response_tokens))} | {others} "
        f"| {row['apart']:.0e} |"
    )


def _number(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1f}"


def _for_all(row: dict[str, Any], response_tokens: int) -> float | None:
    """The ratio of work (or else of seconds) by proportion, where a peer explained some tokens only."""
    if f"{row['tokens']} tokens" not in row["setting"]:
        return None
    ratio: float = row.get("processor_ratio", row["ratio"])
    return ratio * response_tokens / row["tokens"]


def _slower(rows: list[dict[str, Any]]) -> str:
    """Whether whence was slower than any setting of a peer, by the better measure of each row."""
    slower = [row for row in rows if row.get("processor_ratio", row["ratio"]) < 1]
    if not slower:
        return "In no row did whence take longer than the peer, whatever its setting."
    named = "; ".join(f"{row['method']} beside {row['package']}, {row['setting']}" for row in slower)
    return f"**whence took longer than the peer in: {named}.**"
