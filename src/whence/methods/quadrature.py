"""Rules that turn an integral over [0, 1] into a weighted sum: at which points, with which weights.

Points and weights are in double precision; the weights of each rule add up to one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from whence.errors import UnknownNameError

if TYPE_CHECKING:
    from jaxtyping import Float

Rule = Literal["fejer", "gauss_legendre", "left", "right", "middle", "trapezoid"]
RULES: tuple[Rule, ...] = get_args(Rule)


@cache  # batch after batch asks for the same
def points_and_weights(rule: Rule, steps: int) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """The rule of that name with `steps` points."""
    even = np.full(steps, 1 / steps)
    if rule == "fejer":
        return _fejer(steps)
    if rule == "gauss_legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return (nodes + 1) / 2, weights / 2
    if rule == "left":
        return np.arange(steps) / steps, even
    if rule == "right":
        return np.arange(1, steps + 1) / steps, even
    if rule == "middle":
        return (np.arange(steps) + 0.5) / steps, even
    if rule == "trapezoid":
        ends = np.array([0.5, *np.ones(steps - 2), 0.5])
        return np.linspace(0, 1, steps), ends / (steps - 1)
    raise UnknownNameError("rule", rule, RULES)


def _fejer(steps: int) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Fejér's second rule: at (1 - cos θ) / 2 for equally spaced angles, the ends left out.

    Every other one of its points, if they are odd in number, is a point of the rule with half as many: so one set of
    gradients gives two answers, and twice as many points use all gradients that are there. Nearly as good as Gauss and
    Legendre's rule in practice (Trefethen, 2008), none of whose points is ever used again.
    """
    angles = np.arange(1, steps + 1) * np.pi / (steps + 1)
    odd = np.arange(1, steps + 2, 2)
    weights = 2 * np.sin(angles) * (np.sin(odd * angles[:, None]) / odd).sum(axis=1) / (steps + 1)
    return (1 - np.cos(angles)) / 2, weights
