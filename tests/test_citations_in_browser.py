"""The page of citations in a real browser: by pointer and by key, with none of them, and with hostile texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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


def test_pointing_at_a_sentence_shows_its_sources(show: Open) -> None:
    tab = show(made().to_html())
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
    tab = show(made().to_html())
    tab.locator("#answer button").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.locator("#answer button").nth(0).hover()
    assert tab.locator("#rests-title").text_content() == "Sentence 2 rests on"
    assert tab.locator("#answer button").nth(1).get_attribute("aria-pressed") == "true"


def test_a_method_that_cannot_tell_says_so(show: Open) -> None:
    tab = show(made(second=None).to_html())
    tab.locator("#answer button").nth(1).hover()
    assert tab.locator("#rests-title").text_content() == "Sentence 2: the strongest sources"
    assert not tab.locator("#none").is_visible()


def test_everyone_can_use_the_page(show: Open) -> None:
    tab = show(made().to_html())
    for fold in tab.locator("details summary").all():
        fold.click()
    found = Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [320, 400, 1280, 3840])
def test_every_width_in_dark_and_on_paper(show: Open, width: int) -> None:
    tab = show(made().to_html(), width=width, color_scheme="dark")
    for media in ("screen", "print"):
        tab.emulate_media(media=media)
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    tab.emulate_media(media="screen")
    assert [each["id"] for each in Axe().run(tab).response["violations"]] == []
    ranking, documents = (tab.locator(name).bounding_box() for name in ("#ranking", "#documents"))
    one, other = (tab.locator(".rests section").nth(at).bounding_box() for at in (0, 1))
    assert width > 960 or other["y"] > one["y"] + one["height"] + 10, "no section touches another"
    assert (documents["x"] > ranking["x"] + ranking["width"]) == (width > 960), "side by side where there is room"


def test_what_is_next_to_nothing_has_no_colour(show: Open) -> None:
    citations = made()
    first = citations.sentences[0]
    weak = (first.ranked[0], replace(first.ranked[1], score=-0.5))  # a twelfth of the strongest
    tab = show(replace(citations, sentences=(replace(first, ranked=weak), *citations.sentences[1:])).to_html())
    shares = tab.eval_on_selector_all("#documents p > span", "all => all.map(s => s.style.getPropertyValue('--share'))")
    assert shares == ["0", "1.000"]


def test_what_a_score_and_its_bound_mean_is_said(show: Open) -> None:
    tab = show(made().to_html())
    assert "at least 10 times as large" in tab.text_content("#rule")
    assert set(tab.locator("#rule .term").all_text_contents()) == {"interval", "odds"}
    tab.locator("#rule .term").last.hover()
    assert tab.text_content("#meaning").startswith("odds: ")
