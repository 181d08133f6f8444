"""How the page is written: titles, links, and what all pages share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, paragraph

__all__ = ["TITLES", "bullet", "link", "paragraph"]

TITLES = {"sst2": "SST-2", "ag_news": "AG News"}


def link(path: Path, page: Path) -> str:
    return path.relative_to(page.parent).as_posix()
