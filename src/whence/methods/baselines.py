"""What stands in for a token that is taken away, at any layer, and which tokens may be taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Layer
from whence.methods.question import Question
from whence.models.hiding import usual_stand_in
from whence.models.layered import LayeredModel, States

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Baseline = str | int | Tensor
"""What may be given as `baseline=`: "auto", "zero", "pad", "mask", "delete", a token, an id or a vector.

A token stands for a text in which it takes the place of every word (special tokens stay, unless it is given by its
id); at a hidden layer its state there is used. "zero" and a vector are used as they are at the layer itself. "delete"
puts nothing there: for methods that take tokens away, at the embeddings; see `whence.models.deletion`. The tokens at
which the target is read always stay then. "auto" is the mask, else the padding, else zero; in a decoder's prompt a
common word (see `whence.models.hiding.usual_stand_in`). The record says which.
"""


def baseline_name(model: LayeredModel, baseline: Baseline) -> str:
    """What "auto" means for this model, and everything else in words."""
    if isinstance(baseline, Tensor):
        return f"a given vector of {baseline.numel()} numbers"
    if baseline != "auto":
        return str(baseline)
    return usual_stand_in(model)


def removable(question: Question, layer: Layer, special: bool | None) -> Bool[Tensor, "batch token"]:
    """The tokens that may be taken away at a layer.

    Special tokens are no words of the text, so by default (None) they stay at the input; higher up their states carry
    the decision, so from layer 1 on they count like any other. A response always stays: it is what is explained; only
    the states that an encoder–decoder's decoder has made of it may go.
    """
    mask = question.model.scored(layer, question.inputs)
    counted = special if special is not None else layer not in ("embeddings", 0)
    return mask if counted else mask & ~question.inputs.special


class BaselineStates:
    """The states that stand for "nothing there", at any layer; one forward pass in all, and only if needed.

    `id` is the token that stands at every position, if it is a token that does. `deletes` says that nothing does.
    """

    def __init__(self, question: Question, baseline: Baseline) -> None:
        self._question = question
        self._vector: Tensor | None = None
        self.id: int | None = None
        self.deletes = isinstance(baseline, str) and baseline == "delete"
        self._everywhere = isinstance(baseline, int)
        self._states: States | None = None
        model = question.model
        if isinstance(baseline, Tensor):
            self._vector = baseline
        elif self.deletes:
            return
        elif (name := baseline_name(model, baseline)) == "zero":
            self._vector = torch.zeros(())
        elif name in ("mask", "pad"):
            self.id = model.tokenizer.masking if name == "mask" else model.tokenizer.padding
            if self.id is None:
                raise UsageError(
                    f"the model has no {name} token to use as a baseline", "use baseline='zero' or a token"
                )
        else:
            self.id = baseline if isinstance(baseline, int) else model.tokenizer.id_of(name)
            if self.id is None:
                raise UnknownNameError(
                    "baseline", name, ["auto", "zero", "pad", "mask", "delete", "a token of the vocabulary"]
                )

    def at(self, layer: Layer) -> Float[Tensor, "batch token hidden"]:
        if self.deletes:
            raise UsageError(
                f"no state of layer {layer} stands for a deleted token",
                "use baseline='delete' with methods that take tokens away, such as leave_one_out, at the embeddings",
            )
        states = self._question.states.at(layer).detach()
        if self._vector is not None:
            if self._vector.ndim and self._vector.shape != states.shape[-1:]:
                raise UsageError(
                    f"a baseline of shape {tuple(self._vector.shape)} does not fit layer {layer}",
                    f"give a vector of {states.shape[-1]} numbers",
                )
            return self._vector.to(states).expand_as(states)
        if layer == "embeddings":
            return self._words()
        if self._states is None:
            self._states = self._question.model.states(self._question.inputs, embeddings=self._words())
            self._question.forwards += 1
        return self._states.at(layer)

    def ids(self) -> Int[Tensor, "batch token"]:
        """The ids of the texts in which the baseline's token stands at every position."""
        inputs = self._question.inputs
        assert self.id is not None, "only a token has ids"
        whole = torch.full_like(inputs.ids, self.id)
        return whole if self._everywhere else torch.where(inputs.special, inputs.ids, whole)

    def _words(self) -> Float[Tensor, "batch token embedding"]:
        return self._question.model.embed(self.ids())
