"""The loop of every learned explainer: one run over the texts that survives being killed and may be shared.

The loop knows batches, rates, processes, validations and checkpoints; what is learnt it leaves to a `Learner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from whence.errors import NonFiniteError
from whence.learned import checkpoint
from whence.learned.checkpoint import Parts
from whence.learned.processes import Processes
from whence.learned.schedule import Batches, Pace, generator, learning_rate_share
from whence.learned.texts import Texts, digest
from whence.learned.time_limit import FEW, TimeLimit
from whence.models.batching import batches, micro_batches, reads_padding
from whence.models.fingerprint import first_difference
from whence.models.inputs import Encoding, Inputs
from whence.models.layered import LayeredModel
from whence.probes.owner import Owner
from whence.progress import Progress, reporter

if TYPE_CHECKING:
    from jaxtyping import Float

FIRST_TEXTS = 256  # texts that a learner may look at before its first step
CARRIED = ("step", "last_step", "cooling_from", "seconds", "history")
"""What the loop carries from step to step."""


@dataclass(frozen=True)
class Batch:
    """Texts of one step: those in its `rows`, out of the step's `n_texts` with up to `longest` tokens."""

    inputs: Inputs
    rows: list[int]
    n_texts: int
    longest: int
    step: int
    seed: int


class Learner(Protocol):
    """What a learned explainer brings to the loop: a probe, its optimiser and its objective."""

    @property
    def probe(self) -> nn.Module: ...

    @property
    def optimiser(self) -> torch.optim.Optimizer:
        """Of the probe's weights; the loop sets its learning rates before each step."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What a checkpoint must have in common with the run that goes on from it, as JSON has it."""

    def begin(self, texts: Sequence[Encoding]) -> None:
        """Before the first step: look at some of the texts."""

    def add_gradients(self, batch: Batch) -> Float[Tensor, "*sum"]:
        """Put gradients of the mean over all `n_texts` into the probe, as far as the texts of this batch go.

        Gives the sums over its texts that `update` needs the mean of.
        """

    def update(self, batch: Batch, means: Float[Tensor, "*sum"]) -> None:
        """Take the step, once gradients and sums of all processes are added up."""

    def validate(self, held_out: Sequence[Sequence[Encoding]]) -> dict[str, Any]:
        """How well the probe does on batches of held-out texts, as JSON has it; goes into the history."""

    def merit(self, validation: Mapping[str, Any]) -> float:
        """One number of a validation: a run whose merit stands still ends early."""

    def is_under_way(self, validation: Mapping[str, Any]) -> bool:
        """Whether so much is learnt that standing still means something."""

    def state(self) -> tuple[Parts, dict[str, Any]]:
        """Tensors and plain values that change from step to step, beside the probe's weights and its optimiser."""

    def restore(self, parts: Parts, values: Mapping[str, Any]) -> None:
        """Set what `state` gave; other parts and values may be among them."""


