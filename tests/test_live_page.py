"""The live page in a real browser: type, strike, swap, cancel, look back, and two tabs at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import playwright.sync_api
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import PATIENCE
from served import Running, decoder, reader, running, tagger
from test_page import HOSTILE

import whence
from whence.serving.limits import Limits

TEXT = "A gorgeous, witty film, but the story never comes alive."
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    models = {"sentiment": whence.load, "writer": decoder, "tagger": tagger, "reader": reader}
    with running(models, Limits()) as found:
        yield found


@pytest.fixture
def live(browser: Any, server: Running) -> Iterator[Open]:
    """Opens the live page; afterwards nothing may have failed, or gone anywhere but to its server."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open_page(width: int = 1280, height: int = 900, answered: bool = True, **settings: Any) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", accept_downloads=True, **settings
        )
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        tab.on(
            "console",
            lambda message: troubles.append(f"console: {message.text}") if "413" not in message.text else None,
        )
        tab.on("dialog", lambda dialog: troubles.append("a dialog"))
        tab.on("request", lambda request: None if own(request.url) else troubles.append(f"request: {request.url}"))
        tab.goto(server.address)
        if answered:
            tab.wait_for_selector(".layout:not(.outdated) .mark")
        return tab

    def own(url: str) -> bool:
        return url.startswith((server.address, f"blob:{server.address}"))

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def until(tab: Any, condition: str, *given: Any) -> None:
    """Wait until something holds on the page, whose policy lets no other script do so."""
    end = time.monotonic() + 15
    while not tab.evaluate(condition, *given):
        assert time.monotonic() < end, condition
        tab.wait_for_timeout(20)


def type_text(tab: Any, text: str, box: str = "#asked-text") -> None:
    """Type, and wait until that is what is shown."""
    tab.fill(box, text)
    until(
        tab,
        "wanted => !document.querySelector('.layout').classList.contains('outdated') && text?.entry.text === wanted",
        text,
    )


def shown(tab: Any) -> str:
    """What the page says the model says."""
    said: str = tab.evaluate("saidOf(text.entry.prediction)")
    return said


def said_by(server: Running, text: str) -> tuple[str, float]:
    said = server.post("/api/predict", text=text).json()
    return said["label"], said["probability"]


def test_the_answer_forms_while_one_types(live: Open, server: Running) -> None:
    tab = live()
    assert tab.input_value("#asked-text") == TEXT
    tab.fill("#asked-text", "")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.locator("#asked-text").press_sequentially("a dull, stupid film", delay=5)
    until(tab, "text?.entry.text === 'a dull, stupid film'")
    assert sum(url.endswith("/api/explain") for url in asked) < 10  # not one for every key
    label, chance = said_by(server, "a dull, stupid film")
    assert shown(tab) == f"{label} ({100 * chance:.1f} %)"
    assert tab.text_content("#live-status").startswith("answered in")
    assert tab.locator("#sources .mark").all_text_contents() == ["a", "dull", ",", "stupid", "film"]


def test_an_answer_to_what_stood_there_before_is_dropped(live: Open) -> None:
    """The first request is held back until the second is answered."""
    tab = live()
    held: list[Any] = []
    tab.route(
        "**/api/explain", lambda route: held.append(route) if "slow" in route.request.post_data else route.continue_()
    )
    tab.fill("#asked-text", "slow film")
    until(tab, "document.querySelector('#live-status').textContent === 'asking …'")
    type_text(tab, "a witty film")
    for route in held:
        with contextlib.suppress(playwright.sync_api.Error):  # the page has given it up
            route.continue_()
    tab.wait_for_timeout(200)
    assert tab.evaluate("text.entry.text") == "a witty film"
    assert len(held) == 1


def test_words_are_struck_out_and_swapped(live: Open, server: Running) -> None:
    tab = live()
    type_text(tab, "a witty film that is never dull")
    never = tab.locator("#sources .mark", has_text="never")
    never.click()
    tab.wait_for_selector("#changed-says b")
    label, chance = said_by(server, "a witty film that is dull")
    assert tab.text_content("#changed-says b") == f"{label} ({100 * chance:.1f} %)"
    assert never.get_attribute("aria-pressed") == "true"
    assert "struck" in never.get_attribute("class")
    tab.fill("#change-list input", "always")
    label, chance = said_by(server, "a witty film that is always dull")
    until(tab, "said => document.querySelector('#changed-says b').textContent === said",
                          f"{label} ({100 * chance:.1f} %)")  # fmt: skip
    tab.locator("#sources .mark", has_text="witty").press("Enter")  # by key as well
    tab.click("#changes-keep")
    until(tab, "text.entry.text === 'a film that is always dull'")
    assert tab.input_value("#asked-text") == "a film that is always dull"
    tab.locator("#sources .mark", has_text="dull").click()
    tab.click("#changes-undo")
    assert tab.locator(".struck").count() == 0
    assert not tab.is_visible("#change-actions")


