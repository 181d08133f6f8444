"""How faithful AttnLRP is at the layer nearest the words, where the usual explanation of a decoder reads it?

python experiments/scoreboard/decoder_default.py --model FOLDER --data-dir DATA

The board of the decoder judges it at the layer that did best on other texts; there a score belongs to a state, not to a
word. Here the same texts are judged at layer 0, beside what the other methods got on that board, text by text. Reads
RESULTS/decoder.json and decoder.run.json, writes RESULTS/decoder_default.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from run import BOARDS

import whence
from whence.data import read
from whence.metrics.answered import BOARD_POINTS, Points
from whence.metrics.confidence import mean_interval, paired_difference

sys.path.append(str(Path(__file__).parents[1]))  # where faithfulness is

from faithfulness import faithfulness

METHOD, LAYER = "attn_lrp", 0

arguments = argparse.ArgumentParser(description="AttnLRP of a decoder at the layer nearest the words.")
arguments.add_argument("--model", type=Path, required=True)
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
arguments.add_argument("--device", default="cpu")


def main(given: argparse.Namespace) -> None:
    board = json.loads((given.results / "decoder.json").read_text(encoding="utf-8"))
    judged = json.loads((given.results / "decoder.run.json").read_text(encoding="utf-8"))["faithfulness"]
    chosen, aside = BOARDS["decoder"], board["settings"]["n_held_out"]
    examples = read(chosen.data, data_dir=given.data_dir)
    random.Random(0).shuffle(examples)
    texts = [chosen.prompt.format(text=each.text) for each in examples[aside : aside + board["n_texts"]]]
    model = whence.load(given.model)
    model.module.to(given.device)
    rows = [each.scores[0] for each in whence.explain(model, texts, METHOD, layers=LAYER)]
    here = np.array(faithfulness(model, texts, {METHOD: rows}, points=Points(BOARD_POINTS.grid))[METHOD])
    found = {
        "model": given.model.name,
        "method": METHOD,
        "layer": LAYER,
        "n_texts": len(texts),
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else "cpu",
        "faithfulness": asdict(mean_interval(here)),
        "minus": {name: asdict(paired_difference(here, np.array(values))) for name, values in judged.items()},
    }
    (given.results / "decoder_default.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["faithfulness"]))


if __name__ == "__main__":
    main(arguments.parse_args())
