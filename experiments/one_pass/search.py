"""One round of search for the recipe of Shapley probes: every run judged on training texts that no probe saw.

    python experiments/one_pass/search.py --data-dir DATA --out FOLDER sentiment-usual topic-usual ...

Each run writes FOLDER/NAME.json: its settings, its fit's own check, and the faithfulness of its answers on JUDGED
training texts, text by text, as the scoreboard computes it. `sentiment-yardsticks` and `topic-yardsticks` fit nothing
and judge the methods that need no training on the same texts. `write_search.py` makes the table.
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
from game_objective import train_on_the_game

import whence
from whence.data import read
from whence.models.batching import encode_each
from whence.units import sentence_spans

sys.path.append(str(Path(__file__).parents[1]))  # where faithfulness is

from faithfulness import faithfulness

JUDGED = 400  # training texts set aside
FEWEST_WORDS = 8  # of a text that is judged: SST-2 trains on phrases too
DATA = {"sentiment": "sst2", "topic": "ag_news"}
REVIEWS = 8_000
USUAL: dict[str, Any] = {"steps": 1_000, "blocks": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "wide": {"width": 256},
    "one-block": {"blocks": 1},
    "few-pairs": {"pairs": 4},
    "many-pairs": {"pairs": 16},
    "four-layers": {"layers": 4},
    "shapley-alone": {"held_still": 0.0},
    "still-weighty": {"held_still": 1.0},
    "words": {"units": "word"},
    "long": {"steps": 2_400, "blocks": 1},
    "game": {},
}
GAME_STEPS = 300
YARDSTICKS: dict[str, dict[str, Any]] = {
    "held_still": {},
    "attn_lrp": {},
    "integrated_gradients": {"steps": 25},
    "shapley": {"samples": 25},
    "shapley of the probability": {"samples": 25, "scale": "probability"},
}
PARTS = {"both": "both", "shapley": "shapley", "held_still": "relevance"}  # as the records call them


def texts_of(name: str, data_dir: Path, more: str = "") -> tuple[list[str], list[str]]:
    """Training texts, and those that are set aside to be judged, of which no part is among them.

    `more` adds texts made of several others ("joined"), or single sentences of IMDb's training reviews ("reviews").
    """
    texts = [example.text for example in read(DATA[name], data_dir=data_dir, split="train")]
    chance = random.Random(0)
    chance.shuffle(texts)
    aside = [text for text in texts if len(text.split()) >= FEWEST_WORDS][:JUDGED]
    together = "\n".join(aside)
    rest = [text for text in texts if text not in together and not any(each in text for each in aside)]
    if more == "joined":
        rest += [" ".join(chance.sample(rest, chance.randint(3, 12))) for _ in range(len(rest) // 8)]
    if more == "reviews":
        rest += sentences_of_reviews(data_dir)
    return rest, aside


def reviews_of_imdb(data_dir: Path) -> tuple[list[str], list[str]]:
    """Reviews of its training set whose sentences are trained on, and others to judge what came out."""
    reviews = sorted(example.text for example in read("imdb", data_dir=data_dir, split="train", limit=REVIEWS, seed=0))
    random.Random(0).shuffle(reviews)
    return reviews[JUDGED:], reviews[:JUDGED]


def sentences_of_reviews(data_dir: Path) -> list[str]:
    reviews, _ = reviews_of_imdb(data_dir)
    found = (review[start:end] for review in reviews for start, end in sentence_spans(review))
    return [sentence for sentence in found if FEWEST_WORDS // 2 <= len(sentence.split()) <= 4 * FEWEST_WORDS]


def rows(explanations: list[whence.Explanation]) -> list[np.ndarray]:
    return [np.asarray(each.row()) for each in explanations]


def run(name: str, data_dir: Path, device: str, steps: int | None) -> dict[str, Any]:
    model_name, _, variant = name.partition("-")
    model = whence.load(model_name)
    model.module.to(device)
    training, judged = texts_of(model_name, data_dir)
    started = time.perf_counter()
    if variant == "yardsticks":
        scores = {
            method: rows(whence.explain(model, judged, method.split()[0], layers="embeddings", **options))
            for method, options in YARDSTICKS.items()
        }
        shares = [
            [row / np.abs(row[1:-1]).sum() for row in scores[each]]
            for each in ("held_still", "shapley of the probability")
        ]
        scores["mean of held_still and shapley"] = [a + b for a, b in zip(*shares, strict=True)]
        about: dict[str, Any] = {}
    else:
        seed = int(variant.removeprefix("seed")) if variant.startswith("seed") else 0
        changes = {**USUAL, **VARIANTS.get(variant, {}), **({"steps": steps, "warm_up": 10} if steps else {})}
        probes = whence.ShapleyProbes(**changes)
        probes.fit(model, training, seed=seed, progress=False, held_out=judged, validations=5)
        fitted = probes.fitted_
        assert fitted is not None
        if variant == "game":
            encodings = encode_each(model, training[:40_000])
            train_on_the_game(model, fitted.shares.network, encodings, steps=GAME_STEPS, batch_size=256, seed=seed)
        n_weights = sum(weight.numel() for weight in fitted.shares.network.parameters())
        about = {
            "changes": changes, "seed": seed, "seconds": fitted.seconds, "n_texts": fitted.n_texts,
            "n_weights": n_weights, "calibration": vars(fitted.calibration), "history": list(fitted.history),
        }  # fmt: skip
        parts = PARTS if changes.get("held_still", 1) else {"shapley": "shapley"}
        scores = {called: rows(probes.explain(model, judged, part=part)) for called, part in parts.items()}
        if len(parts) == 3:
            own = [
                np.asarray(each.row("embeddings"))
                for each in whence.explain(model, judged, "held_still", layers="embeddings")
            ]
            each = zip(scores["shapley"], own, strict=True)
            scores["shapley and held_still itself"] = [
                a / np.abs(a).sum() + np.where(a != 0, b, 0) / np.abs(np.where(a != 0, b, 0)).sum() for a, b in each
            ]
    found = faithfulness(model, judged, scores)
    return {
        "run": name, **about, "faithfulness": found,
        "mean": {part: float(np.mean(each)) for part, each in found.items()},
        "seconds_in_all": time.perf_counter() - started, "device": _device(device),
    }  # fmt: skip


def _device(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="MODEL-VARIANT")
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments.add_argument("--steps", type=int, help="fewer steps, to try the script")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for each in given.runs:
        record = run(each, given.data_dir, given.device, given.steps)
        (given.out / f"{each}.json").write_text(json.dumps(record), encoding="utf-8")
        print(
            each,
            {part: round(mean, 4) for part, mean in record["mean"].items()},
            f"{record['seconds_in_all']:.0f} s",
            flush=True,
        )
