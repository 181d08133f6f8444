"""Probes judged on texts they were not trained on, without chance: a gate is open or closed, at every layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.explanation import Layer, layer_of_file
from whence.learned.diffmask.objective import mixed
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.probes.diffmask import Probes, maskable

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


@dataclass(frozen=True)
class LayerResult:
    """What masking by the probes of one layer does: the share of tokens masked and what the model then says.

    `agreement` is the share of texts on which it still says the same (None for a model that gives a plain number).
    """

    layer: Layer
    masked: float
    agreement: float | None
    divergence: float
    n_texts: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> LayerResult:
        return cls(**{**record, "layer": layer_of_file(record["layer"])})


@dataclass(frozen=True)
class MaskedOutput:
    """What the model says of a batch of texts once the tokens that a layer's probes drop are masked."""

    layer: Layer
    inputs: Inputs
    kept: Bool[Tensor, "batch token"]
    free: Bool[Tensor, "batch token"]
    original: Float[Tensor, "batch *token label"]
    changed: Float[Tensor, "batch *token label"]

    @property
    def masked(self) -> Float[Tensor, " batch"]:
        """The share of each text's tokens that is masked."""
        return (~self.kept & self.free).sum(dim=-1) / self.free.sum(dim=-1).clamp(min=1)


@torch.no_grad()
def masked_outputs(
    model: LayeredModel, probes: Probes, batches: Sequence[Sequence[Encoding]], special: bool
) -> Iterator[MaskedOutput]:
    """Every batch masked by the deterministic gates of each layer in turn: a token stays iff it is likelier kept."""
    for encodings in batches:
        inputs = model.collate(encodings)
        states = model.states(inputs)
        free = maskable(inputs, special)
        keep = probes.log_keep({layer: states.at(layer) for layer in probes.layers}, probes.layers) > math.log(0.5)
        for layer, kept in zip(probes.layers, keep, strict=True):
            where = probes.masked_layer(layer)
            hidden = mixed(states.at(where), kept.float(), probes.baseline(layer), free)
            yield MaskedOutput(layer, inputs, kept, free, states.logits, model.resume(where, hidden, inputs))


def validate(
    model: LayeredModel, probes: Probes, batches: Sequence[Sequence[Encoding]], *, special: bool = True
) -> list[LayerResult]:
    """How much is masked at each layer, how far the output moves, and how often the model still says the same."""
    says_something = model.reading.decides
    sums = {layer: [0.0, 0.0, 0.0] for layer in probes.layers}
    n_texts = sum(map(len, batches))
    for output in masked_outputs(model, probes, batches, special):
        compared = (output.original, output.changed, output.inputs.counted)
        same = model.reading.agreement(*compared) if says_something else torch.zeros(())
        for index, values in enumerate((output.masked, model.reading.divergence(*compared), same)):
            sums[output.layer][index] += float(values.sum())
    return [
        LayerResult(layer, masked / n_texts, same / n_texts if says_something else None, moved / n_texts, n_texts)
        for layer, (masked, moved, same) in sums.items()
    ]
