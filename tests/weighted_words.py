"""A model whose decision is a known sum of its words, so that every metric has a right answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tiny_models
import torch
from torch import Tensor, nn

import whence
from whence.explanation import Explanation, Token
from whence.methods.question import Method, Question, Scores

WEIGHTS = {"good": 1.0, "witty": 0.6, "fine": 0.4, "bad": -0.3}
STEEP, NEEDED = 6.0, 0.6

TEXTS = [
    "a good film", "the good and witty story of the year", "it was a fine and good movie at the end", "good",
    "they say the film is good and bad", "a witty and very good plot with one bad end", "this is so good",
    "he can say it is a good and fine and witty story", "what a good time she made of it , too", "good good film",
    "in fact it was not so bad but very good and fine", "you could hope for a good and witty movie this year",
]  # fmt: skip


class WeightedWords(nn.Module):
    """Says "yes" iff the weights of the words that are seen add up to more than `NEEDED`."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary), 2)
        self.same = nn.Identity()
        with torch.no_grad():
            self.embedding.weight.zero_()
            self.embedding.weight[:, 1] = torch.arange(len(vocabulary)) / len(vocabulary)
            for word, weight in WEIGHTS.items():
                self.embedding.weight[vocabulary[word], 0] = weight

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        h = self.same(self.embedding(ids)) * mask[..., None]
        logit = STEEP * (h[..., 0].sum(dim=1) - NEEDED)
        return torch.stack([torch.zeros_like(logit), logit], dim=1)


def weighted_words() -> whence.LayeredModel:
    tokenizer = tiny_models.word_tokenizer()
    module = WeightedWords(tokenizer.vocabulary)
    return whence.load(module, tokenizer, blocks=[module.same], labels=["no", "yes"])


def probability(weights: Sequence[float]) -> float:
    """Of "yes", when words of these weights are seen."""
    return 1 / (1 + math.exp(-STEEP * (math.fsum(weights) - NEEDED)))


def truth(text: str) -> list[float]:
    return [WEIGHTS.get(word, 0.0) for word in text.split()]


def explained(texts: Sequence[str], sign: float = 1.0) -> list[Explanation]:
    """The true weights (or their reverse) as explanations from elsewhere."""
    return [Explanation.from_scores(text, text.split(), [sign * each for each in truth(text)]) for text in texts]


def rows_of(model: whence.LayeredModel, text: str, seed: int) -> np.ndarray:
    """Random scores of the tokens of a text."""
    return np.random.default_rng(seed).normal(size=len(model.encode(text))).astype(np.float32)


def of_tokens(read: object, name: str) -> Method:
    """A method that looks at the tokens alone, never at the model."""

    def compute(question: Question) -> Scores:
        values = torch.zeros(len(question.inputs), len(question.layers), question.inputs.ids.shape[1])
        for row, encoding in enumerate(question.inputs.encodings):
            for place, token in enumerate(encoding.tokens):
                values[row, :, place] = read(place, token)  # type: ignore[operator]
        return Scores(values)

    compute.__name__ = name
    return Method(compute, whence.Meaning(name, "nothing of the model", False, False), needs="nothing", cost="none")


def length(place: int, token: Token) -> float:
    return float(len(token.text)) + place / 1_000


def position(place: int, token: Token) -> float:
    return float(place)
