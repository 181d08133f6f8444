"""Writes docs/diffmask.md, its appendix and its figures from the results files, so that no number is typed in.

    python experiments/diffmask/write_docs.py [--results DIR] [--out docs/diffmask.md]

A section appears when its results file is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing, verdict and intervals are

from commands import commands
from page_claims import first_screen
from page_differences import section_differences, section_missing
from page_models import section_gaps
from page_squad import section_squad
from page_sst import KINDS, section_embedded, section_figures, section_five_classes
from page_sweep import section_sweep
from page_table2 import section_table_2
from page_toy import section_toy
from wording import passage, table

ROOT = Path(__file__).parents[2]
FILES = ("sst", "sst_gaps", "sentiment", "squad", "toy", "table2_gru", "table2_bert", "sweep")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "diffmask.md")
    args = parser.parse_args(arguments)
    paths = {name: args.results / f"{name}.json" for name in FILES}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figures, second = args.out.parent / "figures" / args.out.stem, args.out.with_stem(f"{args.out.stem}_appendix")
    pages = {
        args.out: first_screen(found, figures, args.out, second.name),
        second: appendix(found, figures, second, args.out.name),
    }
    for path, lines in pages.items():
        path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
        print(path)


def appendix(found: Mapping[str, Any], figures: Path, out: Path, first: str) -> list[str]:
    lines = opening(found, first)
    if "sst" in found:
        lines += section_five_classes(found["sst"], figures, out)
        lines += section_figures(found["sst"], figures, out)
    if "squad" in found:
        lines += section_squad(found["squad"], figures, out)
    if "toy" in found:
        lines += section_toy(found["toy"], figures, out)
    if tables := {name: found[name] for name in ("table2_gru", "table2_bert") if name in found}:
        lines += section_table_2(tables)
    lines += section_missing(tables)
    if "sentiment" in found:
        lines += section_embedded(found["sentiment"])
    if {"sst", "sst_gaps"} <= set(found):
        n_tried = sum(len(one["runs"]) for one in found.get("sweep", {"rounds": []})["rounds"][4:])
        lines += section_gaps(found["sst"], found["sst_gaps"], n_tried, figures, out)
    if {"sweep", "sst", "sst_gaps", "sentiment"} <= set(found):
        largest = {
            "SST-2": found["sentiment"]["sentiment"]["largest_predicted_class"],
            "five-class SST": found["sst"]["unmasked"]["largest_predicted_class"],
        }
        lines += section_sweep(found["sweep"], largest, found["sst_gaps"]["runs"]["hidden-0"]["settings"])
    lines += section_differences(found.get("sst"))
    return lines + settings(found)


def opening(found: Mapping[str, Any], first: str) -> list[str]:
    lines = ["# DiffMask, tried again: appendix"]
    lines += passage(
        f"""All that stands behind [the claims and verdicts]({first}). Made by `experiments/diffmask/write_docs.py` from
        the files in its folder `results/`. “Entries” are the layers that probes look at: the word embeddings, the
        embedding output (0) and the output of each block. Gates are deterministic: a token is kept iff it is likelier
        kept than not. As hidden states the last entry says nothing, since the head reads [CLS] alone there: all other
        tokens can be masked without a change."""
    )
    lines += ["", "```", *commands(found), "```"]
    some = next((found[name] for name in ("sst", "sentiment", "squad") if name in found), None)
    if some is not None:
        versions = ", ".join(f"{package} {number}" for package, number in some["versions"].items())
        lines += passage(f"Intervals in brackets: {some['intervals']}. Measured on {some['hardware']}; {versions}.")
    return lines


def settings(found: Mapping[str, Any]) -> list[str]:
    """How every set of probes was trained, as its config.json has it."""
    sources: dict[str, Any] = {}
    if "sentiment" in found:
        sources |= {
            f"{name}, {kind}": found["sentiment"][name][kind] for name in ("sentiment", "topic") for kind in KINDS
        }
    if "sst" in found:
        sources |= {f"five-class, {key}": run for key, run in found["sst"]["runs"].items()}
    if "sst_gaps" in found:
        sources |= {f"five-class, with gaps, {key}": run for key, run in found["sst_gaps"]["runs"].items()}
    if "squad" in found:
        sources |= {f"SQuAD, {kind}": found["squad"][kind] for kind in KINDS}
    if not sources:
        return []
    names = list(next(iter(sources.values()))["settings"]["recipe"])
    shown = [name for name in names if len({str(run["settings"]["recipe"][name]) for run in sources.values()}) > 1]
    same = {name: next(iter(sources.values()))["settings"]["recipe"][name] for name in names if name not in shown}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, run in sources.items():
        cells = [_cell(run["settings"]["recipe"][setting]) for setting in shown]
        alike.setdefault((f"{run['settings']['n_texts']:,}", *cells), []).append(name)
    rows = []
    for (n_texts, *cells), names in alike.items():
        runs = [sources[name]["settings"] for name in names]
        margins, seconds = ([run[key] for run in runs] for key in ("margin_in_nats", "seconds"))
        rows.append(["; ".join(names), n_texts, _span(margins, 3), _span(seconds, 0), *cells])
    lines = ["", "## Settings of every run"]
    lines += passage("The same in all runs: " + ", ".join(f"{name} {value}" for name, value in same.items()) + ".")
    head = ["probes", "training texts", "margin in nats", "seconds on one H200, shared", *shown]
    return lines + table(head, rows)


def _cell(value: Any) -> str:
    return "–" if value is None else str(value)


def _span(values: Sequence[float], digits: int) -> str:
    low, high = (f"{end:.{digits}f}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    main()
