"""What terminal and page say alike: costs, options, ranges, layers and models in words."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from whence.explanation import Cost, Layer, Meaning, ModelRecord
from whence.render.rows import MARKS
from whence.render.visible import shortened, unseen, visible

_LONGEST_OPTION = 400


def cost_words(cost: Cost) -> str:
    """The passes of a text and its share of the time: "26 forwards, 25 backwards, 1.50 s"."""
    passes = [
        f"{count} {name}{'s' if count != 1 else ''}"
        for name, count in {"forward": cost.forwards, "backward": cost.backwards}.items()
        if count
    ]
    return ", ".join([*passes, *([f"{cost.seconds:.2f} s"] if math.isfinite(cost.seconds) else [])])


def chosen_words(options: Mapping[str, Any]) -> str:
    """The options of an explanation; those that were left open say nothing.

    >>> chosen_words({"probes": None, "part": "both"})
    'part=both'
    """
    return options_words({name: value for name, value in options.items() if value is not None})


def options_words(options: Mapping[str, Any]) -> str:
    """Options as they are given; a folder goes by its name, and a token without its tokenizer's marks."""
    return ", ".join(
        f"{visible(name)}={shortened(_value(str(value)), _LONGEST_OPTION)}" for name, value in options.items()
    )


def _value(value: str) -> str:
    """One option's.

    >>> _value("Ġthe"), _value("/home/someone/probes")
    ('" the"', 'probes')
    """
    written = value.translate(MARKS)
    return model_name(value) if written == value else f'"{written}"'


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
    said: dict[Layer, str] = {
        "embeddings": "embeddings (e): the word embeddings",
        0: "0: the embedding output",
        "encoder 0": "encoder 0: its embedding output",
    }
    if len(layers) == 1:
        return said.get(layers[0], f"{layers[0]}: after that block").replace(" (e)", "")
    parts = [said[layer] for layer in layers if layer in said]
    blocks = [str(layer) for layer in layers if layer not in said]
    if blocks:
        parts.append(f"{blocks[0] if len(blocks) == 1 else f'{blocks[0]} … {blocks[-1]}'}: after that block")
    return "; ".join(parts)


def model_words(model: ModelRecord) -> str:
    """The model by name, revision, architecture and task."""
    revision = f" at {model.revision}" if model.revision else ""
    return visible(f"{model_name(model.id)}{revision} ({model.architecture}, {model.task.replace('_', ' ')})")


def running(text: str) -> str:
    """Text that keeps its lines; whatever else cannot be seen, or steers, becomes a symbol."""
    found, end = "", 0
    for place, symbol in unseen(text):
        found += text[end:place] + symbol
        end = place + 1
    return found + text[end:]
