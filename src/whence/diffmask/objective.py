"""What the probes are trained for: keep as little as possible while the output stays what it was.

min over probes, max over multipliers λ >= 0 of   penalty(gates) + λ_layer · (divergence - margin)

One pass serves both players: the probes go down its gradient, the layer's multiplier goes up by how far the divergence
exceeds the margin. The released code runs the model a second time, at another random layer, for the multipliers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whence.diffmask.divergence import divergence
from whence.diffmask.gates import HardConcrete
from whence.diffmask.probes import Probes
from whence.diffmask.recipes import Penalty, Recipe
from whence.explanation import Layer
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

PULL = 0.1  # how strongly logits beyond the limit are pulled back


def maskable(inputs: Inputs, special: bool) -> Bool[Tensor, "batch token"]:
    """The tokens that gates act on: all real ones, or only those of the text itself."""
    return inputs.mask if special else inputs.mask & ~inputs.special


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


class MaskedPass:
    """One masked forward pass over a batch at one layer, with sampled gates.

    It gives the divergence of each text, its penalty, and the share of it that is kept.

    With `original`, the output on the unmasked texts, known, no more is computed than is needed: where the gates of a
    layer depend on that layer's state alone, it is read and masked in one pass; else a first pass reads the states of
    the unmasked texts, as far up as the gates look. Without it the first pass goes through to the output.
    """

    def __init__(self, model: LayeredModel, probes: Probes, recipe: Recipe, layer: Layer) -> None:
        self.model, self.probes, self.recipe, self.layer = model, probes, recipe, layer
        self.needed = probes.needed(layer)

    def run(
        self,
        inputs: Inputs,
        noise: Float[Tensor, "layer batch token"],
        original: Float[Tensor, "batch *token label"] | None,
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        free = maskable(inputs, self.recipe.special)
        asked: list[list[HardConcrete]] = []
        where = self.probes.masked_layer(self.layer)

        def mask(hidden: Tensor, states: dict[Layer, Tensor] | None = None) -> Tensor:
            asked.append(self._gates(states if states is not None else {self.layer: hidden}))
            return mixed(hidden, self._sampled(asked[0], noise), self.probes.baseline(self.layer), free)

        if original is not None and self.needed == (where,):
            changed = self.model.changed(where, mask, inputs)
        else:
            if original is None:
                whole = self.model.states(inputs)
                original, known = whole.logits, {each: whole.at(each) for each in {*self.needed, where}}
            else:
                known = self.model.states_up_to(self.layer, inputs)
            changed = self.model.resume(where, mask(known[where], known), inputs)
        moved = divergence(self.model.reading, original, changed, inputs.mask)
        log_keep = torch.stack([gate.log_nonzero for gate in asked[0]]).sum(dim=0)
        cost = penalty(self.recipe.penalty, log_keep, free)
        if self.recipe.limit is not None:
            logits = torch.stack([gate.logits for gate in asked[0]])
            beyond = (logits.abs() - self.recipe.limit).relu().square().mean(dim=0)
            cost = cost + PULL * (beyond * free).sum(dim=-1) / free.sum(dim=-1).clamp(min=1)
        return moved, cost, penalty("share", log_keep.detach(), free)

    def _gates(self, states: dict[Layer, Tensor]) -> list[HardConcrete]:
        """The gates that act at the layer: an input's are those of all layers up to it."""
        found = self.probes.gates(self.needed, states)
        return found if self.probes.kind == "input" else found[-1:]

    def _sampled(
        self, gates: list[HardConcrete], noise: Float[Tensor, "layer batch token"]
    ) -> Float[Tensor, "batch token"]:
        drawn = [gate.rsample(noise=u) for gate, u in zip(gates, noise[-len(gates) :], strict=True)]
        product = torch.stack(drawn).prod(dim=0)
        return product + ((product > 0.5).to(product) - product).detach() if self.recipe.hard else product
