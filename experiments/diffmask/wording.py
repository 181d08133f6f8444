"""Numbers and paragraphs as the pages on DiffMask write them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where page_writing is

from page_writing import bullet, mean, paragraph

__all__ = [
    "agreement_at", "between", "bullet", "layer_names", "mean", "passage", "percent", "picture", "points",
    "table", "with_sd",
]  # fmt: skip


def passage(text: str) -> list[str]:
    """A paragraph after an empty line."""
    return ["", *paragraph(text)]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def picture(path: Path, page: Path, caption: str) -> list[str]:
    return ["", f"![{caption}]({path.relative_to(page.parent).as_posix()})"]


def between(number: Mapping[str, float], digits: int = 3) -> str:
    """A value with its interval."""
    return f"{number['value']:.{digits}f} [{number['low']:.{digits}f}, {number['high']:.{digits}f}]"


def points(number: Mapping[str, float]) -> str:
    """A change of a share, in percentage points, with its interval."""
    value, low, high = (f"{round(100 * number[key], 1) + 0.0:+.1f}" for key in ("value", "low", "high"))  # no -0.0
    return f"{value} [{low}, {high}]"


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def with_sd(number: Mapping[str, Any], scale: float = 1.0, digits: int = 3) -> str:
    """A mean over seeds with the standard deviation over them."""
    sd = "" if number.get("sd") is None else f" ± {scale * number['sd']:.{digits}f}"
    return f"{scale * number['value']:.{digits}f}{sd}"


def agreement_at(part: Mapping[str, Sequence[float]]) -> str:
    """Agreement at the share masked, means over entries."""
    return f"{mean(part['agreement']):.3f} at {mean(part['masked']):.3f}"


def layer_names(layers: Sequence[Any]) -> str:
    return ", ".join(map(str, layers)) or "none"
