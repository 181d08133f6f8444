"""Train every set of probes that the experiments (and the embedded models) use.

    python experiments/diffmask/fit_probes.py --data-dir DATA --work WORK --jobs 4

WORK holds the fine-tuned models of finetune.py (sst5, sst5-gaps, squad); the probes go to WORK/probes/NAME. A run that
is already there is passed over, one that was killed goes on. Settings were chosen on held-out training sentences, but
for the learning rate of five-class hidden states (dev) and the model with gaps (all parts had been seen, see
docs/diffmask.md).
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import whence
from whence.data import read

ONE_LAYER = {"every_layer": False, "batch_size": 128, "steps": 4_000, "multiplier_learning_rate": 0.1}
"""Runs from before a step trained every layer; their settings are kept, so that they can be made again."""
Run = tuple[str, str, int | None, Any, str, int, dict[str, Any]]
TWO_CLASSES: dict[str, Run] = {  # model, data, texts, kind, recipe, seed, settings other than the recipe's own
    "sentiment-input": ("sentiment", "sst2", None, "input", "whence", 0, {}),
    "sentiment-hidden": ("sentiment", "sst2", None, "hidden", "whence", 0, {}),
}
TOPICS = {
    "topic-input": ("topic", "ag_news", 20_000, "input", "whence", 0, {**ONE_LAYER, "batch_size": 64}),
    "topic-hidden": ("topic", "ag_news", 20_000, "hidden", "whence", 0, {**ONE_LAYER, "batch_size": 64}),
}
FIVE_CLASSES = {
    **{
        f"sst5-hidden-{seed}": (
            "sst5", "sst5", None, "hidden", "whence", seed,
            {"margin": 0.01, "first_margin": 9, "width": 256, "learning_rate": 4e-4, "batch_size": 128},
        )
        for seed in range(5)
    },
    **{
        f"sst5-input-{seed}": ("sst5", "sst5", None, "input", "whence", seed, {**ONE_LAYER, "margin": 0.07})
        for seed in range(5)
    },
}  # fmt: skip
WITH_GAPS = {  # the model of finetune.py --gaps 0.8 --agreement 2
    f"sst5-gaps-{kind}-{seed}": ("sst5-gaps", "sst5", None, kind, "whence", seed, changes)
    for kind, changes in (
        (
            "hidden",
            {"margin": 0.0125, "first_margin": 6.5, "width": 256, "learning_rate": 3e-4, "batch_size": 128,
             "steps": 2_200},
        ),
        ("input", {"margin": 0.085, "learning_rate": 5e-4, "steps": 2_000}),
    )
    for seed in range(5)
}  # fmt: skip
PUBLISHED = {  # the published settings, for as many steps as ours
    f"sst5-{kind}-{recipe}": ("sst5", "sst5", None, kind, recipe, 0, {"steps": 4_000})
    for recipe in ("released", "paper")
    for kind in ("input", "hidden")
}
QUESTIONS = {
    f"squad-{kind}": ("squad", "squad", 9_000, kind, "whence", 0, {**ONE_LAYER, "batch_size": 32, "steps": 2_500})
    for kind in ("hidden", "input")
}
RUNS: dict[str, Run] = {**QUESTIONS, **FIVE_CLASSES, **WITH_GAPS, **TOPICS, **TWO_CLASSES, **PUBLISHED}


def fit(name: str, data_dir: Path, work: Path, limit: int | None) -> None:
    model_name, data, n_texts, kind, recipe, seed, changes = RUNS[name]
    if model_name in ("sentiment", "topic"):
        model = whence.load(model_name)
    else:
        model = whence.load(work / model_name, dtype=torch.float32)
    if torch.cuda.is_available():
        model.module.to("cuda")
    examples = read(data, data_dir=data_dir, split="train", limit=limit or n_texts, seed=0)
    texts = [example.as_input for example in examples]
    texts = [text for text in texts if model.encode(*(text if isinstance(text, tuple) else (text,))).cut == 0]
    if limit:
        changes = {**changes, "steps": 4, "batch_size": 4}
    probes = whence.DiffMask(kind, recipe, **changes)
    probes.fit(model, texts, seed=seed, folder=work / "probes" / name, patience=None, validations=4, progress=False)
    assert probes.fitted_ is not None
    for result in probes.fitted_.results:
        print(name, result, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), metavar="NAME")
    parser.add_argument("--limit", type=int, help="a trial with so many texts and four steps")
    args = parser.parse_args()
    if len(args.only) == 1:
        fit(args.only[0], args.data_dir, args.work, args.limit)
        return
    waiting = [name for name in args.only if not (args.work / "probes" / name / "config.json").exists()]
    running: dict[str, subprocess.Popen] = {}
    while waiting or running:
        while waiting and len(running) < args.jobs:
            name = waiting.pop(0)
            running[name] = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--only", name])
        time.sleep(0.5)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                if process.returncode:
                    print(f"{name} failed with exit code {process.returncode}", flush=True)


if __name__ == "__main__":
    main()
