"""What training leaves: the probes, how they came about and how well they do; saved, loaded and told in a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from whence.explanation import ModelRecord
from whence.learned.diffmask.recipes import Recipe
from whence.learned.diffmask.validation import LayerResult
from whence.probes import folder as folders
from whence.probes.diffmask import SCHEMA, ModelProbes, Probes
from whence.probes.folder import Contents


@dataclass(frozen=True)
class Fitted:
    """The trained probes of a model, and how well they do on held-out texts."""

    trained: ModelProbes
    recipe: Recipe
    seed: int
    n_texts: int
    results: tuple[LayerResult, ...]
    history: tuple[Mapping[str, Any], ...]
    margin: float
    seconds: float
    whence_version: str

    @property
    def probes(self) -> Probes:
        return self.trained.probes

    @property
    def model(self) -> ModelRecord:
        return self.trained.owner.record


def save(fitted: Fitted, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write the folder; `dtype` stores the weights in less precision."""
    probes = fitted.probes
    config = {
        "kind": probes.kind,
        "recipe": fitted.recipe.told(),
        "widths": [[layer, width] for layer, width in probes.widths.items()],
        "n_hidden": probes.n_hidden,
        "seed": fitted.seed,
        "n_texts": fitted.n_texts,
        "margin": fitted.margin,
        "seconds": round(fitted.seconds, 1),
        "results": [result.to_dict() for result in fitted.results],
        "history": list(fitted.history),
        "whence_version": fitted.whence_version,
    }
    folders.save(folder, SCHEMA, Contents(probes.state_dict(), fitted.trained.owner, config), card(fitted), dtype)


def load(folder: Path) -> Fitted:
    """What `save` wrote."""
    return folders.load(folder, SCHEMA, _read)


def _read(contents: Contents) -> Fitted:
    config = contents.config
    return Fitted(
        trained=ModelProbes.read(contents),
        recipe=Recipe(**config["recipe"]),
        seed=config["seed"],
        n_texts=config["n_texts"],
        results=tuple(LayerResult.from_dict(each) for each in config["results"]),
        history=tuple(config["history"]),
        margin=config["margin"],
        seconds=config["seconds"],
        whence_version=config["whence_version"],
    )


def card(fitted: Fitted) -> str:
    """The folder's README: what these probes are and how far they can be trusted."""
    what = "which input tokens" if fitted.probes.kind == "input" else "which hidden states"
    rows = "\n".join(
        f"| {result.layer} | {result.masked:.3f} | "
        f"{'—' if result.agreement is None else f'{result.agreement:.3f}'} | {result.divergence:.4f} |"
        for result in fitted.results
    )
    n_held_out = fitted.results[0].n_texts if fitted.results else 0
    return f"""---
library_name: whence
base_model: {json.dumps(fitted.model.id)}
tags: [interpretability, diffmask]
---
# DiffMask probes ({fitted.probes.kind}) for {fitted.model.id.replace("`", "'")}

They say from one forward pass {what} {fitted.model.architecture} can do without, at every layer.

```python
import whence

probes = whence.DiffMask.load("this folder")
probes.explain(model, "a text")
```

Trained on {fitted.n_texts} texts (seed {fitted.seed}, {fitted.seconds:.0f} s, margin {fitted.margin:.4f}), with the
settings in `config.json`. On {n_held_out} held-out texts, a token being masked where its keep probability is at most
one half:

| layer | share masked | agreement | divergence |
|---|---|---|---|
{rows}

They belong to one model alone: whence compares its weights with the fingerprint stored here and refuses another.
"""
