"""The texts of a run, as the model reads them: those to train on and those held out to judge by."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from whence.errors import InputError, WhenceWarning
from whence.learned.schedule import generator
from whence.models.batching import Text, encode_each
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

MOST_HELD_OUT = 512


@dataclass(frozen=True)
class Texts:
    training: Sequence[Encoding]
    held_out: Sequence[Encoding]


def gather(model: LayeredModel, texts: Iterable[Text], held_out: Iterable[Text] | None, seed: int) -> Texts:
    """Read all texts; without `held_out` a tenth of them is, at most 512. Says so where some are cut."""
    training = _encoded(model, texts, "texts")
    if held_out is None:
        training, judging = _split(training, seed)
    else:
        judging = _encoded(model, held_out, "held_out")
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


def _encoded(model: LayeredModel, texts: Iterable[Text], name: str) -> list[Encoding]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"{name} is {type(texts).__name__}, not several texts", "give a list of strings or of pairs")
    return encode_each(model, texts)


def _split(encodings: list[Encoding], seed: int) -> tuple[list[Encoding], list[Encoding]]:
    n_held_out = min(MOST_HELD_OUT, (len(encodings) + 9) // 10)
    order = torch.randperm(len(encodings), generator=generator(seed, "held out")).tolist()
    return [encodings[index] for index in order[n_held_out:]], [encodings[index] for index in order[:n_held_out]]
