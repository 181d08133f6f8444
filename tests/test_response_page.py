"""The page of a response, in a browser: what is pointed at, and what the prompt then shows."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import whence
from whence.explanation import OutputScores
from whence.render.page import page, page_data

PROMPT = "the plot was <b>not</b> bad.\nbut it is too long & so very dull"
Open = Callable[..., Any]
RESPONSE = " she could not say why.\nit was <i>sad"


def explained(**settings: Any) -> whence.Explanation:
    model = tiny_models.tiny("gpt2", "causal_lm")
    return whence.explain(model, PROMPT, **{"response": RESPONSE, "method": "gradient_x_input", **settings})


def opened(show: Open, *explanations: whence.Explanation, **settings: Any) -> Page:
    shown: Page = show(page(explanations), **settings)
    return shown


def colours(shown: Page) -> list[str]:
    """How strong each mark of the prompt is."""
    found: list[str] = shown.eval_on_selector_all(
        "#sources .mark", "marks => marks.map(m => m.textContent + m.style.getPropertyValue('--share'))"
    )
    return found


def scores_by_word(shown: Page) -> dict[str, float]:
    """What the map says of each word, at the layer shown."""
    rows = shown.eval_on_selector_all(
        "#grid .body .row",
        "rows => rows.map(r => [r.querySelector('.label').textContent,"
        " [...r.querySelectorAll('[role=gridcell]')].pop().getAttribute('aria-label')])",
    )
    return {name: float(label.rsplit(": ", 1)[1].replace("−", "-").replace("+", "")) for name, label in rows}


def test_the_response_stands_on_top_and_the_prompt_below(show: Open) -> None:
    shown = opened(show, explained())
    assert shown.inner_text("#written").split() == RESPONSE.split()
    assert shown.inner_text("#decision-title").startswith("The response rests ")
    assert shown.is_hidden("#probabilities li")
    assert "the plot was <b>not</b> bad." in shown.inner_text("#sources")
    assert "she could" not in shown.inner_text("#sources")
    order = "document.querySelector('#response').compareDocumentPosition(document.querySelector('#reading')) & 4"
    assert shown.evaluate(order)
    everything = shown.inner_text("body")
    assert "Ġ" not in everything
    assert "Ċ" not in everything


def test_the_picture_holds_the_response(show: Open) -> None:
    shown = opened(show, explained())
    with shown.expect_download() as waiting:
        shown.click("#save-svg")
    picture = ElementTree.fromstring(Path(waiting.value.path()).read_bytes())
    written = "".join("".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text"))
    assert "Response: " + " ".join(RESPONSE.split()) in " ".join(written.split())


def test_pointing_at_a_word_shows_what_it_rests_on(show: Open) -> None:
    found = explained(layers=1)
    shown = opened(show, found)
    whole = colours(shown)
    parts = shown.locator("#written .part")
    number = parts.all_inner_texts().index("could")
    parts.nth(number).hover()
    part = found.part("could")
    said = f"log probability of could = {part.target.value:.2f}".replace("-", "−")
    assert said in (shown.text_content("#target") or "")
    assert shown.inner_text("#decision-title").startswith("could rests ")
    assert colours(shown) != whole
    told = scores_by_word(shown)
    for word in part.words():
        if [each.text for each in part.words()].count(word.text) == 1:
            assert told[word.text] == pytest.approx(word.score, abs=0.011 * max(1.0, abs(word.score)))
    shown.mouse.move(0, 0)
    assert colours(shown) == whole


def test_a_click_pins_and_keys_do_the_same(show: Open) -> None:
    shown = opened(show, explained(layers=1))
    whole = colours(shown)
    first = shown.locator("#written .part").first
    first.click()
    shown.mouse.move(0, 0)
    pinned = colours(shown)
    assert pinned != whole
    assert first.get_attribute("aria-pressed") == "true"
    first.click()
    shown.mouse.move(0, 0)
    first.evaluate("part => part.blur()")
    assert colours(shown) == whole
    first.focus()
    assert colours(shown) == pinned
    shown.keyboard.press("Enter")
    assert first.get_attribute("aria-pressed") == "true"


def test_sentences_can_be_pointed_at_too(show: Open) -> None:
    found = explained(layers=1)
    shown = opened(show, found)
    shown.check("#part-sentences", force=True)
    assert shown.locator("#written .part").count() == 2
    shown.locator("#written .part").nth(1).hover()
    told = scores_by_word(shown)
    assert told["dull"] == pytest.approx(found.part("it was <i>sad").words()[-1].score, abs=0.011)


def test_the_table_holds_a_row_per_word_and_a_column_per_word_of_the_response(show: Open) -> None:
    found = explained(layers=1)
    shown = opened(show, found)
    words = [word.text for word in found.words()]
    assert shown.eval_on_selector_all("#pair-table tbody tr", "rows => rows.length") == len(words)
    heads = shown.eval_on_selector_all("#pair-table thead th", "heads => heads.map(h => h.textContent)")
    assert heads[:3] == ["she", "could", "not"]
    label = shown.locator("#pair-table tbody tr").nth(1).locator("td").nth(1).get_attribute("aria-label")
    expected = next(word.score for word in found.part("could").words() if word.text == "plot")
    assert label is not None
    assert float(label.rsplit(": ", 1)[1].replace("−", "-").replace("+", "")) == pytest.approx(expected, abs=0.011)


def test_one_outlier_does_not_wash_out_the_others(show: Open) -> None:
    found = explained(layers="embeddings")
    assert found.outputs is not None
    scores = np.zeros_like(found.scores)
    prompt = [i for i, token in enumerate(found.tokens) if token.segment == 0]
    scores[0, prompt] = 1.0
    scores[0, prompt[3]] = 8.0
    each = np.repeat(scores[None], len(found.outputs.positions), 0)
    outputs = OutputScores(found.outputs.positions, found.outputs.values, each)
    shown = opened(show, replace(found, scores=scores, outputs=outputs))
    shares = [float(each[-5:]) for each in colours(shown) if each[-5:-4].isdigit()]
    assert sorted(shares)[0] > 0.3  # a tenth of the largest would be next to nothing


def test_the_strongest_is_a_jump_away(show: Open) -> None:
    found = explained(layers="embeddings")
    shown = opened(show, found)
    assert shown.is_hidden("#jump"), "all of it is in sight"
    shown.set_viewport_size({"width": 320, "height": 150})
    shown.click("#jump")
    strongest = found.top(2)
    assert shown.inner_text("#sources .mark.here") == strongest[0].text
    shown.keyboard.press("g")
    assert shown.inner_text("#sources .mark.here") == strongest[1].text


def test_a_method_that_tells_only_the_whole_has_nothing_to_point_at(show: Open) -> None:
    shown = opened(show, explained(method="attention"))
    assert shown.locator("#written .part").count() == 0
    assert shown.is_hidden("#part-control")
    assert shown.is_hidden("#pairs")
    beside = opened(show, explained(layers=1), explained(method="attention", layers=1))
    beside.locator("#written .part").first.hover()


def test_everybody_can_use_it(show: Open) -> None:
    shown = opened(show, explained())
    found = Axe().run(shown)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (400, "light"), (1280, "dark"), (3840, "light")])
def test_every_width_dark_and_print(show: Open, width: int, scheme: Any) -> None:
    shown = opened(show, explained(), width=width, color_scheme=scheme)
    assert shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    found = Axe().run(shown).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    shown.emulate_media(media="print")
    assert shown.is_hidden("#part-control")
    assert shown.is_visible("#written")


def test_a_page_of_classifications_says_nothing_of_responses(show: Open) -> None:
    found = whence.explain(whence.load(), "a gorgeous film", "gradient_x_input")
    shown = opened(show, found)
    assert shown.is_hidden("#response")
    assert shown.is_hidden("#jump")
    assert page_data([found])["texts"][0]["response"] is None
