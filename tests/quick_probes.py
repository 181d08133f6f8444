"""Probes after a few steps, for tests of all that is done with probes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import TEXTS
from torch import Tensor

import whence
from whence import DiffMask
from whence.probes.diffmask import Kind

KINDS: tuple[Kind, ...] = ("input", "hidden")
every_kind = pytest.mark.parametrize("kind", KINDS)
QUICK: dict[str, Any] = {"steps": 3, "batch_size": 2, "start": 0.0, "warm_up": 0, "learning_rate": 0.05}


def quick(kind: Kind, model: whence.LayeredModel, texts: Any = (), **changes: Any) -> DiffMask:
    """Probes after a few steps: good for nothing but tests."""
    known = ("seed", "held_out", "folder", "progress", "watch", "responses")
    fitting = {name: changes.pop(name) for name in known if name in changes}
    probes = DiffMask(kind, **{**QUICK, **changes})
    return probes.fit(model, texts or TEXTS * 2, validations=1, **fitting)


def weights(probes: DiffMask) -> dict[str, Tensor]:
    assert probes.fitted_ is not None
    return dict(probes.fitted_.probes.state_dict())


def same(one: DiffMask, other: DiffMask) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


QUICK_SHARES: dict[str, Any] = {
    "steps": 3, "width": 16, "warm_up": 1, "step_tokens": 40, "pairs": 2, "checked_texts": 4, "checked_orders": 3,
}  # fmt: skip


def quick_shares(model: whence.LayeredModel, texts: Any = (), **changes: Any) -> whence.ShapleyProbes:
    """Shapley probes after a few steps: good for nothing but tests."""
    known = ("seed", "held_out", "folder", "watch", "responses", "max_new_tokens")
    fitting = {name: changes.pop(name) for name in known if name in changes}
    probes = whence.ShapleyProbes(**{**QUICK_SHARES, **changes})
    return probes.fit(model, texts or TEXTS * 4, validations=1, progress=False, **fitting)


def same_shares(one: whence.ShapleyProbes, other: whence.ShapleyProbes) -> bool:
    a, b = (each.shares.contents() for each in (one, other))
    return a.config == b.config and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
