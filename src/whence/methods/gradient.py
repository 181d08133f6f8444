"""Gradient norm: how sensitive the target is to a token's state."""

from __future__ import annotations

import torch

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores


def gradient(question: Question) -> Scores:
    """The L2 norm of the target's gradient at each state (Simonyan et al., 2014)."""
    norms = [gradient.float().norm(dim=-1) for gradient in question.state_gradients()]
    return Scores(torch.stack(norms, dim=1))


METHOD = Method(
    gradient,
    Meaning("gradient norm", "how fast the target changes when the state moves", signed=False, additive=False, low=0.0),
    needs=("gradients",),
    cost="1 forward, 1 backward, all layers together",
    layers="all",
)
