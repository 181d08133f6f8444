"""What terminal and page say alike: costs, options, ranges, layers and models in words."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from whence.explanation import Cost, Layer, Meaning, ModelRecord
from whence.render.visible import shortened, visible

_LONGEST_OPTION = 400


def cost_words(cost: Cost) -> str:
    """The passes of a text and its share of the time: "26 forwards, 25 backwards, 1.50 s"."""
    passes = [
        f"{count} {name}{'s' if count != 1 else ''}"
        for name, count in {"forward": cost.forwards, "backward": cost.backwards}.items()
        if count
    ]
    return ", ".join([*passes, *([f"{cost.seconds:.2f} s"] if math.isfinite(cost.seconds) else [])])


def options_words(options: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{visible(name)}={shortened(model_name(str(value)), _LONGEST_OPTION)}" for name, value in options.items()
    )


def model_name(name: str) -> str:
    """A model, or what else may come from a folder, by name: of a folder only what it is called itself.

    >>> model_name("/home/someone/models/smollm2"), model_name("org/model")
    ('smollm2', 'org/model')
    """
    if name.startswith(("/", "~", "./", "../")) or name[1:3] == ":\\" or os.path.isdir(name):
        return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or name
    return name


def range_words(meaning: Meaning) -> str:
    """How large a score can be."""
    if meaning.low is None and meaning.high is None:
        return "A score can be of any size"
    if meaning.high is None:
        return f"A score is {meaning.low:g} or more"
    if meaning.low is None:
        return f"A score is {meaning.high:g} at most"
    return f"A score lies from {meaning.low:g} to {meaning.high:g}"


def layer_words(layers: Sequence[Layer]) -> str:
    """What the numbers of the layers stand for."""
    said: dict[Layer, str] = {"embeddings": "embeddings (e): the word embeddings", 0: "0: the embedding output"}
    if len(layers) == 1:
        return said.get(layers[0], f"{layers[0]}: after that block").replace(" (e)", "")
    parts = [said[layer] for layer in layers if layer in said]
    blocks = [str(layer) for layer in layers if layer not in said]
    if blocks:
        parts.append(f"{blocks[0] if len(blocks) == 1 else f'{blocks[0]} … {blocks[-1]}'}: after that block")
    return "; ".join(parts)


def model_words(model: ModelRecord) -> str:
    """The model by id, revision, architecture and task."""
    revision = f" at {model.revision}" if model.revision else ""
    return visible(f"{model.id}{revision} ({model.architecture}, {model.task.replace('_', ' ')})")
