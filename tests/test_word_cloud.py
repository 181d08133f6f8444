"""Word clouds and ranked bars: sizes, no overlaps, the same every time, and text as data."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from whence.render.word_cloud import heaviest, layout, ranked_bars, word_cloud

SVG = "{http://www.w3.org/2000/svg}"
STEMS = ("gorgeous", "witty", "dull", "Film", "WORLD", "ill", "mm")
WORDS = {f"{STEMS[i % 7]}{'ing' * (i % 3)}{i}": 30 / (1 + i) for i in range(49)}


def texts(picture: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(picture).findall(f"{SVG}text")


def test_sizes_are_in_proportion_down_to_what_can_be_read() -> None:
    drawn = {each.text: float(each.get("font-size", 0)) for each in texts(word_cloud({"a": 4.0, "b": 2.0, "c": 0.01}))}
    assert drawn["a"] == pytest.approx(2 * drawn["b"], abs=0.1)
    assert drawn["c"] == 9.0


@settings(max_examples=10)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=30), st.floats(0.01, 100)), min_size=1, max_size=50))
def test_no_word_lies_over_another_or_outside(pairs: list[tuple[str, float]]) -> None:
    words = heaviest(dict(pairs), 50)
    placed = layout(words, 480, 300)
    assert [word.text for word in placed] == [text for text, _ in words], "every word has its place"
    for one, other in combinations(placed, 2):
        assert not one.overlaps(other)
    for word in placed:
        assert word.width / 2 <= word.x <= 480 - word.width / 2
        assert word.height / 2 <= word.y <= 300 - word.height / 2


def test_fifty_equal_long_words_find_room() -> None:
    placed = layout([(f"{'inconceivably'}{i:02}", 1.0) for i in range(50)], 480, 300)
    assert len(placed) == 50
    assert not any(one.overlaps(other) for one, other in combinations(placed, 2))


def test_the_overlap_test_can_fail() -> None:
    one, other = layout([("one", 1.0), ("two", 1.0)], 480, 300)
    assert one.overlaps(one)
    assert not one.overlaps(other)


def test_the_picture_is_the_same_every_time_and_whatever_the_order() -> None:
    backwards = dict(reversed(WORDS.items()))
    assert word_cloud(WORDS) == word_cloud(backwards) == word_cloud(dict(WORDS))
    assert ranked_bars(WORDS) == ranked_bars(backwards)


def test_only_the_heaviest_are_drawn() -> None:
    picture = word_cloud({"much": 3.0, "some": 2.0, "little": 1.0, "none": 0.0, "against": -5.0}, most=2)
    assert [each.text for each in texts(picture)] == ["much", "some"]
    bars = ranked_bars({"much": 4.0, "some": 1.0, "against": -5.0})
    widths = [float(each.get("width", 0)) for each in ElementTree.fromstring(bars).findall(f"{SVG}rect")[1:]]
    assert len(widths) == 2
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.01)
    assert [each.text for each in texts(bars)] == ["much", "4", "some", "1"]


@pytest.mark.parametrize("draw", [word_cloud, ranked_bars])
def test_nothing_to_draw_is_said(draw: object) -> None:
    assert "no token has a positive weight" in draw({"a": -1.0})  # type: ignore[operator]
    with pytest.raises(whence.UsageError, match="not finite"):
        draw({"a": np.nan})  # type: ignore[operator]


@pytest.mark.parametrize("draw", [word_cloud, ranked_bars])
def test_text_is_data(draw: object) -> None:
    hostile = {"<script>alert(1)</script>": 3.0, "\u202egnp.exe\x1b[31m": 2.0, "&amp;": 1.0, "x" * 5000: 1.0, '"': 0.5}
    picture = draw(hostile, title="<b>&")  # type: ignore[operator]
    root = ElementTree.fromstring(picture)
    assert {each.tag for each in root.iter()} <= {f"{SVG}{tag}" for tag in ("svg", "title", "rect", "text")}
    shown = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert shown[0] == "<b>&"
    assert "&amp;" in shown
    assert not any("\u202e" in text or "\x1b" in text for text in shown)
    assert max(map(len, shown)) < 60


def test_a_browser_draws_no_word_over_another(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "cloud.html"
    page.write_text(f"<!doctype html><meta charset='utf-8'>{word_cloud(WORDS)}", encoding="utf-8")
    tab = browser.new_page()
    tab.goto(page.as_uri())
    boxes = tab.evaluate(
        "[...document.querySelectorAll('svg text')].map(t => { const b = t.getBBox();"
        " return [b.x, b.y, b.x + b.width, b.y + b.height, t.textContent] })"
    )
    tab.close()
    assert len(boxes) == len(WORDS)
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{one[4]} and {other[4]} overlap"
