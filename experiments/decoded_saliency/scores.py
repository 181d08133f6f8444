"""Scores of every contestant on every text, computed once and kept in a folder that is not committed.

Texts go in parts of a fixed size, each kept by itself, so that several processes can share the work out and a run that
was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
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
PART = 200  # texts


@dataclass(frozen=True)
class Task:
    """A data set with its model, its texts, and what the model says of them (`said` holds no scores worth reading).

    `weights` tells this model from any other.
    """

    name: str
    model: whence.LayeredModel
    weights: str
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

    def parts(self) -> list[Task]:
        """The texts in order, so many at a time."""
        found = []
        for start in range(0, len(self.examples), PART):
            some = slice(start, start + PART)
            found.append(replace(self, examples=self.examples[some], gold=self.gold[some], said=self.said[some]))
        return found

    def explanations(self, rows: Sequence[np.ndarray]) -> list[Explanation]:
        """Scores, one row per text, as explanations."""
        return [
            replace(said, scores=row[None], layers=("embeddings",)) for said, row in zip(self.said, rows, strict=True)
        ]


@lru_cache
def load_task(
    name: str,
    data_dir: Path,
    *,
    sample: int | None,
    seed: int,
    device: str,
    batch_tokens: int | None,
    starts: tuple[str, ...] | None = None,
    folder: Path | None = None,
    head: Path | None = None,
) -> Task:
    """The texts to explain, drawn by the seed, or with `starts` the one that begins so, for each that is there.

    The model is the embedded one, or that in a folder with the language model in another for its head. On a GPU
    matrices are multiplied in TF32, as on the scoreboards.
    """
    torch.set_float32_matmul_precision("high" if device.startswith("cuda") else "highest")
    examples = read(name, data_dir=data_dir, limit=None if starts else sample, seed=seed)
    if starts is not None:
        examples = [first for start in starts if (first := _beginning(examples, start)) is not None]
    precision: dict[str, Any] = {"dtype": torch.float32} if folder else {}
    model = whence.load(folder or MODELS[name], head=head, **precision)
    if folder is not None:  # a model is known by its name, not by where it lay in this run
        model = replace(model, record=replace(model.record, id=folder.name))
    model.module.to(device)
    weights = repr({part: numbers.tolist() for part, numbers in fingerprint(model.module).items()})
    gold = labels_as_ids(examples, model.reading.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", whence.WhenceWarning)
        said = whence.explain(model, [example.text for example in examples], "random", batch_tokens=batch_tokens)
    return Task(name, model, weights, examples, gold, said, seed, batch_tokens)


def _beginning(examples: Sequence[Example], start: str) -> Example | None:
    return next((each for each in examples if " ".join(each.text.split()).startswith(start)), None)


@dataclass(frozen=True)
class Scored:
    """A contestant's scores: for each layer a row per text; whether they have a sign; the time and passes they took."""

    layers: tuple[int | str, ...]
    rows: dict[int | str, list[np.ndarray]]
    signed: bool
    cost: dict[str, float]


def scores_of(task: Task, name: str, contestant: Contestant, cache: Path) -> Scored:
    """From the folder if they are there, else computed and put there."""
    parts = task.parts()
    found = [_scores_of_part(part, name, contestant, cache) for part in parts]
    sizes = [len(part.examples) for part in parts]
    passes = {
        kind: float(np.average([each.cost[kind] for each in found], weights=sizes))
        for kind in ("forwards", "backwards")
    }
    first = found[0]
    return Scored(
        first.layers,
        {layer: [row for each in found for row in each.rows[layer]] for layer in first.layers},
        first.signed,
        {"seconds": sum(each.cost["seconds"] for each in found), **passes},
    )


def _scores_of_part(task: Task, name: str, contestant: Contestant, cache: Path) -> Scored:
    path = cache / f"{task.name}-{_slug(name)}-{_key(task, name, contestant)}.safetensors"
    if not path.exists():
        _compute(task, contestant, path)
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["about"])
        table = file.get_tensor("scores")
    ends = np.cumsum([len(said.tokens) for said in task.said])[:-1]
    layers = tuple(about["layers"])
    rows = {layer: np.split(row, ends) for layer, row in zip(layers, table, strict=True)}
    return Scored(layers, rows, about["signed"], about["cost"])


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
    about = {"layers": list(found[0].layers), "signed": found[0].meaning.signed, "cost": cost}
    path.parent.mkdir(parents=True, exist_ok=True)
    table = np.concatenate([each.scores for each in found], axis=1).astype(np.float32)
    unfinished = path.with_suffix(".unfinished")
    save_file({"scores": np.ascontiguousarray(table)}, unfinished, metadata={"about": json.dumps(about)})
    unfinished.replace(path)


def _key(task: Task, name: str, contestant: Contestant) -> str:
    """Changes with texts, seed, weights and settings; when the code of a method changes, empty the folder."""
    told = [task.texts, task.seed, task.weights, name, str(contestant.layers), sorted(contestant.options.items())]
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
        "hardware": f"{torch.cuda.get_device_name()}, TF32" if device.startswith("cuda") else threads,
        "versions": {name: version(name) for name in ("torch", "transformers", "captum", "numpy", "whence")},
        "bootstrap_resamples": RESAMPLES,
    }


def write(data: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_rounded(data), indent=1)
    text = re.sub(
        r"\[\n[\s\d.,e+-]+\]", lambda numbers: " ".join(numbers[0].split()), text
    )  # a list of numbers per line
    path.write_text(text + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
