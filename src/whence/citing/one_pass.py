"""Scores of sources that ask about no sets: from one pass of the model, from words alone, or from nothing.

They cost next to nothing, and they say which source is first, but not how much it does: there are no intervals, and no
source is ever said to be none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from whence.citing.answering import Answer
from whence.citing.documents import words_of
from whence.citing.scoring import SourceScores
from whence.methods.explain import explain
from whence.models.attention_maps import read_attention_where_read
from whence.models.responses import responding
from whence.targets import Span

if TYPE_CHECKING:
    from jaxtyping import Float

OnePass = Callable[[Answer, int], SourceScores]
"""From an answer and a seed to scores."""


def gradient_x_input(answer: Answer, seed: int) -> SourceScores:
    """Gradient of a sentence's log p times word embedding, summed over the tokens of a source."""
    return _of_tokens(answer, "gradient_x_input", seed)


def gradient(answer: Answer, seed: int) -> SourceScores:
    """The size of the gradient of a sentence's log p at the word embeddings, summed over the tokens of a source."""
    return _of_tokens(answer, "gradient", seed)


def attention(answer: Answer, seed: int) -> SourceScores:
    """The attention that a source's tokens get where a sentence is written: the mean over blocks, heads and places."""
    model = responding(answer.model)
    before = answer.encoding.response.start - 1  # a token is written at the one before it
    places = [torch.from_numpy(before + tokens) for tokens in answer.tokens]
    received = torch.zeros(len(places), len(answer.encoding))

    def look(layer: int, weights: Float[Tensor, "1 attention_head query key"]) -> None:
        n_queries, n_keys = weights.shape[-2:]
        mean = weights[0].float().mean(dim=0).cpu()
        for row, own in zip(received, places, strict=True):
            row[:n_keys] += mean[own - (n_keys - n_queries)].mean(dim=0) / model.n_layers

    read_attention_where_read(model, model.collate([answer.encoding]), look)
    rows = received.numpy()
    return SourceScores(np.array([[row[tokens].sum() for tokens in answer.source_tokens()] for row in rows]))


def similarity(answer: Answer, seed: int) -> SourceScores:
    """How alike the words of a sentence and of a source are: the cosine of their counts, rare words counting more."""
    sources = [Counter(words_of(source.text)) for source in answer.prompt.sources]
    rarity = {
        word: 1 + log(len(sources) / sum(word in source for source in sources))
        for word in {word for source in sources for word in source}
    }
    sentences = [Counter(words_of(answer.text[start:end])) for start, end in answer.sentences]
    return SourceScores(np.array([[_cosine(one, other, rarity) for other in sources] for one in sentences]))


def random(answer: Answer, seed: int) -> SourceScores:
    """Nothing but chance."""
    return SourceScores(np.random.default_rng(seed).random((len(answer.sentences), len(answer.prompt.sources))))


def _of_tokens(answer: Answer, method: str, seed: int) -> SourceScores:
    """A method's scores of tokens, summed over each source, for each sentence's log p."""
    first, ids, own = answer.encoding.response.start, answer.encoding.ids, answer.source_tokens()
    rows = []
    for start, end in answer.sentences:
        found = explain(
            answer.model, ids[:first], method, response=ids[first:], target=Span(start, end),
            scale="log_probability", layers="embeddings", seed=seed,
        )  # fmt: skip
        rows.append([found.scores[0, tokens].sum(dtype=np.float64) for tokens in own])
    return SourceScores(np.array(rows))


def _cosine(one: Counter[str], other: Counter[str], rarity: dict[str, float]) -> float:
    def size(counts: Counter[str]) -> float:
        return sqrt(sum((count * rarity.get(word, 1.0)) ** 2 for word, count in counts.items()))

    together = sum(count * other[word] * rarity[word] ** 2 for word, count in one.items() if word in other)
    return together / (size(one) * size(other)) if together else 0.0


ONE_PASS: dict[str, OnePass] = {
    "gradient_x_input": gradient_x_input,
    "gradient": gradient,
    "attention": attention,
    "similarity": similarity,
    "random": random,
}
