"""The browser that pages are tested in."""

from __future__ import annotations

import functools
import os
import shutil

import playwright.sync_api

PATIENCE = 60_000  # milliseconds that a page may take on a busy machine: none of these is a test of speed
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-renderer-backgrounding",  # else its processes yield to those of the tests, and pages take many seconds
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
]


@functools.cache
def chromium() -> str | None:
    """The machine's own, or the one that playwright installs."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    with playwright.sync_api.sync_playwright() as engine:
        path = engine.chromium.executable_path
    return path if os.path.exists(path) else None
