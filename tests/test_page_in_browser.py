"""The page in a real browser: everything by pointer and by key, hostile texts, many texts, small and large screens."""

from __future__ import annotations

import csv
import functools
import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from made_explanations import made
from test_page import HOSTILE, poisoned

from whence.explanation import Explanation, Meaning, Prediction, Unit, UnitScores
from whence.metrics.rank_correlation import kendall_tau
from whence.render.page import page as page_of
from whence.render.visible import visible

SENTENCE = "Not the worst film of the year, but unremarkable"
KEEP = Meaning("keep probability", "how probably the word stays", False, False, 0.0, 1.0, keep_probability=True)
LAYERS = tuple(range(5))

HANDLERS = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on'))"
WITHOUT_CHIPS = "p => [...p.childNodes].filter(n => !n.classList?.contains('chip')).map(n => n.textContent).join('')"

Open = Callable[..., Any]


@pytest.fixture
def show(show: Open) -> Open:
    """Opens the page of several explanations."""
    return lambda explanations, *size, **settings: show(page_of(explanations), *size, **settings)


def many_layers(**changes: Any) -> Explanation:
    return made(SENTENCE, LAYERS, pieces=True, method="many", **changes)


def three() -> list[Explanation]:
    return [many_layers(), made(SENTENCE, LAYERS, signed=False, pieces=True, seed=1, method="unsigned"),
            made(SENTENCE, ("embeddings",), pieces=True, seed=2, method="flat")]  # fmt: skip


@functools.cache
def thousand(methods: int = 3) -> list[Explanation]:
    """A thousand texts by three methods at seven layers, each with a probability of its own."""
    first = [made("the film was fine number 0000", tuple(range(7)), method=f"method {n}") for n in range(methods)]
    found = []
    for place in range(1_000):
        chance = 0.5 + (place * 37 % 1_000) / 2_001
        said = Prediction("good" if place % 3 else "bad", place % 3, chance, {"good": chance, "bad": 1 - chance})
        for n, each in enumerate(first):
            scores = np.random.default_rng(methods * place + n).normal(size=each.scores.shape).astype(np.float32)
            text = f"the film was fine number {place:04}"
            found.append(replace(each, text=text, scores=scores, prediction=said))
    return found


def texts_of(tab: Any, selector: str) -> list[str]:
    found: list[str] = tab.locator(selector).all_text_contents()
    return found


def shares(tab: Any) -> list[str]:
    found: list[str] = tab.eval_on_selector_all(".mark", "all => all.map(mark => mark.style.cssText)")
    return found


def layer(tab: Any) -> str:
    name: str = tab.text_content("#layer-name")
    return name


def labels(tab: Any) -> list[str]:
    return texts_of(tab, ".body .label")


def overflow(tab: Any) -> int:
    wide: int = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wide


# the text


@pytest.mark.parametrize("text", ["two\nlines  and   spaces\tend ", "👍🏽 ok 👩‍👩‍👧‍👦 e\u0301 日本 שלום", "a"])
def test_the_text_stands_as_it_was_written(show: Open, text: str) -> None:
    tab = show([made(text, LAYERS)])
    assert tab.text_content(".source") == text
    assert tab.locator(".symbol").count() == 0
    expected = [word.text for word in made(text, LAYERS).words()]
    assert texts_of(tab, ".source .mark") == expected


def test_pairs_are_two_texts(show: Open) -> None:
    tab = show([made("a question", LAYERS, pair="an answer")])
    assert texts_of(tab, ".source") == ["a question", "an answer"]


