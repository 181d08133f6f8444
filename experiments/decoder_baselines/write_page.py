"""Writes docs/decoder_baselines.md from results/board.json, so that no number there is typed in.

python experiments/decoder_baselines/write_page.py
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from whence.metrics.confidence import mean_interval, paired_difference

sys.path.append(str(Path(__file__).parents[1]))

from page_writing import bullet, paragraph

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "decoder_baselines.md"
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--out", type=Path, default=PAGE)
given = arguments.parse_args()
TITLES = {
    "leave_one_out": "leave-one-out",
    "shapley": "Shapley values",
    "integrated_gradients": "integrated gradients",
}
CALLED = {
    "zero": "a zero embedding", "mean": "the mean embedding", "pad": "the padding (a control token)",
    "the": 'the word " the"', "space": "a space", "delete": "nothing: the token is deleted",
    "attention": "nothing: out of everyone's attention",
}  # fmt: skip

board = json.loads((HERE / "results" / "board.json").read_text())
faithfulness = board["faithfulness"]
lines = [
    "# What stands in for a token of a decoder's prompt",
    "",
    *paragraph(f"""Made by `experiments/decoder_baselines/write_page.py` from `experiments/decoder_baselines/results/`.
    A decoder has no mask that it was trained with. Its padding is a control token ({board["padding"]} in
    {board["model"]}), and in the middle of a sentence such a token says more than that a word is missing. So the
    candidates were put to methods that need one, on {board["n_prompts"]} prompts ({board["n_words"]} words each: how
    training sentences of SST-2 and training questions of SQuAD begin, half of each), explaining the next word that the
    model says. Each entry is judged by two ways of hiding that put nothing in a token's place. Faithfulness: the area
    of revealing the most important tokens first less that of hiding them first, in the probability of that word; 95%
    bootstrap intervals over prompts, seed {board["seed"]}."""),
]
for method, title in TITLES.items():
    names = [name for name in faithfulness["delete"] if name.startswith(f"{method}, ")]
    if not names:
        continue
    settings = ", ".join(f"{value} {key}" for key, value in board["settings"][method].items())
    lines += ["", f"## {title.capitalize()}{f' ({settings})' if settings else ''}", ""]
    n = f"(n = {board['n_prompts']})"
    lines += [f"| in a token's place | judged by deletion {n} | judged by attention {n} |", "|---|---|---|"]
    for name in sorted(names, key=lambda each: -float(np.mean(faithfulness["delete"][each]))):
        cells = [str(mean_interval(np.array(faithfulness[way][name]))) for way in ("delete", "attention")]
        lines.append(f"| {CALLED[name.split(', ')[1]]} | {' | '.join(cells)} |")
    chance = [str(mean_interval(np.array(faithfulness[way]["random"]))) for way in ("delete", "attention")]
    lines.append(f"| (random scores) | {' | '.join(chance)} |")
    lines.append("")
    for other in ("pad", "zero", "delete"):
        pair = (f"{method}, the", f"{method}, {other}")
        if all(name in names for name in pair):
            said = []
            for way in ("delete", "attention"):
                one, two = (np.array(faithfulness[way][name]) for name in pair)
                found = paired_difference(one, two)
                said.append(
                    f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}] by {way.replace('delete', 'deletion')}"
                )
            lines += bullet(f'" the" less {CALLED[other]}, on the same prompts: {", ".join(said)}.')
    missing = {name: values for name, values in board["missing"].items() if name.startswith(f"{method}, ")}
    if missing:
        said = [f"{CALLED[name.split(', ')[1]]} {np.median(values):.2f}" for name, values in missing.items()]
        lines += bullet(f"Median of what scores miss of the difference they should add up to: {'; '.join(said)}.")
lines += [
    "",
    "## What whence does",
    "",
    *paragraph("""`baseline="auto"` and `hide="auto"` take the word " the", where the tokenizer has it as one token, for
    models that say the next token; the record of an explanation, and the settings of a board, say which token was
    taken. Where there is no such token, and for all other models, it is the mask, else the padding, else zero, as
    before. `baseline="delete"` puts nothing there, for methods that take tokens away. Probes of Shapley values are
    trained with the same word in an absent token's place."""),
    "",
    *paragraph(f"""Few prompts, short ones, and one small model: the intervals say how little that settles. It took
    {board["seconds"]:,} seconds on a busy machine."""),
]
given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
