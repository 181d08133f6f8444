"""Which texts to train sentiment probes on: phrases alone, or also texts made of several. Writes results/choice.json.

    python experiments/one_pass/choose_texts.py --data-dir DATA --probes FOLDER

FOLDER holds `sentiment-0` and `sentiment_joined-0` of fit.py. Both are judged on training texts that neither saw:
those that search.py sets aside, and reviews of IMDb's training set.
"""

from __future__ import annotations

import argparse
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from search import faithfulness, rows, texts_of

import whence
from whence.data import read

SHORTEST, LONGEST = 120, 256  # tokens of a review
OUT = Path(__file__).parent / "results" / "choice.json"

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--probes", type=Path, required=True)
    arguments.add_argument("--sentences", type=int, default=200)
    arguments.add_argument("--reviews", type=int, default=40)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load("sentiment")
    reviews = [example.text for example in read("imdb", data_dir=given.data_dir, split="train", limit=1_000, seed=0)]
    reviews = [text for text in reviews if SHORTEST <= len(model.encode(text)) <= LONGEST]
    random.Random(0).shuffle(reviews)
    _, sentences = texts_of("sentiment", given.data_dir, joined=False)
    found: dict[str, Any] = {}
    for kind, texts in {"sentences": sentences[: given.sentences], "reviews": reviews[: given.reviews]}.items():
        scores = {"held_still": rows(whence.explain(model, texts, "held_still", layers="embeddings"))}
        for name in ("sentiment-0", "sentiment_joined-0"):
            probes = whence.ShapleyProbes.load(given.probes / name)
            for part in ("both", "shapley"):
                scores[f"{name}, {part}"] = rows(probes.explain(model, texts, part=part))
        found[kind] = {"n_texts": len(texts), "faithfulness": faithfulness(model, texts, scores)}
        print(kind, {name: round(float(np.mean(each)), 4) for name, each in found[kind]["faithfulness"].items()})
    OUT.write_text(json.dumps(found), encoding="utf-8")
