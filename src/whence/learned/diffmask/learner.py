"""DiffMask in the shared loop: probes go down the objective, the multipliers of its constraints go up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import NonFiniteError, UsageError
from whence.learned import checkpoint
from whence.learned.checkpoint import Parts
from whence.learned.diffmask.lookahead import Lookahead
from whence.learned.diffmask.objective import MaskedPasses, drawn_layer, drawn_noise
from whence.learned.diffmask.recipes import Recipe
from whence.learned.diffmask.start import everything_masked, mean_states
from whence.learned.diffmask.validation import validate
from whence.learned.training import Batch
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.probes.diffmask import Probes

if TYPE_CHECKING:
    from jaxtyping import Float

LITTLE = 0.05  # a share of tokens masked below which training has not yet got off the ground
CARRIED = ("scale", "divergences", "kept")
"""What is carried from step to step beside tensors."""


class DiffMaskLearner:
    """Probes and multipliers while they are trained."""

    def __init__(self, model: LayeredModel, probes: Probes, recipe: Recipe, batch_tokens: int) -> None:
        self.model, self.probe, self.recipe, self.batch_tokens = model, probes, recipe, batch_tokens
        self.multipliers = nn.ParameterList(
            nn.Parameter(torch.tensor(recipe.multiplier), requires_grad=False) for _ in probes.layers
        )
        self.optimiser = _probe_optimiser(probes, recipe)
        self.multiplier_optimiser = torch.optim.RMSprop(self.multipliers, lr=recipe.multiplier_learning_rate)
        looks_ahead = recipe.optimiser == "lookahead_rmsprop"
        self.lookahead = Lookahead(self.optimiser) if looks_ahead else None
        self.multiplier_lookahead = Lookahead(self.multiplier_optimiser) if looks_ahead else None
        self.scale = 1.0  # the unit of the margin, in nats
        self.divergences: list[float] = [0.0] * len(probes.layers)  # running means by layer, for the progress
        self.kept: list[float] = [1.0] * len(probes.layers)

    @property
    def settings(self) -> dict[str, Any]:
        return {"kind": self.probe.kind, **self.recipe.told()}

    def begin(self, texts: Sequence[Encoding]) -> None:
        """Where baselines start, and what masking every word costs: the unit of a relative margin."""
        masking = self.model.tokenizer.masking
        means = mean_states(self.model, texts, self.batch_tokens)
        for layer, baseline in zip(self.probe.layers, self.probe.baselines, strict=False):  # inputs have one alone
            if layer == "embeddings" and masking is not None:
                baseline.copy_(self.model.embed(torch.tensor([[masking]], device=self.model.device))[0, 0])
            elif self.recipe.baseline == "mean" or self.probe.kind == "input":
                baseline.copy_(means[layer])
        if self.recipe.relative:
            self.scale = everything_masked(self.model, means["embeddings"], texts, self.batch_tokens)
            if not math.isfinite(self.scale):
                raise NonFiniteError(
                    "the model's output is not finite, so nothing can be trained on it",
                    "look for NaN weights (broken checkpoint or overflow in half precision)",
                )
            if self.scale < 1e-6:
                raise UsageError(
                    "the model says the same whatever the text is, so nothing of the text can matter",
                    "look at the model, or give a margin in nats: relative=False",
                )

    def add_gradients(self, batch: Batch) -> Float[Tensor, "3 layer"]:
        """Of each layer that the step trains the sums of: divergence beyond the margin, divergence, share kept."""
        inputs, device = batch.inputs, self.model.device
        noise = drawn_noise(batch.seed, batch.step, (len(self.probe.layers), batch.n_texts, batch.longest))
        noise = noise[:, batch.rows, : inputs.ids.shape[1]].to(device)
        trained = self._trained(batch)
        layers = [self.probe.layers[index] for index in trained]
        multipliers = torch.tensor([float(self.multipliers[index]) for index in trained], device=device)
        margins = torch.tensor([[self.margin(index)] for index in trained], device=device)
        sums = torch.zeros(3, len(layers), device=device)
        with torch.enable_grad():
            passes = MaskedPasses(self.model, self.probe, self.recipe, layers, inputs, noise)
            gates = passes.gates.detach().requires_grad_()  # what some layers ran is forgotten before others are run
            for some in _slices(len(layers), self._layers_at_once(inputs)):
                moved = passes.moved(layers[some], gates[some])
                excess = moved / self.scale - margins[some]
                pressed = excess.relu() if self.recipe.rectified else excess
                (multipliers[some] * pressed.sum(dim=1)).sum().div(batch.n_texts).backward()  # type: ignore[no-untyped-call]
                sums[0, some], sums[1, some] = excess.detach().sum(dim=1), moved.detach().sum(dim=1)
            torch.autograd.backward([passes.gates, passes.costs.sum() / batch.n_texts], [gates.grad, None])
        sums[2] = passes.kept.sum(dim=1)
        return sums

    def update(self, batch: Batch, means: Float[Tensor, "3 layer"]) -> None:
        """Probes down, multipliers up, from the same passes."""
        (self.lookahead or self.optimiser).step()
        for index, excess, moved, kept in zip(self._trained(batch), *means.tolist(), strict=True):
            self.multipliers[index].grad = torch.tensor(-excess)
            self.divergences[index] += 0.1 * (moved - self.divergences[index])
            self.kept[index] += 0.1 * (kept - self.kept[index])
        (self.multiplier_lookahead or self.multiplier_optimiser).step()
        self.multiplier_optimiser.zero_grad(set_to_none=True)
        for multiplier in self.multipliers:
            multiplier.clamp_(0, self.recipe.multiplier_limit)

    def validate(self, held_out: Sequence[Sequence[Encoding]]) -> dict[str, Any]:
        results = validate(self.model, self.probe, held_out, special=self.recipe.special)
        return {
            "layers": [result.to_dict() for result in results],
            "multipliers": [float(multiplier) for multiplier in self.multipliers],
        }

    def merit(self, validation: Mapping[str, Any]) -> float:
        """Tokens masked, less twice the divergence they cost."""
        layers = validation["layers"]
        return float(sum(each["masked"] - 2 * each["divergence"] / self.scale for each in layers)) / len(layers)

    def is_under_way(self, validation: Mapping[str, Any]) -> bool:
        return any(layer["masked"] >= LITTLE for layer in validation["layers"])

    def state(self) -> tuple[Parts, dict[str, Any]]:
        parts = {
            "multiplier_optimiser": checkpoint.optimiser_tensors(self.multiplier_optimiser),
            "lookahead": self.lookahead.tensors() if self.lookahead else {},
            "multiplier_lookahead": self.multiplier_lookahead.tensors() if self.multiplier_lookahead else {},
            "multipliers": self.multipliers.state_dict(),
        }
        return parts, {name: getattr(self, name) for name in CARRIED}

    def restore(self, parts: Parts, values: Mapping[str, Any]) -> None:
        checkpoint.restore_optimiser(self.multiplier_optimiser, parts["multiplier_optimiser"])
        if self.lookahead:
            self.lookahead.restore(parts["lookahead"])
        if self.multiplier_lookahead:
            self.multiplier_lookahead.restore(parts["multiplier_lookahead"])
        self.multipliers.load_state_dict(parts["multipliers"])
        for name in CARRIED:
            setattr(self, name, values[name])

    def margin(self, index: int) -> float:
        """The divergence allowed at a layer, in units of the scale."""
        first, last = self.recipe.first_margin, len(self.probe.layers) - 1
        return self.recipe.margin * (first + (1 - first) * index / last)

    def _trained(self, batch: Batch) -> Sequence[int]:
        """Indices of the layers whose gates a step trains."""
        n_layers = len(self.probe.layers)
        return range(n_layers) if self.recipe.every_layer else [drawn_layer(batch.seed, batch.step, n_layers)]

    def _layers_at_once(self, inputs: Inputs) -> int:
        """Of one pass: on a GPU as many as fit, since many small passes cost as much as large ones; else one."""
        if self.model.device.type != "cuda":
            return 1
        return max(1, self.batch_tokens // inputs.ids.numel())


def _slices(length: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, length, size)]


def _probe_optimiser(probes: Probes, recipe: Recipe) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [
        {"params": list(probes.of_layer.parameters()), "lr": recipe.learning_rate},
        {"params": list(probes.baselines.parameters()), "lr": recipe.baseline_learning_rate},
    ]
    if recipe.optimiser == "lookahead_rmsprop":
        return torch.optim.RMSprop(groups, centered=True)
    return torch.optim.Adam(groups)
