"""Writes docs/real_encoder.md from the records of stages.py, so that no number is typed in.

    python experiments/real_encoder/write_page.py [--results FOLDER] [--out docs/real_encoder.md]

FOLDER is what `stages.py collect` packed, unpacked. What has no record yet is said to be not tried.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where the rule of all pages is

from intervals import Interval, difference, over, with_seeds
from page_writing import paragraph
from real_encoder_figures import of_questions, of_sentences
from verdict import RULE, Asks, Claim, Here, claims_table

HERE = Path(__file__).parent
EXPERIMENTS, ROOT = HERE.parent, HERE.parents[1]
POINTS = 100
FEWEST = 3  # seeds of probes below which nothing is claimed of a recipe
READINGS = {"input": ("top", "inputs"), "hidden": ("mean", "hidden states")}
WITHIN = -1.0  # points of macro-F1 that may be lost
MASKED = 60.0  # percent of a reader's states, on average, while its answers stay
GAMES: dict[str, tuple[int, Asks]] = {"revealing": (0, "> 0"), "hiding": (1, "< 0")}


def papers(experiment: str) -> Any:
    """The numbers of a paper; every experiment's are in a file of the same name."""
    spec = importlib.util.spec_from_file_location(f"{experiment}_paper", EXPERIMENTS / experiment / "paper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sst_claims(runs: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """The change in macro-F1 on test: the mean of the fine-tunings, each the mean of its probes' seeds."""
    paper, claims = papers("diffmask"), []
    for kind, (reading, words) in READINGS.items():
        there = paper.SST_F1[kind]
        theirs = there["masked_f1"] - paper.SST_F1["unmasked"]
        change = f"SST: change in macro-F1, {there['masked']} % of {words} masked"
        recipes = [run["test"]["recipes"][kind] for run in runs if kind in run["test"]["recipes"]]
        seeds = [own["n_seeds"] for own in recipes]
        if not recipes or min(seeds) < FEWEST:
            why = f"cut short at {min(seeds)} seeds of probes a fine-tuning, see below" if recipes else "no record yet"
            claims.append(Claim(change, theirs, "at least", None, digits=1, signed=True, why_not=why))
            continue
        rows, n_texts = [own[reading] for own in recipes], runs[0]["test"]["n_texts"]
        masked = POINTS * over([row["masked"]["value"] for row in rows]).value
        note = f"{masked:.0f} % masked"
        times = f"{len(rows)} x {seeds[0]}"
        here = Here(of_tunings([row["macro_f1_change"] for row in rows]), n_texts, times, "test", note=note)
        claims.append(Claim(change, theirs, "at least", here, digits=1, signed=True))
        claims.append(Claim(f"{change}: within a point (our aim)", WITHIN, "at least", here, digits=1, signed=True))
        stable = of_tunings([run["stability"][kind]["ddof_1_mean_of_sentences"] for run in runs], scale=1)
        here = Here(stable, runs[0]["n_texts"], times, "dev")
        claims.append(Claim(f"SST: spread (sd) over seeds, {words}", paper.SST_STABILITY[kind], "at most", here, 4))
    return claims


def of_tunings(found: Sequence[Mapping[str, float]], scale: float = POINTS) -> Interval:
    """The mean over fine-tunings of a number with its interval over texts, widened by how far they are apart."""
    value, low, high = (scale * float(np.mean([each[key] for each in found])) for key in ("value", "low", "high"))
    spread = scale * float(np.std([each["value"] for each in found], ddof=1)) if len(found) > 1 else None
    return with_seeds(value, low, high, spread, len(found))


def each_run(runs: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """What masking does on test, run by run: how much is masked, what it costs, what chance would."""
    if not runs:
        return []
    n_texts = next(iter(runs.values()))["test"]["n_texts"]
    lines = ["", "## SST, run by run", ""]
    lines += paragraph(
        f"Test (n = {n_texts:,}). Inputs as the last entry masks them, hidden states as the mean of all entries. *By "
        "chance*: what macro-F1 loses where noise on the logits changes as many answers as a fine-tuning's seeds do on "
        "average."
    )
    lines += [
        "",
        "| masked | fine-tuning | seed | share masked | same answer | change in macro-F1, points | by chance |",
    ]
    lines += ["|---" * 7 + "|"]
    for kind, (reading, words) in READINGS.items():
        for tuning, run in runs.items():
            blind = run["test"]["by_chance"].get(f"{kind}, {reading}", {})
            for key in [key for key in run["test"]["runs"] if key.rpartition("-")[0] == kind]:
                own = run["test"]["runs"][key][reading]
                cells = [words, tuning, key.rpartition("-")[2], f"{own['masked']['value']:.2f}",
                         f"{own['agreement']['value']:.2f}", points(of_tunings([own["macro_f1_change"]])),
                         f"{POINTS * blind['macro_f1_change']:+.1f}" if blind else "–"]  # fmt: skip
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def points(change: Interval) -> str:
    return f"{change.value:+.1f} [{change.low:+.1f}, {change.high:+.1f}]"


def settings_tried(probes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Margins that were tried, and the printed settings, by what they do to training sentences set aside."""
    tried = {name: own for name, own in probes.items() if "margin" in name}
    printed = {name: own for name, own in probes.items() if name.endswith(("paper", "released"))}
    lines = ["", "## Settings, on training texts set aside", ""]
    lines += paragraph(
        "The margin is the one that masks as much as the paper does with the best agreement, else the one that masks "
        "most. n texts are set aside from those trained on; *mean*: of all entries, *last*: the last alone."
    )
    lines += ["", "| run | steps | n | masked, mean | same answer, mean | masked, last | same answer, last |"]
    lines += ["|---" * 7 + "|"]
    for name, own in [*tried.items(), *printed.items()]:
        rows, last = own["results"], own["results"][-1]
        means = [float(np.mean([row[what] for row in rows])) for what in ("masked", "agreement")]
        cells = [name, f"{own['recipe']['steps']:,}", f"{last['n_texts']:,}",
                 *(f"{each:.2f}" for each in (*means, last["masked"], last["agreement"]))]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines if tried or printed else []


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
        low, high = facts["confidence_intervals_95"][measure]
        return with_seeds(facts[measure], low, high, spread, len(each), (0, 100))

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


def not_tried(done: Mapping[str, Any]) -> list[Claim]:
    """Rows of what has no record yet, with what the papers say."""
    paper, said = papers("diffmask"), []
    if not done["squad"]:
        said.append(("SQuAD: all layers keep the answer", paper.ANSWER_KEPT, "fine-tuned, no probes yet"))
    if not done["table2"]:
        said.append(("Table 2 on a BERT-like model: F1 of DiffMask", 87.15, "no record yet"))
    if not done["games"]:
        said.append(("Decoded saliency, twelve layers", None, "no record yet"))
    if not done["boards"]:
        said.append(("The scoreboard's ranking, twelve layers", None, "no record yet"))
    return [Claim(words, number, "at least", None, why_not=why) for words, number, why in said]


def page(results: Path, out: Path) -> list[str]:
    def read(name: str) -> Any:
        path = results / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    models, probes = read("models.json") or {}, read("probes.json") or {}
    runs = {seed: own for seed in range(3) if (own := read(f"sst/mpnet_sst_{seed}.json"))}
    squad, table2 = read("squad/mpnet_squad.json"), read("table2/table2_mpnet.json")
    games = {name: own for name in ("sst2", "ag_news") if (own := read(f"decoded/{name}-games.json"))}
    boards = {name: own for name in ("sst2", "ag_news") if (own := read(f"boards/{name}.run.json"))}
    claims = [
        *(sst_claims([*runs.values()]) if runs else []),
        *(squad_claims(squad) if squad else []),
        *(table2_claims(table2) if table2 else []),
        *(claim for name, found in games.items() for claim in decoded_claims(name, found)),
        *not_tried({"squad": squad, "table2": table2, "games": games, "boards": boards}),
    ]
    lines = ["# On a real encoder of twelve layers", ""]
    lines += paragraph(
        "Is the embedded encoder, with six layers, too small for what the papers found? Here is MPNet-base (12 x 768), "
        "fine-tuned in the ordinary way. Written by `experiments/real_encoder/write_page.py`; `stages.py plan` beside "
        "it prints every command."
    )
    lines += ["", *claims_table(claims), "", *paragraph(RULE)]
    lines += beside_six_layers([*runs.values()])
    lines += each_run(runs)
    lines += settings_tried(probes)
    pictures = out.parent / "figures" / out.stem
    if drawn := read("sst/mpnet_sst_0_figures.json"):
        lines += of_sentences(drawn, pictures, out)
    if squad and (drawn := read("squad/mpnet_squad_figures.json")):
        lines += of_questions({**squad, **drawn}, pictures, out)
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
    return [*lines, *fine_tunings(models), *how_it_was_run(probes, models, [*runs])]


def beside_six_layers(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The answer to the page's question, as far as there is one: what is lost here and on the embedded encoder."""
    smaller = json.loads((EXPERIMENTS / "diffmask" / "results" / "sst.json").read_text(encoding="utf-8"))["test"]
    lines: list[str] = []
    for kind, (reading, words) in READINGS.items():
        recipes = [run["test"]["recipes"][kind] for run in runs if kind in run["test"]["recipes"]]
        if not recipes or min(own["n_seeds"] for own in recipes) < FEWEST:
            continue
        there = smaller["recipes"][kind][reading]
        here = of_tunings([own[reading]["macro_f1_change"] for own in recipes])
        change = there["macro_f1_change"]
        value, low, high, spread = (POINTS * change[key] for key in ("value", "low", "high", "sd"))
        before = with_seeds(value, low, high, spread, smaller["recipes"][kind]["n_seeds"])
        apart = difference(here, before)
        masked = over([own[reading]["masked"]["value"] for own in recipes]).value
        lines += ["", *paragraph(
            f"Masking {POINTS * masked:.0f} % of {words} changes macro-F1 by {points(here)} points on twelve layers; "
            f"on six, masking {POINTS * there['masked']['value']:.0f} % changed it by {points(before)}: apart by "
            f"{points(apart)} (n = {smaller['n_texts']:,} sentences of test)."
        )]  # fmt: skip
    return lines


def fine_tunings(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What every fine-tuned model reaches, and how it was trained."""
    lines = ["", "## The fine-tuned models", "", "| model | epochs, batch, rate | n | reaches |", "|---|---|---|---|"]
    for name, own in models.items():
        for split in ("dev", "test"):
            if split in own:
                reached = ", ".join(f"{key} {value:.3f}" for key, value in own[split].items() if key != "n")
                how = f"{own['epochs']:g}, {own['batch']}, {own['rate']:g}"
                lines.append(f"| {name} | {how} | {own[split]['n']:,} ({split}) | {reached} |")
    return lines if models else []


def how_it_was_run(
    probes: Mapping[str, Mapping[str, Any]], models: Mapping[str, Mapping[str, Any]], measured: Sequence[int]
) -> list[str]:
    """Hardware, versions, time, and what there was no time for."""
    if not models:
        return []
    left = sorted({int(name.split("-")[2]) for name in probes if name.startswith("mpnet-sst5")} - {*measured})
    machine = " and ".join(sorted({f"{own['hardware']}, torch {own['torch']}, transformers {own['transformers']}"
                                   for own in models.values()}))  # fmt: skip
    fitted = sum(own["seconds"] for own in probes.values())
    told = (
        f"{machine}. {len(models)} fine-tunings took {sum(own['seconds'] for own in models.values()):.0f} s and "
        f"{len(probes)} sets of probes {fitted:,.0f} s, added up: some 6 to 22 at a time shared the GPU, so these are "
        "no claims of speed."
    )
    if left:
        told += (
            f" Of SST's fine-tunings, {' and '.join(map(str, left))} has probes that were not measured on test: the "
            "time on the GPU was over."
        )
    return ["", "## How it was run", "", *paragraph(told)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "real_encoder.md")
    args = parser.parse_args(arguments)
    args.out.write_text("\n".join(page(args.results, args.out)).rstrip() + "\n", encoding="utf-8")
    print(args.out)


if __name__ == "__main__":
    main()
