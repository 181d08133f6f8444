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
from whence.models.held_still import check_ruled
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel, Layers

ALWAYS = "integrated_gradients"
"""What every model with gradients allows."""
LEFT_OUT = "leave_one_out"
"""For responses, since one pass tells what every token of one loses, and gradients take a pass for each: by deletion it
was more faithful than every method on the board of responses, where these put a common word in a token's place. And for
next words of decoders without rules: on the decoder's board integrated gradients were no better than random scores."""
USUAL = {
    "one_pass": "for models that come with probes",
    "held_still": "for other classifiers",
    "attn_lrp": "for next words of decoders",
    ALWAYS: "where nothing else can be had",
    LEFT_OUT: "for responses of decoders, by deletion, and for next words where an operation of the model has no rule",
}
"""For whom each of the usual methods is that."""
_RULED: WeakKeyDictionary[LayeredModel, dict[str, bool]] = WeakKeyDictionary()


class Usual(NamedTuple):
    """The usual method for a call, and why it is that."""

    method: str
    why: str


def usual_method(
    model: LayeredModel, text: Encoding, layers: Layers | None, scale: Scale | None, options: Mapping[str, Any]
) -> Usual:
    """The first of these that can answer the call: probes that came with the model, relevance, and what needs no rules.
    `text` is a short one, to try the model on."""
    if model.reading.responds:
        return Usual(LEFT_OUT, "what the response loses without each part of the prompt, all its tokens in one pass")
    fits = layers in (None, "embeddings") and scale in (None, "probability")
    if fits and came_with_probes(model) and set(options) <= set(METHODS["one_pass"].options):
        return Usual("one_pass", "none was surely more faithful on boards of this model, and it takes one pass")
    if options:
        return Usual(ALWAYS, "shares that add up, on any model")
    if model.reading.next_token:
        if _ruled(model, "attn_lrp", text):
            return Usual("attn_lrp", "without training none was as faithful on a decoder's board; patented, see README")
        return Usual(LEFT_OUT, "a pass for each word, since integrated gradients told nothing on a decoder's board")
    if _ruled(model, "held_still", text):
        return Usual("held_still", "without training none was surely more faithful on boards; patented, see README")
    return Usual(ALWAYS, "shares that add up, on any model")


def came_with_probes(model: LayeredModel) -> bool:
    """Whether the model is an embedded one with trained probes."""
    return model.record.embedded is not None and shapley_folder(model.record.embedded).is_dir()


def _ruled(model: LayeredModel, name: str, text: Encoding) -> bool:
    """Whether every operation of the model has a rule of this kind of relevance: looked at once."""
    known = _RULED.setdefault(model, {})
    if name not in known:
        within = METHODS[name].within
        assert within is not None, "relevance holds the network still"
        try:
            with within(model.module):
                states = model.states(model.collate([text]), differentiable=True)
            check_ruled(states.logits)
            known[name] = bool(states.logits.requires_grad) and bool(torch.isfinite(states.logits).all())
        except ModelError:
            known[name] = False
    return known[name]
