"""A model's stack of blocks, read and resumed without touching the model's own code.

The model runs its own forward, so that masks, positions, final norm and head stay its own. For the time of one call the
blocks' `forward` is wrapped: to record a state, to put another state in its place, or to hand a given state on without
running the block at all. Layers are counted by calls, not by modules, because ALBERT calls one block many times; and a
state is what the next block is given, not what the last one returned, because DeBERTa-v2 puts a convolution in between.

All of this acts in the thread that asked for it: another thread that calls the model meanwhile runs it as it is. A
framework that moves the blocks to threads of its own is found out, because then nobody sees them called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from whence.errors import ModelError
from whence.explanation import Layer, height
from whence.models.joining import Shared, shared_arguments
from whence.models.own_thread import forwards_through, in_this_thread
from whence.models.shared_keys import copied_keys

if TYPE_CHECKING:
    from jaxtyping import Float

    from whence.models.inputs import Inputs


@dataclass
class Trace:
    """The states of one forward pass, as they come."""

    embeddings: Float[Tensor, "batch token hidden"] | None = None
    hidden: list[Float[Tensor, "batch token hidden"]] = field(default_factory=list)


class _Anew(AbstractContextManager[None]):
    """A context that is made anew each time it is entered: a block is computed again for every backward pass."""

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._open: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        self._open.append(self._make())
        self._open[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


class Stack:
    """The word embedding and the blocks of one model; `beside` are modules next to the blocks that may read h_0 too.

    A recording shows in which form the blocks return their state (`seen`), and whether they return more than it
    (`carries`): resuming needs the one, and may fail for the other. Where the first block `hands_on` what all others
    read beside their state, as T5's does with position biases, it runs for that even if it is skipped.
    """

    def __init__(
        self,
        embedding: nn.Module,
        blocks: Sequence[nn.Module],
        n_layers: int,
        beside: Sequence[nn.Module] = (),
        *,
        hands_on: bool = False,
    ) -> None:
        self.embedding = embedding
        self.blocks = tuple(dict.fromkeys(blocks))
        self.n_layers = n_layers
        self.beside = tuple(beside)
        self.hands_on = hands_on
        self._called = {block: next(iter(inspect.signature(block.forward).parameters)) for block in self.blocks}
        self.seen = False
        self.carries = False
        self._others_returned: int | None = None  # values a block returns beside its state; None: a bare tensor

    def over(self, inputs: Inputs) -> Stack:
        """The stack as it runs on a batch: this one is the same on all of them."""
        return self

    def name(self, layer: Layer) -> Layer:
        """What a layer is called: here by its number."""
        return layer

    def number(self, name: Any) -> Any:
        """The layer that is called so."""
        return name

    @contextmanager
    def recording(
        self, *, differentiable: bool = False, embeddings: Float[Tensor, "batch token embedding"] | None = None
    ) -> Iterator[Trace]:
        """Record the states of the one forward pass run inside, with other word embeddings if given.

        A differentiable recording starts its graph at the word embeddings.
        """
        trace = Trace()

        def keep_embeddings(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            output = output if embeddings is None else embeddings
            trace.embeddings = output.detach().requires_grad_() if differentiable else output
            return trace.embeddings

        def run(forward: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
            trace.hidden[-1:] = [args[0] if args else kwargs[name]]
            output = forward(*args, **kwargs)
            trace.hidden.append(self._state_of(output))
            return output

        self._check_differentiable()
        with self.embedding.register_forward_hook(in_this_thread(keep_embeddings)), self._wrapped(run):
            yield trace
        if len(trace.hidden) != self.n_layers + 1:
            counted = max(len(trace.hidden) - 1, 0)
            raise ModelError(
                f"expected {self.n_layers} calls of the blocks in a forward pass, counted {counted}",
                "give the blocks yourself: whence.load(model, tokenizer, blocks=[...])",
            )

    @contextmanager
    def resuming(self, layer: Layer, hidden: Float[Tensor, "batch token hidden"]) -> Iterator[None]:
        """Inside, a forward pass takes `hidden` for the state of `layer` and runs only the blocks above."""
        with ExitStack() as stack:
            if isinstance(layer, int):
                stack.enter_context(self.skipping(layer, hidden))
            stack.enter_context(self.changing(layer, lambda own: hidden))
            yield

    @contextmanager
    def skipping(self, layer: int, hidden: Float[Tensor, "batch token hidden"]) -> Iterator[None]:
        """Inside, the blocks up to `layer` hand on `hidden` instead of running."""
        calls = 0
        others: tuple[Any, ...] = ()

        def run(forward: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
            nonlocal calls, others
            calls += 1
            if calls > layer:
                return forward(*args, **kwargs)
            if self._others_returned is None:
                return hidden
            if calls == 1:
                others = (None,) * self._others_returned
                if self.hands_on and layer < self.n_layers:
                    rest = {key: value for key, value in kwargs.items() if key != name}
                    others = tuple(forward(hidden, *args[1:], **rest)[1:])
            return (hidden, *others)

        with self._wrapped(run):
            yield

    def shared_arguments(self, run: Callable[[int], Any]) -> Shared | None:
        """What the blocks are given that all texts share, seen where a model is run on two texts and on three; None
        where that cannot be told, or where a state has no row for each text."""
        found = shared_arguments(self.blocks, run)
        states = {(0,), *((name,) for name in self._called.values())}
        return None if found is None or states & found.places else found

    @contextmanager
    def joined_by(self, layers: Sequence[Layer], shared: Shared) -> Iterator[None]:
        """Inside, in a pass over copies of a batch that go on from these layers, the lowest first, a block runs on the
        copies that have come so far; zeros stand for the others, until a state is put in their place."""
        done = max(0, height(layers[0]))

        def run(forward: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
            nonlocal done
            done += 1
            state: Tensor = args[0] if args else kwargs[name]
            rows = sum(height(layer) < done for layer in layers) * len(state) // len(layers)
            if rows == len(state):
                return forward(*args, **kwargs)
            cut, named = shared.first(rows, len(state), args, kwargs)
            output = forward(*cut, **named)
            own = self._state_of(output)
            whole = torch.cat([own, own.new_zeros(len(state) - rows, *own.shape[1:])])
            return whole if isinstance(output, Tensor) else (whole, *output[1:])

        with self._wrapped(run):
            yield

    @contextmanager
    def changing(self, layer: Layer, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Inside, a forward pass goes on with `change` of its own state of `layer`: one pass that reads and writes."""
        self._check_differentiable()
        calls = 0
        replaced: Tensor | None = None
        changed: Tensor | None = None

        def change_embeddings(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            nonlocal changed
            changed = change(output)
            return changed

        def run(forward: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
            nonlocal calls, replaced, changed
            calls += 1
            if calls - 1 == layer:
                _check_not_computed_again()
                replaced = args[0] if args else kwargs[name]
                changed = change(replaced)
                return forward(changed, *args[1:], **{key: value for key, value in kwargs.items() if key != name})
            output = forward(*args, **kwargs)
            if calls == layer == self.n_layers:
                _check_not_computed_again()
                changed = change(self._state_of(output))
                return changed if isinstance(output, Tensor) else (changed, *output[1:])
            return output

        def see_it_too(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(changed if replaced is not None and each is replaced else each for each in args)

        with ExitStack() as stack:
            if layer == "embeddings":
                handle = self.embedding.register_forward_hook(in_this_thread(change_embeddings))
                stack.callback(handle.remove)
            else:
                for module in self.beside if layer == 0 else ():
                    stack.callback(module.register_forward_pre_hook(in_this_thread(see_it_too)).remove)
                stack.enter_context(self._wrapped(run))
            yield
        if changed is None:
            raise ModelError(
                f"the forward pass never came to layer {layer} in this thread, so no state could be put in",
                "explain the model as it is, not wrapped by DataParallel or torch.compile",
            )

    @contextmanager
    def computing_again(
        self, within: Callable[[], AbstractContextManager[Any]] = nullcontext, n_kept: int = 0
    ) -> Iterator[None]:
        """Inside, a block keeps nothing for the backward pass but what it is given, and runs again there in `within`.

        The highest `n_kept` layers keep all: their graph is gone by the time that the others need the room. It goes
        around all that puts states in: only the block's own forward is computed again. For one forward pass.
        """
        calls = 0

        def run(forward: Callable[..., Any], args: Any, kwargs: Any, name: str) -> Any:
            nonlocal calls
            if not torch.is_grad_enabled():
                return forward(*args, **kwargs)
            calls += 1
            if calls > self.n_layers - n_kept:
                return forward(*args, **kwargs)
            state: Tensor = args[0] if args else kwargs[name]

            def again(*args: Any) -> Any:  # in a thread of the backward pass: nothing around the first run is in force
                with copied_keys(state.device, state.shape[1]):
                    return forward(*args, **kwargs)

            return checkpoint(again, *args, use_reentrant=False, context_fn=lambda: (nullcontext(), _Anew(within)))

        with self._wrapped(run):
            yield

    def _check_differentiable(self) -> None:
        """Refuse gradients where torch itself would, with a reason."""
        if not torch.is_grad_enabled():
            return
        weights = (next(part.parameters(), None) for part in (self.embedding, *self.blocks))
        if any(weight is not None and weight.is_inference() for weight in weights):
            raise ModelError(
                "the model was made inside torch.inference_mode(), so torch refuses gradients through its weights",
                "load it outside of inference_mode, or use a method without gradients, such as leave_one_out",
            )

    def _state_of(self, output: Any) -> Tensor:
        """A block returns its state bare or first in a tuple, depending on the family."""
        self.seen = True
        if isinstance(output, Tensor):
            self._others_returned = None
            return output
        state, *others = output
        self._others_returned = len(others)
        self.carries = self.carries or any(other is not None for other in others)
        return state  # type: ignore[no-any-return]

    def _wrapped(self, run: Callable[..., Any]) -> AbstractContextManager[None]:
        """Inside, in this thread, every block's forward goes through `run`, which is told how the state is called."""
        return forwards_through(self.blocks, lambda block, *call: run(*call, self._called[block]))


class Resumable(Protocol):
    """What can be resumed at a layer, and changed there on the way."""

    def resuming(self, layer: Layer, hidden: Float[Tensor, "batch token hidden"]) -> AbstractContextManager[None]: ...

    def changing(self, layer: Layer, change: Callable[[Tensor], Tensor]) -> AbstractContextManager[None]: ...


@contextmanager
def resuming_each(
    stack: Resumable,
    layers: Sequence[Layer],
    hidden: Sequence[Float[Tensor, "batch token hidden"]],
    shared: Shared | None = None,
) -> Iterator[None]:
    """Inside, a forward pass over as many copies of a batch as there are layers takes each on from its own state.

    Layers go from the lowest up. Where it is known what the blocks' arguments `shared` by all texts are, a copy joins
    at its own layer; else the blocks above the lowest run on all copies, and a state put in higher up takes the place
    of what they made of its copy.
    """
    lowest = layers[0]
    first = [state if layer == lowest else hidden[0] for layer, state in zip(layers, hidden, strict=True)]
    with ExitStack() as contexts:
        if shared is not None and isinstance(stack, Stack):
            contexts.enter_context(stack.joined_by(layers, shared))
        contexts.enter_context(stack.resuming(lowest, torch.cat(first)))
        for copy, (layer, state) in enumerate(zip(layers, hidden, strict=True)):
            if layer != lowest:
                contexts.enter_context(stack.changing(layer, _with_copy(copy, state)))
        yield


def _check_not_computed_again() -> None:
    """Refuse gradient checkpointing: in the backward pass it would run a block again, without the state put in."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(False)
    if torch.is_grad_enabled() and hooks is not None and hooks[0].__module__ == "torch.utils.checkpoint":
        raise ModelError(
            "a block runs under gradient checkpointing, which would compute it again from another state",
            "switch checkpointing off in evaluation mode, or use a method without gradients, such as leave_one_out",
        )


def _with_copy(copy: int, state: Float[Tensor, "batch token hidden"]) -> Callable[[Tensor], Tensor]:
    """Puts `state` where one of the copies is that lie one after another in a batch."""
    rows = slice(copy * len(state), (copy + 1) * len(state))
    return lambda own: torch.cat([own[: rows.start], state.to(own), own[rows.stop :]])
