"""What a model's blocks are given, cut down to some of the texts of a batch: the first rows of it.

Copies of a batch that are resumed at several layers in one pass join it one after the other. So that a block runs on
those alone that have come so far, its arguments must be cut, and nothing but a look at them tells which have a row for
each text: with three texts in place of two these are longer by one, and what is as long as before belongs to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from whence.models.own_thread import forwards_through

Place = tuple[Any, ...]
"""Where a tensor stands among a block's arguments: its number or name, and its places within what holds it."""
_PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)


class _UnknownError(Exception):
    """An argument of which nobody can tell what it holds."""


@dataclass(frozen=True)
class Shared:
    """The places of arguments that all texts share, however many there are: these are never cut."""

    places: frozenset[Place]

    def first(self, rows: int, of: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """A block's arguments for the first rows, of so many."""

        def cut(value: Any, place: Place) -> Any:
            if isinstance(value, Tensor):
                return value[:rows] if value.ndim and len(value) == of and place not in self.places else value
            if type(value) in (tuple, list):
                return type(value)(cut(each, (*place, at)) for at, each in enumerate(value))
            return value

        return cut(args, ()), {name: cut(value, (name,)) for name, value in kwargs.items()}


def shared_arguments(blocks: Iterable[nn.Module], run: Callable[[int], Any]) -> Shared | None:
    """Looked up by running a model on two texts and on three; None where it cannot be told."""
    try:
        two, three = (_lengths(blocks, run, count) for count in (2, 3))
    except _UnknownError:
        return None
    if two.keys() != three.keys():
        return None
    found = set()
    for place, length in two.items():
        grows = (length, three[place]) == (2, 3)
        if length == three[place] != 1:
            found.add(place)
        elif not grows and length != three[place]:
            return None
    return Shared(frozenset(found))


def _lengths(blocks: Iterable[nn.Module], run: Callable[[int], Any], count: int) -> dict[Place, int]:
    found: dict[Place, int] = {}

    def look(block: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        for place, tensor in chain(_within(args, ()), *(_within(each, (name,)) for name, each in kwargs.items())):
            if found.setdefault(place, len(tensor)) != len(tensor):
                raise _UnknownError
        return forward(*args, **kwargs)

    with forwards_through(blocks, look):
        run(count)
    return found


def _within(value: Any, place: Place) -> Iterator[tuple[Place, Tensor]]:
    if isinstance(value, Tensor):
        if value.ndim:
            yield place, value
    elif type(value) in (tuple, list):
        for at, each in enumerate(value):
            yield from _within(each, (*place, at))
    elif not isinstance(value, _PLAIN):
        raise _UnknownError
