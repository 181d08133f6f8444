"""Figures as files that are the same from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# what matplotlib would write of the day and of itself, by kind of file
_SAID = {".svg": ("Date", "Creator"), ".png": ("Software",), ".pdf": ("CreationDate", "Creator", "Producer")}


def write_figure(figure: Figure, path: str | Path, *, dpi: int = 200) -> Path:
    """Write a figure and close it: equal figures give equal bytes, so that a file changes only when its picture does.

    Args:
        figure: of matplotlib.
        path: its ending says the kind of file; its folder is made where there is none.
        dpi: dots per inch of what is drawn in dots.
    """
    from matplotlib import pyplot, rc_context

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "whence"}):  # by default the ids in an SVG are drawn at random
        figure.savefig(path, dpi=dpi, metadata=dict.fromkeys(_SAID.get(path.suffix.lower(), ())))
    pyplot.close(figure)
    return path
