"""The controls that every board has: what knows nothing, and what has seen the exam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from whence.engine.masked import Hiding, MaskedTexts
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Float

RANDOM = "random"
ORACLE = "oracle"


def oracle_scores(
    model: LayeredModel, encodings: Sequence[Encoding], *, hiding: Hiding, batch_tokens: int
) -> list[Float[np.ndarray, " token"]]:
    """What hiding a token alone takes from the decision's probability, plus what showing it alone brings.

    Measured with the very maskings of the games, so that a method which comes near has little left to gain. It is no
    upper bound: tokens that only work together escape it.
    """
    rows, sets = [], []
    width = max(len(encoding) for encoding in encodings)
    for row, encoding in enumerate(encodings):
        special = np.array([token.special for token in encoding.tokens])
        places = np.flatnonzero(~special)
        keep = np.zeros((2 * len(places) + 1, width), dtype=bool)
        keep[: len(places), : len(special)] = True
        keep[np.arange(len(places)), places] = False
        keep[len(places) :, : len(special)] = special
        keep[len(places) + np.arange(len(places)), places] = True
        rows.append(np.full(len(keep), row))
        sets.append(keep)
    asked = MaskedTexts(model, encodings, hiding, batch_tokens)
    answers = asked.answers(np.concatenate(rows), np.concatenate(sets)).probability
    found = []
    parts = np.split(answers, np.cumsum([len(part) for part in sets])[:-1])
    for encoding, whole, part in zip(encodings, asked.whole.probability, parts, strict=True):
        n_tokens = (len(part) - 1) // 2
        without, alone, nothing = part[:n_tokens], part[n_tokens:-1], part[-1]
        scores = np.zeros(len(encoding), dtype=np.float32)
        scores[[not token.special for token in encoding.tokens]] = (whole - without) + (alone - nothing)
        found.append(scores)
    return found
