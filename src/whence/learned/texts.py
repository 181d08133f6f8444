"""The texts of a run, as the model reads them: those to train on and those held out to judge by."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from whence.errors import InputError, WhenceWarning
from whence.learned.schedule import generator
from whence.models.batching import Asked, encode_each
from whence.models.inputs import Encoding, Ids, Messages
from whence.models.layered import LayeredModel
from whence.models.responses import MAX_NEW_TOKENS, UNASKED, Unasked, answered_each

MOST_HELD_OUT = 512


@dataclass(frozen=True)
class Texts:
    training: Sequence[Encoding]
    held_out: Sequence[Encoding]


def gather(
    model: LayeredModel,
    texts: Iterable[Asked | Messages],
    held_out: Iterable[Asked] | None,
    seed: int,
    responses: Sequence[str | Ids] | Unasked | None = UNASKED,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> Texts:
    """Read all texts; without `held_out` a tenth of them is, at most 512. Says so where some are cut.

    A model that is asked about responses writes those that it is not given.
    """
    training = _encoded(model, several(texts, "texts"), responses, max_new_tokens)
    if held_out is None:
        training, judging = _split(training, seed)
    else:
        judging = _encoded(model, several(held_out, "held_out"), UNASKED, max_new_tokens)
    if not training or not judging:
        n_texts = len(training) + (len(judging) if held_out is None else 0)
        what = "no held-out text to judge by" if training else f"{n_texts} texts are too few to train on"
        raise InputError(what, "give some hundreds or more")
    n_cut = sum(encoding.cut > 0 for encoding in [*training, *judging])
    if n_cut:
        told = f"truncated: the model does not read {n_cut} of {len(training) + len(judging)} texts to their end"
        warnings.warn(told, WhenceWarning, stacklevel=3)  # of whoever called `fit`
    return Texts(training, sorted(judging, key=len))


def digest(encodings: Iterable[Encoding]) -> str:
    return hashlib.sha256(repr([encoding.ids for encoding in encodings]).encode()).hexdigest()


def several(texts: Iterable[Asked | Messages], name: str) -> list[Any]:
    """A list of texts; anything else is an error that names it."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"{name} is {type(texts).__name__}, not several texts", "give a list of strings or of pairs")
    return list(texts)


def _encoded(
    model: LayeredModel, texts: Sequence[Any], responses: Sequence[str | Ids] | Unasked | None, max_new_tokens: int
) -> list[Encoding]:
    if model.reading.responds:
        return answered_each(model, texts, responses, max_new_tokens, seed=0)
    return encode_each(model, texts)


def _split(encodings: list[Encoding], seed: int) -> tuple[list[Encoding], list[Encoding]]:
    n_held_out = min(MOST_HELD_OUT, (len(encodings) + 9) // 10)
    order = torch.randperm(len(encodings), generator=generator(seed, "held out")).tolist()
    return [encodings[index] for index in order[n_held_out:]], [encodings[index] for index in order[:n_held_out]]
