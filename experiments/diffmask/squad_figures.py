"""The numbers behind Figures 2, 9 and 14: the paper's own passage, by every method and at every layer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import whence
from whence.data import Example
from whence.learned.diffmask.erasure import smallest_kept_sets
from whence.learned.diffmask.per_example import DIFFMASK_PER_TEXT
from whence.methods.state_statistics import StateStatistics

QUESTION = "Where did the Broncos practice for the Super Bowl?"
TWO_QUESTIONS = (QUESTION, "Which hotel did the Panthers stay at for the Super Bowl?")
STEPS = 500  # as published for this task
PATH_STEPS = 100  # of integrated gradients, by a better rule than the published 500
NOISE_WEIGHT = 5.0
STATISTICS_TEXTS = 200
BUDGET = 13_000  # sets of tokens: all up to three beside the answer, of the 42 that the paper's question has
PER_TEXT = {"margin": 1.0, "penalty": "share", "steps": STEPS, "rate": 0.1, "choose": "smallest"}


def find(examples: Sequence[Example], question: str) -> Example:
    """The example that asks this question."""
    return next(example for example in examples if example.text == question)


def one_question(
    model: whence.LayeredModel,
    probes: whence.DiffMask,
    example: Example,
    training: Sequence[Example],
    budget: int,
) -> dict[str, Any]:
    """Scores of every token of the question and its passage by the methods of Figure 2."""
    text = (example.text, example.pair or "")
    usual = StateStatistics(["embeddings"]).fit(model, [(each.text, each.pair or "") for each in training])
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "integrated gradients": (
            "integrated_gradients", {"layers": "embeddings", "steps": PATH_STEPS, "baseline": "zero", "special": True},
        ),
        "information bottleneck (Schulz et al.)": (
            "information_bottleneck",
            {"layers": "embeddings", "steps": STEPS, "beta": 10.0, "statistics": usual, "special": True},
        ),
        "noise tolerance (Guan et al.)": (
            "noise_tolerance",
            {"layers": "embeddings", "steps": STEPS, "weight": NOISE_WEIGHT, "score": "inverse", "special": True},
        ),
        "DiffMask, input, summed over entries": ("diffmask", {"probes": probes}),
        "DiffMask per text": (DIFFMASK_PER_TEXT, {"layers": "embeddings", **PER_TEXT}),
    }  # fmt: skip
    scores = {}
    for name, (method, options) in runs.items():
        found = whence.explain(model, text, method, **options)
        scores[name] = np.abs(found.scores.astype(float)).sum(axis=0).tolist()
    started = time.process_time()
    (search,) = smallest_kept_sets(model, [text], must_keep="answer", budget=budget)
    if search.found:
        scores["exact search"] = search.shares().tolist()
    return {
        "question": example.text,
        "passage": example.pair,
        "predicted": found.prediction.label,
        "gold": [answer.text for answer in example.answers],
        "tokens": [token.text for token in found.tokens],
        "special": [token.special for token in found.tokens],
        "segments": [token.segment for token in found.tokens],
        "scores": scores,
        "search": {
            "said": str(search),
            "found": search.found,
            "smallest": search.size,
            "at_least": search.at_least,
            "n_sets": len(search.sets),
            "complete": search.complete,
            "evaluations": search.evaluations,
            "budget": budget,
            "sets": [list(each) for each in search.sets[:20]],
            "cpu_seconds": round(time.process_time() - started, 1),
        },
        "settings": {
            "steps": STEPS, "path_steps": PATH_STEPS, "noise_weight": NOISE_WEIGHT, "beta": 10.0,
            "statistics_texts": len(training), "per_text": PER_TEXT,
        },
    }  # fmt: skip


def two_questions(
    model: whence.LayeredModel, probes: Mapping[str, whence.DiffMask], examples: Sequence[Example]
) -> list[dict[str, Any]]:
    """Keep probabilities at every layer for questions on one passage."""
    found = []
    for example in examples:
        text = (example.text, example.pair or "")
        explained = {kind: whence.explain(model, text, "diffmask", probes=own) for kind, own in probes.items()}
        one = explained["input"]
        found.append(
            {
                "question": example.text,
                "predicted": one.prediction.label,
                "gold": [answer.text for answer in example.answers],
                "tokens": [token.text for token in one.tokens],
                "layers": list(one.layers),
                "answer": [
                    not token.special
                    and token.segment == 1
                    and one.tokens[one.prediction.index].start
                    <= token.start
                    < one.tokens[one.prediction.index].start + len(one.prediction.label)
                    for token in one.tokens
                ],
                "keep": {kind: each.scores.astype(float).T.tolist() for kind, each in explained.items()},
            }
        )
    return found
