"""Random scores: what every other method has to beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from whence.explanation import Meaning
from whence.methods.question import Method, Question, Scores

if TYPE_CHECKING:
    from jaxtyping import Float, UInt64

# Odd numbers without a pattern: each takes a number to another that nobody would guess (splitmix64).
_STEP, _FIRST, _SECOND = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def random(question: Question) -> Scores:
    """Uniform random numbers; the same text, layer and seed give the same ones.

    Each is a scrambled count of its text, layer and token: all of a batch at once, whatever else is in it.
    """
    tables = question.inputs.in_memory
    places = np.arange(tables.ids.shape[1], dtype=np.uint64)
    prompts = [
        encoding.response.start if encoding.responds else length
        for encoding, length in zip(question.inputs.encodings, tables.lengths, strict=True)
    ]
    own = places < np.array(prompts, dtype=np.uint64)[:, None]  # the same for every response to a prompt
    words = np.where(own, _scrambled(tables.ids.astype(np.uint64) + _STEP * (places + np.uint64(1))), np.uint64(0))
    seed = np.array([(question.seed + 1) % 2**64], dtype=np.uint64)  # an array: a scalar that runs over warns
    texts = _scrambled(words.sum(axis=1, dtype=np.uint64) + _STEP * seed)
    layers = np.array([0 if isinstance(layer, str) else layer + 1 for layer in question.layers], dtype=np.uint64)
    rows = _scrambled(texts[:, None] + _STEP * (layers + np.uint64(1)))
    return Scores(torch.from_numpy(_uniform(_scrambled(rows[..., None] + _STEP * (places + np.uint64(1))))))


def _scrambled(numbers: UInt64[np.ndarray, "*any"]) -> UInt64[np.ndarray, "*any"]:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    found: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return found


def _uniform(numbers: UInt64[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """Between 0 and 1, in steps that float32 holds exactly."""
    found: np.ndarray = (numbers >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return found


METHOD = Method(
    random,
    Meaning("random", "nothing: a random number", signed=False, additive=False, low=0.0, high=1.0),
    needs=(),
    cost="1 forward",
    few_passes=True,
)
