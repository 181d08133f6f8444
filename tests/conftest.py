"""What every test needs: no network, one thread per process, shapes checked, the tiny models, and a browser."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of a Hugging Face package
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"  # of processes that tests start, too

import shape_checks

shape_checks.install("whence")  # before whence itself is imported

import playwright.sync_api
import pytest
import tiny_models
import torch
from browsers import FLAGS, PATIENCE, chromium
from hypothesis import settings
from transformers import logging

import whence

settings.register_profile("whence", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("whence")

torch.set_num_threads(1)  # tiny matrices: more threads only get in each other's way


@pytest.fixture
def bert() -> whence.LayeredModel:
    """A tiny classifier of its own for this test, free to be spoilt, with the head of a tiny language model."""
    head = tiny_models.tiny("bert", "masked_lm")
    return whence.load(tiny_models.build("bert"), tiny_models.wordpiece(), head=head)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skipped here, not in the fixture, so that the summary says it in one line for all."""
    if "browser" in getattr(item, "fixturenames", ()) and chromium() is None:
        pytest.skip("no browser to test the pages in: .venv/bin/playwright install --with-deps chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes comes first, so that no other process waits for it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.sync_api.Browser]:
    with playwright.sync_api.sync_playwright() as engine:
        started = engine.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page as a file; afterwards nothing may have failed, been refused, or come from elsewhere."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open_page(content: str, width: int = 1280, height: int = 900, **settings: Any) -> Any:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(content, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", accept_downloads=True, **settings
        )
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on("console", lambda message: troubles.append(f"console: {message.text}"))
        tab.on("dialog", lambda dialog: troubles.append("a dialog"))
        tab.on("request", lambda request: None if _local(request.url) else troubles.append(f"request: {request.url}"))
        tab.goto(file.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def _local(url: str) -> bool:
    return url.startswith(("file://", "blob:null", "blob:file"))


@pytest.fixture
def quiet_only_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command silences transformers for its process; here that is the process of all tests."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_VERBOSITY", "TRANSFORMERS_VERBOSITY"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    level = logging.get_verbosity()
    yield
    logging.set_verbosity(level)
    logging.enable_progress_bar()
