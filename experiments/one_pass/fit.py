"""Train the probes that the boards judge and that ship with the embedded models.

    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER sentiment-0 sentiment-1 topic-0 ...
    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER --model DECODER decoder-0 decoder_diffmask-0
    python experiments/one_pass/fit.py --data-dir DATA --out FOLDER --model DECODER responses-0 responses_diffmask-0

MODEL-SEED goes to FOLDER/MODEL-SEED, in int8. Sentiment is trained on SST-2's training phrases and sentences;
`sentiment_joined-SEED` also on texts made of several of them, `sentiment_reviews-SEED` also on single sentences of
IMDb's training reviews; never on a whole review. choose_texts.py judged them on texts that none saw
(results/choice.json): the last are surely better on reviews and no worse on sentences. The texts of search.py that are
set aside calibrate the errors. Seed 0 of `sentiment_reviews` and `topic` ships (src/whence/embedded/MODEL/shapley).
`decoder-SEED` learns the next word of the decoder's board, on its prompts with training sentences, in fewer and smaller
steps: such a model is fifteen times as dear. `responses-SEED` learns what it answers to training questions of the board
of responses, `decoder_diffmask-SEED` and `responses_diffmask-SEED` are DiffMask on the same, at fewer layers; for
responses several settings are tried (each is a run of its own too, `responses_diffmask_gentle-SEED`), and the one that
masks most for the answers it changes on questions set aside is taken (results/response_masks.json). The answers are
kept in FOLDER/answers.json; for a decoder a GPU multiplies matrices in TF32, as on the boards. With
--model, `sentiment-SEED`, `topic-SEED`, `sentiment_diffmask-SEED` and `topic_diffmask-SEED` are fitted for that
classifier instead of the embedded one. What is in FOLDER already is passed over; a run that was stopped goes on from
its checkpoint in FOLDER/unfinished.
A decoder's probes do not ship: how far off theirs were, and whose relevance they learnt, goes to
RESULTS/stated_errors.json, also of those passed over.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from search import FEWEST_WORDS, texts_of

import whence
from whence.cli.evaluate import StepLines
from whence.models.responses import responding

sys.path.append(str(Path(__file__).parents[1] / "scoreboard"))

from questions import answered, questions  # type: ignore[import-not-found]
from run import BOARDS  # type: ignore[import-not-found]

DECODER: dict[str, Any] = {"step_tokens": 3_200, "pairs": 4, "steps": 800, "warm_up": 100, "checked_orders": 40}
RESPONSES: dict[str, Any] = {**DECODER, "steps": 1_000, "checked_texts": 64}
MASKS: dict[str, Any] = {"layers": 4, "batch_size": 16, "steps": 400, "warm_up": 40}
TRIED: dict[str, dict[str, Any]] = {
    "usual": MASKS,
    "gentle": {**MASKS, "steps": 1_200, "multiplier": 1.0},
    "whole": {**MASKS, "steps": 1_200, "multiplier": 1.0, "hard": True},
    "loose": {**MASKS, "steps": 1_200, "multiplier": 0.3, "hard": True, "margin": 0.3},
}
"""Settings of DiffMask on responses: gates that begin under less pressure to stay open, that pass a state whole or not
at all, and that may cost more."""
QUESTIONS, OF_A_PARAGRAPH, ASIDE = 6_000, 3, 200


def prompts(texts: list[str]) -> list[str]:
    """Those of the decoder's board; phrases of a few words are left out."""
    return [BOARDS["decoder"].prompt.format(text=text) for text in texts if len(text.split()) >= FEWEST_WORDS]


def of_questions(model: whence.LayeredModel, given: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    """Training questions with the model's answers, and those that are set aside."""
    asked = questions(model, given.data_dir / "squad.parquet", "train", ASIDE + QUESTIONS, each=OF_A_PARAGRAPH)
    pairs = [(question.messages, ids) for question, ids in answered(model, asked, given.out / "answers.json")]
    return pairs[ASIDE:], pairs[:ASIDE]


def of_texts(name: str, model_name: str, given: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    training, aside = texts_of(model_name, given.data_dir, more=name.partition("_")[2])
    return (prompts(training), prompts(aside)) if name.startswith("decoder") else (training, aside)


def keep_stated_error(run: str, probes: Path, file: Path) -> None:
    config = json.loads((probes / "config.json").read_text(encoding="utf-8"))
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[run] = {**config["calibration"], "relevance": config["relevance"]}
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main(given: argparse.Namespace) -> None:
    given.out.mkdir(parents=True, exist_ok=True)
    for run in given.runs:
        if not (given.out / run / "config.json").exists():
            (fit_best_masks if run.startswith("responses_diffmask-") else fit)(run, given)
        if run.partition("-")[0] in ("decoder", "responses"):
            keep_stated_error(run, given.out / run, given.results / "stated_errors.json")


def fit_best_masks(run: str, given: argparse.Namespace) -> None:
    """DiffMask on responses with each of the settings tried; the best on questions set aside goes by the plain name."""
    name, _, seed = run.partition("-")
    runs = {tried: f"{name}_{tried}-{seed}" for tried in TRIED}
    for each in runs.values():
        if not (given.out / each / "config.json").exists():
            fit(each, given)
    results = {
        tried: json.loads((given.out / each / "config.json").read_text(encoding="utf-8"))["results"]
        for tried, each in runs.items()
    }
    earned = {
        tried: sum(layer["masked"] + layer["agreement"] - 1 for layer in layers) / len(layers)
        for tried, layers in results.items()
    }
    best = max(earned, key=earned.__getitem__)
    shutil.copytree(given.out / runs[best], given.out / run)
    record = {"chosen": best, "earned": earned, "settings": TRIED, "results": results}
    (given.results / "response_masks.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def fit(run: str, given: argparse.Namespace) -> None:
    """Train, save and tell what came out."""
    of_classifier = {"steps": given.steps} if given.steps else {}
    name, _, seed = run.partition("-")
    responds = name.startswith("responses")
    decoder = responds or name.startswith("decoder")
    model_name = "sentiment" if decoder else name.partition("_")[0]
    model = whence.load(given.model if decoder or given.model else model_name)
    model.module.to(given.device)
    on_gpu = given.device.startswith("cuda")
    torch.set_float32_matmul_precision("high" if decoder and on_gpu else "highest")
    training, aside = of_questions(model, given) if responds else of_texts(name, model_name, given)
    started = time.perf_counter()
    unfinished = given.out / "unfinished" / run
    lines = StepLines(lambda line: print(line, file=sys.stderr, flush=True))
    settings: dict[str, Any] = {"held_out": aside, "seed": int(seed), "folder": unfinished, "progress": lines}
    view = responding(model) if responds else model
    if "diffmask" in name:
        tried = TRIED.get(name.rpartition("_")[2], MASKS) if decoder else of_classifier
        masks = whence.DiffMask("input", **tried).fit(view, training, **settings)
        masks.save(given.out / run)
        assert masks.fitted_ is not None
        told: Any = masks.fitted_.results[-1]
    else:
        recipe = RESPONSES if responds else DECODER if decoder else of_classifier
        probes = whence.ShapleyProbes(**recipe).fit(view, training, **settings)
        probes.save(given.out / run, dtype=torch.int8)
        assert probes.fitted_ is not None
        told = probes.fitted_.calibration
    shutil.rmtree(unfinished)
    print(run, told, f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", metavar="MODEL-SEED")
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--model", help="folder or hub id: the decoder's, or a classifier's")
    arguments.add_argument("--steps", type=int, help="of a classifier's probes, if not the usual")
    arguments.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    main(arguments.parse_args())
