"""What `whence fit --recipe quick` reaches on a processor, beside what took a GPU. Writes results/quick.json.

    python experiments/one_pass/quick.py texts --data-dir DATA --out FOLDER
    whence fit --model sentiment --data FOLDER/training.jsonl --explainer shapley --recipe quick \
        --out FOLDER/probes
    python experiments/one_pass/quick.py judge --out FOLDER

Texts are SST-2's training phrases and sentences. Those that judge are 100 of at least eight words; what contains one of
them, or is part of one, is not trained on. The probes that ship saw most of them. What came out goes into the guide of
probes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import whence
from whence.data import read

sys.path.append(str(Path(__file__).parents[1]))

from faithfulness import faithfulness
from intervals import NORMAL
from page_writing import paragraph

RESULT = Path(__file__).parent / "results" / "quick.json"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "probes.md"
BEGINS, NEXT = "What that reaches:", "## How good are they?"
JUDGED, FEWEST_WORDS, TRAINED = 100, 8, 20_000


def write_texts(data_dir: Path, out: Path) -> None:
    texts = list(dict.fromkeys(example.text.strip() for example in read("sst2", data_dir=data_dir, split="train")))
    random.Random(0).shuffle(texts)
    judged = [text for text in texts if len(text.split()) >= FEWEST_WORDS][:JUDGED]
    apart = [text for text in texts if not any(text in each or each in text for each in judged)]
    out.mkdir(parents=True, exist_ok=True)
    for name, some in {"training": apart[:TRAINED], "judged": judged}.items():
        lines = (json.dumps({"text": text}) for text in some)
        (out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def judge(out: Path) -> dict[str, Any]:
    model = whence.load("sentiment")
    texts = [json.loads(line)["text"] for line in (out / "judged.jsonl").read_text(encoding="utf-8").splitlines()]
    probes = whence.ShapleyProbes.load(out / "probes")
    fitted = probes.fitted_
    assert fitted is not None
    explained = {
        "quick": probes.explain(model, texts),
        "shipped": whence.ShapleyProbes.embedded("sentiment").explain(model, texts),
        "held_still": whence.explain(model, texts, "held_still", layers="embeddings"),
        "shapley": whence.explain(model, texts, "shapley", layers="embeddings"),
    }
    scores = {name: [each.scores[0] for each in some] for name, some in explained.items()}
    config = json.loads((out / "probes" / "config.json").read_text(encoding="utf-8"))
    return {
        "n_texts": len(texts),
        "faithfulness": faithfulness(model, texts, scores),
        "fit": {"steps": fitted.steps, **{name: config[name] for name in ("seconds", "n_texts", "calibration")}},
        "minutes": fitted.recipe.minutes,
    }


def told(found: dict[str, Any]) -> list[str]:
    """The guide's paragraph."""
    rows = {name: np.array(each) for name, each in found["faithfulness"].items()}
    fit, seen = found["fit"], found["fit"]["calibration"]
    means = {name: f"{each.mean():.3f}" for name, each in rows.items()}

    def less(name: str) -> str:
        gap = rows["quick"] - rows[name]
        return f"{gap.mean():+.3f} ± {NORMAL * gap.std(ddof=1) / len(gap) ** 0.5:.3f}"

    return paragraph(
        f"""{BEGINS} with `--minutes {found["minutes"]:g}` on two cores that others used too, the embedded
        sentiment model's probes had {fit["steps"]:,} steps on {fit["n_texts"]:,} phrases and sentences of SST-2's
        training set. On {seen["n_texts"]} held-out ones their values correlate {seen["correlation"]:.2f} with a Shapley
        sampling of {seen["orders"]} orders, their squared error is {seen["loss"]:.4f} where that sampling leaves
        {seen["floor"]:.4f}, and {seen["coverage"]:.0%} of the stated intervals of nine in ten hold. On
        {found["n_texts"]} sentences that they had not seen, `one_pass` with them gets a faithfulness of
        {means["quick"]}; `held_still`, which needs no probes, {means["held_still"]} (the difference, with its 95 %
        interval: {less("held_still")}), `shapley` {means["shapley"]} ({less("shapley")}), and the probes that ship,
        trained on a GPU on more texts, these among them, {means["shipped"]} ({less("shipped")})."""
    )


def told_in(guide: str, found: dict[str, Any]) -> str:
    """The guide with that paragraph before its next part, in place of one from an earlier run."""
    part, heading, rest = guide.partition(NEXT)
    before, _, _ = part.partition(BEGINS)
    return "\n".join([before.rstrip("\n"), "", *told(found), "", heading + rest])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("texts", "judge"))
    arguments.add_argument("--data-dir", type=Path)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "texts":
        write_texts(given.data_dir, given.out)
    else:
        RESULT.write_text(json.dumps(judge(given.out)) + "\n", encoding="utf-8")
        found = json.loads(RESULT.read_text(encoding="utf-8"))
        GUIDE.write_text(told_in(GUIDE.read_text(encoding="utf-8"), found), encoding="utf-8")
