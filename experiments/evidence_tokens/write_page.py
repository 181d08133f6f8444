"""Writes docs/evidence_tokens.md from results/ranks.json, so that no number of ours is typed in.

python experiments/evidence_tokens/write_page.py
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from pairs import KINDS, pairs
from run import METHODS

from whence.metrics.confidence import mean_interval

sys.path.append(str(Path(__file__).parents[1]))

from page_writing import paragraph

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "evidence_tokens.md"
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--out", type=Path, default=PAGE)
given = arguments.parse_args()
PUBLISHED = {  # mean reciprocal ranks on BLiMP, subject-verb agreement and indirect objects
    "ALTI-Logit": (0.739, 0.604, 1.000), "Logit": (0.731, 0.510, 1.000), "erasure": (0.625, 0.410, 0.865),
    "gradient norm": (0.546, 0.449, 0.860), "gradient x input": (0.475, 0.295, 0.111), "random": (0.512, 0.283, 0.245),
}  # fmt: skip

found = json.loads((HERE / "results" / "ranks.json").read_text())
kinds = np.array(found["kinds"])
names = list(found["accuracy"])
rows = {"random (exact)": np.array(found["random"])}
rows |= {name: np.array(values) for name, values in found["reciprocal_ranks"].items()}
examples = {pair.kind: pair for pair in pairs(found["seed"], 1)}
lines = [
    "# Do methods find the word that must matter?",
    "",
    *paragraph(f"""Made by `experiments/evidence_tokens/write_page.py` from `experiments/evidence_tokens/results/`.
    A small grammar (`experiments/evidence_tokens/pairs.py`, seed {found["seed"]}) wrote {found["n_pairs"]} beginnings
    of sentences after which one form is right and another is wrong, each with the one word that says so. Of these
    {found["model"]} gets {len(kinds)} right, and on them each method explains the right form's logit less the wrong
    one's. Scores are gathered into words, and the word that must matter has a rank among them, the highest score first.
    Of a random order the mean reciprocal rank is known exactly. 95% bootstrap intervals over pairs. Methods score the
    word embeddings, but for attention."""),
    "",
    "| kind | example | right / wrong | the word | pairs that the model gets right |",
    "|---|---|---|---|---|",
]
lines += [
    f"| {kind} | {examples[kind].text} … | {examples[kind].right.strip()} / {examples[kind].wrong.strip()} "
    f"| {examples[kind].word} | {(kinds == kind).sum()} ({found['accuracy'][kind]:.0%}) |"
    for kind in names
]
lines += ["", "## Mean reciprocal rank", ""]
counted = [f"{name} (n = {(kinds == name).sum()})" for name in names]
lines += [f"| method | all (n = {len(kinds)}) | {' | '.join(counted)} |", f"|---|---|{'---|' * len(names)}"]
for name, values in sorted(rows.items(), key=lambda item: -float(item[1].mean())):
    cells = [f"{values[kinds == kind].mean():.3f}" if (kinds == kind).any() else "" for kind in names]
    lines.append(f"| {name} | {mean_interval(values)} | {' | '.join(cells)} |")
if left := [name for name in METHODS if name not in rows]:
    lines += ["", *paragraph(f"Not run yet (`run.py` knows them): {'; '.join(left)}.")]
lines += [
    "",
    "## Published numbers, of another model on other pairs",
    "",
    *paragraph("""GPT-2 small on the evidence tokens of BLiMP, of subject-verb agreement and of indirect objects
    (Ferrando et al., 2023): not to be compared number by number, since model, pairs and the words that count
    differ."""),
    "",
    "| method | BLiMP | agreement | indirect object |",
    "|---|---|---|---|",
]
lines += [f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |" for name, values in PUBLISHED.items()]
assert len(names) == len(KINDS)
given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
