"""Random scores: what every other method has to beat."""

from __future__ import annotations

import torch

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores


def random(question: Question) -> Scores:
    """Uniform random numbers; the same text and seed give the same ones."""
    scores = torch.zeros(len(question.inputs), len(question.layers), question.inputs.ids.shape[1])
    for row, encoding in enumerate(question.inputs.encodings):
        shape = (len(question.layers), len(encoding))
        scores[row, :, : len(encoding)] = torch.rand(shape, generator=question.generator(row))
    return Scores(scores)


METHOD = Method(
    random,
    Meaning("random", "nothing: a random number", signed=False, additive=False, low=0.0, high=1.0),
    needs=(),
    cost="1 forward",
)
