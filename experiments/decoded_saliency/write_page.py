"""Writes docs/decoded_saliency.md, its appendix and its figures from the results files, so that no number is typed in.

python experiments/decoded_saliency/write_page.py [--results DIR] [--out docs/decoded_saliency.md]

What tables.py and overlap.py found on models that were fine-tuned in the ordinary way is read from DIR/ordinary, what
they found on all texts of a set of which DIR has a sample from DIR/all_texts and DIR/all_texts/ordinary, as far as
there is any. The claims are judged on all texts where there are such results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing, verdict and intervals are

import paper
from commands import commands
from findings import findings
from page_all_texts import section_all_texts
from page_claims import TRAINING, first_screen, ordinary
from page_games import section_ablations, section_controls, section_games, section_head, section_ordinary
from page_overlap import ordinary_overlap, section_examples, section_overlap
from wording import TITLES, bullet, paragraph

from whence.metrics.overlap import contradictions

ROOT = Path(__file__).parents[2]
FOLDERS = ("ordinary", "all_texts", "all_texts/ordinary")

arguments = argparse.ArgumentParser(description="Write the page of decoded saliency.")
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "decoded_saliency.md")


def main(given: argparse.Namespace) -> None:
    games = {name: _read(given.results / f"{name}-games.json") for name in TITLES}
    overlaps = {name: _read(given.results / f"{name}-overlap.json") for name in TITLES}
    figures = given.out.parent / "figures" / given.out.stem
    figures.mkdir(parents=True, exist_ok=True)
    second = given.out.with_stem(f"{given.out.stem}_appendix")
    plain, whole, plain_whole = (_there(given.results / each) for each in FOLDERS)
    lines = [*opening(games, plain, whole, plain_whole, given.out.name), "", "## In short"]
    for name, title in TITLES.items():
        lines += ["", f"**{title}**", ""]
        for point in findings(games[name], overlaps[name]):
            lines += bullet(point)
    for name, found in whole["games"].items():
        lines += ["", f"**{TITLES[name]}, all {found['n_texts']:,} texts**", ""]
        for point in findings(found, whole["overlap"].get(name)):
            lines += bullet(point)
    for name in TITLES:
        lines += section_games(name, games[name], figures, second)
    lines += section_controls(games) + section_ordinary(plain["games"]) + section_ablations(games)
    lines += section_head(games, plain["games"])
    lines += section_overlap(overlaps, figures, second) + ordinary_overlap(plain["overlap"])
    lines += section_all_texts(whole, plain_whole)
    lines += section_examples(overlaps, figures, second)
    lines += section_cost(games) + section_paper()
    most = {kind: {**plain[kind], **plain_whole[kind]} for kind in plain}
    first = first_screen(
        {**games, **whole["games"]}, {**overlaps, **whole["overlap"]}, most, figures, given.out, second.name
    )
    for path, written in {given.out: first, second: lines}.items():
        path.write_text("\n".join(written).rstrip() + "\n", encoding="utf-8")
        print(path)


def _there(folder: Path) -> dict[str, dict[str, Any]]:
    """The records in a folder, by kind and set."""
    return {
        kind: {name: _read(path) for name in TITLES if (path := folder / f"{name}-{kind}.json").exists()}
        for kind in ("games", "overlap", "training")
    }


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def opening(
    games: dict[str, Any], plain: dict[str, Any], whole: dict[str, Any], plain_whole: dict[str, Any], first: str
) -> list[str]:
    lines = [
        "# Decoded layer saliency, tried again: appendix",
        "",
        *paragraph(f"""What stands behind [the claims and verdicts]({first}). Made by
        `experiments/decoded_saliency/write_page.py` from the files in its folder `results/`. The paper (Hou and
        Castanon; numbers of the version of 2022) carries the scores of a hidden layer back to the words of the text
        through the language-model head, and compares the result with other explainers, on RoBERTa models. Here
        everything runs on **one** model for each data set, the embedded one (a BERT of six layers, one seed), so that
        the paper's numbers stand beside ours as a picture of the same contest, not as a target. The embedded models
        were kept decodable in fine-tuning by a masked-LM loss, of which the paper says nothing.
        {ordinary(_read(TRAINING), plain["games"])}"""),
        "",
        "```",
        *commands(games, plain, whole, plain_whole),
        "```",
        "",
        "| data | texts (n) | model | accuracy | largest class | hardware | seed |",
        "|---|---|---|---|---|---|---|",
    ]
    titled = [(TITLES[name], found) for name, found in games.items()]
    titled += [(f"{TITLES[name]}, all texts", found) for name, found in whole["games"].items()]
    for title, found in titled:
        lines.append(
            f"| {title} | {found['n_texts']:,} | `{found['model']}` | {found['accuracy']:.3f} "
            f"| {max(found['gold_shares'].values()):.3f} | {found['hardware']} | {found['seed']} |"
        )
    resamples = next(iter(games.values()))["bootstrap_resamples"]
    versions = _versions(found for _, found in titled)
    lines += [
        "",
        *paragraph(f"Intervals: 95 %, bootstrap over texts ({resamples:,} resamples). Versions: {versions}."),
    ]
    return lines


def _versions(games: Iterable[dict[str, Any]]) -> str:
    """Of every package, with all numbers where the sets were played at different times."""
    numbers: dict[str, list[str]] = {}
    for found in games:
        for package, number in found["versions"].items():
            known = numbers.setdefault(package, [])
            known += [] if number in known else [number]
    return ", ".join(f"{package} {' and '.join(known)}" for package, known in numbers.items())


def section_cost(games: dict[str, Any]) -> list[str]:
    lines = [
        "",
        "## What it costs",
        "",
        *paragraph("""Forward and backward passes a text, for all the layers that the explainer gives (decoding adds a
        pass of the head a layer). Seconds, measured on a quiet machine, are in
        [benchmarks/README.md](../benchmarks/README.md)."""),
        "",
        "| explainer | " + " | ".join(f"{title}: forward | {title}: backward" for title in TITLES.values()) + " |",
        "|---" * (2 * len(TITLES) + 1) + "|",
    ]
    for called in next(iter(games.values()))["costs"]:
        costs = [games[name]["costs"][called] for name in TITLES]
        lines.append(f"| {called} | " + " | ".join(f"{c['forwards']:.0f} | {c['backwards']:.0f}" for c in costs) + " |")
    return lines


def section_paper() -> list[str]:
    lines = ["", "## Where the paper is silent or contradicts itself", "", "| | what | here |", "|---|---|---|"]
    lines += [f"| {number} | {what} | {here} |" for number, (what, here) in paper.RESOLVED.items()]
    counts = paper.OVERLAPS["ag_news"]["Shapely"]
    for (one, first), (_, second), (a, b), tokens in contradictions(paper.SHAPLEY_LISTS):
        lines += [
            "",
            *paragraph(f"""C3: by the lists printed for Shapley, {one} shares with {first}, and also with {second}, the
            tokens {", ".join(tokens)}. Then {a} and {b} share them too, but their list lacks every one. The row of
            World and Sci/Tech is a copy of another, and the overlap of {sum(counts) / (50 * len(counts)):.0%} that
            follows from the printed rows cannot be relied on."""),
        ]
    return lines


if __name__ == "__main__":
    main(arguments.parse_args())
