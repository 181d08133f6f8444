"""How the page is written: titles, links, and paragraphs wrapped to the width of the other documents."""

from __future__ import annotations

import textwrap
from pathlib import Path

TITLES = {"sst2": "SST-2", "ag_news": "AG News"}


def paragraph(text: str) -> list[str]:
    """The words of a text in lines of the usual width."""
    return textwrap.wrap(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def bullet(text: str) -> list[str]:
    """A point of a list."""
    first, *others = paragraph(text)
    return [f"- {first}", *(f"  {line}" for line in others)]


def link(path: Path, page: Path) -> str:
    return path.relative_to(page.parent).as_posix()
