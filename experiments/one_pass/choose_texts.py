"""Which texts to train sentiment probes on: SST-2's alone, or more beside them? Writes results/choice.json.

    python experiments/one_pass/choose_texts.py --data-dir DATA --probes FOLDER

FOLDER holds `sentiment-0`, `sentiment_reviews-0` and so on of fit.py. All are judged on training texts that none saw:
those that search.py sets aside, and reviews of IMDb's training set.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from search import faithfulness, reviews_of_imdb, rows, texts_of

import whence

SHORTEST, LONGEST = 120, 256  # tokens of a review
OUT = Path(__file__).parent / "results" / "choice.json"

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--probes", type=Path, required=True)
    arguments.add_argument("--sentences", type=int, default=200)
    arguments.add_argument("--reviews", type=int, default=40)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load("sentiment")
    model.module.to(given.device)
    _, reviews = reviews_of_imdb(given.data_dir)
    reviews = [text for text in reviews if SHORTEST <= len(model.encode(text)) <= LONGEST]
    _, sentences = texts_of("sentiment", given.data_dir)
    runs = sorted(path.name for path in given.probes.glob("sentiment*-[0-9]"))
    found: dict[str, Any] = {}
    for kind, texts in {"sentences": sentences[: given.sentences], "reviews": reviews[: given.reviews]}.items():
        scores = {"held_still": rows(whence.explain(model, texts, "held_still", layers="embeddings"))}
        for name in runs:
            probes = whence.ShapleyProbes.load(given.probes / name)
            for part in ("both", "shapley"):
                scores[f"{name}, {part}"] = rows(probes.explain(model, texts, part=part))
        found[kind] = {"n_texts": len(texts), "faithfulness": faithfulness(model, texts, scores)}
        print(kind, {name: round(float(np.mean(each)), 4) for name, each in found[kind]["faithfulness"].items()})
    OUT.write_text(json.dumps(found), encoding="utf-8")
