"""Scores of every contestant on every text, computed once and kept in a folder that is not committed."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contestants import Contestant
from safetensors import safe_open
from safetensors.numpy import save_file

import whence
from whence.data import Example, labels_as_ids, read
from whence.explanation import Explanation
from whence.metrics.confidence import RESAMPLES
from whence.models.fingerprint import fingerprint

MODELS = {"sst2": "sentiment", "ag_news": "topic"}


@dataclass(frozen=True)
class Task:
    """A data set with its model, its texts, and what the model says of them (`said` holds no scores worth reading)."""

    name: str
    model: whence.LayeredModel
    examples: list[Example]
    gold: list[int]
    said: list[Explanation]
    seed: int
    batch_tokens: int | None

    @property
    def texts(self) -> list[str]:
        return [example.text for example in self.examples]

    @property
    def accuracy(self) -> float:
        return float(np.mean([each.prediction.index == gold for each, gold in zip(self.said, self.gold, strict=True)]))

    def explanations(self, rows: Sequence[np.ndarray]) -> list[Explanation]:
        """Scores, one row a text, as explanations."""
        return [replace(said, scores=row[None], layers=("words",)) for said, row in zip(self.said, rows, strict=True)]


def load_task(
    name: str, data_dir: Path, *, sample: int | None, seed: int, device: str, batch_tokens: int | None
) -> Task:
    examples = read(name, data_dir=data_dir, limit=sample, seed=seed)
    model = whence.load(MODELS[name])
    model.module.to(device)
    gold = labels_as_ids(examples, model.reading.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", whence.WhenceWarning)
        said = whence.explain(model, [example.text for example in examples], "random", batch_tokens=batch_tokens)
    return Task(name, model, examples, gold, said, seed, batch_tokens)


@dataclass(frozen=True)
class Scored:
    """A contestant's scores: for each layer a row a text; with the time and the passes they took."""

    layers: tuple[int | str, ...]
    rows: dict[int | str, list[np.ndarray]]
    cost: dict[str, float]


def scores_of(task: Task, name: str, contestant: Contestant, cache: Path) -> Scored:
    """From the folder if they are there, else computed and put there."""
    path = cache / f"{task.name}-{_slug(name)}-{_key(task, name, contestant)}.safetensors"
    if not path.exists():
        _compute(task, contestant, path)
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["about"])
        table = file.get_tensor("scores")
    ends = np.cumsum([len(said.tokens) for said in task.said])[:-1]
    layers = tuple(about["layers"])
    return Scored(layers, {layer: np.split(row, ends) for layer, row in zip(layers, table, strict=True)}, about["cost"])


def _compute(task: Task, contestant: Contestant, path: Path) -> None:
    model = task.model if contestant.change is None else contestant.change(task.model)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", whence.WhenceWarning)
        found = whence.explain(
            model, task.texts, contestant.method, layers=contestant.layers, seed=task.seed,
            batch_tokens=task.batch_tokens, **contestant.options,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    cost = {
        "seconds": seconds,
        "forwards": float(np.mean([each.cost.forwards for each in found])),
        "backwards": float(np.mean([each.cost.backwards for each in found])),
    }
    about = {"layers": list(found[0].layers), "cost": cost}
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.concatenate([each.scores for each in found], axis=1).astype(np.float32)
    save_file({"scores": np.ascontiguousarray(table)}, path, metadata={"about": json.dumps(about)})


def _key(task: Task, name: str, contestant: Contestant) -> str:
    """Changes with texts, seed, weights and settings; when the code of a method changes, empty the folder."""
    weights = {part: numbers.tolist() for part, numbers in fingerprint(task.model.module).items()}
    told = [task.texts, task.seed, weights, name, str(contestant.layers), sorted(contestant.options.items())]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def surroundings(device: str) -> dict[str, Any]:
    """Hardware and versions, for the record."""
    import os
    import platform
    from importlib.metadata import version

    threads = f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return {
        "hardware": torch.cuda.get_device_name() if device.startswith("cuda") else threads,
        "versions": {name: version(name) for name in ("torch", "transformers", "captum", "numpy", "whence")},
        "bootstrap_resamples": RESAMPLES,
    }


def write(data: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_rounded(data), indent=1) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
