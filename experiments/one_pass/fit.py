"""Train the Shapley probes that the boards judge and that ship with the embedded models.

    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER sentiment-0 sentiment-1 topic-0 ...

MODEL-SEED goes to FOLDER/MODEL-SEED, in int8. Sentiment is trained on SST-2's training phrases and sentences, never
on a review; `sentiment_joined-SEED` also on texts made of several of them, which did worse on reviews of IMDb's
training set (results/choice.json) and is used nowhere. The texts of search.py that are set aside calibrate the errors.
Seed 0 ships (src/whence/embedded/MODEL/shapley).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from search import texts_of

import whence

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="MODEL-SEED")
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = arguments.parse_args()
    for run in given.runs:
        name, _, seed = run.partition("-")
        model_name = name.partition("_")[0]
        model = whence.load(model_name)
        model.module.to(given.device)
        training, aside = texts_of(model_name, given.data_dir, joined=name.endswith("joined"))
        started = time.perf_counter()
        probes = whence.ShapleyProbes().fit(model, training, held_out=aside, seed=int(seed), progress=False)
        probes.save(given.out / run, dtype=torch.int8)
        fitted = probes.fitted_
        assert fitted is not None
        print(run, fitted.calibration, f"{time.perf_counter() - started:.0f} s", flush=True)
