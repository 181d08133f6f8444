"""The live page: what is asked stands above the page of explanations, which is drawn again with every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from whence.render.page import SCRIPTS, SHARED
from whence.render.segments import segment_names
from whence.render.shell import policy_of, shell

LIVE_SCRIPTS = ("server", "asking", "jobs", "changes", "history", "live")
TITLE = "Which words the decision rests on, while you type"
EXAMPLE = "A gorgeous, witty film, but the story never comes alive."


class LivePage(NamedTuple):
    """The page, and the policy that a browser must keep to while it shows it."""

    content: str
    policy: str


def live_page(models: Sequence[Mapping[str, Any]], methods: Sequence[Mapping[str, Any]]) -> LivePage:
    """The page over these models and methods, as the API describes them; it may ask the server that it came from."""
    classifies = bool(models) and bool(models[0]["labels"])
    served = [{**model, "texts": segment_names(model["task"])} for model in models]
    data = {"served": served, "known": list(methods), "example": EXAMPLE if classifies else ""}
    content = shell("report", SCRIPTS, TITLE, data, shared=SHARED, over=("live", LIVE_SCRIPTS), connect="'self'")
    return LivePage(content, f"{policy_of(content)}; frame-ancestors 'none'")
