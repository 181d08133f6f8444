"""How often the decoder of a board says the right word: a board judges explanations of its answers, right or wrong.

python experiments/scoreboard/task_accuracy.py --model FOLDER --data-dir DATA

Reads RESULTS/decoder.json for the number of texts (those after the ones put aside, in the order of run.py) and writes
RESULTS/decoder_accuracy.json.
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from run import BOARDS

import whence
from whence.data import KNOWN, read
from whence.metrics.confidence import mean_interval
from whence.scoreboard.evaluate import HELD_OUT

arguments = argparse.ArgumentParser(description="How often the decoder of a board is right.")
arguments.add_argument("--model", required=True, help="folder or hub id")
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")


def main(given: argparse.Namespace) -> None:
    board = json.loads((given.results / "decoder.json").read_text(encoding="utf-8"))
    chosen = BOARDS["decoder"]
    examples = read(chosen.data, data_dir=given.data_dir)
    random.Random(0).shuffle(examples)
    examples = examples[HELD_OUT : HELD_OUT + board["n_texts"]]
    names = KNOWN[chosen.data].labels
    gold = [names[int(example.label or 0)] for example in examples]
    model = whence.load(given.model)
    warnings.simplefilter("ignore", whence.WhenceWarning)
    explained = whence.explain(model, [chosen.prompt.format(text=example.text) for example in examples], "random")
    said = [explanation.prediction.label.strip('" ') for explanation in explained]  # a token is shown in quotes
    right = mean_interval(np.array([one == other for one, other in zip(said, gold, strict=True)], dtype=float))
    found = {
        "model": board["model"]["id"],
        "n_texts": len(examples),
        "n_held_out": HELD_OUT,
        "accuracy": {"mean": round(right.mean, 4), "low": round(right.low, 4), "high": round(right.high, 4)},
        "largest_class": round(max(Counter(gold).values()) / len(gold), 4),
        "said": dict(Counter(said).most_common(5)),
    }
    (given.results / "decoder_accuracy.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main(arguments.parse_args())
