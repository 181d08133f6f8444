"""Writes docs/diffmask.md and its figures from the results files, so that no number there is typed in.

    python experiments/diffmask/write_docs.py [--results DIR] [--out docs/diffmask.md]

A section appears when its results file is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import paper
from page_differences import section_differences
from page_models import section_gaps
from page_squad import section_squad
from page_sst import KINDS, section_embedded, section_figures, section_five_classes
from page_sweep import section_sweep
from page_table2 import section_table_2
from page_toy import section_toy
from wording import between, passage, percent, points, table, verdict, with_sd

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
    args.out.write_text("\n".join(page(found, args.out)).rstrip() + "\n", encoding="utf-8")
    print(args.out)


def page(found: Mapping[str, Any], out: Path) -> list[str]:
    figures = out.parent / "figures" / out.stem
    lines = opening(found) + summary(found)
    if "sentiment" in found:
        lines += section_embedded(found["sentiment"])
    if "sst" in found:
        lines += section_five_classes(found["sst"], figures, out)
        lines += section_figures(found["sst"], figures, out)
    if {"sst", "sst_gaps"} <= set(found):
        lines += section_gaps(found["sst"], found["sst_gaps"], figures, out)
    if "squad" in found:
        lines += section_squad(found["squad"], figures, out)
    if "toy" in found:
        lines += section_toy(found["toy"], figures, out)
    if tables := {name: found[name] for name in ("table2_gru", "table2_bert") if name in found}:
        lines += section_table_2(tables)
    if {"sweep", "sst", "sentiment"} <= set(found):
        largest = {
            "SST-2": found["sentiment"]["sentiment"]["largest_predicted_class"],
            "five-class SST": found["sst"]["unmasked"]["largest_predicted_class"],
        }
        lines += section_sweep(found["sweep"], largest)
    lines += section_differences(found.get("sst"))
    return lines + settings(found)


def opening(found: Mapping[str, Any]) -> list[str]:
    lines = ["# DiffMask, tried again"]
    lines += passage(
        """Made by `experiments/diffmask/write_docs.py` from the files in its folder `results/`. DiffMask (De Cao et
        al., 2020) trains small probes that read a model's states and say which inputs, or which hidden states, it can
        do without. Here it runs on the embedded encoder (a BERT of six layers) and on models fine-tuned from it.
        “Entries” are the layers that probes look at: the word embeddings, the embedding output (0) and the output of
        each block. Gates are deterministic: a token is kept iff it is likelier kept than not."""
    )
    lines += [
        "",
        "```",
        "python experiments/diffmask/finetune.py sst5 --data-dir DATA --out WORK/sst5     # a GPU helps; see README",
        "python experiments/diffmask/fit_probes.py --data-dir DATA --work WORK --jobs 4   # all probes",
        "python experiments/diffmask/sst.py --data-dir DATA --work WORK                   # Figures 5 to 8, stability",
        "python experiments/diffmask/squad.py --data-dir DATA --work WORK                 # Figures 2, 9, 10",
        "python experiments/diffmask/toy.py                                               # Table 1, Figures 3, 12",
        "python experiments/diffmask/table2.py --data-dir DATA                            # Table 2",
        "python experiments/diffmask/write_docs.py",
        "```",
    ]
    some = next((found[name] for name in ("sst", "sentiment", "squad") if name in found), None)
    if some is not None:
        versions = ", ".join(f"{package} {number}" for package, number in some["versions"].items())
        lines += passage(f"Intervals in brackets: {some['intervals']}. Measured on {some['hardware']}; {versions}.")
    return lines


def summary(found: Mapping[str, Any]) -> list[str]:
    rows: list[Sequence[str]] = []
    if "sentiment" in found:
        rows += _two_classes(found["sentiment"]["sentiment"])
    for file, model in (("sst", "plain model"), ("sst_gaps", "model trained with gaps")):
        if file in found:
            rows += _five_classes(found[file], model)
    if "squad" in found:
        own = found["squad"]["input"]["answers_kept"]["0.5"]["all_layers"]
        wanted = f"{percent(paper.ANSWER_KEPT, 0)} of predictions (paper)"
        n_texts = found["squad"]["n_texts"]
        rows.append(
            ["SQuAD: all layers keep the predicted answer (inputs)", wanted, f"{between(own)}, n = {n_texts}", ""]
        )
    if "toy" in found:
        rows += _toy(found["toy"])
    for name in ("table2_gru", "table2_bert"):
        if name in found:
            own, least = found[name]["rows"]["DiffMask"], paper.TARGETS
            met = own["f1"] >= least["table2_f1"] and own["optimality"] >= least["table2_optimality"]
            rows.append(
                [
                    f"Table 2, {found[name]['model']['name']}: F1 and optimality of DiffMask",
                    f"at least {least['table2_f1']:.0f} and {least['table2_optimality']:.0f} %",
                    f"{own['f1']:.1f} and {own['optimality']:.1f} %",
                    verdict(met),
                ]
            )
    return ["", "## In short", *table(["what", "asked", "got", ""], rows)]


def _two_classes(own: Mapping[str, Any]) -> list[Sequence[str]]:
    least: Mapping[str, Any] = paper.TARGETS
    rows: list[Sequence[str]] = []
    for kind, reading, words in (("input", "top", "top entry"), ("hidden", "mean", "mean over entries")):
        got = own[kind][reading]
        agreement, masked = least[f"sst2_{kind}_agreement"], least[f"sst2_{kind}_masked"]
        met = got["agreement"]["value"] >= agreement and got["masked"]["value"] >= masked
        rows.append(
            [
                f"SST-2, embedded probes, {KINDS[kind]}, {words}: agreement and share masked",
                f"at least {agreement} and {masked:.2f}",
                f"{between(got['agreement'])} and {between(got['masked'])}, n = {own['n_texts']}",
                verdict(met),
            ]
        )
    return rows


def _five_classes(own: Mapping[str, Any], model: str) -> list[Sequence[str]]:
    least: Mapping[str, Any] = paper.TARGETS
    rows: list[Sequence[str]] = []
    for kind, reading, words in (
        ("input", "top", "top entry"),
        ("input", "mean", "mean over entries"),
        ("hidden", "mean", "mean over entries"),
        ("hidden", "top", "top entry"),
    ):
        got, on_test = (part["recipes"][kind][reading] for part in (own, own["test"]))
        masked = least[f"sst5_{kind}_masked"]
        met = got["macro_f1_change"]["value"] >= -least["sst5_f1_loss"] and got["masked"]["value"] >= masked
        there = paper.SST_F1[kind]
        rows.append(
            [
                f"five-class SST, {model}, {KINDS[kind]}, {words}: change in macro-F1, share masked, mean of 5 seeds",
                f"no more than 1 point lost with at least {percent(masked, 0)} (paper:"
                f" {there['masked_f1'] - paper.SST_F1['unmasked']:+.1f} with {there['masked']} %)",
                f"{points(got['macro_f1_change'])} points with {with_sd(got['masked'], 100, 1)} %,"
                f" n = {own['n_texts']}; on test {points(on_test['macro_f1_change'])} with"
                f" {with_sd(on_test['masked'], 100, 1)} %, n = {own['test']['n_texts']}",
                verdict(met),
            ]
        )
    for kind in KINDS:
        got = own["stability"][kind]["ddof_1"]
        most = least[f"sst5_{kind}_sd"]
        rows.append(
            [
                f"{model}: five-seed standard deviation of keep probabilities, {KINDS[kind]}",
                f"at most {most} (paper: {paper.SST_STABILITY[kind]})",
                f"{got:.4f} (ddof 0: {own['stability'][kind]['ddof_0']:.4f})",
                verdict(got <= most),
            ]
        )
    lost = [seed for kind in KINDS for seed in own["recipes"][kind]["collapsed_seeds"]]
    runs = sum(own["recipes"][kind]["n_seeds"] for kind in KINDS)
    rows.append(
        [
            f"{model}: runs that collapsed at any layer",
            "none",
            f"{', '.join(lost) or 'none'} of {runs}",
            verdict(not lost),
        ]
    )
    return rows


def _toy(own: Mapping[str, Any]) -> list[Sequence[str]]:
    least: Mapping[str, Any] = paper.TARGETS
    mask, one_hot = own["table"]["DiffMask, hidden"], own["table"]["erasure, one-hot"]
    low, high = least["toy_erasure_js"]
    met = mask["kl"] is not None and mask["kl"] <= least["toy_kl"] and mask["js"] <= least["toy_js"]
    return [
        [
            f"digit counting, DiffMask on hidden states: KL and JS to the truth, mean of {len(own['seeds'])} seeds",
            f"at most {least['toy_kl']} and {least['toy_js']}",
            f"{mask['kl']:.4f} and {mask['js']:.4f}" if mask["kl"] is not None else "∞",
            verdict(met),
        ],
        [
            "digit counting, JS of the one-hot reading of erasure",
            f"{low} to {high}",
            f"{one_hot['js']:.4f}",
            verdict(low <= one_hot["js"] <= high),
        ],
    ]


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