def test_units_are_coloured_and_named_as_a_whole(show: Open) -> None:
    text = "It was fine. Not dull!"
    explanation = made(text, LAYERS, pieces=True)
    own = [i for i, token in enumerate(explanation.tokens) if not token.special]
    first = sum(explanation.tokens[i].start < 12 for i in own)
    units = (Unit(0, 12, 0, tuple(own[:first])), Unit(13, 22, 0, tuple(own[first:])))
    scores = np.array([[1.0, -0.5]] * 5, dtype=np.float32)
    tab = show([replace(explanation, units=UnitScores("sentence", units, scores, scores / 8))])
    assert texts_of(tab, ".source .mark") == ["It was fine.", "Not dull!"]
    assert tab.text_content(".source") == text
    assert labels(tab) == ["It was fine.", "Not dull!"]
    assert tab.text_content("#unit-words-label") == "sentences"
    assert "Sentences × layers" in tab.text_content("#map-title")
    assert "A sentence has the sum of its sub-words' scores." in tab.text_content("#legend-range")
    tab.hover(".source .mark")
    assert "sentenceIt was fine." in tab.text_content("#tip")
    assert "+1.00 ± 0.12" in tab.text_content("#tip")
    tab.keyboard.press("w")
    assert len(texts_of(tab, ".source .mark")) == len(explanation.tokens) - 2


def test_what_the_model_did_not_read_is_set_apart(show: Open) -> None:
    explanation = made("seen words", LAYERS)
    tab = show([replace(explanation, text="seen words and more", warnings=("truncated: the rest was not seen",))])
    assert tab.text_content(".unread") == " and more"
    assert tab.text_content("#warning-list") == "truncated: the rest was not seen"
    assert tab.is_visible("#warnings")
    assert tab.locator("#warnings").bounding_box()["y"] < tab.locator("#decision").bounding_box()["y"]


def test_words_are_coloured_by_their_scores(show: Open) -> None:
    explanation = many_layers()
    tab = show([explanation])
    words = explanation.words(0)
    largest = max(abs(word.score) for word in words)
    found = tab.eval_on_selector_all(
        ".mark",
        "all => all.map(m => [parseFloat(m.style.getPropertyValue('--share')), m.classList.contains('against')])",
    )
    assert [share for share, _ in found] == pytest.approx([abs(w.score) / largest for w in words], abs=1e-3)
    assert [against for _, against in found] == [word.score < 0 for word in words]
    assert "for" in tab.text_content("#ramp-high")
    assert "against" in tab.text_content("#ramp-low")
    assert "what it says" in tab.text_content("#legend-sentence")


def test_scores_without_sign_have_one_hue(show: Open) -> None:
    tab = show([made(SENTENCE, LAYERS, signed=False)])
    assert tab.locator(".against").count() == 0
    assert tab.text_content("#ramp-low") == "0"
    assert "no sign" in tab.text_content("#legend-sentence")


def test_words_or_sub_words(show: Open) -> None:
    explanation = many_layers()
    tab = show([explanation])
    assert labels(tab) == [word.text for word in explanation.words()]
    tab.check("#unit-tokens", force=True)
    assert len(labels(tab)) == sum(not token.special for token in explanation.tokens)
    assert "…rst" in labels(tab)
    assert "rst" in texts_of(tab, ".mark")
    assert tab.text_content(".source") == SENTENCE
    tab.check("#unit-words", force=True)
    assert "…rst" not in labels(tab)


def test_special_tokens_are_folded_away_but_reachable(show: Open) -> None:
    scores = many_layers().scores.copy()
    scores[:, -1] = 50
    tab = show([many_layers(scores=scores)])
    assert "[SEP]" not in labels(tab)
    assert "[SEP] has a stronger score" in tab.text_content("#folded")
    tab.check("#specials")
    assert labels(tab)[0] == "[CLS]"
    assert labels(tab)[-1] == "[SEP]"
    assert texts_of(tab, ".chip") == ["[CLS]", "[SEP]"]


# layers


