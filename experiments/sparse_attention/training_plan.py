"""How classifiers are trained: learning rates are tried with seed 0, chosen on the dev part, and kept for all seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whence.attention import TrainingSettings

# the paper's rate first; the code it builds on has 1e-3 for all
RATES = {"bilstm": (1e-4, 1e-3), "transformer": (1e-5, 1e-4, 1e-3)}
ATTENTION_SPEEDS = (1.0, 10.0)
# epochs at most, and without improvement: an epoch has 199, 36 and 538 steps
EPOCHS = {"sst": (60, 6), "20news": (100, 15), "imdb": (12, 3)}
TRIED_ON = {"imdb": "sst"}  # whose choice another set takes over
DIVERGENCE_WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # of an adversary's loss, tried by bisection
Rates = tuple[float, float]


def setting(data: str, encoder: str, projection: str) -> tuple[str, str, str]:
    """The set, encoder and projection whose choice of rates holds: sparse projections share that of sparsemax."""
    return TRIED_ON.get(data, data), encoder, "softmax" if projection == "softmax" else "sparsemax"


def trial_name(data: str, encoder: str, projection: str, rates: Rates) -> str:
    return f"{data}-{encoder}-{projection}-rate{rates[0]:g}-attention{rates[1]:g}"


def training_settings(data: str, rates: Rates, seed: int, max_epochs: int | None) -> TrainingSettings:
    """The settings of a set with these learning rates (of the model, and the factor for the attention)."""
    longest, patience = EPOCHS[data]
    return TrainingSettings(
        learning_rate=rates[0],
        attention_speed=rates[1],
        max_epochs=max_epochs or longest,
        patience=patience,
        seed=seed,
    )


def chosen_rates(work: Path, data: str, encoder: str, projection: str, candidates: list[Rates]) -> Rates:
    """The only candidate, or the one with the best ROC-AUC on the dev part."""
    if len(candidates) == 1:
        return candidates[0]
    names = [trial_name(*setting(data, encoder, projection), rates) for rates in candidates]
    paths = [path for name in names if (path := work / "rates" / f"{name}.json").exists()]
    trials: list[dict[str, Any]] = [json.loads(path.read_text()) for path in paths]
    if not trials:
        raise FileNotFoundError(f"no learning rates were tried for {names[0]} and its like in {work / 'rates'}")
    best = max(trials, key=lambda trial: trial["dev_roc_auc"])
    return best["learning_rate"], best["attention_speed"]
