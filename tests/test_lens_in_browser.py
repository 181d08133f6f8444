"""The lens in a real browser: alone and below an explanation, by pointer and by key, with hostile words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tiny_models
from axe_playwright_python.sync_playwright import Axe
from made_explanations import made
from test_lens import follower, made_lens, poisoned
from test_page import HOSTILE

import whence
from whence.render.page import page as page_of

Open = Callable[..., Any]


def test_a_lens_shows_what_is_read_of_every_token(show: Open) -> None:
    tab = show(made_lens("a good film").to_html())
    assert tab.locator("#lens .lens-row .label").all_text_contents() == ["[CLS]", "a", "good", "film", "[SEP]"]
    assert tab.locator(".lens-square").all_text_contents() == ["good"] * 15
    assert tab.locator(".lens-head").all_text_contents() == ["embedding", "1", "2", *["0.0 %"] * 3]
    assert tab.is_hidden("#warnings")
    assert "some/head" in tab.text_content("#lens-note")
    assert "some/model" in tab.text_content("#facts")
    assert tab.title() == "What the model reads, layer by layer"


def test_squares_are_reached_by_keys_and_say_what_else_is_read(show: Open) -> None:
    tab = show(made_lens("a good film").to_html())
    assert tab.locator('.lens-square[tabindex="0"]').count() == 1
    tab.locator('.lens-square[tabindex="0"]').focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    focused = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "good, layer 1: good, 60.0 %"
    note = tab.text_content("#tip")
    assert note == "tokengoodlayerlayer 11good  60.0 %2bad  30.0 %3film  10.0 %itselfrank 4, 25.0 %"
    tab.keyboard.press("Control+End")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("[SEP], layer 2")
    tab.keyboard.press("ArrowRight")
    assert tab.locator('.lens-square[tabindex="0"]').count() == 1
    tab.evaluate("document.activeElement.blur()")
    assert tab.is_hidden("#tip")
    tab.hover('.lens-row[data-row="3"] [data-column="0"]')
    assert tab.text_content("#tip").startswith("tokenfilm")


def test_colour_says_how_likely_and_bold_that_it_is_the_token_itself(show: Open) -> None:
    lens = made_lens("a good film")
    lens.own_ranks[1, 2] = 1
    tab = show(lens.to_html())
    found = tab.eval_on_selector_all(".lens-square", "all => all.map(s => s.style.getPropertyValue('--share'))")
    assert set(found) == {"0.600"}
    bold = tab.eval_on_selector_all(".lens-square.right", "all => all.map(s => getComputedStyle(s).fontWeight)")
    assert bold == ["650"]
    assert tab.locator(".lens-head").all_text_contents()[3:] == ["0.0 %", "33.3 %", "0.0 %"]


def test_a_head_that_says_what_follows_is_not_doubted_for_it(show: Open) -> None:
    tab = show(follower().to_html())
    assert tab.locator(".lens-head").all_text_contents()[3:] == ["50.0 %"] * 3
    note = tab.text_content("#lens-note")
    assert "as themselves" not in note
    assert "bold where it is the token that follows" in note
    bold = tab.eval_on_selector_all(".lens-square.right", "all => all.map(s => s.parentNode.dataset.row)")
    assert bold == ["1"] * 3  # "good", where "film" is said
    tab.hover('.lens-row[data-row="1"] [data-column="0"]')
    assert tab.text_content("#tip").endswith("the nextrank 1, 25.0 %")
    tab.hover('.lens-row[data-row="3"] [data-column="0"]')
    assert tab.text_content("#tip").endswith("the nextnothing follows")


def test_the_lens_of_a_response_begins_with_what_was_written(show: Open) -> None:
    lens = whence.decode_layers(tiny_models.tiny("llama", "causal_lm"), "a good", response=" film was bad")
    assert lens.written is not None
    tab = show(lens.to_html())
    assert tab.text_content("#eyebrow") == "The model wrote"
    assert tab.text_content("#answer") == "film was bad"
    assert tab.locator("#sources p").all_text_contents() == ["a good"]
    settled = [layer for layer in lens.written.settled if layer is not None]
    total = len(lens.written.settled)
    share = "all" if len(settled) == total else str(len(settled))
    assert f"would write {share} of these {total} tokens" in tab.text_content("#settled")
    first = lens.tokens[lens.written.positions.start]
    shares = tab.locator(".lens-row").nth(1).locator(".lens-head").all_text_contents()
    assert shares == [f"{share:.1%}".replace("%", " %") for share in lens.written.shares], "of what was written"
    rows = "all => all.map(each => Number(each.parentNode.dataset.row))"
    special = tab.eval_on_selector_all(".lens-row .label.special", rows)
    assert not set(special) & set(lens.written.positions), "it is no mark that the model added"
    assert tab.evaluate("document.getElementById('lens-scroller').scrollTop") == 0, "all of it has room"
    long = whence.decode_layers(tiny_models.tiny("llama", "causal_lm"), "a good film " * 20, response=" was bad")
    assert long.written is not None
    last = show(long.to_html()).locator(f'[data-row="{long.written.positions.start - 1}"]').bounding_box()
    assert last["y"] < 2_000, "what was written is in sight, however long the prompt"
    assert tab.input_value("#follow") == str(lens.written.positions.start - 1)
    assert tab.text_content("#chance-title") == f"Probability of {(lens.pair or '')[first.start : first.end].strip()}"


def test_a_lens_follows_the_text_that_is_shown(show: Open) -> None:
    texts = ["a good film", "a bad book"]
    tab = show(page_of([made(text, (0, 1, 2)) for text in texts], lenses=[made_lens(texts[1])]))
    assert tab.is_hidden("#lens")
    assert tab.is_visible("#decision")
    tab.keyboard.press("j")
    assert tab.is_visible("#lens")
    assert tab.locator("#lens .label").all_text_contents()[1:-1] == texts[1].split()
    tab.keyboard.press("ArrowRight")
    assert tab.text_content("#layer-name") == "layer 1"
    tab.keyboard.press("k")
    assert tab.is_hidden("#lens")


def test_a_very_long_text_is_cut_and_that_is_said(show: Open) -> None:
    tab = show(made_lens("word " * 2_000).to_html())
    assert tab.locator("#lens .label").count() == 600
    assert "The first 600 of 2002 tokens are shown." in tab.text_content("#lens-note")


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_hostile_words_are_shown_as_text(show: Open, poison: str) -> None:
    tab = show(poisoned(poison).to_html())
    tab.locator('.lens-square[tabindex="0"]').focus()
    assert tab.evaluate("window.__hit") is None
    assert tab.is_visible("#tip")
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_axe_finds_no_serious_violation(show: Open, scheme: str, width: int) -> None:
    tab = show(made_lens("a good film", warnings=("read me",)).to_html(), width=width, color_scheme=scheme)
    tab.locator('.lens-square[tabindex="0"]').focus()
    found = Axe().run(tab).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    assert tab.text_content("#warning-list") == "read me"
    assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
