"""Gradient norm: how sensitive the target is to a token's state."""

from __future__ import annotations

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores, of_outputs


def gradient(question: Question) -> Scores:
    """The L2 norm of the target's gradient at each state (Simonyan et al., 2014)."""
    return Scores(of_outputs(question.of_state_gradients(lambda state, gradient: gradient.float().norm(dim=-1))))


METHOD = Method(
    gradient,
    Meaning("gradient norm", "how fast the target changes when the state moves", signed=False, additive=False, low=0.0),
    needs=("gradients",),
    cost="1 forward, 1 backward, all layers together",
    few_passes=True,
    layers="all",
    tells_outputs=True,
)
