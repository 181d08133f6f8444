"""The figures of docs/real_encoder.md, drawn as those on DiffMask's page are, from the records alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is
sys.path.append(str(Path(__file__).parents[1] / "diffmask"))  # where page_figures is

import page_figures
from page_writing import paragraph

KINDS = {"input": "inputs", "hidden": "hidden states"}


def of_sentences(run: Mapping[str, Any], folder: Path, page: Path) -> list[str]:
    """Figures 5 to 8 and 13, of one fine-tuning."""
    own = run["figures"]
    one, other = own["figure_5"], own["figure_13"]
    said = f"“{one['sentence']}”, predicted {one['predicted']}"
    dev = f"sentences of dev (n = {run['n_texts']:,}), one fine-tuning and seed"
    pictures = [
        (page_figures.figure_5(one, folder), f"Figure 5: {said}, every column divided by its largest value"),
        (
            page_figures.figure_6(own["hidden_special_by_layer"], folder),
            f"Figure 6: keep probability of the special tokens as hidden states, {dev}",
        ),
        (
            page_figures.figure_7(one, folder),
            "Figure 7: the sentence of Figure 5, keep probabilities with probes and without amortisation",
        ),
    ]
    if own["hidden_by_part_of_speech"]:  # of very few sentences no part of speech has enough tokens
        eighth = (
            f"Figure 8: layers that keep a token, keep probabilities added up: the mean, its 95 % interval over {dev}, "
            "and one standard deviation; number of tokens in brackets"
        )
        pictures.append((page_figures.figure_8(own, folder), eighth))
    said = f"Figure 13: “{other['sentence']}”, predicted {other['predicted']}, as Figure 5"
    pictures.append((page_figures.figure_5(other, folder, "figure-13"), said))
    return ["", "## SST: Figures 5 to 8 and 13", *(line for each in pictures for line in _picture(*each, page))]


def of_questions(found: Mapping[str, Any], folder: Path, page: Path) -> list[str]:
    """Figures 2, 9, 10 and 14 of the reader, what it keeps by role, and the table of parts of speech."""
    one, dev = found["figure_2"], f"questions of dev (n = {found['n_texts']:,}), seed 0"
    pictures = [
        (
            page_figures.figure_2(one, folder),
            f"Figure 2: “{one['question']}”, predicted “{one['predicted']}”; every row divided by its largest value",
        ),
        (
            page_figures.figure_9(found["figure_9"], folder),
            f"Figure 9: keep probabilities. {_asked(found['figure_9'])}",
        ),
        (page_figures.figure_10(found, folder), f"Figure 10: layers that keep a token, by part of speech, {dev}"),
        (
            page_figures.squad_roles(found, folder),
            f"By role: mean keep probability of the question, the passage and the answer, {dev}",
        ),
        (
            page_figures.figure_9(found["figure_14"], folder, "figure-14"),
            f"Figure 14: as Figure 9, two questions more. {_asked(found['figure_14'])}",
        ),
    ]
    lines = ["", "## SQuAD: Figures 2, 9, 10 and 14", *(line for each in pictures for line in _picture(*each, page))]
    return [
        *lines,
        "",
        *paragraph(f"Layers that keep a token, mean of {dev}; number of tokens in brackets."),
        *_speech(found),
    ]


def _speech(found: Mapping[str, Any]) -> list[str]:
    rows = {kind: {row["group"]: row for row in found[kind]["by_part_of_speech"]} for kind in KINDS}
    groups = sorted(rows["hidden"], key=lambda group: -rows["hidden"][group]["mean"])
    n_layers = next(iter(rows["hidden"].values()))["n_layers"]
    lines = [
        "",
        f"| part of speech | {' | '.join(f'{words}, of {n_layers} layers' for words in KINDS.values())} |",
        "|---|---|---|",
    ]
    for group in groups:
        cells = [_mean(rows[kind].get(group)) for kind in KINDS]
        lines.append(f"| {group} ({rows['hidden'][group]['n_tokens']:,}) | {' | '.join(cells)} |")
    return lines


def _mean(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    interval = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:.2f}{interval}"


def _asked(questions: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{n}. “{each['question']}” → “{each['predicted']}”" for n, each in enumerate(questions, 1)) + "."


def _picture(file: Path, caption: str, page: Path) -> list[str]:
    name = caption.partition(":")[0]
    return ["", f"![{name}]({file.relative_to(page.parent).as_posix()})", "", *paragraph(f"{caption.rstrip('.')}.")]
