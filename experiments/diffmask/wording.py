"""Numbers and paragraphs as docs/diffmask.md writes them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH = 120


def paragraph(text: str) -> list[str]:
    return ["", *textwrap.wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)]


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


def bullet(text: str) -> list[str]:
    return textwrap.wrap(
        f"- {' '.join(text.split())}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def with_sd(number: Mapping[str, Any], scale: float = 1.0, digits: int = 3) -> str:
    """A mean over seeds with the standard deviation over them."""
    sd = "" if number.get("sd") is None else f" ± {scale * number['sd']:.{digits}f}"
    return f"{scale * number['value']:.{digits}f}{sd}"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def agreement_at(part: Mapping[str, Sequence[float]]) -> str:
    """Agreement at the share masked, means over entries."""
    return f"{mean(part['agreement']):.3f} at {mean(part['masked']):.3f}"


def layer_name(layer: Any) -> str:
    return "embeddings" if layer == "embeddings" else str(layer)


def layer_names(layers: Sequence[Any]) -> str:
    return ", ".join(map(layer_name, layers)) or "none"


def verdict(met: bool) -> str:
    return "met" if met else "**not met**"
