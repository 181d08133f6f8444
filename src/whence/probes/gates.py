"""Gates between 0 and 1 that can be exactly 0: the Hard Concrete distribution (Louizos et al., 2018).

A Binary Concrete variable s = sigmoid((log u - log(1 - u) + γ) / τ) is stretched from (0, 1) to (low, high) and cut off
at 0 and 1. With low = -0.2 and high = 1, as DiffMask's released code has it, only the 0 carries mass.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

if TYPE_CHECKING:
    from jaxtyping import Float

_NODES = 64  # of the quadrature for the mean: 1e-6 at every logit


class HardConcrete(Distribution):
    """A gate for each logit γ; the larger γ, the likelier it is open.

    >>> gates = HardConcrete(torch.tensor([0.0, 5.0]))
    >>> gates.nonzero
    tensor([0.5798, 0.9951])
    """

    arg_constraints = {"logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, logits: Float[Tensor, "*gate"], temperature: float = 0.2, low: float = -0.2, high: float = 1.0
    ) -> None:
        if not (temperature > 0 and low < 0 and high >= 1):
            raise ValueError("a Hard Concrete gate needs temperature > 0 and a stretch with low < 0 and high >= 1")
        self.logits = logits
        self.temperature, self.low, self.high = temperature, low, high
        super().__init__(logits.shape, validate_args=False)

    @property
    def log_nonzero(self) -> Float[Tensor, "*gate"]:
        """log P(z != 0), in closed form."""
        return torch.nn.functional.logsigmoid(self.logits - self.temperature * math.log(-self.low / self.high))

    @property
    def nonzero(self) -> Float[Tensor, "*gate"]:
        """P(z != 0): the keep probability."""
        return self.log_nonzero.exp()

    @property
    def mean(self) -> Float[Tensor, "*gate"]:
        """E[z] = ∫ P(z > t) dt from 0 to 1, by quadrature after a substitution that makes the end at 1 smooth."""
        first, last = -self.low / (self.high - self.low), (1 - self.low) / (self.high - self.low)
        power = math.ceil(1 / self.temperature)
        nodes, weights = torch.tensor(_gauss_legendre(_NODES), dtype=torch.float64).unbind(-1)
        points = last - (last - first) * nodes**power
        weights = weights * (last - first) * power * nodes ** (power - 1) * (self.high - self.low)
        logits = self.logits.double()[..., None]
        above = torch.sigmoid(logits - self.temperature * torch.logit(points).to(logits.device))
        return (above @ weights.to(logits.device)).to(self.logits)

    def rsample(
        self,
        sample_shape: torch.Size | list[int] | tuple[int, ...] = (),
        noise: Float[Tensor, "*sample_gate"] | None = None,
    ) -> Float[Tensor, "*sample_gate"]:
        """Gates drawn with a gradient to the logits; `noise` is uniform on (0, 1), drawn here unless it is given."""
        if noise is None:
            noise = torch.rand(self._extended_shape(torch.Size(sample_shape)), device=self.logits.device)
        smallest = torch.finfo(noise.dtype).tiny
        noise = noise.clamp(smallest, 1 - torch.finfo(noise.dtype).eps)
        concrete = torch.sigmoid((noise.log() - torch.log1p(-noise) + self.logits) / self.temperature)
        return (self.low + (self.high - self.low) * concrete).clamp(0, 1)

    def deterministic(self) -> Float[Tensor, "*gate"]:
        """No chance: open (1) where the keep probability is above one half, else closed (0)."""
        return (self.log_nonzero > math.log(0.5)).to(self.logits)


def _gauss_legendre(n: int) -> list[tuple[float, float]]:
    """Nodes and weights on (0, 1)."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(n)
    return [((1 + x) / 2, w / 2) for x, w in zip(nodes.tolist(), weights.tolist(), strict=True)]
