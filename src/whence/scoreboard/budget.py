"""What a board spends: every method at its own defaults, or the dear ones with less, under names that say so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whence.engine.asking import ask, may_go
from whence.errors import UnknownNameError
from whence.methods.question import Method
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool

Budget = Literal["full", "small"]
BUDGETS: tuple[Budget, ...] = ("full", "small")
"""How much the contestants may spend: their own defaults, or what `SMALL` says."""

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "integrated_gradients": ("10 steps", {"steps": 10}),
    "gradient_shap": ("10 samples", {"samples": 10}),
    "shapley": ("4 orders", {"samples": 4}),
    "lime": ("64 samples", {"samples": 64}),
    "kernel_shap": ("64 samples", {"samples": 64}),
    "information_bottleneck": ("10 steps", {"steps": 10, "rate": 0.2}),
    "noise_tolerance": ("10 steps", {"steps": 10, "rate": 0.2}),
}
"""By method: what the small budget leaves it, in words and as options; a board calls it by both, as in
"shapley (4 orders)"."""

FEW = 30  # texts: with fewer a board is there before its cost could be told
LONG = 300  # seconds on a CPU: longer is said beforehand
_TIMED = (64, 2_048)  # passes, at least and at most: as many as fill a batch


def spending(
    name: str, method: str | Method, options: Mapping[str, Any], budget: Budget
) -> tuple[str, Mapping[str, Any]]:
    """The name and the options under which a method takes part; what the caller says of its cost goes first.

    >>> spending("shapley", "shapley", {"baseline": "zero"}, "small")
    ('shapley (4 orders)', {'samples': 4, 'baseline': 'zero'})
    >>> spending("shapley", "shapley", {"samples": 100}, "small")
    ('shapley', {'samples': 100})
    """
    if budget not in BUDGETS:
        raise UnknownNameError("budget", budget, BUDGETS)
    if budget == "full" or not isinstance(method, str) or method not in SMALL:
        return name, options
    words, less = SMALL[method]
    return (name, options) if set(less) & set(options) else (f"{name} ({words})", {**less, **options})


@dataclass(frozen=True)
class Estimate:
    """Passes that a board will take (a backward one counts as two), and the seconds on this machine."""

    passes: float
    seconds: float
    device: str

    @property
    def long(self) -> bool:
        return self.device == "cpu" and self.seconds > LONG

    def sentence(self, budget: Budget) -> str:
        """What to say before work starts; where it is long, with what to do about it."""
        said = f"this board will take about {_number(self.passes)} passes, {_duration(self.seconds)} on this machine"
        if not self.long:
            return said
        less = " budget='small' (--budget small) makes dear methods cheaper;" if budget == "full" else ""
        return f"{said};{less} fewer texts, methods or metrics do so too"


def seconds_of_a_pass(model: LayeredModel, encoding: Encoding, hiding: Hiding, batch_tokens: int) -> float:
    """Measured on random halves of a text, asked about as in the games; the first time warms the machine up."""
    n_passes = int(np.clip(batch_tokens // len(encoding), *_TIMED))
    sets: Bool[np.ndarray, "set word"] = np.random.default_rng(0).random((n_passes, int(may_go(encoding).sum()))) < 0.5
    for _ in range(2):
        started = time.perf_counter()
        list(ask(model, [encoding], lambda _: sets, hiding=hiding, batch_tokens=batch_tokens))
    return (time.perf_counter() - started) / len(np.unique(sets, axis=0))


def extrapolated(lengths: Sequence[int], passes: Sequence[float], typical: float) -> float:
    """Passes of a text of typical length, from those of two texts; never less than of the shorter one.

    >>> extrapolated([5, 10], [126, 251], 25)
    626.0
    >>> extrapolated([5, 5], [3, 3], 25)
    3.0
    """
    slope = (passes[1] - passes[0]) / (lengths[1] - lengths[0]) if lengths[1] > lengths[0] else 0.0
    return float(max(passes[0], passes[0] + slope * (typical - lengths[0])))


def _number(passes: float) -> str:
    return f"{passes / 1e6:.1f} million" if passes >= 1e6 else f"{round(passes, 2 - len(str(int(passes)))):,.0f}"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(1, round(seconds))} seconds"
