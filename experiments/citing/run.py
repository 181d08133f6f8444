"""How well each way of scoring sources tells what an answer rests on. A run that was stopped goes on where it was.

python experiments/citing/run.py --model FOLDER --data squad.parquet --out experiments/citing/results/dev \
    [--texts 100] [--split validation] [--settings paragraph,distractors] [--device cuda] [--package 256]

The answer is the model's own (greedy). What each set of sources does to it is asked once for a text and serves all
methods and budgets; the sets that methods are judged on are drawn apart. Scores are of the answer as a whole. With
--package N the package context-cite 0.0.4 makes N ablations of the same prompts too (put its folder on PYTHONPATH).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from package import Package, available
from texts import SETTINGS, Text, texts

import whence
from whence.citing.ablations import Ablations, of_sentences
from whence.citing.answering import Answer, answered
from whence.citing.designs import drawn_as_context_cite
from whence.citing.documents import sourced_prompt
from whence.citing.one_pass import ONE_PASS
from whence.citing.scoring import SCORES, SourceScores, balanced, settled_scores
from whence.citing.surrogate import lasso, logit_of
from whence.metrics.additivity import linear_datamodeling_score

BUDGETS = (16, 32, 64, 128, 256)
SAMPLED = {"balanced": BUDGETS, "context_cite": BUDGETS, "shapley": (64, 256)}
HELD_OUT, HELD_OUT_SEED = 64, 1_000_000
TOP = (1, 3)
LONGEST_ANSWER = 48  # tokens

arguments = argparse.ArgumentParser(description="Judge ways of citing on SQuAD.")
arguments.add_argument("--model", required=True)
arguments.add_argument("--data", required=True, type=Path)
arguments.add_argument("--out", required=True, type=Path, help="a folder; one file of records per setting")
arguments.add_argument("--texts", type=int, default=100)
arguments.add_argument("--split", default="validation", choices=["train", "validation"])
arguments.add_argument("--settings", default=",".join(SETTINGS))
arguments.add_argument("--device", default="cpu")
arguments.add_argument("--package", type=int, default=0, metavar="N", help="run context-cite too, with N ablations")
arguments.add_argument("--batch-size", type=int, default=16, help="prompts that context-cite runs at once")
arguments.add_argument("--batch-tokens", type=int)
arguments.add_argument("--seed", type=int, default=0)


def record(model: whence.LayeredModel, text: Text, options: argparse.Namespace) -> dict[str, Any] | None:
    """Everything that is found out about one text; None where the model answers with nothing."""
    prompt = sourced_prompt(text.question, text.documents)
    try:
        answer = answered(model, prompt, max_new_tokens=LONGEST_ANSWER)
    except whence.InputError:
        return None
    whole = (np.arange(len(answer.encoding.response)),)
    known: dict[bytes, np.ndarray] = {}
    judged = answer.ablations(options.batch_tokens, known)
    held_out = drawn_as_context_cite(HELD_OUT, len(prompt.sources), HELD_OUT_SEED)
    told = logit_of(of_sentences(judged.log_probabilities(held_out), whole)[0])
    entries: dict[str, Any] = {}

    def enter(name: str, scores: np.ndarray, asked: int, **more: Any) -> None:
        entries[name] = {
            "lds": linear_datamodeling_score(held_out @ scores, told),
            **{f"top_{count}": _drop(judged, scores, count) for count in TOP},
            "sets": asked,
            "scores": [round(float(score), 5) for score in scores],
            **more,
        }

    found: dict[str, SourceScores] = {}
    for name, budgets in SAMPLED.items():
        for budget in budgets:
            ablations = answer.ablations(options.batch_tokens, known)
            found[f"{name} {budget}"] = scores = SCORES[name](ablations, whole, budget, options.seed)
            enter(f"{name} {budget}", scores.scores[0], ablations.asked, **_cited(scores, prompt.sources))
    ablations = answer.ablations(options.batch_tokens, known)
    auto = settled_scores(balanced, ablations, whole, max(BUDGETS), options.seed)
    enter("balanced auto", auto.scores[0], ablations.asked, **_cited(auto, prompt.sources))
    ablations = answer.ablations(options.batch_tokens, known)
    enter("leave_one_out", SCORES["leave_one_out"](ablations, whole, 0, options.seed).scores[0], ablations.asked)
    one = Answer(answer.model, prompt, answer.encoding, ((0, len(answer.text)),), whole)
    for name, score in ONE_PASS.items():
        enter(name, score(one, options.seed).scores[0], 0)
    exact = found[f"balanced {max(BUDGETS)}"] if 2 ** len(prompt.sources) <= max(BUDGETS) else None
    if exact is not None:
        for name in ("balanced", "context_cite"):
            for budget in BUDGETS:
                of = found[f"{name} {budget}"]
                assert of.low is not None
                assert of.high is not None
                inside = (of.low <= exact.scores + 1e-9) & (exact.scores <= of.high + 1e-9)
                entries[f"{name} {budget}"]["covered"] = bool(inside.all())
    return {
        "text": text.name,
        "question": text.question,
        "answer": answer.text,
        "n_sources": len(prompt.sources),
        "n_own": sum(source.document == "own" for source in prompt.sources),
        "n_prompt": answer.encoding.response.start,
        "n_answer": len(answer.encoding.response),
        "log_p": float(judged.log_probabilities(np.ones((1, len(prompt.sources)), dtype=bool)).sum()),
        "log_p_without": float(judged.log_probabilities(np.zeros((1, len(prompt.sources)), dtype=bool)).sum()),
        "entries": entries,
        **({"package": _package(answer, text, judged, found, enter, options)} if options.package else {}),
    }


def _drop(judged: Ablations, scores: np.ndarray, count: int) -> float:
    """By how much the answer's log p drops when its first sources go."""
    first = np.argsort(-scores, kind="stable")[:count]
    sets = np.ones((2, len(scores)), dtype=bool)
    sets[1, first] = False
    whole, without = judged.log_probabilities(sets).sum(axis=1)
    return float(whole - without)


