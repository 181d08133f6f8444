"""What masking does to a model's answers, text by text, for many sets of probes at once; F1 with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whence
from whence.learned.diffmask.validation import masked_outputs
from whence.metrics.confidence import RESAMPLES, bootstrap, percentile_ends, resampling_weights
from whence.models.batching import batches, usual_batch_tokens
from whence.models.inputs import Encoding

COLLAPSED, NO_BETTER = 0.95, 0.05
"""A layer has collapsed if it masks at least this share and agrees hardly more often than a constant answer would."""


@dataclass(frozen=True)
class Masked:
    """One set of probes on many texts, gates open or closed: arrays of layers x texts.

    `said` is the class given to the masked text (-1 for a model without classes).
    """

    layers: tuple[whence.Layer, ...]
    masked: np.ndarray
    same: np.ndarray
    moved: np.ndarray
    said: np.ndarray


@torch.no_grad()
def mask_all(
    model: whence.LayeredModel, probes: Mapping[str, whence.DiffMask], encodings: Sequence[Encoding]
) -> tuple[np.ndarray, dict[str, Masked]]:
    """What the model says of the whole texts, and what each set of probes makes of them."""
    groups = list(batches(model, encodings, usual_batch_tokens(model)))
    whole = np.full(len(encodings), -1)
    found = {}
    with model.held():
        for name, each in probes.items():
            fitted = each.fitted_
            assert fitted is not None
            shape = (len(fitted.probes.layers), len(encodings))
            numbers = (np.zeros(shape), np.zeros(shape), np.zeros(shape), np.full(shape, -1))
            found[name] = run = Masked(fitted.probes.layers, *numbers)
            of_batches = [[encodings[row] for row in group] for group in groups]
            outputs = masked_outputs(model, fitted.probes.to(model.device), of_batches, fitted.recipe.special)
            for (rows, layer), output in zip(product(groups, range(shape[0])), outputs, strict=True):
                compared = (output.original, output.changed, output.inputs.mask)
                run.masked[layer, rows] = output.masked.cpu().numpy()
                run.same[layer, rows] = model.reading.agreement(*compared).cpu().numpy()
                run.moved[layer, rows] = model.reading.divergence(*compared).cpu().numpy()
                if output.changed.ndim == 2:
                    whole[rows] = output.original.argmax(dim=-1).cpu().numpy()
                    run.said[layer, rows] = output.changed.argmax(dim=-1).cpu().numpy()
    return whole, found


def collapsed_layers(rows: Sequence[Mapping[str, Any]], largest_class: float) -> list[whence.Layer]:
    """The layers, as `by_layer` gives them, at which (nearly) all is masked and the answers are as good as constant.

    `largest_class` is the share of texts on which the model says the same most often.
    """
    return [
        row["layer"]
        for row in rows
        if row["masked"] >= COLLAPSED and row["agreement"]["value"] <= largest_class + NO_BETTER
    ]


def draws(n_texts: int, resamples: int = RESAMPLES) -> np.ndarray:
    """How often each text is drawn in each resample; the first row is every text once."""
    return np.concatenate([np.ones((1, n_texts)), n_texts * resampling_weights(n_texts, resamples)])


def macro_f1(gold: np.ndarray, said: np.ndarray, weights: np.ndarray, n_classes: int = 5) -> np.ndarray:
    """Macro-F1 under each row of weights, as scikit-learn has it: a class that is in neither counts 0."""
    cells = np.zeros((len(gold), n_classes * n_classes))
    cells[np.arange(len(gold)), gold * n_classes + said] = 1
    confusion = (weights @ cells).reshape(len(weights), n_classes, n_classes)
    right = np.diagonal(confusion, axis1=1, axis2=2)
    either = confusion.sum(axis=1) + confusion.sum(axis=2)
    return np.asarray((2 * right / np.maximum(either, 1e-12)).mean(axis=1))


def released_macro_f1(gold: np.ndarray, said: np.ndarray, batch: int = 64) -> float:
    """Macro-F1 as the released code has it: the plain mean over batches of 64 in the order of the file.

    In a batch there are as many classes as its largest number tells; the precision of a class that is never said is 0,
    the recall of one that is absent 1, so that a class that is neither counts 0.
    """
    scores = []
    for start in range(0, len(gold), batch):
        true, guess = gold[start : start + batch], said[start : start + batch]
        of_class = []
        for label in range(int(max(true.max(), guess.max())) + 1):
            right = ((true == label) & (guess == label)).sum()
            precision = right / (guess == label).sum() if (guess == label).any() else 0.0
            recall = right / (true == label).sum() if (true == label).any() else 1.0
            of_class.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
        scores.append(np.mean(of_class))
    return float(np.mean(scores))


def interval(values: np.ndarray) -> dict[str, float]:
    """The first number with the ends of the interval in which the others lie."""
    low, high = percentile_ends(values[1:])
    return {"value": float(values[0]), "low": float(low), "high": float(high)}


def mean_with_interval(values: np.ndarray) -> dict[str, float]:
    """The mean over texts of one number each, with its bootstrap interval."""
    low, high = bootstrap(values)
    return {"value": float(values.mean()), "low": float(low), "high": float(high)}


def by_layer(found: Masked) -> list[dict[str, Any]]:
    """What happens at each layer, means over texts, agreement with its interval."""
    return [
        {
            "layer": layer,
            "masked": float(found.masked[number].mean()),
            "agreement": mean_with_interval(found.same[number]),
            "divergence": float(found.moved[number].mean()),
        }
        for number, layer in enumerate(found.layers)
    ]


def two_readings(found: Masked) -> dict[str, Any]:
    """Share masked and agreement at the top entry, and as the mean over all entries."""
    return {
        "top": {
            "masked": mean_with_interval(found.masked[-1]),
            "agreement": mean_with_interval(found.same[-1]),
            "divergence": float(found.moved[-1].mean()),
        },
        "mean": {
            "masked": mean_with_interval(found.masked.mean(axis=0)),
            "agreement": mean_with_interval(found.same.mean(axis=0)),
            "divergence": float(found.moved.mean()),
        },
    }


def settings_of(probes: whence.DiffMask) -> dict[str, Any]:
    """How a set of probes was trained, from its config.json.

    A relative margin is a share of what masking everything costs before training: that cost follows from the two.
    """
    fitted = probes.fitted_
    assert fitted is not None
    return {
        "kind": probes.kind,
        "seed": fitted.seed,
        "n_texts": fitted.n_texts,
        "n_hidden": fitted.probes.n_hidden,
        "margin_in_nats": fitted.margin,
        "everything_masked_in_nats": fitted.margin / fitted.recipe.margin if fitted.recipe.relative else None,
        "seconds": fitted.seconds,
        "recipe": vars(fitted.recipe),
    }


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame as JSON knows them: None for what is not a number."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=6))
    return rows


def write(report: Mapping[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value
