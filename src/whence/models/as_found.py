"""A module held as whence runs it, and left as it was found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from weakref import WeakValueDictionary

import torch
from torch import nn

from whence.models.unchanged import Seen, as_seen

_training = attrgetter("training")
_device = attrgetter("device")
_trained = attrgetter("requires_grad")


class AsFound:
    """Evaluation mode and frozen weights inside; afterwards every flag as it was, also after an exception.

    Parts compiled by `Module.compile` run as they are written, since a compiled model shows its blocks to nobody, and
    autocast is off: the model computes in its own dtype. One thread at a time; entering again from inside changes
    nothing. Flags belong to the module, so another thread that runs the model meanwhile sees evaluation mode, frozen
    weights and nothing compiled: its answers are right, but it cannot train. `as_found` makes one.

    What the module was made of when it was entered is `seen`: inside, nobody looks again.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._lock = threading.RLock()
        self.seen: Seen | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self.seen is not None:
                yield
                return
            self.seen = seen = as_seen(self._module)
            parts, weights = [self._module, *seen.inner], seen.weights
            training, trained = list(map(_training, parts)), list(map(_trained, weights))
            compiled = [(part, part._compiled_call_impl) for part in parts if part._compiled_call_impl is not None]
            try:
                if any(training):
                    self._module.eval()
                for weight, flag in zip(weights, trained, strict=True):
                    if flag:
                        weight.requires_grad_(False)
                for part, _ in compiled:
                    part._compiled_call_impl = part._call_impl
                with ExitStack() as stack:
                    for kind in {"cpu", *(device.type for device in set(map(_device, weights)))} - {"meta"}:
                        stack.enter_context(torch.autocast(kind, enabled=False))
                    if seen.recurrent:  # cuDNN refuses the backward pass of a recurrent net in evaluation mode
                        stack.enter_context(torch.backends.cudnn.flags(enabled=False))
                    yield
            finally:
                self.seen = None
                for part, call in compiled:
                    part._compiled_call_impl = call
                if list(map(_training, parts)) != training:
                    for part, mode in zip(parts, training, strict=True):
                        part.training = mode
                if list(map(_trained, weights)) != trained:
                    for weight, flag in zip(weights, trained, strict=True):
                        if weight.requires_grad != flag:
                            weight.requires_grad_(flag)


_HELD: WeakValueDictionary[int, AsFound] = WeakValueDictionary()
_HELD_LOCK = threading.Lock()


def as_found(module: nn.Module) -> AsFound:
    """The one keeper of a module, shared by all that wrap it, so that two threads never hold it at the same time."""
    with _HELD_LOCK:
        keeper = _HELD.get(id(module))
        if keeper is None:
            _HELD[id(module)] = keeper = AsFound(module)
        return keeper
