"""Gradient x input: a state's share of the target, to first order."""

from __future__ import annotations

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores, of_outputs
from whence.methods.rounding import BeyondRounding


def gradient_x_input(question: Question) -> Scores:
    """The inner product of each state and the target's gradient there (Shrikumar et al., 2016)."""
    rounding = BeyondRounding(question)
    values = question.of_state_gradients(
        lambda state, gradient: rounding.sums(state.float() * gradient.float(), state.dtype)
    )
    return Scores(of_outputs(values), warnings=rounding.warnings)


METHOD = Method(
    gradient_x_input,
    Meaning(
        "gradient x input",
        "by how much the target would fall, to first order, if the state shrank to zero",
        signed=True,
        additive=True,
    ),
    needs=("gradients",),
    cost="1 forward, 1 backward, all layers together",
    few_passes=True,
    layers="all",
    tells_outputs=True,
    linear=True,
)