def test_the_slider_walks_through_the_layers(show: Open) -> None:
    tab = show([many_layers()])
    before = shares(tab)
    assert layer(tab) == "embedding"
    tab.focus("#layer")
    tab.keyboard.press("ArrowRight")
    assert layer(tab) == "layer 1"
    assert tab.get_attribute("#layer", "aria-valuetext") == "layer 1"
    assert shares(tab) != before
    assert tab.text_content("#reading-title") == "The text at layer 1"
    assert texts_of(tab, ".layer-head.now") == ["1"]
    tab.fill("#layer", "4")
    assert layer(tab) == "layer 4"
    assert tab.locator(".body .row").first.locator(".square.now").get_attribute("data-column") == "4"


def test_arrow_keys_walk_through_the_layers_and_stop_at_the_ends(show: Open) -> None:
    tab = show([many_layers()])
    seen = []
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
        seen.append(layer(tab))
    assert seen == ["layer 1", "layer 2", "layer 3", "layer 4", "layer 4"]
    tab.keyboard.press("ArrowLeft")
    assert layer(tab) == "layer 3"


def test_layers_are_named(show: Open) -> None:
    tab = show([made(SENTENCE, ("embeddings", 0, 1, 2))])
    assert texts_of(tab, ".square-head") == ["word embeddings", "embedding", "1", "2"]


def test_squares_are_reached_by_keys_and_say_their_score(show: Open) -> None:
    explanation = many_layers()
    tab = show([explanation])
    assert tab.locator('[role="gridcell"][tabindex="0"]').count() == 1
    tab.locator('[role="gridcell"][tabindex="0"]').focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert layer(tab) == "layer 2"
    word = explanation.words(2)[1]
    note = tab.text_content("#tip")
    assert tab.is_visible("#tip")
    assert f"word{word.text}" in note
    assert "layerlayer 2" in note
    assert f"{abs(word.score):.3f}"[:4] in note
    focused = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith(f"{word.text}, layer 2: ")
    tab.keyboard.press("Control+End")
    assert tab.evaluate("document.activeElement.parentNode.dataset.row") == str(len(explanation.words()) - 1)
    tab.keyboard.press("Home")
    assert layer(tab) == "embedding"
    assert tab.locator('[role="gridcell"][tabindex="0"]').count() == 1


def test_pointing_shows_word_layer_and_score(show: Open) -> None:
    tab = show([many_layers()])
    tab.hover('.row[data-row="2"] [data-column="3"]')
    assert "worst" in tab.text_content("#tip")
    assert "layer 3" in tab.text_content("#tip")
    tab.hover(".mark >> nth=3")
    assert "film" in tab.text_content("#tip")
    assert "made offi …lm" in tab.text_content("#tip")
    tab.hover("#title")
    assert tab.is_hidden("#tip")


def test_special_tokens_never_set_the_scale_of_words(show: Open) -> None:
    scores = many_layers().scores.copy()
    scores[-1] = 0
    scores[-1, 0] = 50  # as gradients do at the last layer, which a classifier reads at [CLS] only
    tab = show([many_layers(scores=scores)])
    found = tab.eval_on_selector_all(".square", "all => all.map(cell => cell.style.getPropertyValue('--share'))")
    assert max(map(float, found)) == 1


def test_full_colour_of_the_method_or_of_each_layer(show: Open) -> None:
    scores = many_layers().scores * np.array([[0.1], [1], [2], [3], [4]], dtype=np.float32)
    tab = show([many_layers(scores=scores)])

    def strongest(column: int) -> float:
        style = "all => Math.max(...all.map(cell => parseFloat(cell.style.getPropertyValue('--share'))))"
        return float(tab.eval_on_selector_all(f'.square[data-column="{column}"]', style))

    assert strongest(0) < 0.2
    tab.check("#normalise-layer", force=True)
    assert strongest(0) == 1


