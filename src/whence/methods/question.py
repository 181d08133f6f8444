"""What every method is asked: which tokens of these texts carry this target, at these layers?

A method is a short function of a `Question`. It reads the states of the whole texts, resumes the model from changed
states, and returns `Scores`. The question counts the passes, keeps every forward within the token budget and picks the
target inside it, so that no method holds more than one micro-batch of logits.
"""

from __future__ import annotations

import inspect
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from whence.errors import NonFiniteError, UsageError
from whence.explanation import Layer, Meaning, Scale
from whence.methods.gradient_check import check_gradient, is_checked
from whence.models.batching import computed_again, consecutive, reads_padding
from whence.models.inputs import Inputs, moved
from whence.models.layered import LayeredModel, Layers, States
from whence.selection import Selection
from whence.tasks.reading import check_output
from whence.units import Units

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Build = Callable[[slice], Float[Tensor, "row token hidden"]]
    Reduce = Callable[
        [Float[Tensor, "batch token hidden"], Float[Tensor, "some batch token hidden"]],
        Float[Tensor, "some batch token"],
    ]
    Loss = Callable[[Float[Tensor, "row *token label"], Inputs, slice], Float[Tensor, " row"]]


INCOMPLETE = 0.05  # a completeness error above this share of the difference to be explained is worth a word


@dataclass(frozen=True)
class Scores:
    """A method's answer on one batch; what stands at padding is never read.

    A method that `tells_outputs` gives scores for every column of `Question.outputs`, on an axis behind the batch that
    is left out where there is but one. `meaning` takes the place of the method's own where an option changes what the
    scores say. `warnings` and `notes` hold several sentences per text: reasons to doubt its scores, and what else is
    good to know of them.
    """

    values: Float[Tensor, "batch *output layer token"]
    standard_errors: Float[Tensor, "batch *output layer token"] | None = None
    completeness_errors: Float[Tensor, "batch *output layer"] | None = None
    meaning: Meaning | None = None
    warnings: Sequence[Sequence[str]] | None = None
    notes: Sequence[Sequence[str]] | None = None


def of_outputs(values: Float[Tensor, "batch output *rest"]) -> Float[Tensor, " batch *any"]:
    """Answers to every output as `Scores` holds them: without the axis where there is but one."""
    return values[:, 0] if values.shape[1] == 1 else values


TRIED_TOKENS = 128  # of a long prompt, to see whether a model's gradients are right
ONE_BY_ONE_TOKENS = 512  # few enough for any memory that holds the model


@dataclass(frozen=True)
class Method:
    """A way to answer, with what it needs, costs and means.

    `needs` may be given as one text with commas and is a tuple afterwards. A method that needs "gradients" gets states
    whose graph leads back to the word embeddings, unless it says `differentiable=False`: those that take gradients by
    resuming the model alone save that graph. `layers` is where the method looks if the user does not say: "embeddings",
    "all" (0 … L), "blocks" (1 … L) or "everywhere" (the embeddings and all), and, with `only_there`, nowhere else; of a
    method whose options say where, `layers_by` tells it of the model and these.
    `scale` is the unit of the target if the user does not say; None: probability where the model decides. `within`
    makes, of the model's module, the context in which its states are taken, where that is not an ordinary pass. A
    `one_by_one` method magnifies rounding, which depends on what else is in a batch: it gets one text at a time, in
    forwards of ONE_BY_ONE_TOKENS whatever the token budget is, so that its answer never depends on a text's neighbours.
    A method that `takes_units` takes units away as a whole; of all others the scores of a unit's tokens are gathered.
    A method that `tells_outputs` explains every token of a response by itself beside all of them together; of others
    the target is the whole. The scores of a `linear` method for a sum of targets are the sums of its scores for each:
    it can say why one response was written rather than another. A method of `few_passes` takes one to three, whatever
    the text and its options: it can answer while somebody types.
    """

    compute: Callable[..., Scores]
    meaning: Meaning
    needs: str | tuple[str, ...]
    cost: str
    layers: str = "embeddings"
    layers_by: Callable[[LayeredModel, Mapping[str, Any]], Layers] | None = None
    only_there: bool = False
    scale: Scale | None = "logit"
    scale_of_next_token: Scale | None = None
    differentiable: bool | None = None
    within: Callable[[nn.Module], AbstractContextManager[Any]] | None = None
    one_by_one: bool = False
    takes_units: bool = False
    tells_outputs: bool = False
    linear: bool = False
    few_passes: bool = False

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
    def only_reads(self) -> bool:
        """Whether it does nothing but read a few passes: then torch need not be ready for gradients, which saves time
        on small models."""
        return self.few_passes and "gradients" not in self.needs

    @cached_property
    def options(self) -> dict[str, Any]:
        """The method's own options with their defaults."""
        parameters = inspect.signature(self.compute).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


