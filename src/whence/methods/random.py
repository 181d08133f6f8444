"""Random scores: what every other method has to beat."""

from __future__ import annotations

import torch

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores


def random(question: Question) -> Scores:
    """Uniform random numbers; the same text, layer and seed give the same ones."""
    scores = torch.zeros(len(question.inputs), len(question.layers), question.inputs.ids.shape[1])
    chosen = [0 if isinstance(layer, str) else layer + 1 for layer in question.layers]
    for row, encoding in enumerate(question.inputs.encodings):
        everywhere = torch.rand(question.model.n_layers + 2, len(encoding), generator=question.generator(row))
        scores[row, :, : len(encoding)] = everywhere[chosen]
    return Scores(scores)


METHOD = Method(
    random,
    Meaning("random", "nothing: a random number", signed=False, additive=False, low=0.0, high=1.0),
    needs=(),
    cost="1 forward",
    few_passes=True,
)