def test_the_line_runs_where_words_are_dropped(show: Open) -> None:
    drops = [0, 3, 1, 5, 2, 4]  # 5: never
    keep = np.array([[0.9 if at < drop else 0.1 for drop in drops] for at in range(5)], dtype=np.float32)
    scores = np.concatenate([np.ones((5, 1)), keep, np.ones((5, 1))], axis=1)
    explanation = made("one two three four five six", LAYERS, scores, signed=False, meaning=KEEP)
    tab = show([explanation])
    assert layer(tab) == "layer 4"
    for row, drop in enumerate(drops):
        classes = tab.eval_on_selector_all(f'.row[data-row="{row}"] .square', "all => all.map(cell => cell.className)")
        assert [at for at, names in enumerate(classes) if "drop-left" in names] == ([drop] if drop < 5 else [])
        assert [at for at, names in enumerate(classes) if "drop-right" in names] == ([4] if drop == 5 else [])
        above = drops[row - 1] if row else drop
        level = [at for at, names in enumerate(classes) if "drop-top" in names]
        assert level == list(range(min(drop, above), max(drop, above)))
    tab.hover('.row[data-row="1"] [data-column="0"]')
    assert "droppedat layer 3" in tab.text_content("#tip")
    assert "from there on no layer keeps it" in tab.text_content("#map-note")


def test_what_is_kept_again_is_not_yet_dropped(show: Open) -> None:
    keep = [[0.9, 0.2, 0.8, 0.3, 0.1], [0.2, 0.9, 0.9, 0.9, 0.9]]  # given up at layer 1 and taken back; the reverse
    scores = np.pad(np.array(keep, dtype=np.float32).T, ((0, 0), (1, 1)), constant_values=1)
    tab = show([made("one two", LAYERS, scores, signed=False, meaning=KEEP)])
    for row, (side, column) in enumerate([("drop-left", 3), ("drop-right", 4)]):
        found = tab.locator(f'.row[data-row="{row}"] .{side}')
        assert [each.get_attribute("data-column") for each in found.all()] == [str(column)]
    tab.hover('.row[data-row="0"] [data-column="0"]')
    assert "droppedat layer 3" in tab.text_content("#tip")


def test_scores_named_after_keeping_are_drawn_as_what_they_are(show: Open) -> None:
    meaning = Meaning("decoded keep probability", "carried back to words", False, True, 0.0, None, decoded=True)
    scores = np.tile(np.array([0, 40, 10, 20, 0], dtype=np.float32), (5, 1))
    tab = show([made("one two three", LAYERS, scores, signed=False, meaning=meaning)])
    assert layer(tab) == "embedding"
    assert tab.text_content("#ramp-high") == "40.00"
    assert [share.split("--share: ")[1].rstrip(";") for share in shares(tab)] == ["1.000", "0.250", "0.500"]
    assert tab.locator(".drop-left, .drop-right").count() == 0


def background(tab: Any, selector: str) -> str:
    colour: str = tab.eval_on_selector(selector, "element => getComputedStyle(element).backgroundColor")
    return colour


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_legend_ends_in_the_colour_of_the_strongest_word(show: Open, scheme: str) -> None:
    tab = show([made("good bad film", LAYERS, [[0, 2, -2, 1, 0]] * 5)], color_scheme=scheme)
    assert tab.text_content("#ramp-high") == "for +2.00"
    assert background(tab, ".swatch:last-child") == background(tab, ".mark:nth-of-type(1)")
    assert background(tab, ".swatch:first-child") == background(tab, ".mark:nth-of-type(2)")
    assert background(tab, ".swatch:nth-child(7)") == background(tab, ".mark:nth-of-type(3)")


def test_words_by_score_stand_by_score(show: Open) -> None:
    tab = show([made("a good bad film", ("embeddings",), [9, 1, 3, -2, 2, 0])])
    assert tab.text_content("#map-title") == "Words by score"
    assert labels(tab) == ["good", "film", "a", "bad"]
    assert texts_of(tab, ".bar .figure") == ["+3.00", "+2.00", "+1.00", "−2.00"]
    tab.hover('.row[data-row="3"] .bar')
    assert tab.text_content("#tip").startswith("wordbad")
    tab.check("#specials")
    assert labels(tab) == ["[CLS]", "good", "film", "a", "[SEP]", "bad"]
    tab = show(three()[:2])
    assert labels(tab) == [word.text for word in three()[0].words()]


