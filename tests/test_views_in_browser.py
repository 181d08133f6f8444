"""The pages of a lens, an audit and a board in a real browser: every width, dark, on paper, by keys, for everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tiny_models
from axe_playwright_python.sync_playwright import Axe
from test_lens import made_lens
from test_lens_answer import answered
from weighted_words import TEXTS, WEIGHTS, probability, weighted_words

import whence
from whence.render.worked_example import worked_example
from whence.scoreboard.board import CURVES, Scoreboard

Open = Callable[..., Any]
WIDTHS = (320, 400, 1280, 3840)
N_LAYERS = 15  # more than fit side by side on a small screen


@pytest.fixture(scope="module")
def board() -> Scoreboard:
    return whence.evaluate(
        weighted_words(), TEXTS, ["yes"] * len(TEXTS), methods=["leave_one_out", "gradient_x_input", "shapley", "lime"],
        layer="embeddings", metrics=["sufficiency", "comprehensiveness_at_mass", "cost", "randomisation", "sets"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def pages(board: Scoreboard) -> dict[str, str]:
    ranks = (*range(N_LAYERS, 2, -1), 1, 1)
    answer = answered(ranks, ("bad",) * (N_LAYERS - 2) + ("good", "good"))
    audited = whence.audit_attention(whence.load(), ["a gorgeous, witty film", "it never comes alive", "a dull plot"])
    lens = made_lens("I wanted to love this film", tuple(range(N_LAYERS)), answer=answer, warnings=("read me",))
    written = whence.decode_layers(tiny_models.tiny("llama", "causal_lm"), "a good film " * 20, response=" was bad")
    return {
        "lens": lens.to_html(), "lens of a response": written.to_html(), "audit": audited.to_html(),
        "board": board.to_html(),
    }  # fmt: skip


# what would be wrong on a screen, as words that a failing test prints
STICKS_OUT = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CLIPPED = """[...document.querySelectorAll('svg text')].filter(text => {
  const [mine, whole] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return mine.width && (mine.left < whole.left - 1 || mine.right > whole.right + 1
    || mine.top < whole.top - 1 || mine.bottom > whole.bottom + 1);
}).map(text => text.textContent)"""
ON_EACH_OTHER = """[...document.querySelectorAll('svg')].flatMap(picture => {
  const boxes = [...picture.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], at) => boxes.slice(at + 1).filter(([, b]) =>
    a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
  ).map(([other]) => `${name} on ${other}`));
})"""
BROKEN_WORDS = """[...document.querySelectorAll('table *')].flatMap(cell => [...cell.childNodes])
  .concat([...document.querySelectorAll('.rows .name')].flatMap(name => [...name.childNodes]))
  .filter(node => node.nodeType === 3 && node.textContent.trim()).flatMap(node =>
    [...node.textContent.matchAll(/[^\\s-]+/g)].filter(word => {
      const range = document.createRange();
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
    }).map(word => word[0]))"""


@pytest.mark.parametrize("name", ["lens", "lens of a response", "audit", "board"])
def test_every_width_dark_paper_and_everybody(show: Open, pages: dict[str, str], name: str) -> None:
    tab = show(pages[name], width=WIDTHS[0])
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_function(f"window.innerWidth === {width}")
        assert tab.evaluate(STICKS_OUT) <= 0, width
        assert tab.evaluate(CLIPPED) == [], width
        assert tab.evaluate(ON_EACH_OTHER) == [], width
        assert tab.evaluate(BROKEN_WORDS) == [], width
        if width in (400, 1280):
            tab.emulate_media(color_scheme="dark" if width == 400 else "light")
            assert [found["id"] for found in Axe().run(tab).response["violations"]] == []
    tab.set_viewport_size({"width": 720, "height": 900})
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = false)")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.is_visible("#facts"), "what is folded on the screen is printed"
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator(".tools").is_visible()
    assert tab.evaluate(STICKS_OUT) <= 0


@pytest.mark.parametrize("name", ["lens", "lens of a response", "audit", "board"])
def test_words_are_explained_where_they_are_pointed_at_and_reached_by_keys(
    show: Open, pages: dict[str, str], name: str
) -> None:
    tab = show(pages[name], width=400)
    assert tab.is_hidden("#meaning")
    terms = tab.locator(".term:visible")
    assert terms.count() >= 3
    tab.focus("#main")
    for _ in range(40):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.classList.contains('term')"):
            break
    word = tab.evaluate("document.activeElement.dataset.term")
    assert tab.text_content("#meaning").startswith(f"{word}: ")
    box = tab.locator("#meaning").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    tab.keyboard.press("Escape")
    assert tab.is_hidden("#meaning")
    terms.last.hover()
    assert tab.is_visible("#meaning")
    used = set(tab.eval_on_selector_all(".term", "all => all.map(each => each.dataset.term)"))
    known = tab.evaluate("Object.keys(data.glossary)")
    assert used <= set(known)
    tab.click("#words summary")
    assert tab.locator("#glossary:visible dt").all_text_contents() == known


def test_a_lens_begins_with_the_answer_and_its_line(show: Open, pages: dict[str, str]) -> None:
    tab = show(pages["lens"])
    assert tab.text_content("#answer") == "good 75.0 %"
    assert tab.text_content("#settled") == (
        f"Read off layer by layer, that is the likeliest from layer {N_LAYERS - 2} on; just below, bad is."
    )
    assert tab.text_content("#sources") == "I wanted to love this film"
    assert tab.locator("#answer").bounding_box()["y"] < tab.locator("#lens").bounding_box()["y"]
    assert tab.locator("#chances circle").count() == tab.locator("#ranks circle").count() == N_LAYERS
    heights = tab.eval_on_selector_all("#ranks circle", "all => all.map(dot => Number(dot.getAttribute('cy')))")
    assert heights == sorted(heights, reverse=True), "rank 1 is on top"
    assert "classifier" in tab.text_content("#path-note")
    tab.select_option("#follow", "2")
    assert tab.text_content("#chance-title") == "Probability of wanted"
    assert "some/head" in tab.text_content("#path-note")
    assert tab.locator("#path-table tbody tr").count() == N_LAYERS


def test_an_audit_says_in_plain_words_what_was_found(show: Open, pages: dict[str, str]) -> None:
    tab = show(pages["audit"])
    assert tab.text_content("#answer") == tab.evaluate("data.answer")
    assert tab.is_hidden("#reasons"), "rank correlations are for those who ask for them"
    tab.click("#in-numbers summary")
    assert tab.locator("#reasons li:visible").all_text_contents() == tab.evaluate("data.reasons")
    told = "cell => [cell.textContent.replace('−', '-'), cell.style.getPropertyValue('--share')]"
    tints = tab.eval_on_selector_all("#heads .tau", f"all => all.map({told})")
    assert {bool(share) for value, share in tints if abs(float(value)) < 0.095} <= {False}, "next to nothing, no colour"
    assert {bool(share) for value, share in tints if abs(float(value)) > 0.105} == {True}
    assert tab.locator(".of-pairs").all_text_contents()[0] == "a coin50 of 100"
    layers, measures = tab.evaluate("[data.layers.length, data.measures.length]")
    assert tab.locator("#by-layer circle").count() == layers * measures
    assert tab.locator("#layer-table tbody tr").count() == layers
    before = tab.locator("#heads td").all_text_contents()
    tab.select_option("#measure", "1")
    assert tab.locator("#heads td").all_text_contents() != before


def test_a_board_s_headline_says_how_strong_its_evidence_is(
    show: Open, pages: dict[str, str], board: Scoreboard
) -> None:
    tab = show(pages["board"], width=400)
    assert tab.text_content("#answer") == board.verdict.answer
    assert tab.text_content("#answer .term") == "weak evidence"
    assert tab.text_content(".step.is-it") == board.verdict.strength
    assert "fewer than 30 texts" in tab.text_content("#strength")


def test_what_is_said_of_the_line_is_there(show: Open, pages: dict[str, str]) -> None:
    tab = show(pages["board"])
    points = tab.get_attribute("#pareto .front", "points").split()
    assert len(points) >= 1
    assert ("On the line" in tab.text_content("#cost-note")) == (len(points) > 1)
    assert ("the cheapest and the most faithful" in tab.text_content("#cost-note")) == (len(points) == 1)


def test_the_worked_example_is_a_game_of_the_board(show: Open, pages: dict[str, str], board: Scoreboard) -> None:
    found = worked_example(board)
    assert found is not None
    (number,) = [i for i, text in enumerate(board.texts) if "".join(piece for piece, _ in found["pieces"]) == text.text]
    index = board.index(board.verdict.believe[0])
    text, hiding = board.texts[number], board.curves[index, number, CURVES.index("hiding_probability")]
    own = [token for token in text.tokens if not token.special]
    assert [step[0] for step in found["steps"]] == list(range(len(own) + 1))
    assert found["steps"][0][1] == pytest.approx(text.probability, abs=1e-4)
    assert found["steps"][-1][1] == pytest.approx(hiding[-1], abs=1e-4)
    order = sorted((place, piece) for piece, place in found["pieces"] if place is not None)
    for gone, chance, _ in found["steps"]:
        assert chance == pytest.approx(probability([WEIGHTS.get(piece, 0.0) for _, piece in order[gone:]]), abs=1e-4)
    assert found["areas"]["revealing"] - found["areas"]["hiding"] == pytest.approx(found["faithfulness"], abs=1e-3)
    values = board.per_text("faithfulness")[index]
    assert found["mean"] == pytest.approx(np.mean(values), abs=1e-4)

    tab = show(pages["board"])
    rows = tab.locator("#steps li")
    assert rows.count() == len(found["steps"])
    assert rows.nth(0).locator("del").count() == 0
    assert rows.nth(1).locator("del").all_text_contents() == [order[0][1]]
    assert rows.nth(2).locator("del.now").all_text_contents() == [order[1][1]]
    assert rows.last.locator("del").count() == len(own)
    chances = [f"{round(100 * step[1])} %" for step in found["steps"]]
    assert tab.locator("#steps .sure b").all_text_contents() == chances
