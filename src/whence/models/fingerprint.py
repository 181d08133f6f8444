"""A model's fingerprint: a few of its numbers, enough to tell it from any other, whatever dtype it is loaded in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import torch
from torch import Tensor, nn

from whence.models.adapters import adapter_scales, parameters_in_use
from whence.store import content_key

SAMPLES = 16  # numbers a tensor
HALVES = (torch.bfloat16, torch.float16)
_CHANGED: WeakSet[nn.Module] = WeakSet()


def fingerprint(module: nn.Module) -> dict[str, Tensor]:
    """Some evenly spread numbers of every parameter in use, by name, in float32 on the CPU."""
    found = {name: torch.tensor([scale]) for name, scale in adapter_scales(module).items()}
    for name, weight in parameters_in_use(module):
        flat = weight.detach().flatten()
        indices = torch.linspace(0, flat.numel() - 1, min(SAMPLES, flat.numel()), dtype=torch.float64)
        found[name] = flat[indices.long().to(flat.device)].float().cpu()
    return found


def weights_key(module: nn.Module) -> str:
    """A digest of every parameter and buffer in use, by name: where the module was loaded from plays no part in it."""
    return content_key(dict([*parameters_in_use(module), *module.named_buffers(), *adapter_scales(module).items()]))


def first_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> str | None:
    """The name of the first parameter in which two fingerprints differ by more than a change of dtype explains."""
    for name in sorted(one.keys() | other.keys()):
        if name not in one or name not in other or one[name].shape != other[name].shape:
            return name
        if not _same(one[name], other[name]):
            return name
    return None


@contextmanager
def changed_on_purpose(module: nn.Module) -> Iterator[None]:
    """Inside, what was trained for this module explains it although its weights are others: for controls alone."""
    _CHANGED.add(module)
    try:
        yield
    finally:
        _CHANGED.discard(module)


def is_changed_on_purpose(module: nn.Module) -> bool:
    return module in _CHANGED


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two samples are of the same numbers, either of them perhaps rounded to half precision."""
    if torch.equal(one, other) or any(torch.equal(one.to(half), other.to(half)) for half in HALVES):
        return True
    both_rounded = all(any(torch.equal(each, each.to(half).float()) for half in HALVES) for each in (one, other))
    return both_rounded and torch.allclose(one, other, rtol=2**-7, atol=1e-7)  # one to each: bfloat16 has 8 bits
