"""Modules that know themselves how they are layered, so that `whence.load(module)` needs to be told nothing."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from whence.models.layered import LayeredModel


@runtime_checkable
class SelfLayered(Protocol):
    """A module with words, layers and labels of its own, such as `whence.attention.AttentionClassifier`."""

    def layered(self) -> LayeredModel: ...
