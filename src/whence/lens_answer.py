"""What a model says of a text, followed through its layers: its own head put on the states of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from whence.errors import InputError, ModelError
from whence.explanation import Layer
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel, States

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class LensAnswer:
    """What the model says, and what it would say if the blocks above each layer were left out.

    `label` is the answer, with its `probability`; `probabilities[i]` and `ranks[i]` (1 is the likeliest) are what the
    model's own head makes of it in the states of `layers[i]`, and `said[i]` is what it finds likeliest there.
    `position` is the token in whose state a language model's answer is read; of a class of the whole text it is None.
    """

    label: str
    probability: float
    position: int | None
    layers: tuple[Layer, ...]
    said: tuple[str, ...]
    probabilities: Float[np.ndarray, " layer"]
    ranks: Int[np.ndarray, " layer"]


def place_of(model: LayeredModel, encoding: Encoding) -> int | None:
    """The token at which a language model's answer is read; None of other models, and where there is nothing to say."""
    if not model.reading.one_position:
        return None
    try:
        return model.reading.position(encoding, None)
    except InputError:  # no mask to fill in
        return None


def answer_of(
    model: LayeredModel, states: States, inputs: Inputs, layers: tuple[Layer, ...], position: int | None
) -> LensAnswer | None:
    """The model's answer by layer; None where its output is not one choice among labels."""
    reading = model.reading
    asks_nothing = reading.reads_vocabulary and position is None
    if not reading.decides or reading.pair_apart or states.logits.ndim != 2 or asks_nothing:
        return None
    blocks = tuple(layer for layer in layers if layer != "embeddings")  # these may have another width
    index = int(states.logits[0].argmax())
    chances, ranks, said = [], [], []
    for layer in blocks:
        try:
            with torch.no_grad():
                logits = model.resume(model.n_layers, states.at(layer), inputs)
        except ModelError:  # its blocks hand on more than states
            return None
        chances.append(float(reading.log_probabilities(logits[:, None], inputs.mask)[0, 0, index].exp()))
        ranks.append(1 + int((logits[0] > logits[0, index]).sum()))
        said.append(reading.labels.name(int(logits[0].argmax())))
    if not blocks:
        return None
    return LensAnswer(
        reading.labels.name(index),
        float(reading.log_probabilities(states.logits[:, None], inputs.mask)[0, 0, index].exp()),
        position,
        blocks,
        tuple(said),
        np.array(chances, dtype=np.float32),
        np.array(ranks, dtype=np.int64),
    )
