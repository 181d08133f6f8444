"""Grad-CAM as decoded layer saliency defines it: what of gradient x input speaks for the target."""

from __future__ import annotations

from dataclasses import replace

from whence.explanation import Meaning
from whence.methods.gradient_x_input import gradient_x_input
from whence.methods.question import Method, Question, Scores


def grad_cam(question: Question) -> Scores:
    """ReLU of gradient x activation summed over features, position by position.

    The gradient is not averaged over positions first, unlike the image method of the same name.
    """
    signed = gradient_x_input(question)
    return replace(signed, values=signed.values.relu())


METHOD = Method(
    grad_cam,
    Meaning(
        "Grad-CAM",
        "by how much the target would fall, to first order, if the state shrank to zero; zero where it would rise",
        signed=False,
        additive=True,
        low=0.0,
    ),
    needs=("gradients",),
    cost="1 forward, 1 backward, all layers together",
    few_passes=True,
    layers="all",
    tells_outputs=True,
)
