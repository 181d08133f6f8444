"""From a name to a method: the one place where names are looked up."""

from __future__ import annotations

from typing import NamedTuple

from whence.errors import UnknownNameError
from whence.methods import DECODED, METHODS
from whence.methods.presets import PRESETS, Preset
from whence.methods.question import Method

ALIASES = {"cp_lrp": "held_still"}
"""The names that papers give to methods which have a plainer one here."""


class NamedMethod(NamedTuple):
    """A method under the name by which it was asked for, with the preset that fixes its options, if one does."""

    name: str
    method: Method
    preset: Preset | None = None


def method_named(method: str | Method) -> NamedMethod:
    """The method of that name, a preset's or decoded one too; a method of the user's own has its function's name."""
    if isinstance(method, Method):
        return NamedMethod(method.name, method)
    method = ALIASES.get(method, method)
    if method in PRESETS:
        return NamedMethod(method, METHODS[PRESETS[method].method], PRESETS[method])
    if method in METHODS:
        return NamedMethod(method, METHODS[method])
    if method in DECODED:
        return NamedMethod(method, DECODED[method])
    raise UnknownNameError("method", method, [*METHODS, *PRESETS])