# methods


def test_methods_stand_side_by_side_with_one_axis(show: Open) -> None:
    tab = show(three())
    assert texts_of(tab, ".method-name") == ["many", "unsigned", "flat"]
    assert tab.locator(".body .row").first.locator('[role="gridcell"]').count() == 5 + 5 + 1
    assert labels(tab) == [word.text for word in three()[0].words()]
    tab.check("#view-one", force=True)
    assert tab.locator(".body .row").first.locator('[role="gridcell"]').count() == 6


def test_another_method_colours_the_text(show: Open) -> None:
    tab = show(three())
    before = shares(tab)
    tab.select_option("#method", label="unsigned")
    assert shares(tab) != before
    assert tab.locator(".mark.against").count() == 0
    tab.keyboard.press("Escape")
    tab.locator("#title").click()
    tab.keyboard.press("m")
    assert tab.eval_on_selector("#method", "select => select.selectedOptions[0].textContent") == "flat"
    assert tab.is_disabled("#layer")
    tab.click(".method-name >> nth=0")
    assert tab.eval_on_selector("#method", "select => select.selectedOptions[0].textContent") == "many"
    assert shares(tab) == before


def test_a_square_of_another_method_chooses_that_method(show: Open) -> None:
    tab = show(three())
    tab.click('.row[data-row="0"] [data-column="8"]')
    assert tab.eval_on_selector("#method", "select => select.selectedOptions[0].textContent") == "unsigned"
    assert layer(tab) == "layer 3"


def matrix(tab: Any) -> np.ndarray:
    found = texts_of(tab, "#matrix tbody td")
    return np.array([float(value.replace("−", "-")) for value in found]).reshape(3, 3)


def test_rank_correlations_follow_the_layer(show: Open) -> None:
    explanations = three()
    tab = show(explanations)
    for step in (0, 1):
        sizes = [
            [abs(w.score) for w in each.words(each.layers[min(step, len(each.layers) - 1)])] for each in explanations
        ]
        expected = kendall_tau(np.array(sizes), np.array(sizes))
        assert matrix(tab) == pytest.approx(expected, abs=0.0051)
        tab.keyboard.press("ArrowRight")


def test_the_frame_says_with_what_and_how(show: Open) -> None:
    explanation = many_layers(warnings=("scores at layer 1 miss 0.5",), completeness_errors=(0.0, 0.5, 0.1, 0.0, 0.0))
    tab = show([explanation])
    frame = tab.text_content("#frame")
    for part in ("some/model", "abc123", "BertForSequenceClassification", "steps=25", "seed11", "26 forwards",
                 "25 backwards", "1.50 s", "0.500 at layer 1", "logit of good"):  # fmt: skip
        assert part in frame, part
    assert tab.text_content("#decision-title") == "good 75.0 %"
    assert texts_of(tab, ".chances .figure") == ["75.0 %", "25.0 %"]
    assert tab.is_visible("#warnings")
    assert "noteexact: all sets were asked" in show([many_layers(notes=("exact: all sets were asked",))]).text_content(
        "#facts"
    )


# many texts


