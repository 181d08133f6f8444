"""What a reader finds on the page without training: four answers, the methods together, long texts, pairs and tags."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from axe_playwright_python.sync_playwright import Axe
from made_explanations import made

import whence
from whence.embedded import board_findings
from whence.explanation import ExplainedTarget, Explanation, ModelRecord, Prediction
from whence.metrics.rank_correlation import kendall_tau
from whence.render.page import page, page_data
from whence.render.sentence import percent

Open = Callable[..., Any]
DEMO = (
    "I wanted to love this film, but the story never comes alive.",
    "Not the worst way to spend an evening.",
    "Despite the awful reviews, I had a wonderful time.",
    "The acting is great, the sets are great, and somehow the film is still a bore.",
    "Never a dull moment.",
)
METHODS = ("integrated_gradients", "leave_one_out", "random")
JARGON = re.compile(
    r"f\(text\)|baseline|logit|first order|special ?=|None|τ|standard error|completeness", re.IGNORECASE
)


@pytest.fixture(scope="module")
def explained() -> list[whence.Comparison]:
    model = whence.load()
    return [whence.compare(model, text, METHODS) for text in DEMO]


def opened(show: Open, explanations: Any, **settings: Any) -> Any:
    return show(page(explanations), **settings)


def texts_of(tab: Any, selector: str) -> list[str]:
    found: list[str] = tab.locator(selector).all_text_contents()
    return found


def open_part(tab: Any) -> str:
    """All that stands on the page before anything is unfolded."""
    seen: str = tab.inner_text("main")
    return seen


def serious(tab: Any) -> list[str]:
    found = Axe().run(tab).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")
    ]


# four answers


def checked_sentence(tab: Any, chosen: Explanation) -> tuple[list[str], list[str]]:
    """What was decided, why, and what spoke against it: read off the page and worked out anew; the words named."""
    words = chosen.words()
    sizes = [abs(word.score) for word in words]

    decided = tab.inner_text("#decision-title .said")
    assert decided.lower() == chosen.prediction.label
    assert f"({percent(chosen.prediction.probability or 0)})" in tab.inner_text("#decision-title")

    why = texts_of(tab, "#decision-title .word.for")
    speaking = sorted((word for word in words if word.score > 0), key=lambda word: -word.score)
    assert why == [word.text for word in speaking[: len(why)]]
    held = sum(word.score for word in speaking[: len(why)]) / sum(word.score for word in speaking)
    assert ("mainly" in tab.inner_text("#decision-title")) == (held >= 0.5)

    against = texts_of(tab, "#decision-title .word.against")
    others = sorted((word for word in words if word.score < -max(sizes) / 4), key=lambda word: word.score)
    assert against == list(dict.fromkeys(word.text for word in others))[:2], "the same spelling once"
    if not others:
        assert "no word clearly pulled the other way" in tab.inner_text("#decision-title")
    return why, against


def board_word(name: str) -> str:
    """What the board of the embedded model makes of a method, in a word."""
    found = board_findings("sentiment")
    if name in found["believe"]:
        return str(found["strength"])
    return "weak" if name in found["no_better_than_random"] + found["flagged"] else "fair"


def test_the_page_answers_what_why_what_against_and_how_sure(show: Open, explained: list[whence.Comparison]) -> None:
    """For five texts, read off the page and worked out anew from the numbers."""
    tab = opened(show, [each for found in explained for each in found.explanations])
    for found in explained:
        chosen = found.of(METHODS[0])
        why, against = checked_sentence(tab, chosen)
        words = chosen.words()
        sizes = [abs(word.score) for word in words]

        sure = dict(zip(texts_of(tab, "#beliefs .term"), texts_of(tab, "#beliefs .strength"), strict=True))
        removed = [abs(word.score) for word in found.of(METHODS[1]).words()]
        tau = kendall_tau(np.array([sizes]), np.array([removed]))[0, 0]
        contrary = any(
            one.score * other.score < 0
            and abs(other.score) >= max(removed) / 10
            and abs(one.score) >= max(sizes) / 10
            and one.text in (*why, *against)
            for one, other in zip(words, found.of(METHODS[1]).words(), strict=True)
        )
        step = int(tau >= 0.3) + int(tau >= 0.6) - contrary
        assert sure["other methods"] == ["weak", "fair", "strong"][max(0, step)]
        missing = (chosen.completeness_errors or (0,))[0] / abs(chosen.scores[0].sum())
        assert sure["a board"] == board_word(METHODS[0])
        assert sure["adding up"] == ("strong" if missing <= 0.05 else "fair" if missing <= 0.2 else "weak")

        assert not JARGON.search(open_part(tab)), JARGON.search(open_part(tab))
        tab.keyboard.press("j")


def test_one_usual_explanation_answers_the_same_four(show: Open) -> None:
    """As `whence explain TEXT --html` makes the page: no other method beside it, and how sure that is all the same."""
    model = whence.load()
    found = [whence.explain(model, text) for text in DEMO]
    tab = opened(show, found)
    for chosen in found:
        checked_sentence(tab, chosen)
        sure = dict(zip(texts_of(tab, "#beliefs .term"), texts_of(tab, "#beliefs .strength"), strict=True))
        assert sure == {"a board": board_word(chosen.method)}
        assert not JARGON.search(open_part(tab)), JARGON.search(open_part(tab))
        tab.keyboard.press("j")


def test_what_is_shown_comes_in_the_order_in_which_it_is_asked(show: Open, explained: list[whence.Comparison]) -> None:
    tab = opened(show, explained[0].explanations, width=400)
    parts = ["#decision-title", "#sources", "#legend", "#beliefs", "#consensus", "#dots", "#grid", "#frame"]
    tops = [tab.locator(part).bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)
    assert tab.is_hidden("#facts")
    assert tab.is_hidden("#matrix")
    assert tab.is_hidden("#score-meaning")
    assert tab.is_hidden("#glossary")


def test_the_right_half_of_a_wide_screen_is_used(show: Open, explained: list[whence.Comparison]) -> None:
    tab = opened(show, explained[0].explanations[:1], width=1280)
    boxes = {name: tab.locator(name).bounding_box() for name in ("#reading", "#map", "main")}
    assert boxes["#map"]["x"] > boxes["#reading"]["x"] + boxes["#reading"]["width"]
    assert boxes["#map"]["x"] + boxes["#map"]["width"] == pytest.approx(boxes["main"]["x"] + boxes["main"]["width"])


# words that a reader may not know


def test_terms_are_explained_on_hover_and_focus(show: Open, explained: list[whence.Comparison]) -> None:
    tab = opened(show, explained[0].explanations)
    tab.hover("#beliefs .term >> nth=0")
    assert "Kendall" in tab.inner_text("#meaning")
    tab.hover("#title")
    assert tab.is_hidden("#meaning")
    tab.focus("#beliefs .term >> nth=1")
    assert tab.is_visible("#meaning")
    assert tab.get_attribute("#beliefs .term >> nth=1", "aria-describedby") == "meaning"
    tab.keyboard.press("Escape")
    assert tab.is_hidden("#meaning")
    tab.click("#words summary")
    assert "next to nothing" in tab.inner_text("#glossary")


# colours


def test_what_is_next_to_nothing_has_no_colour(show: Open) -> None:
    tab = opened(show, [made("strong weak none", scores=[0, 1, 0.11, 0.09, 0])])
    faint = tab.eval_on_selector_all(".mark", "all => all.map(mark => mark.classList.contains('faint'))")
    assert faint == [False, False, True]
    background = "element => getComputedStyle(element).backgroundColor"
    assert tab.eval_on_selector(".mark.faint", background) == "rgba(0, 0, 0, 0)"
    assert tab.eval_on_selector(".swatch.faint", background) == "rgba(0, 0, 0, 0)"


# several methods


def test_methods_stand_in_one_row_per_word(show: Open) -> None:
    text = "good bad film"
    runs = [
        made(text, scores=[0, 4, -2, 1, 0], method="first"),
        made(text, scores=[0, 0.1, 0.2, 0, 0], method="second"),
        made(text, scores=[0, 1, 2, 3, 0], signed=False, method="third"),
        made(text, scores=[0, 0.5, 0.25, 0.75, 0], signed=False, method="random"),
    ]
    tab = opened(show, runs)
    assert texts_of(tab, "#dots tbody th") == ["good", "bad", "film"]
    assert tab.locator("#dots tbody tr").first.locator(".dot").count() == 3
    left = "all => all.map(dot => Math.round(parseFloat(dot.style.left)))"
    assert tab.eval_on_selector_all("#dots tbody tr:nth-child(1) .dot", left) == [98, 74, 66]
    assert tab.eval_on_selector_all("#dots tbody tr:nth-child(2) .dot", left) == [26, 98, 82]
    band = tab.eval_on_selector("#dots .band", "band => [band.style.left, band.style.right]")
    assert [round(float(re.findall(r"[\d.]+", each)[-1])) for each in band] == [18, 18], (
        "two thirds of the largest, on either side"
    )
    assert texts_of(tab, ".conflict") == ["", "≠", ""]
    assert "contradict each other on bad." in tab.inner_text("#consensus")
    assert "first −0.50; second +1.00; third 0.67; signs differ" in tab.text_content("#dots tbody tr:nth-child(2) td")
    tab.hover("#dots tbody tr:nth-child(1) .dot >> nth=0")
    assert "first" in tab.inner_text("#tip")
    tab.click(".method-mark >> nth=1")
    assert tab.eval_on_selector("#method", "select => select.selectedOptions[0].textContent") == "second"
    assert tab.inner_text("#decision-title").startswith("Good (75 %), mainly because of bad")
    assert tab.is_hidden("#comparison") is False
    assert opened(show, runs[:1]).is_hidden("#comparison")


# long texts


def long_text() -> Explanation:
    sentences = [f"This is sentence number {n} of a long text." for n in range(80)]
    explanation = made(" ".join(sentences), (0, 1))
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 0.05, explanation.scores.shape).astype(np.float32)
    sixty = [i for i, token in enumerate(explanation.tokens) if token.text == "60"]
    scores[:, sixty] = 9.0
    return replace(explanation, scores=scores)


def test_a_long_text_has_a_map_sentence_sums_and_a_jump(show: Open) -> None:
    explanation = long_text()
    alone = opened(show, [replace(explanation, layers=(0,), scores=explanation.scores[:1])])
    row = "all => all.map(each => Number(each.textContent.replace('−', '-')))"
    figures = alone.eval_on_selector_all("#grid .bar .figure", row)
    assert [abs(each) for each in figures] == sorted((abs(each) for each in figures), reverse=True)
    assert min(figures) < 0 < max(figures), "the strongest first, for or against: few are in sight at once"
    tab = opened(show, [explanation])
    assert tab.is_visible("#minimap")
    assert tab.locator(".tick").count() > 20, "one outlier does not wash out the others"
    assert "and more" in tab.inner_text("#ramp-high")
    tab.click("#jump")
    assert tab.inner_text(".mark.here") == "60"
    assert tab.evaluate("document.getElementById('sources').scrollTop") > 0
    strongest = tab.inner_text(".sentence >> nth=0")
    words = [
        word
        for word in explanation.words(0)
        if "number 60 " in explanation.text[max(0, word.start - 30) : word.end + 30]
    ]
    assert "number 60" in strongest
    start = explanation.text.index("This is sentence number 60")
    end = explanation.text.index("This is sentence number 61")
    total = sum(word.score for word in explanation.words(0) if start <= word.start < end)
    assert float(strongest.split()[0].replace("−", "-")) == pytest.approx(total, abs=0.006)
    assert words
    tab.evaluate("document.getElementById('sources').scrollTop = 0")
    tab.click(".sentence >> nth=0")
    assert tab.evaluate("document.getElementById('sources').scrollTop") > 0
    box = tab.locator("#minimap").bounding_box()
    tab.mouse.click(box["x"] + 5, box["y"] + 2)
    assert tab.evaluate("document.getElementById('sources').scrollTop") == 0
    assert serious(tab) == []


def test_blanks_between_words_are_as_wide_as_anywhere(show: Open) -> None:
    """No sign stands apart from its word, coloured or not."""
    tab = opened(show, [made("good film, bad", scores=[0, 2, 1, 0.1, -2, 0])])
    sides = tab.eval_on_selector_all(
        ".mark", "all => all.map(each => each.getBoundingClientRect()).map(b => [b.left, b.right])"
    )
    assert sides[2][0] == pytest.approx(sides[1][1], abs=0.6), "the comma touches its word"


# pairs and tags


def test_question_and_context_by_name_and_the_answer_marked(show: Open) -> None:
    asked = ("what was it", "the film was a great success")
    found = whence.explain(tiny_models.tiny("bert", "question_answering"), asked, "gradient_x_input")
    tab = opened(show, [found])
    assert texts_of(tab, "#sources h3") == ["Question", "Context"]
    assert " ".join(texts_of(tab, ".answer")).startswith(found.prediction.label), "in whole words"
    assert tab.inner_text("#decision-title").startswith(f"The answer is {found.prediction.label} (")


def test_the_tagged_text_and_the_token_chosen(show: Open) -> None:
    text, model = "a good film", tiny_models.tiny("bert", "token_classification")
    found = [whence.explain(model, text, "gradient_x_input", target=whence.Label(at=at)) for at in (2, 7)]
    tab = opened(show, found)
    assert tab.is_hidden("#texts"), "one text, however many tags"
    assert texts_of(tab, ".tagged") == ["good", "film"]
    tags = [each.target.description.split(" at ")[0] for each in found]
    assert tab.eval_on_selector_all(".tagged", "all => all.map(mark => mark.dataset.tag)") == tags
    assert tab.inner_text("#decision-title").startswith(f"good is tagged {tags[0]}")
    tab.click(".tagged >> nth=1")
    assert tab.inner_text("#decision-title").startswith(f"film is tagged {tags[1]}")
    assert tab.get_attribute(".tagged >> nth=1", "aria-pressed") == "true"
    tab.focus(".tagged >> nth=0")
    tab.keyboard.press("Enter")
    assert tab.inner_text("#decision-title").startswith("good is tagged")
    assert serious(tab) == []


# pictures


def test_the_picture_holds_sentence_text_legend_and_signs(show: Open) -> None:
    label = "averylongword" * 8
    record = ModelRecord("/home/me/secret/model", None, "x", "classification")
    explanation = made(f"good {label} bad", (0, 1), [[0, 2, 0.1, -2, 0], [0, 1, 0.1, -1, 0]], model=record)
    tab = opened(show, [explanation])
    with tab.expect_download() as waiting:
        tab.click("#save-svg")
    picture = ElementTree.fromstring(Path(waiting.value.path()).read_bytes())
    name = "{http://www.w3.org/2000/svg}"
    texts = list(picture.iter(f"{name}text"))
    written = "".join("".join(each.itertext()) for each in texts)
    assert tab.inner_text("#decision-title") in written
    assert tab.inner_text("#ramp-high") in written
    assert tab.inner_text("#legend-sentence") in written
    assert written.count(label) == 2, "once in the text and once in the map, and whole"
    assert "/home/me" not in written + tab.inner_text("body") + tab.content()
    assert {"+", "−"} <= {"".join(each.itertext()) for each in texts}
    width = float(picture.get("width") or 0)
    drawn = tab.evaluate(
        """svg => { const holder = document.createElement('div'); document.body.append(holder);
        const parsed = document.importNode(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement, true);
        holder.append(parsed);
        return [...parsed.querySelectorAll('text')].map(t => t.getBBox()).map(b => [b.x, b.x + b.width]); }""",
        Path(waiting.value.path()).read_text(),
    )
    assert min(low for low, _ in drawn) >= 0
    assert max(high for _, high in drawn) <= width


# once more


def test_the_page_can_be_drawn_again_from_other_data(show: Open) -> None:
    tab = opened(show, [made("a first film", (0, 1)), made("another", (0, 1))])
    assert tab.is_visible("#texts")
    for text in ("a second film", "a third one"):
        other = {"title": "Anew", "version": "0", **page_data([made(text, (0, 1, 2), method="other")])}
        tab.evaluate("payload => drawPage(payload)", other)
        assert tab.text_content(".source") == text
        assert tab.title() == "Anew"
        assert tab.is_hidden("#texts")
    tab.keyboard.press("ArrowRight")
    assert tab.text_content("#layer-name") == "layer 1", "keys are listened to once, not once more each time"


# every screen

CUT_OFF = """selector => [...document.querySelectorAll(selector)].filter(each => each.offsetWidth
  && each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""


BROKEN = """selector => [...document.querySelectorAll(selector)].flatMap(each => [...each.childNodes])
  .filter(node => node.nodeType === 3).flatMap(node => [...node.textContent.matchAll(/[^\\s_]+_?/g)].filter(word => {
    const range = document.createRange();
    range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
  }).map(word => word[0]))"""


@pytest.fixture(scope="module")
def kinds() -> dict[str, list[Explanation]]:
    """Each kind of text that a page shows in its own way: a long one, a question, tags, and units of several words."""
    sentiment = whence.load()
    asked = ("what was it", "the film was a great success")
    tagger = tiny_models.tiny("bert", "token_classification")
    return {
        "long": [whence.explain(sentiment, " ".join(DEMO * 4), "gradient_x_input", layers="embeddings")],
        "question": [whence.explain(tiny_models.tiny("bert", "question_answering"), asked, "gradient_x_input")],
        "tags": [whence.explain(tagger, "a good film", target=whence.Label(at=at)) for at in (2, 7)],
        "sentences": [whence.explain(sentiment, " ".join(DEMO), "leave_one_out", units="sentence")],
    }


@pytest.mark.parametrize("kind", ["long", "question", "tags", "sentences"])
def test_every_kind_of_text_at_every_width_dark_and_on_paper(
    show: Open, kinds: dict[str, list[Explanation]], kind: str
) -> None:
    tab = opened(show, kinds[kind], width=320)
    for width in (320, 400, 1280, 3840):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, width
        assert tab.evaluate(CUT_OFF, "#ramp-low, #ramp-high, .bar-head, .tagged, #beliefs li") == [], width
        assert tab.eval_on_selector("#scroller", "at => at.scrollWidth - at.clientWidth") <= 0, width
        if width in (400, 1280):
            tab.emulate_media(color_scheme="dark" if width == 400 else "light")
            assert serious(tab) == []
    tab.emulate_media(media="print")
    assert tab.is_visible("#decision-title")
    assert tab.is_hidden("#jump")


@pytest.mark.parametrize("width", [320, 400, 1280, 3840])
def test_names_of_methods_are_whole_and_bars_fill_the_room(
    show: Open, explained: list[whence.Comparison], width: int
) -> None:
    tab = opened(show, explained[0].explanations, width=width)
    assert tab.evaluate(CUT_OFF, ".method-name") == []
    assert tab.evaluate(BROKEN, ".method-name, .bar-head span") == []
    colours = "all => all.map(fill => getComputedStyle(fill).backgroundColor)"
    last = tab.eval_on_selector_all(".row[data-row='0'] .bar:last-child .fill", colours)
    grey = tab.eval_on_selector(".band-mark", "mark => getComputedStyle(mark).getPropertyValue('--edge').trim()")
    assert last == [tab.evaluate("colour => { const at = document.createElement('i'); document.body.append(at);"
                                 " at.style.color = colour; return getComputedStyle(at).color; }", grey)]  # fmt: skip
    tab = opened(show, explained[0].explanations[:1], width=width)
    room = tab.locator("#scroller").bounding_box()
    ends = tab.eval_on_selector_all(".bar .track", "all => all.map(track => track.getBoundingClientRect().right)")
    assert max(ends) == pytest.approx(room["x"] + room["width"], abs=12)


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (400, "light"), (1280, "light"), (3840, "dark")])
def test_every_width_dark_and_print(show: Open, explained: list[whence.Comparison], width: int, scheme: str) -> None:
    layered = whence.explain(whence.load(), DEMO[0], "gradient_x_input")
    tab = opened(show, [*explained[0].explanations, layered], width=width, height=800, color_scheme=scheme)
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.evaluate(wide) == 0
    assert serious(tab) == []
    tab.emulate_media(media="print")
    assert tab.is_hidden("#controls")
    assert tab.is_visible("#decision-title")
    assert tab.is_visible("#facts"), "what is folded on the screen is printed"
    assert width < 1_000 or tab.evaluate(wide) == 0
    if width == 400:
        pages = tab.pdf(width="210mm", height="297mm")
        assert pages.startswith(b"%PDF")
        assert tab.evaluate("getComputedStyle(document.getElementById('grid')).zoom") == "1", "as before"


def test_everything_is_reached_by_keys(show: Open, explained: list[whence.Comparison]) -> None:
    layered = whence.explain(whence.load(), DEMO[0], "gradient_x_input")
    tab = opened(show, [layered, *explained[0].explanations])
    seen: list[str] = []
    while len(seen) < 150 and "words" not in seen:
        tab.keyboard.press("Tab")
        focus = "[document.activeElement.className, document.activeElement.id, document.activeElement.parentNode.id]"
        seen += tab.evaluate(focus)
    reached = {"term", "method", "layer", "method-mark", "save-png", "more", "correlation", "frame", "words"}
    assert reached <= set(seen)
    assert tab.evaluate("document.activeElement.tagName") == "SUMMARY"
    tab.keyboard.press("Enter")
    assert tab.is_visible("#glossary")


def test_a_target_that_is_not_what_the_model_says(show: Open) -> None:
    said = Prediction("good", 1, 0.7, {"good": 0.7, "bad": 0.3})
    explanation = made("a good film", target=ExplainedTarget("bad", "logit", 0.2), prediction=said)
    tab = opened(show, [explanation])
    assert tab.inner_text("#decision-title").startswith("The model says good (70 %). What there is for bad")
