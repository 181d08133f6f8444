"""Train every set of probes that the experiments (and the embedded models) use.

    python experiments/diffmask/fit_probes.py --data-dir DATA --work WORK --jobs 4

WORK holds the fine-tuned models of finetune.py (sst5, sst5-gaps, squad); the probes go to WORK/probes/NAME. A run that
is already there is passed over, one that was killed goes on. Settings were chosen on held-out training sentences, but
for the learning rate of five-class hidden states (dev) and the model with gaps (all parts had been seen, see
docs/diffmask.md).

Runs of a real encoder (mpnet-sst5-0, mpnet-squad-0, ... in WORK) are made only when named with --only. Their margin is
chosen among the candidates (`...-margin-0.01`) fitted before, by what these did to held-out training texts.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
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
USUAL: dict[str, Run] = {**QUESTIONS, **FIVE_CLASSES, **WITH_GAPS, **TOPICS, **TWO_CLASSES, **PUBLISHED}

CHOSEN = "chosen"
WANTED = {"sst5": {"input": 0.463, "hidden": 0.676}, "squad": {"input": 0.6, "hidden": 0.6}}
"""The share that must be masked on held-out training texts: of inputs at the last entry, of states on average."""
MARGINS: dict[str, dict[str, tuple[float, ...]]] = {
    "sst5": {"input": (0.15, 0.25, 0.35), "hidden": (0.005, 0.01, 0.02)},
    "squad": {"input": (0.01, 0.03, 0.06), "hidden": (0.01, 0.03, 0.06)},
}
# a multiplier that starts at 10, as usual, and rates of 5e-4 let go of next to nothing in 500 steps of these
REAL_SST: dict[str, dict[str, Any]] = {
    "hidden": {"first_margin": 9, "width": 256, "learning_rate": 1e-3, "multiplier": 1.0, "steps": 1_000,
               "batch_size": 32},
    "input": {"learning_rate": 2e-3, "multiplier": 1.0, "steps": 1_000, "batch_size": 32},
}  # fmt: skip
# every layer in each step: drawn one at a time, a layer had 300 steps to let go of 170 tokens, and some never did
REAL_SQUAD: dict[str, dict[str, Any]] = {
    kind: {"batch_size": 16, "steps": 1_000, "multiplier": 1.0, "width": 256, "learning_rate": 5e-4}
    for kind in ("input", "hidden")
}
REAL: dict[str, Run] = {
    **{
        f"mpnet-sst5-0-{kind}-margin-{margin:g}": (
            "mpnet-sst5-0", "sst5", None, kind, "whence", 0, {**REAL_SST[kind], "margin": margin}
        )
        for kind, margins in MARGINS["sst5"].items() for margin in margins
    },
    **{
        f"mpnet-sst5-{tuned}-{kind}-{seed}": (
            f"mpnet-sst5-{tuned}", "sst5", None, kind, "whence", seed, {**REAL_SST[kind], "margin": CHOSEN}
        )
        for tuned in range(3) for seed in range(5) for kind in ("hidden", "input")
    },
    **{
        f"mpnet-sst5-{tuned}-{kind}-{recipe}": (f"mpnet-sst5-{tuned}", "sst5", None, kind, recipe, 0, {})
        for recipe in ("paper", "released") for tuned in range(3) for kind in ("input", "hidden")
    },
    **{
        f"mpnet-squad-0-{kind}-margin-{margin:g}": (
            "mpnet-squad-0", "squad", 12_000, kind, "whence", 0, {**REAL_SQUAD[kind], "steps": 500, "margin": margin}
        )
        for kind, margins in MARGINS["squad"].items() for margin in margins
    },
    **{
        f"mpnet-squad-0-{kind}-{seed}": (
            "mpnet-squad-0", "squad", 12_000, kind, "whence", seed, {**REAL_SQUAD[kind], "margin": CHOSEN}
        )
        for seed in range(3) for kind in ("hidden", "input")
    },
}  # fmt: skip
RUNS = {**USUAL, **REAL}


def candidates(work: Path, data: str, kind: str) -> list[dict[str, Any]]:
    """What each margin that was tried does to held-out training texts: the share masked, and agreement."""
    found = []
    for margin in MARGINS[data][kind]:
        folder = work / "probes" / f"mpnet-{data}-0-{kind}-margin-{margin:g}"
        if not (folder / "config.json").exists():
            continue
        fitted = whence.DiffMask.load(folder).fitted_
        assert fitted is not None
        found.append({"margin": margin, **judged([row.to_dict() for row in fitted.results], kind)})
    return found


def judged(results: Sequence[Mapping[str, Any]], kind: str) -> dict[str, float]:
    """The share masked and agreement by which a margin is chosen: of states the mean of all entries, of inputs the last
    alone."""
    rows = results if kind == "hidden" else results[-1:]
    return {what: sum(row[what] for row in rows) / len(rows) for what in ("masked", "agreement")}


def chosen_margin(work: Path, data: str, kind: str) -> float:
    tried = candidates(work, data, kind)
    if not tried:
        raise SystemExit(f"fit mpnet-{data}-0-{kind}-margin-* first: the margin is chosen among them")
    return float(best(tried, WANTED[data][kind])["margin"])


def best(tried: Sequence[dict[str, float]], wanted: float) -> dict[str, float]:
    """Of those that mask as much as is wanted the one with the best agreement, else the one that masks most."""
    enough = [each for each in tried if each["masked"] >= wanted]
    return max(enough, key=lambda each: each["agreement"]) if enough else max(tried, key=lambda each: each["masked"])


def fit(name: str, data_dir: Path, work: Path, limit: int | None, batch_tokens: int | None) -> None:
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
    if changes.get("margin") == CHOSEN:
        changes = {**changes, "margin": chosen_margin(work, data, kind)}
    if limit:
        changes = {**changes, "steps": 4, "batch_size": 4}
    probes = whence.DiffMask(kind, recipe, **changes)
    probes.fit(
        model, texts, seed=seed, folder=work / "probes" / name, patience=None, validations=4, progress=False,
        batch_tokens=batch_tokens,
    )  # fmt: skip
    assert probes.fitted_ is not None
    for result in probes.fitted_.results:
        print(name, result, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--only", nargs="+", default=list(USUAL), metavar="NAME", help="may hold * and [012]")
    parser.add_argument("--limit", type=int, help="a trial with so many texts and four steps")
    parser.add_argument("--batch-tokens", type=int, help="a pass holds at most, where several runs share a GPU")
    args = parser.parse_args()
    names = [name for wanted in args.only for name in RUNS if fnmatchcase(name, wanted)]
    if unknown := [wanted for wanted in args.only if not any(fnmatchcase(name, wanted) for name in RUNS)]:
        parser.error(f"no run is called {unknown[0]}; there are {', '.join(RUNS)}")
    waiting = [name for name in dict.fromkeys(names) if not (args.work / "probes" / name / "config.json").exists()]
    if args.jobs == 1:
        for name in waiting:
            fit(name, args.data_dir, args.work, args.limit, args.batch_tokens)
        return
    running: dict[str, subprocess.Popen] = {}
    while waiting or running:
        while waiting and len(running) < args.jobs:
            name = waiting.pop(0)
            running[name] = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--jobs", "1", "--only", name])
        time.sleep(0.5)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                if process.returncode:
                    print(f"{name} failed with exit code {process.returncode}", flush=True)


if __name__ == "__main__":
    main()
