"""Searches over sets of a text's tokens: each asks, is told and asks on, and the model hears all of them at once."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from whence.engine.asking import Memory, Told, ask
from whence.models.hiding import Hiding
from whence.models.inputs import Encoding
from whence.models.layered import LayeredModel

if TYPE_CHECKING:
    from jaxtyping import Bool

Found = TypeVar("Found")
Search = Generator["Bool[np.ndarray, 'set word']", Told, Found]
"""Yields sets of the tokens that are not special, is sent what the model says of them, and returns what it found."""


def search(
    model: LayeredModel,
    encodings: Sequence[Encoding],
    searches: Mapping[tuple[int, str], Search[Found]],
    *,
    hiding: Hiding,
    batch_tokens: int,
    memory: Memory | None = None,
) -> dict[tuple[int, str], Found]:
    """What each search found; they are known by the index of their text and a name. No set is asked about twice."""
    memory = [{} for _ in encodings] if memory is None else memory
    found: dict[tuple[int, str], Found] = {}
    waiting: dict[tuple[int, str], Bool[np.ndarray, "set word"]] = {}

    def go_on(name: tuple[int, str], told: Told | None) -> None:
        try:
            waiting[name] = next(searches[name]) if told is None else searches[name].send(told)
        except StopIteration as end:
            found[name] = end.value

    for name in searches:
        go_on(name, None)
    while waiting:
        asked, waiting = waiting, {}
        texts: dict[int, list[tuple[int, str]]] = {}
        for name in asked:
            texts.setdefault(name[0], []).append(name)
        indices = list(texts)
        for number, told in ask(
            model, [encodings[index] for index in indices],
            lambda number: np.concatenate([asked[name] for name in texts[indices[number]]]),  # noqa: B023
            hiding=hiding, batch_tokens=batch_tokens, memory=[memory[index] for index in indices],
        ):  # fmt: skip
            start = 0
            for name in texts[indices[number]]:
                part = slice(start, start := start + len(asked[name]))
                go_on(name, Told(told.whole, told.probability[part], told.same[part], None))
    return found