class Training:
    """One run: `run` trains to the end, from a checkpoint if there is one, `finish` saves what came out."""

    def __init__(self, model: LayeredModel, learner: Learner, texts: Texts, pace: Pace, batch_tokens: int) -> None:
        self.model, self.learner, self.texts, self.pace = model, learner, texts, pace
        self.processes = Processes()
        self.processes.check_enough(min(pace.batch_size, len(texts.training)))
        self.owner = Owner.of(model)
        self.batches = Batches([len(encoding) for encoding in texts.training], pace.batch_size, pace.seed)
        self.limit = None if pace.minutes is None else TimeLimit(60 * pace.minutes)
        self.batch_tokens = batch_tokens
        self.equal_lengths = reads_padding(model, texts.training)
        self.rates = [group["lr"] for group in learner.optimiser.param_groups]
        self.step = 0
        self.last_step = pace.steps
        self.cooling_from = pace.steps - pace.n_cooling(pace.steps)
        self.stands_still = False  # whether validation did, so that the end is fixed
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []

    def run(self, folder: Path | None, after_step: Callable[[], None] | None = None) -> None:
        """Train to the end, from the checkpoint in `folder` if there is one.

        The main process calls `after_step` after each.
        """
        path = None if folder is None else folder / checkpoint.NAME
        rhythm = checkpoint.Rhythm()
        with self.model.held(), torch.inference_mode(False), torch.no_grad(), precision(self.model):
            if path is not None and path.exists():
                self._restore(path)
            else:
                self.begin()
            self._since = monotonic()
            while self.step < self.last_step:
                self.train_step()
                self.step += 1
                took = self._took()
                if self.limit is not None:
                    self.limit.stepped(took)
                    self._plan(self.limit)
                if self._is_validation_due():
                    if self.limit is not None and not self.limit.n_judged:
                        self._time_a_validation(self.limit)
                    self._validate()
                    took = self._took()
                    if self.limit is not None:
                        self.limit.validated(took, self.seconds)
                        self._plan(self.limit)
                if path is not None and rhythm.is_due():
                    self._write(path)
                    rhythm.written()
                if after_step is not None and self.processes.is_main:
                    after_step()

    def run_watched(
        self, folder: Path | None, progress: Progress, watch: Callable[[Any], None] | None, standing: Callable[[], Any]
    ) -> None:
        """`run` with a bar; the main process gives `watch` where the run stands after each step."""
        with reporter(progress if self.processes.is_main else False) as report:

            def after_step() -> None:
                report("fit", self.step, self.last_step)
                if watch is not None:
                    watch(standing())

            self.run(folder, after_step)

    def finish(self, folder: Path | None, save: Callable[[Path], None]) -> None:
        """Save once for all processes, then do without the checkpoint; nobody goes on before the folder is there."""
        if folder is not None and self.processes.is_main:
            save(folder)
            checkpoint.remove(folder)
        self.processes.wait()

    def _took(self) -> float:
        """The seconds since this was asked before, which count as spent."""
        now = monotonic()
        took = now - self._since
        if self.limit is not None:
            took = self.processes.mean(took, self.model.device)
        self._since = now
        self.seconds += took
        return took

    def _plan(self, limit: TimeLimit) -> None:
        """The end moves to where the time will be over, and with it the fall of the learning rate."""
        most = self.last_step if self.stands_still else self.pace.steps
        self.last_step = limit.last_step(self.step, self.seconds, most)
        if not self.stands_still:
            self.cooling_from = self.last_step - self.pace.n_cooling(self.last_step)

    def _is_validation_due(self) -> bool:
        if self.step == self.last_step:
            return True
        if self.limit is not None:
            return self.limit.is_validation_due(self.seconds)
        return self.step % self.pace.validate_every == 0

    def begin(self) -> None:
        training = self.texts.training
        order = torch.randperm(len(training), generator=generator(self.pace.seed, "first texts")).tolist()
        self.learner.begin([training[index] for index in order[:FIRST_TEXTS]])

    def train_step(self) -> None:
        parts = self._parts()
        sums = torch.stack([self.learner.add_gradients(part) for part in parts]).sum(dim=0)
        gradients = [weight.grad for weight in self.learner.probe.parameters() if weight.grad is not None]
        self.processes.add_up([sums, *gradients])
        means = sums / parts[0].n_texts
        if not means.isfinite().all():
            raise NonFiniteError(
                f"training gave a number that is not finite at step {self.step}",
                "lower learning_rate, or look for infinite weights in the model",
            )
        share = learning_rate_share(self.step, self.pace.n_rising(self.last_step), self.cooling_from, self.last_step)
        for group, rate in zip(self.learner.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * share
        self.learner.update(parts[0], means)
        self.learner.optimiser.zero_grad(set_to_none=True)

    def _parts(self) -> list[Batch]:
        """This process's texts of the step, all at once, or by length where the model reads its padding."""
        texts = [self.texts.training[index] for index in self.batches[self.step]]
        n_texts, longest = len(texts), max(map(len, texts))
        parts = [self.processes.share(n_texts)]
        if self.equal_lengths:
            own = sorted(parts[0], key=lambda row: len(texts[row]))
            parts = list(micro_batches(own, lambda row: len(texts[row]), n_texts * longest, equal=True))
        return [
            Batch(self.model.collate([texts[row] for row in rows]), rows, n_texts, longest, self.step, self.pace.seed)
            for rows in parts
        ]

    def _time_a_validation(self, limit: TimeLimit) -> None:
        few = self._held_out(FEW)
        self.learner.validate(few)
        limit.judge(sum(map(len, few)), self._took(), len(self.texts.held_out))

    def _held_out(self, most: int) -> list[list[Encoding]]:
        """Of the held-out texts so many, of all lengths, in batches."""
        some = self.texts.held_out[:: -(-len(self.texts.held_out) // most)]
        return [[some[index] for index in batch] for batch in batches(self.model, some, self.batch_tokens)]

    def _validate(self) -> None:
        judged = len(self.texts.held_out) if self.limit is None else self.limit.n_judged
        self.history.append({"step": self.step, **self.learner.validate(self._held_out(judged))})
        self._cool_on_a_plateau()

    def _cool_on_a_plateau(self) -> None:
        """Begin the cool-down early when validation has stood still, but not in the first half or before it moved.

        Probes may keep everything for a long time and then let go at once (45 of 100 epochs on DiffMask's toy task),
        so standing still proves nothing early on.
        """
        patience = self.pace.patience
        if patience is None or self.step >= self.cooling_from or self.step < self.last_step // 2:
            return
        if not self.learner.is_under_way(self.history[-1]):
            return
        merits = [self.learner.merit(each) for each in self.history]
        still = len(merits) > patience and max(merits[-patience:]) <= max(merits[:-patience]) + 1e-3
        if self.processes.any(still, self.model.device):
            self.last_step = min(self.last_step, self.step + self.pace.n_cooling(self.last_step))
            self.cooling_from = self.step
            self.stands_still = True

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run that goes on from it."""
        return {
            **self.learner.settings,
            "steps": self.pace.steps,
            "batch_size": self.pace.batch_size,
            "warm_up": self.pace.warm_up,
            "cool_down": self.pace.cool_down,
            "seed": self.pace.seed,
            "patience": self.pace.patience,
            "steps between validations": self.pace.validate_every,
            **({} if self.pace.minutes is None else {"minutes": self.pace.minutes}),
            "texts": digest(self.texts.training),
            "held-out texts": digest(self.texts.held_out),
        }

    def _write(self, path: Path) -> None:
        if not self.processes.is_main:
            return
        parts, values = self.learner.state()
        own = {
            "probes": self.learner.probe.state_dict(),
            "optimiser": checkpoint.optimiser_tensors(self.learner.optimiser),
            "model": self.owner.fingerprint,
        }
        state = {name: getattr(self, name) for name in CARRIED}
        if self.limit is not None:
            state |= {"limit": asdict(self.limit), "stands_still": self.stands_still}
        checkpoint.write(path, {**parts, **own}, {"settings": self._settings, "state": {**values, **state}})

    def _restore(self, path: Path) -> None:
        parts, record = checkpoint.read(path)
        different = first_difference(parts.get("model", {}), self.owner.fingerprint)
        checkpoint.check_same_run(path, different, record.get("settings", {}), self._settings)
        try:
            self.learner.probe.load_state_dict(parts["probes"])
            checkpoint.restore_optimiser(self.learner.optimiser, parts.get("optimiser", {}))
            self.learner.restore(parts, record["state"])
            for name in CARRIED:
                setattr(self, name, record["state"][name])
            if self.limit is not None:
                self.limit = TimeLimit(**record["state"]["limit"])
                self.stands_still = record["state"]["stands_still"]
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise checkpoint.broken(path) from error


@contextmanager
def precision(model: LayeredModel) -> Iterator[None]:
    """On a GPU the model computes in bfloat16; divergences and the weights of probes stay in float32.

    Nothing is cached: casts of weights would outlive the steps that change them. Attention is not cuDNN's, which makes
    a plan for every new shape of a batch: that took longer than all else.
    """
    if model.device.type != "cuda":
        yield
        return
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False), sdpa_kernel(kernels):
        yield
