"""What training leaves: the network, how it came about and how well it does; saved, loaded and told in a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from whence.explanation import ModelRecord
from whence.learned.shapley.calibration import Calibration
from whence.learned.shapley.recipe import Recipe
from whence.probes import folder as folders
from whence.probes.folder import Contents
from whence.probes.shapley import SCHEMA, ModelShares


@dataclass(frozen=True)
class Fitted:
    """The trained network of a model, and how well it does on held-out texts."""

    shares: ModelShares
    recipe: Recipe
    seed: int
    n_texts: int
    calibration: Calibration
    history: tuple[Mapping[str, Any], ...]
    seconds: float
    whence_version: str

    @property
    def steps(self) -> int:
        """How many the training had: each ends with a validation."""
        return int(self.history[-1]["step"])

    @property
    def model(self) -> ModelRecord:
        return self.shares.owner.record


def save(fitted: Fitted, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write the folder; `dtype` stores the weights in less precision."""
    contents = fitted.shares.contents(
        recipe=fitted.recipe.told(),
        seed=fitted.seed,
        n_texts=fitted.n_texts,
        calibration=asdict(fitted.calibration),
        history=list(fitted.history),
        seconds=round(fitted.seconds, 1),
        whence_version=fitted.whence_version,
    )
    folders.save(folder, SCHEMA, contents, card(fitted), dtype)


def load(folder: Path) -> Fitted:
    """What `save` wrote."""
    return folders.load(folder, SCHEMA, _read)


def _read(contents: Contents) -> Fitted:
    config = contents.config
    return Fitted(
        shares=ModelShares.read(contents),
        recipe=Recipe(**config["recipe"]),
        seed=config["seed"],
        n_texts=config["n_texts"],
        calibration=Calibration(**config["calibration"]),
        history=tuple(config["history"]),
        seconds=config["seconds"],
        whence_version=config["whence_version"],
    )


def card(fitted: Fitted) -> str:
    """The folder's README: what these probes are and how far they can be trusted."""
    found, unit = fitted.calibration, fitted.recipe.units
    relevance = fitted.shares.relevance
    what = f"each {unit}'s Shapley value" + (f" and its share of relevance ({relevance})" if relevance else "")
    return f"""---
library_name: whence
base_model: {json.dumps(fitted.model.id)}
tags: [interpretability, shapley]
---
# Shapley probes for {fitted.model.id.replace("`", "'")}

They say from one forward pass {what}, for every class that
{fitted.model.architecture} knows.

```python
import whence

probes = whence.ShapleyProbes.load("this folder")
probes.explain(model, "a text")
```

Trained on {fitted.n_texts} texts (seed {fitted.seed}, {fitted.steps:,} steps, {fitted.seconds / 60:.1f} minutes)
with the settings in `config.json`. On {found.n_texts} held-out texts, beside a Shapley sampling of {found.orders}
random orders:

| | |
|---|---|
| correlation of the values of what the model says | {found.correlation:.3f} |
| squared error of what coalitions earn | {found.loss:.5f} |
| the same of the long sampling, which no values can beat but by chance | {found.floor:.5f} |
| stated intervals of nine in ten that hold the sampled value | {found.coverage:.1%} |

They belong to one model alone: whence compares its weights with the fingerprint stored here and refuses another.
"""
