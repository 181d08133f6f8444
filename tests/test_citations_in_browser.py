"""The page of citations in a real browser: by pointer and by key, with none of them, and with hostile texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import whence
from whence.citing.citations import Citation, CitedSentence
from whence.citing.documents import Source
from whence.explanation import Cost, ModelRecord

Open = Callable[..., Any]
HOSTILE = "<img src=x onerror=alert(1)></script> \u202etrap."


def made(second: tuple[int, ...] | None = ()) -> whence.Citations:
    """Two sentences: the first rests on the hostile source, the second on none (or the method cannot tell)."""
    documents = {"a <b>": f"One. {HOSTILE}"}
    sources = (Source("a <b>", 0, 4, "One."), Source("a <b>", 5, 5 + len(HOSTILE), HOSTILE))
    first = CitedSentence(0, 5, -1.0, (Citation(1, 6.0, 4.5, 7.5), Citation(0, -1.0, -2.0, 0.0)), (1,))
    ends = (None, None) if second is None else (-0.5, 1.5)
    other = CitedSentence(6, 12, -2.0, (Citation(0, 0.5, *ends), Citation(1, 0.1, *ends)), second)
    return whence.Citations(
        question="Why?", documents=documents, answer="Thus. Hence!", written=True, sources=sources,
        sentences=(first, other), method="balanced", meaning="what it adds", least=2.3, settled=True, options={},
        model=ModelRecord("tiny", None, "GPT2LMHeadModel", "response"), seed=0, cost=Cost(8, 0, 1.0),
        whence_version="0", warnings=("look out",),
    )  # fmt: skip


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page as a file; afterwards nothing may have failed or been refused."""
    troubles: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")

    def open_page(citations: whence.Citations) -> Any:
        file = tmp_path / "page.html"
        citations.to_html(file)
        tab = context.new_page()
        tab.set_default_timeout(20_000)
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on("console", lambda message: troubles.append(f"console: {message.text}"))
        tab.on("dialog", lambda dialog: troubles.append("a dialog"))
        tab.goto(file.as_uri())
        return tab

    yield open_page
    context.close()
    assert troubles == []


def test_pointing_at_a_sentence_shows_its_sources(show: Open) -> None:
    tab = show(made())
    assert tab.locator("#answer").text_content() == "Thus.2 Hence!none"
    assert tab.locator("#rests-title").text_content() == "Sentence 1 rests on"
    assert tab.locator("#ranking .number").all_text_contents() == ["2", "1"]
    assert tab.locator("#ranking .score").first.text_content() == "6.00 (4.50 to 7.50)"
    assert "⟨U+202E⟩trap" in tab.locator("#ranking .source").first.text_content()
    assert tab.locator("#documents .cited").count() == 1
    assert tab.locator("#warnings").text_content() == "look out"
    tab.locator("#answer button").nth(1).hover()
    assert tab.locator("#rests-title").text_content() == "Sentence 2 rests on"
    assert tab.locator("#none").is_visible()
    assert tab.locator("#documents .cited").count() == 0


def test_a_sentence_stays_when_it_is_pressed(show: Open) -> None:
    tab = show(made())
    tab.locator("#answer button").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.locator("#answer button").nth(0).hover()
    assert tab.locator("#rests-title").text_content() == "Sentence 2 rests on"
    assert tab.locator("#answer button").nth(1).get_attribute("aria-pressed") == "true"


def test_a_method_that_cannot_tell_says_so(show: Open) -> None:
    tab = show(made(second=None))
    tab.locator("#answer button").nth(1).hover()
    assert tab.locator("#rests-title").text_content() == "Sentence 2: the strongest sources"
    assert not tab.locator("#none").is_visible()


def test_everyone_can_use_the_page(show: Open) -> None:
    tab = show(made())
    tab.locator("details summary").click()
    found = Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
