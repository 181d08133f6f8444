"""Does DiffMask order tokens better when all layers have a say, instead of one?

python experiments/scoreboard/diffmask_order.py --data-dir DATA [--texts 200] [--device cuda]

On training texts that no board judges: a first part chooses the layer, as a board does, and the best way of joining all
layers; these two are compared on the second part, text by text. Both embedded models with the probes that came with
them. Writes results/diffmask_order.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

import whence
from whence.data import read
from whence.engine.asking import Contestant, answered
from whence.files import write_whole
from whence.metrics.answered import BOARD_POINTS, Points
from whence.metrics.confidence import mean_interval, paired_difference
from whence.models.hiding import Hiding

BOARDS = {"sst2": "sentiment", "ag_news": "topic"}
JOINED = {
    "mean of log keep probability": lambda kept: np.log(np.clip(kept, 1e-6, 1)).mean(axis=0),
    "mean keep probability": lambda kept: kept.mean(axis=0),
    "mean log-odds": lambda kept: (np.log(np.clip(kept, 1e-6, 1)) - np.log(np.clip(1 - kept, 1e-6, 1))).mean(axis=0),
    "layers at which it is kept": lambda kept: (kept > 0.5).mean(axis=0) + 1e-3 * kept.mean(axis=0),
}

arguments = argparse.ArgumentParser(description="Compare orders of DiffMask over one layer and over all.")
arguments.add_argument("--data-dir", type=Path)
arguments.add_argument("--texts", type=int, default=200, help="in each part")
arguments.add_argument("--device", default="cpu")
arguments.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "diffmask_order.json")


def faithfulness(
    model: whence.LayeredModel, texts: list[str], rows: dict[str, list[np.ndarray]]
) -> dict[str, np.ndarray]:
    contestants = {name: Contestant(each, tie_breaks=1) for name, each in rows.items()}
    found = {name: np.zeros(len(texts)) for name in rows}
    for index, answers in answered(
        model, [model.encode(text) for text in texts], contestants, Points(BOARD_POINTS.grid),
        hiding=Hiding.of(model, "auto"), batch_tokens=8_192,
    ):  # fmt: skip
        for name, text in answers.items():
            found[name][index] = text.area("revealing") - text.area("hiding")
    return found


def main(given: argparse.Namespace) -> None:
    found: dict[str, object] = {"texts": given.texts}
    for data, name in BOARDS.items():
        model = whence.load(name)
        model.module.to(given.device)
        # drawn with a seed of its own from the texts for training: no board judges these
        examples = read(data, data_dir=given.data_dir, split="train", limit=2 * given.texts, seed=16)
        texts = [example.text for example in examples]
        explained = whence.explain(model, texts, "diffmask")
        tables = [each.scores.astype(float) for each in explained]
        layers = explained[0].layers
        rows = {f"layer {layer}": [table[row] for table in tables] for row, layer in enumerate(layers)}
        rows |= {way: [join(table) for table in tables] for way, join in JOINED.items()}
        halves = {"choosing": slice(0, given.texts), "judged": slice(given.texts, None)}
        values = {
            half: faithfulness(model, texts[part], {way: each[part] for way, each in rows.items()})
            for half, part in halves.items()
        }
        means = {way: float(each.mean()) for way, each in values["choosing"].items()}
        one = max((way for way in means if way.startswith("layer ")), key=means.__getitem__)
        every = max(JOINED, key=means.__getitem__)
        difference = paired_difference(values["judged"][every], values["judged"][one], seed=0)
        found[data] = {
            "chosen layer": one, "chosen way": every, "choosing": means,
            "judged": {way: str(mean_interval(each, seed=0)) for way, each in values["judged"].items()},
            "difference": vars(difference), "surely better": difference.low > 0,
        }  # fmt: skip
        print(data, one, every, difference, flush=True)
    write_whole(json.dumps(found, indent=1) + "\n", given.out)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main(arguments.parse_args())