def test_a_thousand_texts_are_found_sorted_and_walked(show: Open) -> None:
    tab = show(thousand())
    assert tab.text_content("#found") == "1000 texts"
    assert tab.locator(".item").count() < 40  # only those in sight
    assert tab.locator("*").count() < 3_000
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    assert tab.text_content(".source") == "the film was fine number 0002"
    tab.keyboard.press("k")
    assert tab.text_content(".source") == "the film was fine number 0001"
    assert tab.text_content('.item[aria-selected="true"] .snippet') == "the film was fine number 0001"

    tab.keyboard.press("/")
    tab.keyboard.type("NUMBER 07")
    assert tab.text_content("#found") == "100 of 1000 texts"
    assert tab.text_content(".source") == "the film was fine number 0700"
    tab.fill("#search", "bad")
    assert tab.text_content("#found") == "334 of 1000 texts"
    tab.fill("#search", "nowhere")
    assert tab.text_content("#found") == "0 of 1000 texts"
    assert tab.locator(".item").count() == 0
    tab.fill("#search", "")

    tab.select_option("#sort", "sure")
    tab.focus("#list")
    tab.keyboard.press("Home")
    chances = [float(text.split("%")[0].split()[-1].replace("good", "").replace("bad", ""))
               for text in texts_of(tab, ".item .facts")]  # fmt: skip
    assert chances == sorted(chances, reverse=True)
    assert chances[0] == pytest.approx(100, abs=0.2)
    tab.keyboard.press("End")
    assert tab.is_disabled("#next")
    assert tab.locator(".item").count() < 40
    tab.select_option("#sort", "unsure")
    tab.focus("#list")
    tab.keyboard.press("Home")
    assert tab.text_content("#decision-title").endswith(" 50.0 %")


def test_texts_are_sorted_by_disagreement(show: Open) -> None:
    explanations = thousand()
    tab = show(explanations)
    tab.select_option("#sort", "disagreement")
    tab.focus("#list")
    tab.keyboard.press("Home")
    distance = {}
    for place in range(0, len(explanations), 3):
        sizes = np.abs([[w.score for w in each.words()] for each in explanations[place : place + 3]])
        distance[explanations[place].text] = 1 - kendall_tau(sizes, sizes)[np.triu_indices(3, 1)].mean()
    assert tab.text_content(".source") == max(distance, key=lambda text: distance[text])
    assert f"≠ {max(distance.values()):.2f}" in tab.text_content('.item[aria-selected="true"]')


def test_the_list_is_drawn_while_it_scrolls(show: Open) -> None:
    tab = show(thousand(1))
    tab.eval_on_selector("#list", "list => { list.scrollTop = list.scrollHeight / 2; }")
    tab.wait_for_selector(".item[data-index='500']")
    assert tab.locator(".item").count() < 40
    tab.click(".item[data-index='500']")
    assert tab.text_content(".source") == "the film was fine number 0500"
    assert tab.is_hidden("#correlation")


def test_a_long_text_with_many_layers_stays_light(show: Open) -> None:
    text = " ".join(f"w{n}" for n in range(300))
    tab = show([made(text, tuple(range(13)), method=name, seed=at) for at, name in enumerate("abc")])
    rows = len(made(text).words())
    assert tab.get_attribute("#grid", "aria-rowcount") == str(rows + 2)
    assert tab.locator(".body .row").count() < 80
    tab.locator('[role="gridcell"][tabindex="0"]').focus()
    tab.keyboard.press("Control+End")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("w299, layer 12, c: ")
    tab.keyboard.press("PageUp")
    assert tab.evaluate("document.activeElement.parentNode.dataset.row") == str(rows - 11)
    assert tab.locator(".body .row").count() < 80
    tab.keyboard.press("Control+Home")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("w0, embedding, a: ")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator(".body .row").count() == rows
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.locator(".body .row").count() < 80


# taking things away


def saved(tab: Any, button: str) -> tuple[str, bytes]:
    with tab.expect_download() as waiting:
        tab.click(button)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_the_scores_as_csv(show: Open) -> None:
    explanation = made('=1+1 👍🏽 +2 ok, "x"', LAYERS)
    explanation = replace(explanation, standard_errors=np.full(explanation.scores.shape, 0.125, np.float32))
    name, content = saved(show([explanation]), "#save-csv")
    assert name == "whence-1-made_up.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    frame = explanation.to_dataframe()
    assert len(rows) == len(frame)
    for row, expected in zip(rows, frame.itertuples(), strict=True):
        assert np.float32(row["score"]) == np.float32(expected.score)
        assert (row["layer"], int(row["start"]), int(row["end"])) == (str(expected.layer), expected.start, expected.end)
        assert row["token"].removeprefix("'") == expected.token
        assert not row["token"].startswith(("=", "+", "-", "@"))
        assert float(row["standard_error"]) == 0.125
    assert any(row["token"].startswith("'") for row in rows)


