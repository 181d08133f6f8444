"""Lines of Markdown as all pages of the experiments and benchmarks write them.

Scripts import one another by the names of their own folder; those that write a page add this folder to the path.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 120


def paragraph(text: str, width: int = WIDTH) -> list[str]:
    """The words of a text in lines of the usual width."""
    return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


def bullet(text: str) -> list[str]:
    """A point of a list."""
    first, *others = paragraph(text, WIDTH - 2)
    return [f"- {first}", *(f"  {line}" for line in others)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
