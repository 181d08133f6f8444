"""What every method is asked: which tokens of these texts carry this target, at these layers?

A method is a short function of a `Question`. It reads the states of the whole texts, resumes the model from changed
states, and returns `Scores`. The question counts the passes, keeps every forward within the token budget and picks the
target inside it, so that no method holds more than one micro-batch of logits.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whence.errors import NonFiniteError
from whence.explanation import Layer, Meaning, Scale
from whence.methods.gradient_check import check_gradient, is_checked
from whence.models.batching import computed_again, micro_batches, reads_padding
from whence.models.inputs import Inputs
from whence.models.layered import LayeredModel, States
from whence.selection import Selection
from whence.units import Units

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Build = Callable[[slice], Float[Tensor, "row token hidden"]]
    Loss = Callable[[Float[Tensor, "row *token label"], Inputs, slice], Float[Tensor, " row"]]


INCOMPLETE = 0.05  # a completeness error above this share of the difference to be explained is worth a word


@dataclass(frozen=True)
class Scores:
    """A method's answer on one batch; what stands at padding is never read.

    `meaning` takes the place of the method's own where an option changes what the scores say. `warnings` and `notes`
    hold several sentences per text: reasons to doubt its scores, and what else is good to know of them.
    """

    values: Float[Tensor, "batch layer token"]
    standard_errors: Float[Tensor, "batch layer token"] | None = None
    completeness_errors: Float[Tensor, "batch layer"] | None = None
    meaning: Meaning | None = None
    warnings: Sequence[Sequence[str]] | None = None
    notes: Sequence[Sequence[str]] | None = None


TRIED_TOKENS = 128  # of a long prompt, to see whether a model's gradients are right
ONE_BY_ONE_TOKENS = 512  # few enough for any memory that holds the model


@dataclass(frozen=True)
class Method:
    """A way to answer, with what it needs, costs and means.

    `needs` may be given as one text with commas and is a tuple afterwards. A method that needs "gradients" gets states
    whose graph leads back to the word embeddings, unless it says `differentiable=False`: those that take gradients by
    resuming the model alone save that graph. `layers` is where the method looks if the user does not say: "embeddings",
    "all" (0 … L), "blocks" (1 … L) or "everywhere" (the embeddings and all), and, with `only_there`, nowhere else.
    `scale` is the unit of the target if the user does not say; None: probability where the model decides. `within`
    makes, of the model's module, the context in which its states are taken, where that is not an ordinary pass. A
    `one_by_one` method magnifies rounding, which depends on what else is in a batch: it gets one text at a time, in
    forwards of ONE_BY_ONE_TOKENS whatever the token budget is, so that its answer never depends on a text's neighbours.
    A method that `takes_units` takes units away as a whole; of all others the scores of a unit's tokens are gathered.
    """

    compute: Callable[..., Scores]
    meaning: Meaning
    needs: str | tuple[str, ...]
    cost: str
    layers: str = "embeddings"
    only_there: bool = False
    scale: Scale | None = "logit"
    scale_of_next_token: Scale | None = None
    differentiable: bool | None = None
    within: Callable[[nn.Module], AbstractContextManager[Any]] | None = None
    one_by_one: bool = False
    takes_units: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.needs, str):
            named = tuple(need.strip() for need in self.needs.split(","))
            object.__setattr__(self, "needs", tuple(need for need in named if need not in ("", "nothing")))
        if self.differentiable is None:
            object.__setattr__(self, "differentiable", "gradients" in self.needs)

    @property
    def name(self) -> str:
        """That of its function, or of the function of which a partial was made."""
        return str(getattr(self.compute, "func", self.compute).__name__)

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options with their defaults."""
        parameters = inspect.signature(self.compute).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


