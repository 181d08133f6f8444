"""The method that explains when none is named: the cheapest of those that boards found most faithful."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from whence.embedded import shapley_folder
from whence.errors import ModelError
from whence.explanation import Scale
from whence.methods import METHODS
from whence.models.held_still import check_ruled, held_still
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel, Layers

ALWAYS = "integrated_gradients"
"""What every model with gradients allows, and the usual method of decoders: no board has yet found a cheaper equal."""
RESPONSES = "leave_one_out"
"""One pass tells what every token of a response loses; a response is long, and gradients take a pass for each."""
USUAL = {
    "one_pass": "for models that come with probes",
    "held_still": "for other encoders",
    ALWAYS: "for decoders, and where nothing else can be had",
    RESPONSES: "for responses of decoders, by deletion",
}
"""For whom each of the usual methods is that."""
_HOLDS_STILL: WeakKeyDictionary[LayeredModel, bool] = WeakKeyDictionary()


class Usual(NamedTuple):
    """The usual method for a call, and why it is that."""

    method: str
    why: str


def usual_method(
    model: LayeredModel, text: Encoding, layers: Layers | None, scale: Scale | None, options: Mapping[str, Any]
) -> Usual:
    """The first of these that can answer the call: probes that came with the model, the network held still, and
    integrated gradients. `text` is a short one, to try the model on."""
    if model.reading.responds:
        return Usual(RESPONSES, "what the response loses without each part of the prompt, all its tokens in one pass")
    fits = layers in (None, "embeddings") and scale in (None, "probability")
    if fits and came_with_probes(model) and set(options) <= set(METHODS["one_pass"].options):
        return Usual("one_pass", "none was surely more faithful on boards of this model, and it takes one pass")
    if not options and not model.reading.next_token and _holds_still(model, text):
        return Usual("held_still", "without training none was surely more faithful on boards; patented, see README")
    return Usual(ALWAYS, "shares that add up, on any model")


def came_with_probes(model: LayeredModel) -> bool:
    """Whether the model is an embedded one with trained probes."""
    return model.record.embedded is not None and shapley_folder(model.record.embedded).is_dir()


def _holds_still(model: LayeredModel, text: Encoding) -> bool:
    """Whether every operation of the model has a rule: looked at once."""
    if model not in _HOLDS_STILL:
        try:
            with held_still(model.module, products="gated"):
                states = model.states(model.collate([text]), differentiable=True)
            check_ruled(states.logits)
            _HOLDS_STILL[model] = bool(states.logits.requires_grad) and bool(torch.isfinite(states.logits).all())
        except ModelError:
            _HOLDS_STILL[model] = False
    return _HOLDS_STILL[model]
