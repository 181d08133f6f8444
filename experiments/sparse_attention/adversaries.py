"""Table 5: the adversary of a classifier that attends as far from it as the paper's, looked for among weights."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import paper
from jobs import Job, Means, base_of, corpus_of, once

from whence.attention import AdversarySettings, measure_adversary, train_adversary


def search_adversary(job: Job, frozen: bool, weights: Sequence[float], means: Means) -> dict[str, Any]:
    """The adversary of a job's classifier whose attention is as far away, on the dev part, as the paper's.

    Of the growing divergence weights one is looked for, by bisection, that leads as far while the next smaller one does
    not; if the largest does not either, it is the largest's. A search whose records are all there needs no base.
    """
    made = {weight: path for weight in weights if (path := means.work / _adversary(job, frozen, weight)).exists()}
    recorded = {weight: json.loads(path.read_text()) for weight, path in made.items()}
    if len({record["base"] for record in recorded.values()}) == 1 and (found := _bisect(weights, recorded.get)):
        return found
    trained = _bisect(weights, lambda weight: run_adversary(job, frozen, weight, means))
    assert trained is not None
    return trained


def _bisect(weights: Sequence[float], adversary: Callable[[float], dict[str, Any] | None]) -> dict[str, Any] | None:
    """The adversary where the wanted divergence is first reached, or none where one that is asked for is missing."""
    smallest, beyond, reached = 0, len(weights), None
    while smallest < beyond:
        middle = (smallest + beyond) // 2
        last = adversary(weights[middle])
        if last is None:
            return None
        if last["dev"]["jensen_shannon"] >= last["wanted"]:
            beyond, reached = middle, last
        else:
            smallest = middle + 1
    return reached or last


def _adversary(job: Job, frozen: bool, weight: float) -> str:
    return f"adversaries/{job.name}-{'frozen' if frozen else 'unfrozen'}-weight{weight:g}.json"


def run_adversary(job: Job, frozen: bool, weight: float, means: Means) -> dict[str, Any]:
    """An adversary of a job's classifier with this divergence weight, on the dev and the test part.

    A record of a base that is no longer there, and was trained again, is made anew: a search has one base.
    """
    kind = "frozen" if frozen else "unfrozen"
    corpus = corpus_of(job, means)
    base, fingerprint = base_of(job, corpus, means)
    path = means.work / _adversary(job, frozen, weight)
    if path.exists() and json.loads(path.read_text())["base"] != fingerprint:
        path.unlink()

    def made() -> dict[str, Any]:
        settings = AdversarySettings(
            frozen=frozen, divergence_weight=weight, seed=job.seed, max_epochs=means.adversary_epochs
        )
        started = time.perf_counter()
        model, n_epochs = train_adversary(base, corpus.train, settings, vectors=corpus.vectors)
        spent: dict[str, Any] = {"n_epochs": n_epochs, "seconds": time.perf_counter() - started}
        parts = {"dev": corpus.dev, "test": corpus.test}
        found = {
            part: measure_adversary(base, model, documents, settings, **spent) for part, documents in parts.items()
        }
        wanted = paper.TABLE_5[job.encoder, kind][job.data][0]
        return {
            "job": asdict(job), "kind": kind, "wanted": wanted, "base": fingerprint,
            **{part: each.to_dict() for part, each in found.items()},
        }  # fmt: skip

    return once(means, _adversary(job, frozen, weight), made)