def test_the_history_brings_back_and_compares(live: Open, server: Running) -> None:
    tab = live()
    tab.wait_for_selector("#past-list li")  # once nothing has been typed for a while
    type_text(tab, "a dull film")
    tab.evaluate("remember()")
    rows = tab.locator("#past-list li")
    assert rows.first.text_content().startswith("a dull film")
    rows.nth(1).get_by_text("Compare").click()
    cells = tab.locator("#version-table td").all_text_contents()
    assert cells[1:3] == [TEXT, "a dull film"]
    label, chance = said_by(server, "a dull film")
    assert cells[4] == f"{label} ({100 * chance:.1f} %)"
    rows.nth(1).get_by_text("Ask again").click()
    until(tab, "wanted => text.entry.text === wanted", TEXT)
    tab.click("#versions-close")
    assert not tab.is_visible("#versions")


def test_a_long_job_tells_its_progress_and_can_be_cancelled(live: Open, server: Running) -> None:
    let_go = threading.Event()
    twin = server.models.named("sentiment").twin.module
    hold = twin.register_forward_pre_hook(lambda *_: (let_go.wait(10), None)[1])
    try:
        tab = live()
        tab.select_option("#added-method", "leave_one_out")
        tab.wait_for_selector("#jobs li")
        until(tab, "/pass/.test(document.querySelector('#jobs li').textContent)")
        tab.get_by_role("button", name="Cancel").click()
        until(tab, "!document.querySelector('#jobs li')")
        assert tab.text_content("#live-status") == "leave_one_out was cancelled"
    finally:
        let_go.set()
        hold.remove()
    tab.click("#ask-all")
    until(tab, "text?.runs.length === 2")
    assert tab.evaluate("data.methods.map(method => method.name)") == ["one_pass", "leave_one_out"]
    tab.get_by_role("button", name="remove leave_one_out").click()
    until(tab, "text?.runs.length === 1")


def test_what_is_shown_can_be_saved(live: Open, tmp_path: Path) -> None:
    tab = live()
    with tab.expect_download() as page:
        tab.click("#export-page")
    page.value.save_as(tmp_path / "saved.html")
    assert (tmp_path / "saved.html").read_text().startswith("<!doctype html>")
    with tab.expect_download() as records:
        tab.click("#export-json")
    assert records.value.suggested_filename == "whence.json"
    records.value.save_as(tmp_path / "saved.json")
    found = whence.Explanation.load(tmp_path / "saved.json")
    assert (found.text, found.method) == (TEXT, "one_pass")
    assert found.to_html() == (tmp_path / "saved.html").read_text()


def test_a_decoder_writes_and_one_points(live: Open) -> None:
    tab = live()
    tab.select_option("#asked-method", "integrated_gradients")
    tab.select_option("#asked-model", "writer")
    tab.fill("#asked-text", "the film was")
    until(tab, "/The model says [^\"]/.test(document.querySelector('#live-status').textContent)")
    assert tab.is_hidden(".layout"), "what another model said of another text is no answer to this"
    assert tab.is_disabled("#export-page")
    tab.select_option("#asked-method", "attn_lrp")
    type_text(tab, "the film is")  # next words are explained while one types
    assert tab.is_enabled("#export-page")
    tab.select_option("#asked-about", "response")
    tab.click("#ask-all")
    tab.wait_for_selector("#written .part")
    assert tab.input_value("#asked-response")
    tab.locator("#written .part").first.click()
    assert tab.locator("#written .part").first.get_attribute("aria-pressed") == "true"
    assert not tab.is_visible("#changes")


