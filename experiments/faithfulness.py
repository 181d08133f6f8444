"""What scores are worth in the games, text by text, as the scoreboard computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import whence
from whence.engine.asking import Contestant, answered
from whence.metrics.answered import BOARD_POINTS, Points
from whence.models.batching import Asked, encode, usual_batch_tokens
from whence.models.hiding import Hide, Hiding


def faithfulness(
    model: whence.LayeredModel,
    texts: Sequence[Asked],
    scores: dict[str, list[np.ndarray]],
    *,
    hide: Hide = "auto",
    points: Points = BOARD_POINTS,
) -> dict[str, list[float]]:
    """Of each text by each row of scores: the area of revealing less that of hiding."""
    encodings = [encode(model, text, index) for index, text in enumerate(texts)]
    found = {name: [float("nan")] * len(texts) for name in scores}
    for index, by_name in answered(
        model, encodings, {name: Contestant(rows) for name, rows in scores.items()}, points,
        hiding=Hiding.of(model, hide), batch_tokens=usual_batch_tokens(model),
    ):  # fmt: skip
        for name, text in by_name.items():
            found[name][index] = round(text.area("revealing") - text.area("hiding"), 6)
    return found
