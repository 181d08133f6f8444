"""What all pages share."""

from __future__ import annotations

import html

_HEIGHT = 760  # pixels of a notebook's output


def framed(content: str) -> str:
    """A page inside a notebook: a frame of its own, so that neither page can touch the other."""
    return (
        f'<iframe title="whence" sandbox="allow-scripts allow-downloads" width="100%" height="{_HEIGHT}" '
        f'style="border: 0; resize: vertical; color-scheme: normal" srcdoc="{html.escape(content)}"></iframe>'
    )
