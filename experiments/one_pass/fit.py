"""Train the Shapley probes that the boards judge and that ship with the embedded models.

    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER sentiment-0 sentiment-1 topic-0 ...
    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER --model DECODER decoder-0

MODEL-SEED goes to FOLDER/MODEL-SEED, in int8. Sentiment is trained on SST-2's training phrases and sentences;
`sentiment_joined-SEED` also on texts made of several of them, `sentiment_reviews-SEED` also on single sentences of
IMDb's training reviews; never on a whole review. choose_texts.py judged them on texts that none saw
(results/choice.json): the last are surely better on reviews and no worse on sentences. The texts of search.py that are
set aside calibrate the errors. Seed 0 of `sentiment_reviews` and `topic` ships (src/whence/embedded/MODEL/shapley).
`decoder-SEED` learns the next word of the decoder's board, on its prompts with training sentences, in fewer and smaller
steps: such a model is fifteen times as dear.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from search import FEWEST_WORDS, texts_of

import whence

sys.path.append(str(Path(__file__).parents[1] / "scoreboard"))

from run import BOARDS  # type: ignore[import-not-found]

DECODER: dict[str, Any] = {"step_tokens": 3_200, "pairs": 4, "steps": 800, "warm_up": 100, "checked_orders": 40}


def prompts(texts: list[str]) -> list[str]:
    """Those of the decoder's board; phrases of a few words are left out."""
    return [BOARDS["decoder"].prompt.format(text=text) for text in texts if len(text.split()) >= FEWEST_WORDS]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="MODEL-SEED")
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--model", help="the decoder's folder or hub id")
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = arguments.parse_args()
    for run in given.runs:
        name, _, seed = run.partition("-")
        decoder = name == "decoder"
        model_name = "sentiment" if decoder else name.partition("_")[0]
        model = whence.load(given.model if decoder else model_name)
        model.module.to(given.device)
        training, aside = texts_of(model_name, given.data_dir, more=name.partition("_")[2])
        if decoder:
            training, aside = prompts(training), prompts(aside)
        started = time.perf_counter()
        probes = whence.ShapleyProbes(**DECODER if decoder else {})
        probes.fit(model, training, held_out=aside, seed=int(seed), progress=False)
        probes.save(given.out / run, dtype=torch.int8)
        fitted = probes.fitted_
        assert fitted is not None
        print(run, fitted.calibration, f"{time.perf_counter() - started:.0f} s", flush=True)