def test_the_map_as_a_picture(show: Open) -> None:
    tab = show(three())
    name, content = saved(tab, "#save-svg")
    assert name == "whence-1-methods.svg"
    picture = ElementTree.fromstring(content)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    words = len(three()[0].words())
    written = ["".join(found.itertext()) for found in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"many", "unsigned", "flat", "worst", "embedding", "4"} <= set(written)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}rect"))) == 1 + 2 * 2 * 5 * words + words
    name, content = saved(tab, "#save-png")
    assert name == "whence-1-methods.png"
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) > 5_000


def test_hostile_pictures_are_still_pictures(show: Open) -> None:
    everything = " ".join(text for text in HOSTILE.values() if len(text) < 1_000)
    tab = show([poisoned(everything)])
    _, content = saved(tab, "#save-svg")
    tags = {element.tag.split("}")[1] for element in ElementTree.fromstring(content).iter()}
    assert tags == {"svg", "rect", "text"}
    _, content = saved(tab, "#save-png")
    assert content.startswith(b"\x89PNG")


# hostile texts


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_shows_literally_and_nothing_runs(show: Open, poison: str) -> None:
    tab = show([poisoned(poison), replace(poisoned(poison), method="other"), made("a film")])
    tab.keyboard.press("s")
    tab.keyboard.press("w")
    tab.hover(".mark >> nth=0", position={"x": 2, "y": 2})
    tab.keyboard.press("?")
    assert tab.evaluate("window.__hit") is None
    assert tab.evaluate("document.scripts.length") == 2
    assert tab.locator("img, iframe, svg, object, embed, body a:not(.skip), body style").count() == 0
    assert tab.evaluate(HANDLERS) == []
    shown = tab.eval_on_selector(".source", WITHOUT_CHIPS)
    literal = "".join(c if c in "\n\t" or (c == "\r") else visible(c) for c in poison)
    assert shown == (literal if "\u200d" not in poison else poison)
    short = poison[:300]
    assert visible(short)[:250] in tab.text_content("#decision-title")
    assert visible(short)[:250] in tab.text_content("#target")
    assert visible(poison[:390]) in tab.text_content("#frame")
    assert visible(poison) in tab.text_content("#warnings")
    assert overflow(tab) == 0


def test_a_page_that_runs_scripts_would_be_caught(browser: Any) -> None:
    tab = browser.new_page()
    tab.set_content(f"<p>{HOSTILE['script']}</p>")
    assert tab.evaluate("window.__hit") == 1
    tab.close()


def test_the_policy_stops_a_script_that_got_in(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    pasted = page_of([made("a film")]).replace("<main", f"{HOSTILE['script']}{HOSTILE['handlers']}<main")
    file.write_text(pasted, encoding="utf-8")
    tab = browser.new_page()
    refused: list[str] = []
    tab.on("console", lambda message: refused.append(message.text))
    tab.goto(file.as_uri())
    tab.wait_for_selector(".mark")
    assert tab.evaluate("window.__hit") is None
    assert any("Content Security Policy" in text for text in refused)
    tab.close()


def test_two_explanations_share_a_notebook_page(browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 1200, "height": 1700})
    first, second = made("a first film", LAYERS), made("a second film", LAYERS)
    tab.set_content(f"<p id='title'>mine</p>{first._repr_html_()}{second._repr_html_()}")
    frames = [tab.frame_locator("iframe >> nth=0"), tab.frame_locator("iframe >> nth=1")]
    assert [frame.locator(".source").text_content() for frame in frames] == [first.text, second.text]
    frames[0].locator("#layer").fill("3")
    assert [frame.locator("#layer-name").text_content() for frame in frames] == ["layer 3", "embedding"]
    assert tab.text_content("p#title") == "mine"
    with tab.expect_download() as waiting:
        frames[1].locator("#save-csv").click()
    assert waiting.value.suggested_filename.endswith(".csv")
    tab.close()


