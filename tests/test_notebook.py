"""What a notebook shows: small, plain, safe, and the same numbers as the result."""

from __future__ import annotations

import sys
import types
import webbrowser
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_explanations import made
from test_audit_page import TEXTS as AUDITED
from test_lens import made_lens
from test_lens_answer import answered
from test_page import HOSTILE
from weighted_words import TEXTS, weighted_words

import whence
from whence.comparison import Comparison
from whence.render.notebook import MOST_RESULTS, MOST_WORDS
from whence.results import Results

SMALL = 6_000  # bytes
# what GitHub leaves of a notebook's output, and no more
PLAIN = {"div", "p", "b", "i", "span", "table", "tr", "th", "td", "ul", "li", "code", "hr"}
ATTRIBUTES = {"style", "dir"}


class Parsed(HTMLParser):
    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str] = {}
        self.said = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name: value or "" for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.said += data


def checked(result: Any) -> str:
    """The words that a reader sees, once it is known that the view is small, plain and needs nothing."""
    content = result._repr_html_()
    assert len(content.encode()) < SMALL
    parsed = Parsed(content)
    assert set(parsed.tags) <= PLAIN
    assert set(parsed.attributes) <= ATTRIBUTES
    assert "url(" not in content
    assert "color: #" not in content, "a colour of letters would not be seen on one of two backgrounds"
    assert ".show()" in parsed.said
    return parsed.said


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    model = weighted_words()
    explanation = made("never a good film", (0, 1), [[0, -3, 0.01, 4, 1, 0]] * 2)
    return {
        "explanation": explanation,
        "comparison": Comparison((explanation, replace(explanation, method="other"))),
        "lens": made_lens(answer=answered()),
        "lens without an answer": made_lens(),
        "board": whence.evaluate(model, TEXTS, methods=["leave_one_out"], metrics=["cost"], layer="embeddings"),
        "audit": whence.audit_attention(whence.load(), AUDITED, measures=["gradient"]),
        "list": Results([explanation, explanation]),
    }


def test_every_result_has_a_small_plain_view(results: dict[str, Any]) -> None:
    said = {name: checked(result) for name, result in results.items()}
    assert said["explanation"].startswith("Good (75 %), mainly because of good; never pulled the other way.By made_up.")
    assert "good+4.00██████████for" in said["explanation"]
    assert "never-3.00████████against" in said["explanation"]
    assert "made_upother" in said["comparison"]
    assert "never-0.75-0.75" in said["comparison"]
    assert "good (75 %). Read off layer by layer, that is the likeliest from layer 2 on" in said["lens"]
    assert "layer 275 %████████rank 1good" in said["lens"]
    assert "tokenlayer 0layer 1layer 2[CLS]goodgoodgood" in said["lens without an answer"]
    assert results["board"].verdict.answer in said["board"]
    assert "Weak evidence: fewer than 30 texts" in said["board"]
    assert results["audit"].verdict.answer in said["audit"]
    assert said["list"].count("By made_up") == 2


def test_colour_says_nothing_that_letters_do_not(results: dict[str, Any]) -> None:
    """Without any style what speaks for is bold, what speaks against bold and slanted, what is faint neither."""
    content = results["explanation"]._repr_html_()
    assert "<b>good</b></span>" in content
    assert "<b><i>never</i></b></span>" in content
    assert "rgba(31,95,180,0.55)" in content
    assert "</span> a <span" in content


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_shown_as_text(poison: str) -> None:
    explanation = made(poison or "x", method=poison, warnings=(poison,))
    checked(explanation)
    checked(made_lens(poison or "x", answer=answered(label=poison, said=(poison,) * 3)))


def test_long_texts_and_lists_are_cut_and_that_is_said() -> None:
    long = made(" ".join(f"word{i}" for i in range(1_000)))
    assert f"and {1_000 - MOST_WORDS} more words" in checked(long)
    many = Results([made("a good film")] * 300)
    assert f"and {300 - MOST_RESULTS} more" in Parsed(many._repr_html_()).said
    assert "All words have the score 0" in checked(made("a film", scores=np.zeros((1, 4))))


def test_lists_are_lists_and_have_one_page() -> None:
    model = whence.load()
    found = whence.explain(model, ["a witty film", "a dull film"], method="leave_one_out")
    assert isinstance(found, list)
    assert found == list(found)
    assert found.to_html() == whence.render.page.page(found)
    both = whence.compare(model, ["a witty film"], ["leave_one_out", "gradient_x_input"])
    assert both.to_html() == whence.render.page.page(both[0].explanations)
    with pytest.raises(whence.UsageError, match="have a page each"):
        whence.decode_layers(model, ["a film"]).to_html()


def test_the_whole_page_opens_in_a_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address))
    explanation = made("a good film")
    explanation.show(tmp_path / "why.html")
    assert (tmp_path / "why.html").read_text() == explanation.to_html()
    made_lens().show()
    assert opened[0] == (tmp_path / "why.html").as_uri()
    assert Path(opened[1].removeprefix("file://")).read_text() == made_lens().to_html()


def test_a_notebook_gets_a_frame_or_a_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown: list[str] = []
    display: Any = types.ModuleType("IPython.display")
    display.HTML, display.display = str, shown.append
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
    ipython.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    explanation = made("a good film")
    explanation.show()
    assert shown[0].startswith("<iframe")
    assert "srcdoc" in shown[0]
    explanation.show(str(tmp_path / 'a "page".html'))
    assert (tmp_path / 'a "page".html').exists()
    assert shown[1].startswith('<p><a href="')
    assert "&quot;page&quot;.html" in shown[1]


def test_figures_are_large_enough_for_a_screen_and_a_column_wide_in_print() -> None:
    figure: Any = made("a good film", (0, 1)).plot().figure
    assert figure.get_size_inches()[0] == pytest.approx(3.3)
    assert figure.get_size_inches()[0] * figure.dpi > 700
