"""Relevance of a decoder's next word: shares of its logit or of its log-probability? Writes results/decoder_scale.json.

    python experiments/one_pass/decoder_scale.py --model FOLDER --data-dir DATA [--prompts 60]

Prompts are those of the decoder's board, with training sentences of SST-2 in place of the development set. Faithfulness
is measured in the probability of the word that the model says, with words hidden in two ways.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from whence.data import read
from whence.explanation import Scale
from whence.metrics.answered import LAYER_POINTS
from whence.models.hiding import Hide

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "scoreboard")]

from faithfulness import faithfulness
from run import EXAMPLES  # type: ignore[import-not-found]

OUT = Path(__file__).parent / "results" / "decoder_scale.json"
METHODS = ("attn_lrp", "held_still", "gradient_x_input")
SCALES: tuple[Scale, ...] = ("logit", "log_probability")
WAYS: tuple[Hide, ...] = ("attention", "delete")

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--model", required=True)
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--prompts", type=int, default=60)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = arguments.parse_args()
    started = time.perf_counter()
    model = whence.load(given.model)
    model.module.to(given.device)
    texts = [example.text for example in read("sst2", data_dir=given.data_dir, split="train")]
    texts = [text for text in texts if 8 <= len(text.split()) <= 20]
    random.Random(0).shuffle(texts)
    prompts = [f"{EXAMPLES}Review: {text}\nSentiment:" for text in texts[: given.prompts]]
    scores: dict[str, list[np.ndarray]] = {}
    for method in METHODS:
        for scale in SCALES:
            explained = whence.explain(model, prompts, method, layers="embeddings", scale=scale)
            scores[f"{method}, {scale}"] = [np.asarray(each.row()) for each in explained]
    scores["random"] = [np.asarray(each.row()) for each in whence.explain(model, prompts, "random")]
    found: dict[str, Any] = {}
    for way in WAYS:
        areas = faithfulness(model, prompts, scores, hide=way, points=LAYER_POINTS)
        found[way] = areas
        print(way, {name: round(float(np.mean(each)), 3) for name, each in areas.items()}, flush=True)
    record = {
        "model": Path(given.model).name, "n_prompts": len(prompts), "device": given.device,
        "seconds": round(time.perf_counter() - started), "faithfulness": found,
    }  # fmt: skip
    OUT.write_text(json.dumps(record), encoding="utf-8")
