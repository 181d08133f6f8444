"""What the probes are trained for: keep as little as possible while the output stays what it was.

min over probes, max over multipliers λ >= 0 of   penalty(gates) + λ_layer · (divergence - margin)

One pass serves both players: the probes go down its gradient, the layer's multiplier goes up by how far the divergence
exceeds the margin. The released code runs the model a second time, at another random layer, for the multipliers, and
the whole of it whatever the layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.explanation import Layer
from whence.learned.diffmask.recipes import Penalty, Recipe
from whence.learned.schedule import generator
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel
from whence.probes.diffmask import Probes, maskable
from whence.probes.gates import HardConcrete

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

PULL = 0.1  # how strongly logits beyond the limit are pulled back


def mixed(
    hidden: Float[Tensor, "batch token hidden"],
    gates: Float[Tensor, "batch token"],
    baseline: Float[Tensor, " hidden"],
    free: Bool[Tensor, "batch token"],
) -> Float[Tensor, "batch token hidden"]:
    """z·h + (1 - z)·b where a gate may act, h elsewhere."""
    z = torch.where(free, gates, 1.0)[..., None]
    return (z * hidden.float() + (1 - z) * baseline.float()).to(hidden.dtype)


def penalty(
    form: Penalty, log_keep: Float[Tensor, "batch token"], free: Bool[Tensor, "batch token"]
) -> Float[Tensor, " batch"]:
    """What the kept tokens of each text cost."""
    cost = torch.where(free, log_keep if form == "log" else log_keep.exp(), 0.0).sum(dim=-1)
    return cost if form == "count" else cost / free.sum(dim=-1).clamp(min=1)


class MaskedPasses:
    """Masked forward passes over a batch, one per layer, all from one pass over the unmasked texts.

    That pass gives the states which the probes read, the states to go on from, and the output to compare with. Gates
    are sampled once: those of an input at a layer are the product of all up to it.
    """

    def __init__(
        self,
        model: LayeredModel,
        probes: Probes,
        recipe: Recipe,
        layers: Sequence[Layer],
        inputs: Inputs,
        noise: Float[Tensor, "layer batch token"],
    ) -> None:
        self.model, self.probes, self.recipe = model, probes, recipe
        self.layers, self.inputs = tuple(layers), inputs
        self.free = maskable(inputs, recipe.special)
        self.states = model.states(inputs)
        asked = sorted({each for layer in layers for each in probes.needed(layer)}, key=probes.layers.index)
        each = probes.gates(asked, {layer: self.states.at(layer) for layer in {*asked, "embeddings"}})
        drawn = torch.stack(
            [gate.rsample(noise=noise[probes.layers.index(a)]) for a, gate in zip(asked, each, strict=True)]
        )
        logs = torch.stack([gate.log_nonzero for gate in each])
        beyond = torch.stack([self._beyond(gate) for gate in each])
        if probes.kind == "input":
            drawn, logs = drawn.cumprod(dim=0), logs.cumsum(dim=0)
            beyond = beyond.cumsum(dim=0) / torch.arange(1, len(asked) + 1, device=beyond.device)[:, None]
        chosen = [asked.index(layer) for layer in layers]
        self.gates = drawn[chosen]
        if recipe.hard:
            self.gates = self.gates + ((self.gates > 0.5).to(self.gates) - self.gates).detach()
        self.costs = torch.stack([penalty(recipe.penalty, log_keep, self.free) for log_keep in logs[chosen]])
        self.costs = self.costs + PULL * beyond[chosen]
        self.kept = torch.stack([penalty("share", log_keep, self.free) for log_keep in logs[chosen].detach()])

    def moved(self, layers: Sequence[Layer], gates: Float[Tensor, "layer batch token"]) -> Float[Tensor, "layer batch"]:
        """How far each text's output moves when its states pass through the gates of each of these layers."""
        where = [self.probes.masked_layer(layer) for layer in layers]
        hidden = [
            mixed(self.states.at(at), gate, self.probes.baseline(layer), self.free)
            for layer, at, gate in zip(layers, where, gates, strict=True)
        ]
        changed = self.model.resume_each(where, hidden, self.inputs)
        return torch.stack(
            [self.model.reading.divergence(self.states.logits, each, self.inputs.counted) for each in changed]
        )

    def _beyond(self, gate: HardConcrete) -> Float[Tensor, " batch"]:
        """How far logits are beyond their limit, squared, averaged over each text."""
        if self.recipe.limit is None:
            return torch.zeros(len(self.inputs), device=gate.logits.device)
        beyond = (gate.logits.abs() - self.recipe.limit).relu().square()
        return (beyond * self.free).sum(dim=-1) / self.free.sum(dim=-1).clamp(min=1)


def drawn_layer(seed: int, step: int, n_layers: int) -> int:
    """The index of the layer whose gates a step trains, where it trains one."""
    return int(torch.randint(n_layers, (), generator=generator(seed, "layer", step)))


def drawn_noise(seed: int, step: int, shape: tuple[int, int, int]) -> Float[Tensor, "layer batch token"]:
    """The noise of a step's gates, for the whole batch whichever process has which of its texts."""
    return torch.rand(shape, generator=generator(seed, "noise", step))