@dataclass(eq=False)
class Question:
    """A padded batch of texts, what the model does with it, and what is asked about it."""

    model: LayeredModel
    inputs: Inputs
    states: States
    selection: Selection
    layers: tuple[Layer, ...]
    seed: int
    batch_tokens: int
    units: Units = "token"
    value: Float[Tensor, " batch"] = field(init=False)
    forwards: Int[Tensor, " batch"] = field(init=False)
    backwards: Int[Tensor, " batch"] = field(init=False)

    def __post_init__(self) -> None:
        self.value = self.selection.of(self.states.logits, self.inputs.mask)
        if not self.value.isfinite().all():
            raise NonFiniteError("the target is not a finite number", "look for infinite weights or another target")
        self.forwards = torch.ones(len(self.inputs), dtype=torch.long)
        self.forwards += self.inputs.reference is not None  # the pairs were read too
        self.backwards = torch.zeros(len(self.inputs), dtype=torch.long)

    def generator(self, row: int) -> torch.Generator:
        """Random numbers that depend on the seed and the text alone, not on the batch or the device."""
        # one number of 32 bits for both: of a larger one torch's generator on the CPU drops what is above
        fingerprint = zlib.crc32(repr((self.seed, self.inputs.encodings[row].ids)).encode())
        return torch.Generator().manual_seed(fingerprint)

    def state_gradients(self) -> list[Float[Tensor, "batch token hidden"]]:
        """The target's gradient at every layer asked about, from one backward pass."""
        states = [self.states.at(layer) for layer in self.layers]
        found = self.value.requires_grad and torch.autograd.grad(self.value.sum(), states, allow_unused=True)
        gradients = found or [None] * len(states)
        self.backwards += 1
        nothing = torch.zeros((), dtype=torch.bool, device=self.value.device)
        moved = torch.stack([nothing if gradient is None else gradient.any() for gradient in gradients]).tolist()
        for layer, gradient, moves in zip(self.layers, gradients, moved, strict=True):
            if layer in (self.layers[0], self.layers[-1]) or not moves:
                if self._cut:
                    self.check_gradient(layer)
                else:
                    self._compare(layer, None if gradient is None else gradient[self._shortest])
        return [torch.zeros_like(h) if g is None else g for h, g in zip(states, gradients, strict=True)]

    def values(self, layer: Layer, rows: Int[Tensor, " row"], build: Build) -> Float[Tensor, " row"]:
        """The target of each row (an index into the batch) when h_layer is what `build` gives for a slice of rows."""
        found = []
        numbers = rows.tolist()
        with torch.inference_mode():
            for chunk, inputs in self._micro_batches(rows, numbers):
                hidden = build(chunk)[:, : inputs.ids.shape[1]]
                logits = self.model.resume(layer, hidden, inputs)
                found.append(self.selection.rows(rows[chunk]).of(logits, inputs.mask))
        self.forwards += self._passes(numbers)
        return torch.cat(found) if found else torch.zeros(0, device=rows.device)

    def gradients(
        self, layer: Layer, rows: Int[Tensor, " row"], build: Build
    ) -> Iterator[tuple[slice, Float[Tensor, "row token hidden"]]]:
        """The target's gradient at the changed h_layer, a slice of rows at a time."""
        self.check_gradient(layer)
        length, numbers = self.inputs.ids.shape[1], rows.tolist()
        for chunk, inputs in self._micro_batches(rows, numbers):
            with torch.enable_grad(), computed_again(self.model, inputs, self.batch_tokens):
                hidden = build(chunk)[:, : inputs.ids.shape[1]].detach().requires_grad_()
                logits = self.model.resume(layer, hidden, inputs)
                value = self.selection.rows(rows[chunk]).of(logits, inputs.mask)
                gradient = torch.autograd.grad(value.sum(), hidden)[0]
            yield chunk, torch.nn.functional.pad(gradient, (0, 0, 0, length - gradient.shape[1]))
        self.forwards += self._passes(numbers)
        self.backwards += self._passes(numbers)

    def backpropagate(self, layer: Layer, rows: Int[Tensor, " row"], build: Build, loss: Loss) -> None:
        """Add up, in the leaves that `build` uses, the gradients of a loss of the whole output when h_layer is changed.

        `loss` gets the logits, the inputs and the slice of some rows, and gives one number per row.
        """
        self.check_gradient(layer)
        numbers = rows.tolist()
        for chunk, inputs in self._micro_batches(rows, numbers):
            with torch.enable_grad(), computed_again(self.model, inputs, self.batch_tokens):
                hidden = build(chunk)[:, : inputs.ids.shape[1]]
                loss(self.model.resume(layer, hidden, inputs), inputs, chunk).sum().backward()  # type: ignore[no-untyped-call]
        self.forwards += self._passes(numbers)
        self.backwards += self._passes(numbers)

    def check_gradient(self, layer: Layer) -> None:
        """Refuse a model whose gradients at a layer are wrong; looked at the first time, and not counted as passes."""
        if not is_checked(self.model, layer):
            with torch.enable_grad():
                hidden = self.states.at(layer).detach()[self._shortest].requires_grad_()
                value = self._shortest_value(layer, hidden)
                gradient = (
                    torch.autograd.grad(value.sum(), hidden, allow_unused=True)[0] if value.requires_grad else None
                )
            self._compare(layer, gradient)

    def _compare(self, layer: Layer, gradient: Float[Tensor, "1 token hidden"] | None) -> None:
        """The gradient at the shortest text's own states with what its target does when they change."""
        if not is_checked(self.model, layer):
            hidden = self.states.at(layer).detach()[self._shortest]
            check_gradient(self.model, layer, hidden, gradient, lambda states: self._shortest_value(layer, states))

    @cached_property
    def _shortest(self) -> tuple[slice, slice]:
        """Where in the batch the shortest text is: its row and its tokens, of a long prompt the first."""
        lengths = [len(encoding) for encoding in self.inputs.encodings]
        row = lengths.index(min(lengths))
        return slice(row, row + 1), slice(min(lengths[row], TRIED_TOKENS) if self._cut else lengths[row])

    @property
    def _cut(self) -> bool:
        """Whether even the shortest text is a long prompt: a decoder is then tried on how it begins."""
        shortest = min(len(encoding) for encoding in self.inputs.encodings)
        return self.model.reading.next_token and shortest > TRIED_TOKENS

    def _shortest_value(self, layer: Layer, hidden: Float[Tensor, "row token hidden"]) -> Float[Tensor, " row"]:
        rows = torch.full((len(hidden),), self._shortest[0].start, device=hidden.device)
        inputs = self.inputs.rows(rows)
        if self._cut:
            inputs = inputs.beginning(TRIED_TOKENS)
        return self.selection.rows(rows).of(self.model.resume(layer, hidden, inputs), inputs.mask)

    def _passes(self, numbers: Sequence[int]) -> Int[Tensor, " batch"]:
        """How often each text is among the rows."""
        return torch.bincount(torch.tensor(numbers, dtype=torch.long), minlength=len(self.inputs))

    def _micro_batches(self, rows: Int[Tensor, " row"], numbers: Sequence[int]) -> Iterator[tuple[slice, Inputs]]:
        """Consecutive rows, as many at a time as the token budget allows; `numbers` are the same, here."""
        texts = [len(encoding) for encoding in self.inputs.encodings]
        lengths = [texts[row] for row in numbers]
        equal = reads_padding(self.model, self.inputs.encodings)
        for batch in micro_batches(range(len(lengths)), lengths.__getitem__, self.batch_tokens, equal=equal):
            chunk = slice(batch[0], batch[-1] + 1)
            yield chunk, self.inputs.rows(rows[chunk], numbers[chunk])