# every screen, every user


@pytest.mark.parametrize("width", [320, 768, 1440, 3840])
def test_nothing_sticks_out_on_any_screen(show: Open, width: int) -> None:
    for explanations in ([many_layers()], three(), thousand(2)[:40]):
        tab = show(explanations, width=width, height=700)
        assert overflow(tab) == 0
        assert tab.is_visible("#save-csv")
        tab.focus("#layer")
        tab.keyboard.press("ArrowRight")
        assert layer(tab) == "layer 1"


def brightness(tab: Any, selector: str = "body") -> int:
    colour = tab.eval_on_selector(selector, "element => getComputedStyle(element).backgroundColor")
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def test_dark_follows_the_system_and_the_switch(show: Open) -> None:
    assert brightness(show([many_layers()], color_scheme="light")) > 600
    tab = show([many_layers()], color_scheme="dark")
    assert brightness(tab) < 150
    tab.select_option("#theme", "light")
    assert brightness(tab) > 600
    tab.select_option("#theme", "dark")
    tab.emulate_media(color_scheme="light")
    assert brightness(tab) < 150
    tab.emulate_media(media="print")
    assert brightness(tab) > 600


def test_it_prints_the_explanation_and_not_the_controls(show: Open) -> None:
    tab = show(thousand(2)[:40])
    tab.emulate_media(media="print")
    assert [tab.is_visible(f"#{part}") for part in ("texts", "controls", "save-csv", "open-help")] == [False] * 4
    assert [tab.is_visible(f"#{part}") for part in ("decision", "sources", "grid", "legend", "frame")] == [True] * 5


def test_help_opens_by_key_and_single_keys_can_be_switched_off(show: Open) -> None:
    tab = show([many_layers()])
    tab.keyboard.press("?")
    assert tab.is_visible("#help")
    tab.keyboard.press("w")
    assert tab.is_checked("#unit-words")  # not while the help is open
    tab.uncheck("#shortcuts")
    tab.click("#close-help")
    tab.keyboard.press("w")
    assert tab.is_checked("#unit-words")
    tab.click("#open-help")
    tab.check("#shortcuts")
    tab.keyboard.press("Escape")
    tab.keyboard.press("w")
    assert tab.is_checked("#unit-tokens")


def serious(tab: Any) -> list[str]:
    found = Axe().run(tab).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("what", ["one", "warned", "three", "many", "keep"])
def test_axe_finds_no_serious_violation(show: Open, scheme: str, what: str) -> None:
    explanations = {
        "one": lambda: [many_layers()],
        "warned": lambda: [many_layers(warnings=("truncated: the rest was not seen",))],
        "three": three,
        "many": lambda: thousand(2)[:100],
        "keep": lambda: [made(SENTENCE, LAYERS, signed=False, meaning=KEEP)],
    }[what]()
    tab = show(explanations, color_scheme=scheme, width=320 if what == "keep" else 1280)
    tab.check("#specials")
    assert serious(tab) == []
    tab.keyboard.press("ArrowRight")
    tab.hover(".mark >> nth=0")
    tab.click("#open-help")
    assert serious(tab) == []


def test_axe_can_fail(browser: Any) -> None:
    tab = browser.new_page()
    tab.set_content("<html lang='en'><title>x</title><main><h1>x</h1><input><p style='color:#ddd'>faint</p></main>")
    assert [line.split(":")[0] for line in serious(tab)] == ["color-contrast", "label"]
    tab.close()
