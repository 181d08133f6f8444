"""The shell of every page: head, colours, security policy and data block, once; a page adds markup, style and script.

Nothing of a text, a label or an option ever becomes markup: all of it travels as JSON inside a script element that the
browser does not run, and the page's own script, the only one its security policy lets run, sets it as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.render.visible import visible

if TYPE_CHECKING:
    from jaxtyping import Float

SHELL_SCRIPTS = ("begin", "tables", "reading", "tip", "cells", "terms", "charts")
_HEIGHT = 760  # pixels of a notebook's output


def shell(
    page: str,
    scripts: Sequence[str],
    title: str,
    data: Mapping[str, Any],
    made_by: str = "",
    *,
    shared: Sequence[str] = (),
    over: tuple[str, Sequence[str]] | None = None,
    connect: str | None = None,
) -> str:
    """One self-contained file: the shell around the markup, style and scripts of the folder `pages/{page}`.

    `shared` are parts that other pages have too, each a style and a script, as in "lens/squares". Another folder with
    its scripts may stand `over` it. A page that `connect`s may ask there, and nowhere else.
    """
    folders = {page: scripts} if over is None else {page: scripts, over[0]: over[1]}
    styles = ("shell/shell", *shared, *(f"{folder}/{folder}" for folder in folders))
    style = "".join(_file(f"{name}.css") for name in styles)
    names = [*(f"shell/{name}" for name in SHELL_SCRIPTS), *shared]
    names += [f"{folder}/{name}" for folder, mine in folders.items() for name in mine]
    script = "\n".join(_file(f"{name}.js") for name in names)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",
        **({} if connect is None else {"connect-src": connect}),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    parts = {
        "policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "style": style,
        "body": "".join(_file(f"{folder}/{folder}.html") for folder in reversed(folders)),
        "script": script,
        "data": embedded({"title": visible(title), "version": visible(made_by or version("whence")), **data}),
    }
    return re.sub(r"%%(\w+)%%", lambda match: parts[match[1]], _file("shell/shell.html"))


def policy_of(content: str) -> str:
    """The security policy that a page made by `shell` carries."""
    return html.unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', content)[0])


def framed(content: str) -> str:
    """A page inside a notebook: a frame of its own, so that neither page can touch the other."""
    return (
        f'<iframe title="whence" sandbox="allow-scripts allow-downloads" width="100%" height="{_HEIGHT}" '
        f'style="border: 0; resize: vertical; color-scheme: normal" srcdoc="{html.escape(content)}"></iframe>'
    )


def embedded(data: Any) -> str:
    """JSON that stays JSON inside a script element: plain ASCII without a character that could end it."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def packed(table: Float[np.ndarray, "*axes"]) -> str:
    """Every number to float32, in a third of the room that digits would take: little-endian, in base64."""
    return base64.b64encode(np.ascontiguousarray(table, dtype="<f4").tobytes()).decode("ascii")


def finite(value: float | None, digits: int | None = None) -> float | None:
    """A number that JSON can hold, or None; rounded if asked."""
    if value is None or not math.isfinite(value):
        return None
    return float(value) if digits is None else round(float(value), digits)


def _file(name: str) -> str:
    return (files("whence.render") / "pages" / name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"
