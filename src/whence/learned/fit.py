"""Training: one run over the texts, which survives being killed and may be shared among processes."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import NonFiniteError, UsageError
from whence.explanation import Layer
from whence.learned import checkpoint
from whence.learned.lookahead import Lookahead
from whence.learned.objective import MaskedPasses
from whence.learned.probes import Probes
from whence.learned.recipes import Recipe
from whence.learned.schedule import Batches, drawn_layer, drawn_noise, generator, learning_rate_share
from whence.learned.validation import LayerResult, validate
from whence.models.batching import batches
from whence.models.fingerprint import fingerprint, first_difference
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

CHECKPOINT_SECONDS = 20
FIRST_TEXTS = 256  # texts that say what masking everything costs and what a mean state is
LITTLE = 0.05  # a share of tokens masked below which training has not yet got off the ground
CARRIED = ("step", "last_step", "cooling_from", "scale", "seconds", "history", "divergences", "kept")
"""What a run carries from step to step beside its tensors."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    `divergence` (in nats), the `margin` it may reach and the share `kept` are means over the layers, of sampled gates
    on the last batches; `validation` is None until the first.
    """

    step: int
    steps: int
    seconds: float
    divergence: float
    margin: float
    kept: float
    validation: list[LayerResult] | None


class Fit:
    """One training run of probes on a model; `whence.DiffMask.fit` is the door to it."""

    def __init__(
        self,
        model: LayeredModel,
        probes: Probes,
        recipe: Recipe,
        training: Sequence[Encoding],
        held_out: Sequence[Encoding],
        *,
        seed: int,
        batch_tokens: int,
        validate_every: int,
        patience: int | None,
    ) -> None:
        from accelerate import PartialState  # type: ignore[import-untyped]

        self.model, self.probes, self.recipe, self.seed = model, probes, recipe, seed
        self.training, self.batch_tokens = training, batch_tokens
        self.validate_every, self.patience = validate_every, patience
        self.processes = PartialState()
        if min(recipe.batch_size, len(training)) < self.processes.num_processes:
            raise UsageError(
                f"{min(recipe.batch_size, len(training))} texts a step are too few for "
                f"{self.processes.num_processes} processes",
                "give more texts and a larger batch_size, or start fewer processes",
            )
        self.batches = Batches([len(encoding) for encoding in training], recipe.batch_size, seed)
        self.held_out = [[held_out[place] for place in batch] for batch in batches(held_out, batch_tokens)]
        self.multipliers = nn.ParameterList(
            nn.Parameter(torch.tensor(recipe.multiplier), requires_grad=False) for _ in probes.layers
        )
        self.optimiser = _probe_optimiser(probes, recipe)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.multiplier_optimiser = torch.optim.RMSprop(self.multipliers, lr=recipe.multiplier_learning_rate)
        looks_ahead = recipe.optimiser == "lookahead_rmsprop"
        self.lookahead = Lookahead(self.optimiser) if looks_ahead else None
        self.multiplier_lookahead = Lookahead(self.multiplier_optimiser) if looks_ahead else None
        self.step = 0
        self.last_step = recipe.steps
        self.cooling_from = recipe.steps - round(recipe.cool_down * recipe.steps)
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.scale = 1.0  # the unit of the margin, in nats
        self.divergences: list[float] = [0.0] * len(probes.layers)  # running means by layer, for the progress
        self.kept: list[float] = [1.0] * len(probes.layers)

    def run(self, folder: Path | None, progress: Callable[[Progress], None] | None) -> None:
        """Train to the end, from the checkpoint in `folder` if there is one."""
        with self.model.held(), torch.inference_mode(False), torch.no_grad(), self.precision():
            path = None if folder is None else folder / checkpoint.NAME
            if path is not None and path.exists():
                self._restore(path)
            else:
                self.begin()
            saved = time.monotonic()
            while self.step < self.last_step:
                started = time.monotonic()
                self.train_step()
                self.step += 1
                if self.step % self.validate_every == 0 or self.step == self.last_step:
                    self._validate()
                self.seconds += time.monotonic() - started
                if path is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                    self._write(path)
                    saved = time.monotonic()
                if progress is not None and self.processes.is_main_process:
                    progress(self._progress())

    def results(self) -> list[LayerResult]:
        """The last validation."""
        return [LayerResult(**each) for each in self.history[-1]["layers"]]

    def train_step(self) -> None:
        """One step: probes down, multipliers up, from the same passes."""
        n_layers = len(self.probes.layers)
        places = range(n_layers) if self.recipe.every_layer else [drawn_layer(self.seed, self.step, n_layers)]
        rows = self.batches[self.step]
        longest = max(len(self.training[row]) for row in rows)
        noise = drawn_noise(self.seed, self.step, (n_layers, len(rows), longest))
        mine = range(self.processes.process_index, len(rows), self.processes.num_processes)
        inputs = self.model.collate([self.training[rows[each]] for each in mine])
        noise = noise[:, list(mine), : inputs.ids.shape[1]].to(self.model.device)
        layers = [self.probes.layers[place] for place in places]
        multipliers = torch.tensor([float(self.multipliers[place]) for place in places], device=self.model.device)
        margins = torch.tensor([[self._margin(place)] for place in places], device=self.model.device)
        totals = torch.zeros(3, len(layers), device=self.model.device)
        with torch.enable_grad():
            passes = MaskedPasses(self.model, self.probes, self.recipe, layers, inputs, noise)
            gates = passes.gates.detach().requires_grad_()  # what some layers ran is forgotten before others are run
            for some in _slices(len(layers), self._layers_at_once(inputs)):
                moved = passes.moved(layers[some], gates[some])
                excess = moved / self.scale - margins[some]
                pressed = excess.relu() if self.recipe.rectified else excess
                (multipliers[some] * pressed.sum(dim=1)).sum().div(len(rows)).backward()  # type: ignore[no-untyped-call]
                totals[0, some], totals[1, some] = excess.detach().sum(dim=1), moved.detach().sum(dim=1)
            torch.autograd.backward([passes.gates, passes.costs.sum() / len(rows)], [gates.grad, None])
        totals[2] = passes.kept.sum(dim=1)
        self._add_up_over_processes(totals)
        totals /= len(rows)
        if not totals.isfinite().all():
            raise NonFiniteError(
                f"training gave a number that is not finite at step {self.step}",
                "lower learning_rate, or look for infinite weights in the model",
            )
        share = learning_rate_share(self.step, self.recipe.warm_up, self.cooling_from, self.last_step)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * share
        (self.lookahead or self.optimiser).step()
        self.optimiser.zero_grad(set_to_none=True)
        for place, excess, moved, kept in zip(places, *totals.tolist(), strict=True):
            self.multipliers[place].grad = torch.tensor(-excess)
            self.divergences[place] += 0.1 * (moved - self.divergences[place])
            self.kept[place] += 0.1 * (kept - self.kept[place])
        (self.multiplier_lookahead or self.multiplier_optimiser).step()
        self.multiplier_optimiser.zero_grad(set_to_none=True)
        for multiplier in self.multipliers:
            multiplier.clamp_(0, self.recipe.multiplier_limit)

    def _layers_at_once(self, inputs: Inputs) -> int:
        """Of one pass: on a GPU as many as fit, since many small passes cost as much as large ones; else one."""
        if self.model.device.type != "cuda":
            return 1
        return max(1, self.batch_tokens // inputs.ids.numel())

    def _margin(self, place: int) -> float:
        """The divergence allowed at a layer, in units of the scale."""
        first, last = self.recipe.first_margin, len(self.probes.layers) - 1
        return self.recipe.margin * (first + (1 - first) * place / last)

    def begin(self) -> None:
        """Where baselines start, and what masking every word costs: the unit of a relative margin."""
        order = torch.randperm(len(self.training), generator=generator(self.seed, "first texts")).tolist()
        first = [self.training[place] for place in order[:FIRST_TEXTS]]
        masking = self.model.tokenizer.masking
        means = mean_states(self.model, first, self.batch_tokens)
        for place, baseline in enumerate(self.probes.baselines):
            if self.probes.layers[place] == "embeddings" and masking is not None:
                baseline.copy_(self.model.embed(torch.tensor([[masking]], device=self.model.device))[0, 0])
            elif self.recipe.baseline == "mean" or self.probes.kind == "input":
                baseline.copy_(means[self.probes.layers[place]])
        if self.recipe.relative:
            self.scale = everything_masked(self.model, means["embeddings"], first, self.batch_tokens)
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

    def _validate(self) -> None:
        results = validate(self.model, self.probes, self.held_out, special=self.recipe.special)
        self.history.append(
            {
                "step": self.step,
                "layers": [result.to_dict() for result in results],
                "multipliers": [float(multiplier) for multiplier in self.multipliers],
            }
        )
        self._cool_on_a_plateau()

    def _cool_on_a_plateau(self) -> None:
        """Begin the cool-down early when validation has stood still, but not in the first half or with nothing masked.

        Probes may keep everything for a long time and then let go at once (45 of 100 epochs on the toy task), so
        standing still proves nothing early on.
        """
        if self.patience is None or self.step >= self.cooling_from or self.step < self.recipe.steps // 2:
            return
        if max(layer["masked"] for layer in self.history[-1]["layers"]) < LITTLE:
            return
        scores = [_merit(each["layers"], self.scale) for each in self.history]
        still = len(scores) > self.patience and max(scores[-self.patience :]) <= max(scores[: -self.patience]) + 1e-3
        if self._any_process(still):
            self.cooling_from = self.step
            self.last_step = min(self.last_step, self.step + round(self.recipe.cool_down * self.recipe.steps))

    def _progress(self) -> Progress:
        validation = self.results() if self.history else None
        moved = sum(self.divergences) / len(self.divergences)
        kept = sum(self.kept) / len(self.kept)
        margin = self.scale * sum(map(self._margin, range(len(self.kept)))) / len(self.kept)
        return Progress(self.step, self.last_step, self.seconds, moved, margin, kept, validation)

    def _add_up_over_processes(self, totals: Tensor) -> None:
        if self.processes.num_processes == 1:
            return
        gradients = [weight.grad for weight in self.probes.parameters() if weight.grad is not None]
        for tensor in (totals, *gradients):
            torch.distributed.all_reduce(tensor)

    def _any_process(self, flag: bool) -> bool:
        """Whether any process says so: what ends the run must end it in all of them at the same step."""
        if self.processes.num_processes == 1:
            return flag
        votes = torch.tensor(float(flag), device=self.model.device)
        torch.distributed.all_reduce(votes)
        return bool(votes > 0)

    def precision(self) -> AbstractContextManager[Any]:
        """On a GPU the model computes in bfloat16; gates, divergences and weights of probes stay in float32.

        Nothing is cached: casts of weights would outlive the steps that change them.
        """
        if self.model.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False)
        return nullcontext()

    @cached_property
    def _record(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run that goes on from it."""
        return {
            "kind": self.probes.kind,
            **asdict(self.recipe),
            "seed": self.seed,
            "patience": self.patience,
            "steps between validations": self.validate_every,
            "texts": _digest(self.training),
            "held-out texts": _digest([encoding for batch in self.held_out for encoding in batch]),
        }

    def _write(self, path: Path) -> None:
        if not self.processes.is_main_process:
            return
        parts = {
            "probes": self.probes.state_dict(),
            "optimiser": checkpoint.optimiser_tensors(self.optimiser),
            "multiplier_optimiser": checkpoint.optimiser_tensors(self.multiplier_optimiser),
            "lookahead": self.lookahead.tensors() if self.lookahead else {},
            "multiplier_lookahead": self.multiplier_lookahead.tensors() if self.multiplier_lookahead else {},
            "model": fingerprint(self.model.module),
            "multipliers": self.multipliers.state_dict(),
        }
        tensors = {f"{part}.{name}": tensor for part, each in parts.items() for name, tensor in each.items()}
        state = {name: getattr(self, name) for name in CARRIED}
        checkpoint.write(path, tensors, {"settings": self._record, "state": state})

    def _restore(self, path: Path) -> None:
        tensors, record = checkpoint.read(path)
        settings = record.get("settings", {})
        advice = "finish it with the settings it was begun with, or choose another folder"
        different = first_difference(checkpoint.under("model", tensors), fingerprint(self.model.module))
        if different is not None:
            raise UsageError(
                f"the fit begun in {str(path.parent)!r} was on another model ({different} differs)", advice
            )
        for name, value in self._record.items():
            if settings.get(name) != value:
                shown = "" if "texts" in name else f" ({settings.get(name)!r}, now {value!r})"
                raise UsageError(f"the fit begun in {str(path.parent)!r} had other {name}{shown}", advice)
        try:
            self.probes.load_state_dict(checkpoint.under("probes", tensors))
            checkpoint.restore_optimiser(self.optimiser, checkpoint.under("optimiser", tensors))
            checkpoint.restore_optimiser(self.multiplier_optimiser, checkpoint.under("multiplier_optimiser", tensors))
            if self.lookahead:
                self.lookahead.restore(checkpoint.under("lookahead", tensors))
            if self.multiplier_lookahead:
                self.multiplier_lookahead.restore(checkpoint.under("multiplier_lookahead", tensors))
            self.multipliers.load_state_dict(checkpoint.under("multipliers", tensors))
            for name in CARRIED:
                setattr(self, name, record["state"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            raise checkpoint.broken(path) from error


def mean_states(
    model: LayeredModel, encodings: Sequence[Encoding], batch_tokens: int
) -> dict[Layer, Float[Tensor, " hidden"]]:
    """The mean state of real tokens at every layer."""
    sums: dict[Layer, Tensor] = {}
    n_tokens = 0
    for batch in batches(encodings, batch_tokens):
        inputs = model.collate([encodings[place] for place in batch])
        states = model.states(inputs)
        n_tokens += int(inputs.mask.sum())
        for layer in ("embeddings", *range(model.n_layers + 1)):
            total = (states.at(layer).float() * inputs.mask[..., None]).sum(dim=(0, 1))
            sums[layer] = sums[layer] + total if layer in sums else total
    return {layer: total / n_tokens for layer, total in sums.items()}


def everything_masked(
    model: LayeredModel, mean_word: Float[Tensor, " hidden"], encodings: Sequence[Encoding], batch_tokens: int
) -> float:
    """The mean divergence when every word is the mask token, or the mean word where there is none."""
    total = 0.0
    masking = model.tokenizer.masking
    for batch in batches(encodings, batch_tokens):
        inputs = model.collate([encodings[place] for place in batch])
        logits = model.run(inputs)
        if masking is not None:
            words = model.embed(torch.where(inputs.special, inputs.ids, torch.full_like(inputs.ids, masking)))
        else:
            own = model.embed(inputs.ids)
            words = torch.where(inputs.special[..., None], own, mean_word.to(own))
        masked = model.resume("embeddings", words, inputs)
        total += float(model.reading.divergence(logits, masked, inputs.mask).sum())
    return total / len(encodings)


def _slices(length: int, size: int) -> list[slice]:
    return [slice(first, first + size) for first in range(0, length, size)]


def _digest(encodings: Sequence[Encoding]) -> str:
    return hashlib.sha256(repr([encoding.ids for encoding in encodings]).encode()).hexdigest()


def _probe_optimiser(probes: Probes, recipe: Recipe) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [
        {"params": list(probes.of_layer.parameters()), "lr": recipe.learning_rate},
        {"params": list(probes.baselines.parameters()), "lr": recipe.baseline_learning_rate},
    ]
    if recipe.optimiser == "lookahead_rmsprop":
        return torch.optim.RMSprop(groups, centered=True)
    return torch.optim.Adam(groups)


def _merit(layers: Sequence[Mapping[str, Any]], scale: float) -> float:
    """How well a validation went: tokens masked, less twice the divergence they cost."""
    return float(sum(each["masked"] - 2 * each["divergence"] / scale for each in layers)) / len(layers)
