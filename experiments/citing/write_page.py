"""Writes docs/citing.md from the results files, so that no number there is typed in.

python experiments/citing/write_page.py [--results experiments/citing/results] [--out docs/citing.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whence.metrics.confidence import mean_interval, paired_difference

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, paragraph

ROOT = Path(__file__).parents[2]
TITLES = {"paragraph": "One paragraph", "distractors": "Among paragraphs of other articles"}
MEASURES = {"lds": "LDS", "top_1": "top-1 drop", "top_3": "top-3 drop"}
RIVAL, GOAL = "context_cite 256", 64  # the quality of the first is asked for, with so many sets at most
ORDER = (
    "balanced", "context_cite", "context-cite 0.0.4", "shapley", "leave_one_out", "gradient_x_input", "gradient",
    "attention", "similarity", "random",
)  # fmt: skip

Record = dict[str, Any]


def main(results: Path, out: Path) -> None:
    lines = ["# Citing: which sources an answer rests on", "", *verdict(results / "dev"), "", *opening()]
    for split, name in (("dev", "Development set"), ("train", "Training set, on which the design was chosen")):
        folder = results / split
        if not folder.is_dir():
            continue
        facts = json.loads((folder / "facts.json").read_text()) if (folder / "facts.json").exists() else {}
        lines += ["", f"## {name}", "", *of_run(facts)]
        for setting, title in TITLES.items():
            asked, answered = read(folder, setting)
            if answered:
                lines += ["", f"### {title}", "", *of_setting(answered, asked)]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(folder: Path, setting: str) -> tuple[int, list[Record]]:
    """How many texts the model was asked about, and the records of those that it answered."""
    file = folder / f"{setting}.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return len(records), [record for record in records if record["answer"] is not None]


def verdict(folder: Path) -> Iterator[str]:
    """The question that was asked, answered first: is as much reached with a quarter of the sets?"""
    ours = f"balanced {GOAL}"
    for setting, title in TITLES.items():
        _, records = read(folder, setting)
        if records:
            found = {measure: difference(records, ours, measure) for measure in MEASURES}
            words = [
                f"{MEASURES[measure]} {each.mean:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
                for measure, each in found.items()
            ]
            worse = [MEASURES[measure] for measure, each in found.items() if each.high < 0]
            said = f"surely worse in {', '.join(worse)}" if worse else "surely worse in nothing"
            yield from bullet(
                f"{title} ({len(records)} texts of the development set): with at most {GOAL} sets `balanced` is {said} "
                f"beside ContextCite with 256; {', '.join(words)} (95 % intervals)."
            )


def opening() -> Iterator[str]:
    yield from paragraph(
        "`whence.cite` deletes sets of sources from the prompt and looks at how likely the answer still is. Here its "
        "ways of scoring sources are judged as in ContextCite (Cohen-Wang et al., 2024). *LDS*: Spearman's ρ, over 64 "
        "sets drawn apart, between the sum of the scores of a set's sources and the logit of the answer's "
        "probability with that set alone. *Top-k drop*: by how much the answer's log-probability drops when the k "
        "sources with the highest scores go. Means over texts with 95 % bootstrap intervals; differences are paired. "
        "*Sets* are distinct sets of sources asked about: forward passes. Made by `experiments/citing/write_page.py`."
    )
    yield ""
    yield from bullet(
        "`context_cite` is ContextCite as published (Bernoulli sets, Lasso), `context-cite 0.0.4` the authors' package "
        "in the same run, where it was run."
    )
    yield from bullet(
        "`balanced` asks about pairs of a set and all that is not in it, in blocks in which every two sources are "
        "together as often as apart (a Hadamard matrix and its complement), and fits least squares to the differences. "
        "What two sources do together then drops out. It needs a whole block, twice as many sets as sources or a "
        "little more; with less it does what `context_cite` does."
    )
    yield from bullet("With few sources a budget can be more than all sets there are; none is asked twice.")


def of_run(facts: Record) -> Iterator[str]:
    if facts:
        versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
        yield from paragraph(
            f"{facts['model']}, answers written greedily up to {facts['longest_answer']} tokens, seed {facts['seed']}; "
            f"{facts['device']}, Python {facts['python']}, {versions}. SQuAD 1.1 (CC BY-SA), {facts['split']} split."
            + (f" By hand: {facts['by_hand']}." if "by_hand" in facts else "")
        )


def of_setting(records: Sequence[Record], asked: int) -> Iterator[str]:
    sources = np.array([record["n_sources"] for record in records])
    tokens = np.array([record["n_prompt"] for record in records])
    yield from paragraph(
        f"{len(records)} of {asked} texts were answered; {sources.min()} to {sources.max()} sources (mean "
        f"{sources.mean():.1f}), prompts of {tokens.mean():.0f} tokens on average."
    )
    yield ""
    yield from comparison(records)
    yield from ("", "| method | sets | LDS | top-1 drop | top-3 drop |", "|---|---|---|---|---|")
    for name in names(records):
        values = [entry[name] for entry in (record["entries"] for record in records) if name in entry]
        cells = [str(mean_interval(finite(values, measure))) for measure in MEASURES]
        sets = np.mean([value["sets"] for value in values])
        yield f"| {name} | {sets:.0f} | {' | '.join(cells)} |"
    yield from ("", *cited(records), *package(records))


def comparison(records: Sequence[Record]) -> Iterator[str]:
    """The question that was asked: how good are few balanced sets beside 256 random ones?"""
    yield from ("| against context_cite 256 | sets | LDS | top-1 drop | top-3 drop |", "|---|---|---|---|---|")
    for name in (name for name in names(records) if name.startswith("balanced") or name == "context_cite 64"):
        found = (difference(records, name, measure) for measure in MEASURES)
        cells = [f"{each.mean:+.3f} [{each.low:+.3f}, {each.high:+.3f}]" for each in found]
        sets = np.mean([record["entries"][name]["sets"] for record in records])
        yield f"| {name} | {sets:.0f} | {' | '.join(cells)} |"


def difference(records: Sequence[Record], name: str, measure: str) -> Any:
    """Of a method and ContextCite with 256 sets, over the texts on which both have the measure."""
    pairs = np.array([[record["entries"][each][measure] for each in (name, RIVAL)] for record in records], dtype=float)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return paired_difference(pairs[:, 0], pairs[:, 1])


def names(records: Sequence[Record]) -> list[str]:
    """The entries, in the order of methods and then of budgets."""
    found = dict.fromkeys(name for record in records for name in record["entries"])

    def place(name: str) -> tuple[int, int]:
        method = next(each for each in ORDER if name == each or name.startswith(f"{each} "))
        rest = name.removeprefix(method).strip()
        return ORDER.index(method), int(rest) if rest.isdecimal() else 1_000

    return sorted(found, key=place)


def finite(values: Sequence[Record], measure: str) -> np.ndarray:
    found = np.array([value[measure] for value in values], dtype=float)
    return found[np.isfinite(found)]


def cited(records: Sequence[Record]) -> Iterator[str]:
    """What is cited at the budget that stops by itself, and how often intervals hold where every set is known."""
    auto = [record["entries"]["balanced auto"] for record in records]
    own = sum(record["n_own"] for record in records)
    other = sum(record["n_sources"] - record["n_own"] for record in records)
    none = np.mean([not entry["cited_own"] + entry["cited_other"] for entry in auto])
    said = f"{sum(entry['cited_own'] for entry in auto)} of {own} sentences of the paragraph asked about are cited"
    if other:
        said += f", {sum(entry['cited_other'] for entry in auto)} of {other} of the others"
    yield from bullet(
        f"With sets added until it is settled what is cited (`balanced auto`; {np.mean([e['sets'] for e in auto]):.0f} "
        f"sets on average, {100 * np.mean([e['settled'] for e in auto]):.0f} % of texts settled): {said}; "
        f"{100 * none:.0f} % of the answers rest on none of them."
    )
    for method, should in (
        ("balanced", "they should in 95 %"),
        ("context_cite", "a Lasso shrinks scores, so these tell of the draw of sets and need not"),
    ):
        told = []
        for budget in (16, 32, 64):
            held = [record["entries"][f"{method} {budget}"] for record in records]
            known = [entry["covered"] for entry in held if "covered" in entry]
            if known:
                told.append(f"{100 * np.mean(known):.0f} % at {budget} ({len(known)} texts)")
        if told:
            yield from bullet(
                f"Where all sets were asked in the end, the intervals of `{method}` hold the exact scores of all "
                f"sources at once ({should}): {', '.join(told)}."
            )


def package(records: Sequence[Record]) -> Iterator[str]:
    """Where the authors' package gives the same, and where and why not."""
    runs = [record["package"] for record in records if "package" in record]
    if not runs:
        return
    scores = [value for run in runs for value in run["largest_difference_of_scores"].values()]
    chances = [run["largest_difference_of_log_p"] for run in runs if run["largest_difference_of_log_p"] is not None]
    same = np.mean([run["same_prompts"] for run in runs])
    lassos = max(run["largest_difference_of_lasso"] for run in runs)
    yield from bullet(
        f"The package on {len(runs)} texts: {100 * same:.1f} % of its ablated prompts have the same token ids as "
        f"whence's deletions, and so have {sum(run['same_response'] for run in runs)} of its answers, which it cuts "
        "into tokens again. It differs where no source is left (it keeps the space before the first), and between "
        "documents: a blank line goes with the sentence behind it, whereas whence keeps it as long as anything is left "
        "of both documents. Its mixed precision was switched off."
        + (f" Where ids are the same, log-probabilities differ by {max(chances):.1e} at most" if chances else "")
        + (f", scores by {max(scores):.1e}" if scores else "")
        + f". Of its own log-probabilities whence's Lasso makes the same scores to {lassos:.1e}: its own stops earlier."
    )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Write docs/citing.md.")
    arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "citing.md")
    given = arguments.parse_args()
    main(given.results, given.out)