def test_the_word_is_chosen_whose_tag_is_explained(live: Open) -> None:
    tab = live()
    assert tab.is_hidden("#asked-at")
    tab.select_option("#asked-model", "tagger")
    type_text(tab, "a good film")
    assert tab.locator("#asked-at option").all_text_contents() == ["the surest", "a", "good", "film"]
    tab.select_option("#asked-at", label="film")
    until(tab, "/^film is tagged /.test(document.querySelector('#decision-title').textContent)")
    assert tab.locator(".tagged").all_text_contents() == ["film"]
    assert tab.input_value("#asked-at") == "7"
    type_text(tab, "a film")
    assert tab.input_value("#asked-at") == "", "the words are others now"


def test_a_question_and_its_context_are_asked_for_by_name(live: Open) -> None:
    tab = live()
    tab.select_option("#asked-model", "reader")
    assert tab.text_content("#asked-text-label") == "Question"
    assert tab.text_content("#asked-pair-label") == "Context"
    until(tab, "document.querySelector('#live-status').textContent === 'Type or paste both: question and context.'")
    assert tab.is_hidden("#live-problem"), "nothing is wrong as long as one types"
    assert tab.is_hidden(".layout"), "what another model said is no answer to this"
    tab.fill("#asked-pair", "the film was a great success")
    type_text(tab, "what was it")
    assert tab.locator("#sources h3").all_text_contents() == ["Question", "Context"]
    assert tab.locator("#sources .answer").count()
    tab.select_option("#asked-model", "sentiment")
    tab.check("#asked-two")
    assert tab.text_content("#asked-text-label") == "First text"


def test_settings_go_to_the_server_and_errors_come_back_in_words(live: Open) -> None:
    tab = live()
    tab.select_option("#asked-label", "negative")
    tab.select_option("#asked-method", "gradient_x_input")
    tab.select_option("#asked-layers", "all")
    until(tab, "text.runs[0].about.name === 'gradient_x_input' && text.runs[0].layers.length === 7")
    assert "negative" in tab.evaluate("text.runs[0].target.words")
    tab.fill("#asked-text", "…" * 25_000)
    tab.wait_for_selector("#live-problem:not([hidden])")
    assert tab.text_content("#live-problem").startswith("the texts have 25,000 characters")
    type_text(tab, "a film")
    assert not tab.is_visible("#live-problem")


def test_two_tabs_do_not_disturb_each_other(live: Open, server: Running) -> None:
    first, second = live(), live()
    first.fill("#asked-text", "a dull film")
    second.fill("#asked-text", "a witty film")
    until(first, "text.entry.text === 'a dull film'")
    until(second, "text.entry.text === 'a witty film'")
    assert shown(first).startswith("negative")
    assert shown(second).startswith("positive")


def test_a_hostile_text_is_only_a_text(live: Open) -> None:
    tab = live()
    for name in ("script", "handlers", "end of script", "attribute", "bidi", "null"):
        type_text(tab, HOSTILE[name].replace("\r", ""))
        tab.locator("#sources .mark").first.click()
        tab.wait_for_selector("#changed-says b")
        tab.evaluate("remember()")
    assert tab.locator("#past-list li").count() == 6
    assert tab.evaluate("window.__hit") is None


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (400, "dark"), (1280, "dark"), (3840, "light")])
def test_it_fits_and_is_accessible(live: Open, width: int, scheme: str) -> None:
    tab = live(width=width, color_scheme=scheme)
    answer = tab.locator("#decision").bounding_box()
    assert answer["y"] < 600, "no row of settings outranks the answer"
    assert tab.is_visible("#asked-method") == (width > 640)
    tab.locator("#sources .mark", has_text="never").click()
    tab.wait_for_selector("#changed-says b")
    wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    found = Axe().run(tab).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    tab.emulate_media(media="print")
    assert tab.is_visible("#decision-title")
    assert tab.is_hidden("#ask"), "on paper there is nothing to press"
    assert tab.is_hidden("#past")


def test_everything_by_key(live: Open) -> None:
    """From the text to a struck word and back, without a pointer."""
    tab = live()
    assert tab.evaluate("document.activeElement.id") == "asked-text"
    tab.keyboard.press("Control+A")
    tab.keyboard.type("a film that is never dull")
    until(tab, "text.entry.text === 'a film that is never dull'")
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "never":
            break
    tab.keyboard.press("Space")
    tab.wait_for_selector("#changed-says b")
    assert tab.locator(".struck").all_text_contents() == ["never"]
    tab.keyboard.press("Enter")
    assert tab.locator(".struck").count() == 0
    assert tab.evaluate("document.activeElement.textContent") == "never"
