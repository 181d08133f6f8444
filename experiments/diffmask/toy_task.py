"""The digit-counting task: its data, the two-neuron model that learns it, and what an explanation should say.

A text is two query digits n and m and up to ten digits; the answer is whether n occurs more often than m. Only digits
equal to n or m matter, and the model's encoder, whose states have two numbers, can say of each which it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import whence
from whence.models.inputs import Encoding

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

N_TEXTS, N_HELD_OUT, LONGEST = 10_000, 1_000, 10
ANSWERS = ("not more", "more")
PADDING = 1_000  # a token's id is n, m and the digit itself, read as one number


@dataclass(frozen=True)
class Example:
    """Does the first query digit occur more often than the second?"""

    query: tuple[int, int]
    digits: tuple[int, ...]

    @property
    def text(self) -> str:
        return "{} {}: ".format(*self.query) + " ".join(map(str, self.digits))

    @property
    def label(self) -> int:
        n, m = self.query
        return int(self.digits.count(n) > self.digits.count(m))

    @property
    def relevant(self) -> Bool[np.ndarray, " digit"]:
        """The digits that the answer depends on: those asked about."""
        return np.isin(self.digits, self.query)


def make_examples(seed: int, n_texts: int = N_TEXTS) -> list[Example]:
    """Lengths uniform from 1 to 10; each digit is one of the query's with probability 1/4 each, else any other."""
    chance = np.random.default_rng(seed)
    examples = []
    for _ in range(n_texts):
        n, m = chance.choice(10, size=2, replace=False)
        shares = np.full(10, 0.5 / 8)
        shares[[n, m]] = 0.25
        digits = chance.choice(10, size=chance.integers(1, LONGEST + 1), p=shares)
        examples.append(Example((int(n), int(m)), tuple(digits.tolist())))
    return examples


def split(examples: Sequence[Example], seed: int, n_held_out: int = N_HELD_OUT) -> tuple[list[Example], list[Example]]:
    """Texts to train on, and texts held out."""
    order = np.random.default_rng((seed, 1)).permutation(len(examples))
    return [examples[i] for i in order[n_held_out:]], [examples[i] for i in order[:n_held_out]]


class DigitTokenizer:
    """Reads "8 1: 8 8 3": the digits after the colon are the tokens; each one's id says what is asked, too."""

    padding: int | None = PADDING
    masking: int | None = None

    def id_of(self, token: str) -> int | None:
        return int(token) if re.fullmatch("[0-9]{3}", token) else None

    def encode(self, text: str, pair: str | None) -> Encoding:
        found = re.fullmatch(r"([0-9]) ([0-9]):((?: [0-9])+)", text)
        if found is None or pair is not None:
            raise whence.InputError(f"{text!r} asks nothing about digits", "write it like '8 1: 8 8 3'")
        tokens = []
        for word, start in enumerate(range(5, len(text), 2)):
            number = int(found[1] + found[2] + text[start])
            tokens.append(whence.Token(text[start], number, start, start + 1, word=word))
        return Encoding(text, None, tuple(tokens), {})


class DigitEmbedding(nn.Module):
    """The embedding of the digit itself; what is asked has a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 64)

    def forward(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token 64"]:
        words: Tensor = self.table(ids % 10)
        return words


class Encoder(nn.Module):
    """Two numbers for every digit, from the query and the digit alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3 * 64, 64), nn.Tanh(), nn.Linear(64, 2))

    def forward(
        self, words: Float[Tensor, "batch token 64"], query: Float[Tensor, "batch token 128"]
    ) -> Float[Tensor, "batch token 2"]:
        states: Tensor = self.layers(torch.cat([query, words], dim=-1))
        return states


class DigitCounter(nn.Module):
    """Embeddings, the two-neuron encoder, and a GRU that counts.

    The logits are 0 and x, so that softmax gives the sigmoid of x: the same distribution as that of one logit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = nn.Embedding(10, 64)
        self.embedding = DigitEmbedding()
        self.encoder = Encoder()
        self.counter = nn.GRU(2, 64, batch_first=True)
        self.answer = nn.Linear(64, 1)

    def forward(self, ids: Int[Tensor, "batch token"], mask: Bool[Tensor, "batch token"]) -> Float[Tensor, "batch 2"]:
        query = torch.cat([self.asked(ids // 100 % 10), self.asked(ids // 10 % 10)], dim=-1)
        counts, _ = self.counter(self.encoder(self.embedding(ids), query))
        last = counts[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) - 1]
        return nn.functional.pad(self.answer(last), (1, 0))


def layered(module: DigitCounter) -> whence.LayeredModel:
    """The counter with layers 0 (embeddings of digits) and 1 (the two neurons)."""
    parts: dict[str, Any] = {"blocks": [module.encoder], "embedding": module.embedding, "labels": ANSWERS}
    return whence.load(module, DigitTokenizer(), **parts)


def train(
    examples: Sequence[Example], held_out: Sequence[Example], seed: int, *, epochs: int = 50, enough: float = 0.998
) -> tuple[whence.LayeredModel, float, int]:
    """A model trained by plain cross-entropy until it is nearly always right on the held-out texts.

    Returns it with its held-out accuracy and the number of epochs. (The released code also rewards the entropy of a
    softmax over the *batch*, which means nothing.)
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = DigitCounter()
    model = layered(module)
    texts = model.collate([model.encode(example.text) for example in examples])
    labels = torch.tensor([float(example.label) for example in examples])
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    chance = torch.Generator().manual_seed(seed)
    reached, epoch = 0.0, 0
    while reached < enough and epoch < epochs:
        for rows in torch.randperm(len(examples), generator=chance).split(128):
            inputs = texts.rows(rows)
            loss = binary_cross_entropy_with_logits(module(inputs.ids, inputs.mask)[:, 1], labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        reached, epoch = accuracy(model, held_out), epoch + 1
    return model, reached, epoch


@torch.no_grad()
def accuracy(model: whence.LayeredModel, examples: Sequence[Example]) -> float:
    inputs = model.collate([model.encode(example.text) for example in examples])
    labels = torch.tensor([example.label for example in examples])
    return float((model.run(inputs).argmax(dim=1) == labels).float().mean())
