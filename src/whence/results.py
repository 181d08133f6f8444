"""Results that are looked at: what each can do that has a page, and several as a list with one page for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


class Shown(ABC):
    """A result with a page of its own, which a notebook shows in short."""

    @abstractmethod
    def to_html(self, path: str | Path | None = None) -> str:
        """The result as one self-contained page, returned and, if a path is given, written there."""

    def show(self, path: str | Path | None = None) -> None:
        """Open the whole page; with a path it is written there, and a notebook links to it."""
        from whence.render.notebook import show

        show(self, path)

    def _repr_html_(self) -> str:
        from whence.render.notebook import compact

        return compact(self)


class Results(list[Result]):
    """Results in the order of the texts.

    >>> import whence
    >>> found = whence.explain(whence.load(), ["a witty film", "a dull film"], method="leave_one_out")
    >>> len(found), isinstance(found, list), found.to_html().startswith("<!doctype html>")
    (2, True, True)
    """

    def to_html(self, path: str | Path | None = None) -> str:
        """All of them as one self-contained page, returned and, if a path is given, written there."""
        from whence.render.page import page_of_results

        return page_of_results(self, path)

    def show(self, path: str | Path | None = None) -> None:
        """Open that page; with a path it is written there, and a notebook links to it."""
        from whence.render.notebook import show

        show(self, path)

    def _repr_html_(self) -> str:
        from whence.render.notebook import compact_list

        return compact_list(self)
