"""Trained probes as a folder: config.json, model.safetensors and a card, as on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from whence.errors import FileError, UsageError
from whence.explanation import Layer, ModelRecord, layer_of_file
from whence.files import write_tensors, write_whole
from whence.learned.checkpoint import NAME as CHECKPOINT
from whence.learned.probes import KINDS, Kind, Probes
from whence.learned.recipes import Recipe
from whence.learned.validation import LayerResult

SCHEMA = "whence.diffmask/1"
FILES = ("model.safetensors", "README.md", "config.json")
FINGERPRINT = "fingerprint."


@dataclass(frozen=True)
class Fitted:
    """What training left: the probes, on which model, how, and how well they do on held-out texts."""

    probes: Probes
    recipe: Recipe
    model: ModelRecord
    fingerprint: dict[str, Tensor]
    widths: dict[Layer, int]
    n_hidden: int
    seed: int
    n_texts: int
    results: tuple[LayerResult, ...]
    history: tuple[Mapping[str, Any], ...]
    margin: float
    seconds: float
    whence_version: str


def free(folder: Path) -> Path:
    """Make the folder unless it holds finished probes; a checkpoint beside them shows that finishing was cut short."""
    if (folder / "config.json").exists() and not (folder / CHECKPOINT).exists():
        raise UsageError(f"{str(folder)!r} already holds something", "choose another folder, or load it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {str(folder)!r}: {error.strerror}", "choose another") from error
    return folder


def save(fitted: Fitted, folder: Path, dtype: Any = None) -> None:
    """Write the folder; `dtype` stores the weights in less precision."""
    weights = {name: tensor.to(dtype or tensor.dtype) for name, tensor in fitted.probes.state_dict().items()}
    print_of = {f"{FINGERPRINT}{name}": tensor for name, tensor in fitted.fingerprint.items()}
    config = {
        "schema": SCHEMA,
        "kind": fitted.probes.kind,
        "recipe": asdict(fitted.recipe),
        "widths": [[layer, width] for layer, width in fitted.widths.items()],
        "n_hidden": fitted.n_hidden,
        "model": asdict(fitted.model),
        "seed": fitted.seed,
        "n_texts": fitted.n_texts,
        "margin": fitted.margin,
        "seconds": round(fitted.seconds, 1),
        "results": [result.to_dict() for result in fitted.results],
        "history": list(fitted.history),
        "whence_version": fitted.whence_version,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {str(folder)!r}: {error.strerror}", "choose another folder") from error
    write_tensors(weights | print_of, folder / "model.safetensors", metadata={"format": "pt"})
    write_whole(card(fitted), folder / "README.md")
    write_whole(json.dumps(config, indent=1) + "\n", folder / "config.json")  # last: with it the folder is whole


def load(folder: Path) -> Fitted:
    """Read a folder that `save` wrote; nothing in it is executed."""
    if not (folder / "config.json").is_file():
        raise FileError(f"no probes in {str(folder)!r}", "give a folder that `whence fit` or DiffMask.save wrote")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        schema = config.get("schema") if isinstance(config, dict) else None
        if schema != SCHEMA:
            raise FileError(
                f"{str(folder)!r} holds no DiffMask probes (schema {schema!r})",
                f"this version of whence reads {SCHEMA!r}",
            )
        tensors = load_file(folder / "model.safetensors")
        recipe = Recipe(**config["recipe"])
        widths: dict[Layer, int] = {layer_of_file(layer): int(width) for layer, width in config["widths"]}
        kind: Kind = KINDS[KINDS.index(config["kind"])]
        with torch.device("meta"):  # random weights would be drawn only to be replaced
            probes = Probes(kind, recipe.probe, widths, config["n_hidden"])
        weights = {name: tensor.float() for name, tensor in tensors.items() if not name.startswith(FINGERPRINT)}
        probes.load_state_dict(weights, assign=True)
        return Fitted(
            probes=probes,
            recipe=recipe,
            model=ModelRecord(**config["model"]),
            fingerprint={
                name.removeprefix(FINGERPRINT): tensor
                for name, tensor in tensors.items()
                if name.startswith(FINGERPRINT)
            },
            widths=widths,
            n_hidden=config["n_hidden"],
            seed=config["seed"],
            n_texts=config["n_texts"],
            results=tuple(LayerResult(**{**each, "layer": layer_of_file(each["layer"])}) for each in config["results"]),
            history=tuple(config["history"]),
            margin=config["margin"],
            seconds=config["seconds"],
            whence_version=config["whence_version"],
        )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FileError(f"the probes in {str(folder)!r} are damaged: {reason}", "fit them anew") from error


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
