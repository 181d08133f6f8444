"""What every test needs: no network, one thread per process, shapes checked, the tiny models, and a browser."""

import functools
import os
import shutil
from collections.abc import Iterator

os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of a Hugging Face package
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import shape_checks

shape_checks.install("whence")  # before whence itself is imported

import playwright.sync_api
import pytest
import tiny_models
import torch
from hypothesis import settings

import whence

settings.register_profile("whence", deadline=None)  # a busy machine is no reason to fail
settings.load_profile("whence")

torch.set_num_threads(1)  # tiny matrices: more threads only get in each other's way


@pytest.fixture
def bert() -> whence.LayeredModel:
    """A tiny classifier of its own for this test, free to be spoilt, with the head of a tiny language model."""
    head = tiny_models.tiny("bert", "masked_lm")
    return whence.load(tiny_models.build("bert"), tiny_models.wordpiece(), head=head)


@functools.cache
def chromium() -> str | None:
    """The machine's own, or the one that playwright installs."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    with playwright.sync_api.sync_playwright() as engine:
        path = engine.chromium.executable_path
    return path if os.path.exists(path) else None


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
        started = engine.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()