@dataclass(eq=False)
class Question:
    """A padded batch of texts, what the model does with it, and what is asked about it.

    A forward pass takes `batch_tokens` at a time, or one text. Of a text longer than `kept_tokens` not all that a
    backward pass needs is kept; see `whence.models.batching.computed_again`.
    `value` is the target of each text. `outputs` has it in its first column and, where the tokens of a response are
    asked about one by one, each of them in the others.
    """

    model: LayeredModel
    inputs: Inputs
    states: States
    selection: Selection
    layers: tuple[Layer, ...]
    seed: int
    batch_tokens: int
    units: Units = "token"
    kept_tokens: int | None = None  # as many as are taken at a time
    outputs: Float[Tensor, "batch output"] = field(init=False)
    value: Float[Tensor, " batch"] = field(init=False)
    forwards: Int[Tensor, " batch"] = field(init=False)
    backwards: Int[Tensor, " batch"] = field(init=False)
    _finite: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.outputs = self.selection.outputs(self.states.logits, self.inputs.mask)
        self.value = self.outputs[:, 0]
        read = 1 if self.inputs.reference is None else 2  # the pairs were read too
        self.forwards = torch.full((len(self.inputs),), read)
        self.backwards = torch.zeros_like(self.forwards)

    def check_finite(self) -> None:
        """Refuse an output or a target that is no finite number.

        To look is to wait until a GPU has done all that it was told: it is looked at once, before the model is run
        again, or else when the scores are there.
        """
        if self._finite:
            return
        if not math.isfinite((self.states.logits.detach().sum() + self.value.detach().sum()).item()):
            check_output(self.states.logits)  # a sum tells both at once, but may be too large to be a number
            if not self.value.isfinite().all():
                raise NonFiniteError("the target is not a finite number", "look for infinite weights or another target")
        self._finite = True

    def generator(self, row: int) -> torch.Generator:
        """Random numbers that depend on the seed and the text alone, not on the batch or the device."""
        # one number of 32 bits for both: of a larger one torch's generator on the CPU drops what is above
        encoding = self.inputs.encodings[row]
        ids = encoding.ids[: encoding.response.start]  # the same for every response to a prompt, so that two compare
        fingerprint = zlib.crc32(repr((self.seed, ids)).encode())
        return torch.Generator().manual_seed(fingerprint)

    def state_gradients(self) -> list[Float[Tensor, "batch token hidden"]]:
        """The target's gradient at every layer asked about, from one backward pass."""
        gradients = self._backward()
        self._check_all(gradients)
        return self._filled(gradients)

    def _backward(self) -> Sequence[Float[Tensor, "batch token hidden"] | None]:
        _check_ready()
        states = [self.states.at(layer) for layer in self.layers]
        found = self.value.requires_grad and torch.autograd.grad(self.value.sum(), states, allow_unused=True)
        self.backwards += 1
        return found or [None] * len(states)

    def _filled(
        self, gradients: Sequence[Float[Tensor, "batch token hidden"] | None]
    ) -> list[Float[Tensor, "batch token hidden"]]:
        """None is what torch gives where a state plays no part in the target."""
        found = zip(self.layers, gradients, strict=True)
        return [torch.zeros_like(self.states.at(layer)) if each is None else each for layer, each in found]

    def _check_all(self, gradients: Sequence[Float[Tensor, "batch token hidden"] | None]) -> None:
        """Compare those at the lowest and the highest layer, and those that are zero, with what the target does."""
        unchecked = [index for index, layer in enumerate(self.layers) if not is_checked(self.model, layer)]
        if not unchecked:
            return
        nothing = torch.zeros((), dtype=torch.bool, device=self.value.device)
        moved = [nothing if (each := gradients[index]) is None else each.any() for index in unchecked]
        for index, moves in zip(unchecked, torch.stack(moved).tolist(), strict=True):
            layer, gradient = self.layers[index], gradients[index]
            if moves and index not in (0, len(self.layers) - 1):
                continue
            if self._cut:
                self.check_gradient(layer)
            else:
                self._compare(layer, None if gradient is None else gradient[self._shortest])

    def of_state_gradients(self, reduce: Reduce) -> Float[Tensor, "batch output layer token"]:
        """What `reduce` makes of each layer's states and every output's gradients there.

        All outputs share one forward pass; their gradients are taken as many at a time as the token budget allows.
        """
        if self.outputs.shape[1] > 1:
            for layer in (self.layers[0], self.layers[-1]):
                self.check_gradient(layer)
            return self.of_gradients(reduce)
        gradients = self._backward()
        found = zip((self.states.at(layer).detach() for layer in self.layers), self._filled(gradients), strict=True)
        reduced = torch.stack([reduce(h, g[None])[0] for h, g in found], dim=1)[:, None]
        self._check_all(gradients)  # once a GPU has been told all there is to do
        return reduced

    def of_gradients(self, reduce: Reduce) -> Float[Tensor, "batch output layer token"]:
        """The same, unchecked: for gradients that are not those of the model's own output."""
        states = [self.states.at(layer) for layer in self.layers]
        found = [
            torch.stack([reduce(h.detach(), g) for h, g in zip(states, gradients, strict=True)], dim=2)
            for _, gradients in self._gradients_of_outputs(self.outputs, states)
        ]
        self.backwards += self.outputs.shape[1]
        return torch.cat(found).transpose(0, 1)

    def _gradients_of_outputs(
        self, outputs: Float[Tensor, "row output"], states: Sequence[Float[Tensor, "row token hidden"]]
    ) -> Iterator[tuple[slice, list[Float[Tensor, "some row token hidden"]]]]:
        """The gradients of all outputs at some states, several outputs at a time; the graph is freed at the end."""
        count, size = outputs.shape[1], states[0].shape[:2].numel()
        at_once = max(1, min(count, self.batch_tokens // size))
        sums = outputs.sum(dim=0)  # rows do not meet, so each has its own gradient of the sum
        for start in range(0, count, at_once):
            which = slice(start, min(start + at_once, count))
            more = which.stop < count
            if at_once == 1:
                found = torch.autograd.grad(sums[start], states, retain_graph=more, allow_unused=True)
                found = tuple(None if each is None else each[None] for each in found)
            else:
                chosen = torch.eye(count, device=sums.device, dtype=sums.dtype)[which]
                found = torch.autograd.grad(
                    sums, states, chosen, retain_graph=more, allow_unused=True, is_grads_batched=True
                )
            shape = (which.stop - start,)
            yield which, [h.new_zeros(shape + h.shape) if g is None else g for h, g in zip(states, found, strict=True)]

    def values(self, layer: Layer, rows: Int[Tensor, " row"], build: Build) -> Float[Tensor, " row"]:
        """The target of each row (an index into the batch) when h_layer is what `build` gives for a slice of rows."""
        return self.output_values(layer, rows, build)[:, 0]

    def output_values(self, layer: Layer, rows: Int[Tensor, " row"], build: Build) -> Float[Tensor, "row output"]:
        """The same for every output; one pass tells all of them."""
        found = []
        numbers, rows = self._here_and_there(rows)
        with torch.inference_mode():
            for chunk, inputs in self._micro_batches(rows, numbers):
                hidden = build(chunk)[:, : inputs.ids.shape[1]]
                logits = self.model.resume(layer, hidden, inputs)
                found.append(self.selection.rows(rows[chunk]).outputs(logits, inputs.mask))
        self.forwards += self._passes(numbers)
        return torch.cat(found) if found else torch.zeros(0, self.outputs.shape[1], device=rows.device)

    def _here_and_there(self, rows: Int[Tensor, " row"]) -> tuple[list[int], Int[Tensor, " row"]]:
        """Rows as numbers in memory, and where the model is; best given in memory, else a GPU is waited for."""
        return rows.tolist(), rows if rows.device == self.value.device else moved(rows.numpy(), self.value.device)

    def gradients(
        self, layer: Layer, rows: Int[Tensor, " row"], build: Build
    ) -> Iterator[tuple[slice, Float[Tensor, "row token hidden"]]]:
        """The target's gradient at the changed h_layer, a slice of rows at a time."""
        for chunk, outputs, gradients in self.output_gradients(layer, rows, build, only=1):
            if outputs.start == 0:
                yield chunk, gradients[0]

    def output_gradients(
        self, layer: Layer, rows: Int[Tensor, " row"], build: Build, only: int | None = None
    ) -> Iterator[tuple[slice, slice, Float[Tensor, "some row token hidden"]]]:
        """The gradients of all outputs (or of the first ones) at the changed h_layer: a slice of rows, of outputs."""
        self.check_gradient(layer)
        length = self.inputs.ids.shape[1]
        numbers, rows = self._here_and_there(rows)
        count = len(range(self.outputs.shape[1])[:only])
        for chunk, inputs in self._micro_batches(rows, numbers):
            with torch.enable_grad(), computed_again(self.model, inputs, self.kept_tokens or self.batch_tokens):
                hidden = build(chunk)[:, : inputs.ids.shape[1]].detach().requires_grad_()
                logits = self.model.resume(layer, hidden, inputs)
                outputs = self.selection.rows(rows[chunk]).outputs(logits, inputs.mask)[:, :count]
            for which, (gradients,) in self._gradients_of_outputs(outputs, [hidden]):
                missing = length - gradients.shape[2]
                yield chunk, which, torch.nn.functional.pad(gradients, (0, 0, 0, missing)) if missing else gradients
        passes = self._passes(numbers)
        self.forwards += passes
        self.backwards += count * passes

    def backpropagate(self, layer: Layer, rows: Int[Tensor, " row"], build: Build, loss: Loss) -> None:
        """Add up, in the leaves that `build` uses, the gradients of a loss of the whole output when h_layer is changed.

        `loss` gets the logits, the inputs and the slice of some rows, and gives one number per row.
        """
        self.check_gradient(layer)
        numbers = rows.tolist()
        for chunk, inputs in self._micro_batches(rows, numbers):
            with torch.enable_grad(), computed_again(self.model, inputs, self.kept_tokens or self.batch_tokens):
                hidden = build(chunk)[:, : inputs.ids.shape[1]]
                loss(self.model.resume(layer, hidden, inputs), inputs, chunk).sum().backward()  # type: ignore[no-untyped-call]
        self.forwards += self._passes(numbers)
        self.backwards += self._passes(numbers)

    def check_gradient(self, layer: Layer) -> None:
        """Refuse a model whose gradients at a layer are wrong; looked at the first time, and not counted as passes."""
        _check_ready()
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
        alone = self.model.reading.next_token and not self.model.encoder_decoder
        return alone and shortest > TRIED_TOKENS

    def _shortest_value(self, layer: Layer, hidden: Float[Tensor, "row token hidden"]) -> Float[Tensor, " row"]:
        self.check_finite()
        rows = torch.full((len(hidden),), self._shortest[0].start, device=hidden.device)
        inputs = self.inputs.rows(rows)
        if self._cut:
            inputs = inputs.beginning(TRIED_TOKENS)
        return self.selection.rows(rows).of(self.model.resume(layer, hidden, inputs), inputs.mask)

    def _passes(self, numbers: Sequence[int]) -> Int[Tensor, " batch"]:
        """How often each text is among the rows."""
        return torch.from_numpy(np.bincount(numbers, minlength=len(self.inputs)))

    def _micro_batches(self, rows: Int[Tensor, " row"], numbers: Sequence[int]) -> Iterator[tuple[slice, Inputs]]:
        """Consecutive rows, as many at a time as the token budget allows; `numbers` are the same, here."""
        self.check_finite()
        lengths = np.array(self.inputs.lengths)[numbers]
        equal = reads_padding(self.model, self.inputs.encodings)
        for chunk in consecutive(lengths, self.batch_tokens, equal=equal):
            yield chunk, self.inputs.rows(rows[chunk], numbers[chunk])


def _check_ready() -> None:
    """Refuse gradients to a method that said it would only read: see `Method.only_reads`."""
    if torch.is_inference_mode_enabled():
        raise UsageError("the method takes gradients and does not say so", 'give its Method needs="gradients"')