def _cited(scores: SourceScores, sources: Any) -> dict[str, Any]:
    """How many sources of the own paragraph and of others are cited, and whether that is settled."""
    cited = scores.cited()
    assert cited is not None
    own = np.array([source.document == "own" for source in sources])
    return {
        "cited_own": int(cited[0, own].sum()),
        "cited_other": int(cited[0, ~own].sum()),
        "settled": scores.settled(),
    }


def _package(
    answer: Answer,
    text: Text,
    judged: Ablations,
    found: dict[str, SourceScores],
    enter: Any,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """context-cite on the same text, and where it differs."""
    started = time.perf_counter()
    package = Package(answer, text.question, options.package, options.batch_size)
    seconds = time.perf_counter() - started
    spans, first = answer.prompt_spans, answer.encoding.response.start
    kept = answer.prompt.keep(spans, package.sets)[:, :first]
    ids = np.array(answer.encoding.ids)
    same = [package.prompt_ids(one) == ids[:first][left].tolist() for one, left in zip(package.sets, kept, strict=True)]
    own = judged.log_probabilities(package.sets).sum(axis=1)
    alike = np.array(same) & (package.response_ids == ids[first:].tolist())
    apart = np.abs(package.log_probabilities() - own)
    budgets = [budget for budget in BUDGETS if budget <= options.package]
    n_answer = len(package.response_ids)
    worths = logit_of(package.log_probabilities().astype(float)) / n_answer
    for budget in budgets:
        enter(f"context-cite 0.0.4 {budget}", package.scores(budget), budget)
    return {
        "seconds": round(seconds, 2),
        "same_response": package.response_ids == ids[first:].tolist(),
        "same_prompts": float(np.mean(same)),
        "largest_difference_of_log_p": float(apart[alike].max()) if alike.any() else None,
        "largest_difference_of_lasso": max(
            float(np.abs(package.scores(budget) - n_answer * lasso(package.sets[:budget], worths[:budget])).max())
            for budget in budgets
        ),
        "largest_difference_of_scores": {
            str(budget): float(np.abs(package.scores(budget) - found[f"context_cite {budget}"].scores[0]).max())
            for budget in budgets
            if alike[:budget].all()
        },
    }


def main(options: argparse.Namespace) -> None:
    if options.package and not available():
        arguments.error("context-cite and scikit-learn are not to be found: put their folders on PYTHONPATH")
    model = whence.load(options.model)
    model.module.to(options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = {
        "split": options.split,
        "seed": options.seed,
        "device": torch.cuda.get_device_name() if options.device.startswith("cuda") else platform.processor() or "CPU",
        "model": Path(options.model).name,
        "longest_answer": LONGEST_ANSWER,
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
        "python": platform.python_version(),
    }
    (options.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    for setting in options.settings.split(","):
        file = options.out / f"{setting}.jsonl"
        done = {json.loads(line)["text"] for line in file.read_text().splitlines()} if file.exists() else set()
        for number, text in enumerate(
            texts(options.data, options.split, setting, options.texts, options.seed), start=1
        ):
            if text.name in done:
                continue
            started = time.perf_counter()
            found = record(model, text, options)
            line = {"text": text.name, "answer": None} if found is None else found
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**line, "seconds": round(time.perf_counter() - started, 2)}) + "\n")
            print(f"{setting} {number} of {options.texts}: {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main(arguments.parse_args())
