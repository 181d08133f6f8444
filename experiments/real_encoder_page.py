"""Writes docs/real_encoder.md from the records of real_encoder.py, so that no number is typed in.

    python experiments/real_encoder_page.py --results FOLDER [--out docs/real_encoder.md]

FOLDER is what `real_encoder.py collect` packed, unpacked. A part appears when its records are there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from intervals import Interval, difference, with_seeds
from page_writing import paragraph
from real_encoder_figures import of_questions, of_sentences
from verdict import RULE, Asks, Claim, Here, claims_table

HERE = Path(__file__).parent
POINTS = 100
READINGS = {"input": ("top", "inputs"), "hidden": ("mean", "hidden states")}
WITHIN = -1.0  # points of macro-F1 that may be lost
MASKED = 60.0  # percent of a reader's states, on average, while its answers stay
GAMES: dict[str, tuple[int, Asks]] = {"revealing": (0, "> 0"), "hiding": (1, "< 0")}


def papers(experiment: str) -> Any:
    """The numbers of a paper; every experiment's are in a file of the same name."""
    spec = importlib.util.spec_from_file_location(f"{experiment}_paper", HERE / experiment / "paper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sst_claims(runs: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """The change in macro-F1 on test: the mean of the fine-tunings, each the mean of its probes' seeds."""
    paper, claims = papers("diffmask"), []
    for kind, (reading, words) in READINGS.items():
        rows = [run["test"]["recipes"][kind][reading] for run in runs if kind in run["test"]["recipes"]]
        if not rows:
            continue
        change, low, high = (
            POINTS * float(np.mean([row["macro_f1_change"][key] for row in rows])) for key in ("value", "low", "high")
        )
        each = [POINTS * row["macro_f1_change"]["value"] for row in rows]
        spread = float(np.std(each, ddof=1)) if len(each) > 1 else None
        masked = POINTS * float(np.mean([row["masked"]["value"] for row in rows]))
        agreement = POINTS * float(np.mean([row["agreement"]["value"] for row in rows]))
        there = paper.SST_F1[kind]
        seeds = f"{len(rows)} x {runs[0]['test']['recipes'][kind]['n_seeds']}"
        note = f"{masked:.0f} % masked, agreement {agreement:.0f} %"
        here = Here(
            with_seeds(change, low, high, spread, len(each)), runs[0]["test"]["n_texts"], seeds, "test", note=note
        )
        theirs = there["masked_f1"] - paper.SST_F1["unmasked"]
        said = f"SST: change in macro-F1, {there['masked']} % of {words} masked"
        claims.append(Claim(said, theirs, "at least", here, digits=1, signed=True))
        claims.append(Claim(f"{said}: within a point (our aim)", WITHIN, "at least", here, digits=1, signed=True))
        share = [POINTS * row["masked"]["value"] for row in rows]
        ends = [POINTS * float(np.mean([row["masked"].get(key, row["masked"]["value"]) for row in rows]))
                for key in ("low", "high")]  # fmt: skip
        spread = float(np.std(share, ddof=1)) if len(share) > 1 else None
        number = with_seeds(masked, min(ends[0], masked), max(ends[1], masked), spread, len(share), (0, 100))
        here = Here(number, runs[0]["test"]["n_texts"], seeds, "test")
        claims.append(Claim(f"SST: percent of {words} masked", there["masked"], "at least", here, digits=1))
        stable = [run["stability"][kind]["ddof_1_mean_of_sentences"] for run in runs if kind in run["stability"]]
        number = Interval(*(float(np.mean([each[key] for each in stable])) for key in ("value", "low", "high")))
        claims.append(
            Claim(f"SST: spread (sd) over seeds, {words}", paper.SST_STABILITY[kind], "at most",
                  Here(number, runs[0]["n_texts"], seeds, "dev"), digits=4)
        )  # fmt: skip
    return claims


def squad_claims(found: Mapping[str, Any]) -> list[Claim]:
    """Answers that all layers keep, and the share of hidden states that is masked meanwhile."""
    paper, claims = papers("diffmask"), []
    for kind, (_, words) in READINGS.items():
        seeds = found[kind].get("seeds", [found[kind]])
        kept = [run["answers_kept"]["0.5"]["all_layers"] for run in seeds]
        each = [run["value"] for run in kept]
        value, low, high = (float(np.mean([run[key] for run in kept])) for key in ("value", "low", "high"))
        masked = POINTS * float(np.mean([run["mean"]["masked"]["value"] for run in seeds]))
        open_layers = sorted({str(row["layer"]) for run in seeds for row in run["layers"] if row["masked"] < 0.02})
        note = f"{masked:.0f} % masked" + (f", stuck open: {', '.join(open_layers)}" if open_layers else "")
        number = with_seeds(value, low, high, float(np.std(each, ddof=1)) if len(each) > 1 else None, len(each), (0, 1))
        here = Here(number, found["n_texts"], len(each), "dev", note=note)
        claims.append(Claim(f"SQuAD: all layers keep the answer, {words}", paper.ANSWER_KEPT, "at least", here))
        value, low, high = (
            POINTS * float(np.mean([run["mean"]["masked"][key] for run in seeds])) for key in ("value", "low", "high")
        )
        here = Here(Interval(value, low, high), found["n_texts"], len(each), "dev")
        claims.append(Claim(f"SQuAD: percent of {words} masked, mean of layers (our aim)", MASKED, "at least", here, 1))
    return claims


def table2_claims(own: Mapping[str, Any]) -> list[Claim]:
    """DiffMask's F1 and optimality, and its distance from its rival."""
    n = own["search"]["sentences"] - own["search"]["not_solved"]
    note = f"{own['search']['not_solved']} unsolved, {own['search']['sizes'].get('0', 0)} empty optima"

    def of(row: str, measure: str) -> Interval:
        facts = own["rows"][row]
        each = facts["each_seed"][measure]
        spread = float(np.std(each, ddof=1)) if len(each) > 1 else None
        return with_seeds(facts[measure], *facts["confidence_intervals_95"][measure], spread, len(each), (0, 100))

    def here(number: Interval) -> Here:
        return Here(number, n, len(own["seeds"]), own["split"], note=note)

    claims = [
        Claim(f"Table 2: {measure} of DiffMask", own["paper"]["DiffMask"][measure], "at least",
              here(of("DiffMask", measure)), digits=1)
        for measure in ("f1", "optimality")
    ]  # fmt: skip
    theirs = own["paper"]["DiffMask"]["f1"] - own["paper"]["REINFORCE"]["f1"]
    apart = difference(of("DiffMask", "f1"), of("REINFORCE, corrected", "f1"))
    return [*claims, Claim("Table 2: F1, DiffMask − corrected REINFORCE", theirs, "> 0", here(apart), digits=1)]


def decoded_claims(name: str, found: Mapping[str, Any]) -> list[Claim]:
    """The layer chosen on one half, on the other, against the paper's baseline."""
    paper, claims = papers("decoded_saliency"), []
    best, base = paper.GAMES[name][paper.BEST[name]], paper.GAMES[name]["Grad-CAM l0"]
    for row in found["differences"]:
        if row["what"] != "the undecoded score at layer 0":
            continue
        column, asks = GAMES[row["game"]]
        here = Here(Interval(row["mean"], row["low"], row["high"]), row["n"], 1, "half", note=row["ours"])
        said = f"{name}, {row['game']}: decoded − layer 0"
        claims.append(Claim(said, best[column] - base[column], asks, here, digits=3))
    return claims


def what_decoding_earns(games: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Against the same score undecoded and the controls, of which the paper says nothing."""
    lines = ["", "## Does decoding earn anything beyond the choice of the layer?", ""]
    lines += ["| data | against | revealing | hiding |", "|---|---|---|---|"]
    for name, found in games.items():
        rows: dict[str, dict[str, str]] = {}
        for row in found["differences"]:
            rows.setdefault(row["what"], {})[row["game"]] = (
                f"{row['mean']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
            )
        lines += [f"| {name} | {what} | {cells.get('revealing', '–')} | {cells.get('hiding', '–')} |"
                  for what, cells in rows.items()]  # fmt: skip
    return lines


def ranking(boards: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Mean faithfulness of every method on the boards' texts."""
    lines = ["", "## The scoreboard", "", "| method | " + " | ".join(boards) + " |", "|---" * (len(boards) + 1) + "|"]
    means = {name: {method: float(np.mean(values)) for method, values in run["faithfulness"].items()}
             for name, run in boards.items()}  # fmt: skip
    first = next(iter(means.values()))
    for method in sorted(first, key=first.__getitem__, reverse=True):
        cells = [f"{own[method]:.3f}" if method in own else "–" for own in means.values()]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def page(results: Path, out: Path) -> list[str]:
    def read(name: str) -> Any:
        path = results / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    runs = [own for seed in range(3) if (own := read(f"results/sst/mpnet_sst_{seed}.json"))]
    squad, table2 = read("results/squad/mpnet_squad.json"), read("results/table2/table2_mpnet.json")
    games = {name: own for name in ("sst2", "ag_news") if (own := read(f"results/decoded/{name}-games.json"))}
    boards = {name: own for name in ("sst2", "ag_news") if (own := read(f"results/boards/{name}.run.json"))}
    claims = [
        *(sst_claims(runs) if runs else []),
        *(squad_claims(squad) if squad else []),
        *(table2_claims(table2) if table2 else []),
        *(claim for name, found in games.items() for claim in decoded_claims(name, found)),
    ]
    lines = ["# On a real encoder of twelve layers", ""]
    tuned = {name: own for name in ("sst5-0", "sst5-1", "sst5-2", "squad-0", "sst2-0", "ag_news-0")
             if (own := read(f"mpnet-{name}/results.json"))}  # fmt: skip
    lines += paragraph(
        "MPNet-base (12 x 768), fine-tuned in the ordinary way: "
        + "; ".join(f"{name} {fine_tuning(own)}" for name, own in tuned.items())
        + ". `experiments/real_encoder.py plan` prints every command."
    )
    lines += ["", *claims_table(claims), "", *paragraph(RULE)]
    pictures = out.parent / "figures" / out.stem
    lines += of_sentences(runs[0], pictures, out) if runs and "figures" in runs[0] else []
    lines += of_questions(squad, pictures, out) if squad else []
    lines += what_decoding_earns(games) if games else []
    lines += ranking(boards) if boards else []
    if head := read("mpnet-head/head.json"):
        lines += [
            "",
            "## The head",
            "",
            "| layer | probability of the word that stands there | median rank |",
            "|---|---|---|",
        ]
        lines += [
            f"| {row['layer']} | {row['mean_probability']:.3f} | {row['median_rank']} |" for row in head["layers"]
        ]
    if stages := [json.loads(line) for line in (results / "results" / "stages.jsonl").read_text().splitlines()]:
        lines += ["", "## What was run", "", "| stage | seconds | |", "|---|---|---|"]
        lines += [f"| {row['stage']} | {row['seconds']} | {row['said']} |" for row in stages]
    return lines


def fine_tuning(own: Mapping[str, Any]) -> str:
    """What a fine-tuned model reaches, and how it was trained."""
    reached = [
        f"{split} " + ", ".join(f"{key} {value:.3f}" for key, value in own[split].items() if key != "n")
        for split in ("dev", "test")
        if split in own
    ]
    return f"({'; '.join(reached)}; {own['epochs']:g} epochs, batch {own['batch']}, {own['rate']:g}, {own['hardware']})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "real_encoder.md")
    args = parser.parse_args(arguments)
    args.out.write_text("\n".join(page(args.results, args.out)).rstrip() + "\n", encoding="utf-8")
    print(args.out)


if __name__ == "__main__":
    main()
