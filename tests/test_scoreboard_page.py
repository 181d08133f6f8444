"""The scoreboard's page and terminal view: safe whatever the names and texts, and its answer seen first."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import PATIENCE
from rich.console import Console
from test_page import data_of
from typer.testing import CliRunner
from weighted_words import TEXTS, explained, length, of_tokens, weighted_words

import whence
from whence.cli import app
from whence.data import read
from whence.explanation import ExplainedTarget
from whence.render.scoreboard_page import page_data, scoreboard_page, texts_page
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import HELD_OUT, evaluate, set_aside

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def board() -> Scoreboard:
    methods: dict[str, Any] = {name: name for name in ("gradient_x_input", "leave_one_out", "shapley")}
    methods["length"] = of_tokens(length, "length")
    return evaluate(
        weighted_words(), TEXTS, ["yes"] * len(TEXTS), methods=methods, layer="embeddings",
        explanations={HOSTILE: explained(TEXTS), "reverse": explained(TEXTS, -1.0)},
    )  # fmt: skip


def hostile(board: Scoreboard) -> Scoreboard:
    """With markup and a terminal's escape in a text, a label and the model's name."""
    texts = (replace(board.texts[0], prediction=f"{HOSTILE}\x1b[31m"), *board.texts[1:])
    return replace(board, texts=texts, model=replace(board.model, id=f"</script>{HOSTILE}"))


def shown(board: Scoreboard, width: int = 160) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(board)
    return console.export_text()


def test_the_terminal_says_the_verdict_first(board: Scoreboard) -> None:
    lines = [line.strip() for line in shown(board).splitlines() if line.strip()]
    assert lines[1] == board.verdict.answer
    assert any("length ignores the model" in line for line in lines)
    assert "\x1b" not in shown(hostile(board))


def test_nothing_is_cut_off_at_80_columns(board: Scoreboard) -> None:
    narrow = shown(board, width=80)
    assert "…" not in narrow
    for place in board.ranking().standings[:3]:
        assert f"{place.mean.mean:.2f} ±" in narrow


def test_nothing_of_a_name_becomes_markup(board: Scoreboard) -> None:
    content = scoreboard_page(hostile(board), texts="texts.html")
    assert content.count("<script") == 2
    assert HOSTILE not in content
    assert "\x1b" not in content
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg|http-equiv", "", content), (
        "nothing is loaded from anywhere"
    )


def test_the_data_of_the_page(board: Scoreboard) -> None:
    data = json.loads(json.dumps(page_data(board), allow_nan=False))
    assert data["answer"] == board.verdict.answer
    assert {entry["name"] for entry in data["entries"] if entry["flagged"]} == {"length", "random"}
    assert len(data["correlations"]) == len(data["entries"])
    assert data["disputed"][0]["correlation"] <= data["disputed"][-1]["correlation"]


def test_passes_are_counted_alike_by_page_terminal_and_verdict(board: Scoreboard) -> None:
    entries = {entry["name"]: entry for entry in page_data(board)["entries"]}
    forwards, backwards = (board.interval("gradient_x_input", each) for each in ("forwards", "backwards"))
    assert forwards is not None
    assert backwards is not None
    assert backwards.mean > 0
    passes = forwards.mean + 2 * backwards.mean
    assert entries["gradient_x_input"]["passes"] == pytest.approx(passes)
    assert entries["reverse"]["passes"] is None, "it came from elsewhere and does not say what it cost"
    lines = {line.split()[1]: line.split()[-1] for line in shown(board).splitlines() if line.strip()[:1].isdigit()}
    assert lines["gradient_x_input"] == f"{passes:.0f}"
    assert lines["reverse"] == "–"


def test_the_texts_open_on_what_is_believed_and_end_with_the_controls(board: Scoreboard) -> None:
    names = [method["name"] for method in data_of(texts_page(board))["methods"]]
    assert board.verdict.believe[0] != "single_effects"
    assert names[: len(board.verdict.believe)] == list(board.verdict.believe)
    assert set(names[-2:]) == {"random", "single_effects"}
    assert len(names) == len(board.entries)
    nothing = replace(board, values={**board.values, "faithfulness": -np.abs(board.values["faithfulness"])})
    assert nothing.verdict.believe == ()
    names = [method["name"] for method in data_of(texts_page(nothing))["methods"]]
    ranked = [place.name for place in nothing.ranking().standings if place.ranks != (0, 0)]
    assert names[: len(ranked)] == ranked


def test_the_texts_say_what_was_explained(board: Scoreboard) -> None:
    for entry, text in zip(data_of(texts_page(board))["texts"], board.texts, strict=True):
        for run in entry["runs"]:
            assert run["target"]["value"] == pytest.approx(text.target.value)
            assert run["target"]["words"].endswith(f"of {text.target.description}")
    values = [text.target.value for text in board.texts]
    assert len(set(values)) > 1, "a number of its own for every text, and not 0 for all"


def test_the_texts_say_what_was_explained_and_open_on_what_is_to_be_believed(board: Scoreboard, tmp_path: Path) -> None:
    said = whence.explain(weighted_words(), TEXTS, "leave_one_out")
    for name in ("leave_one_out", "single_effects", HOSTILE):
        shown = board.explanations(name)
        assert [each.target.description for each in shown] == ["yes"] * len(TEXTS)
        assert [each.target.scale for each in shown] == ["logit"] * len(TEXTS)
        assert [each.target.value for each in shown] == pytest.approx([each.target.value for each in said])
    assert board.explanations("single_effects")[0].target.value != 0
    board.save(tmp_path)
    assert Scoreboard.load(tmp_path).texts == board.texts
    methods = dict.fromkeys(re.findall(r'"name":"(\w+)"', texts_page(replace(board, left_out={}))))
    names = [name for name in methods if name in {entry.name for entry in board.entries}]
    assert names[0] == next(name for name in board.verdict.believe)
    assert set(names[-2:]) == {"single_effects", "random"}


def test_a_board_of_before_still_loads(board: Scoreboard, tmp_path: Path) -> None:
    """Without what was explained, with τ under its old name, and with metrics that say less of themselves."""
    import pyarrow.parquet

    board.save(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "texts.parquet")
    old = table.drop_columns(["target_description", "target_scale", "target_value"])
    pyarrow.parquet.write_table(old, tmp_path / "texts.parquet")
    data = json.loads((tmp_path / "scoreboard.json").read_text())
    data["agreement"] = data.pop("rank_correlation")
    for metric in data["metrics"].values():
        del metric["of"], metric["version"]
    for entry in data["entries"]:
        entry["layer"] = "words"
    (tmp_path / "scoreboard.json").write_text(json.dumps(data))
    again = Scoreboard.load(tmp_path)
    assert again.texts[0].target == ExplainedTarget("yes", "probability", board.texts[0].probability)
    assert again.kinds["sufficiency"] is board.kinds["sufficiency"]
    assert again.verdict == board.verdict
    assert again.to_html().startswith("<!doctype html>")


def test_a_board_without_bounds_sets_and_a_second_way_still_loads(board: Scoreboard, tmp_path: Path) -> None:
    """Its control promised too much; it does not say how layers were chosen, nor how strong its evidence is."""
    groups = ("bounds", "second_hiding", "sets", "sizes")
    kinds = {name: kind for name, kind in board.kinds.items() if kind.group not in groups}
    settings = {name: value for name, value in board.settings.items() if name not in ("second_hide", "beam", "budget")}
    replace(board, kinds=kinds, values={name: board.values[name] for name in kinds}, settings=settings).save(tmp_path)
    data = json.loads((tmp_path / "scoreboard.json").read_text())
    for entry in data["entries"]:
        del entry["chosen_on"], entry["stability"]
        entry["name"] = "oracle" if entry["name"] == "single_effects" else entry["name"]
    del data["verdict"]["strength"]
    (tmp_path / "scoreboard.json").write_text(json.dumps(data))
    again = Scoreboard.load(tmp_path)
    assert again.entries == board.entries
    assert again.verdict.answer == board.verdict.answer
    assert page_data(again)["best"] is page_data(again)["ways"] is None
    assert "norm." not in shown(again)


def test_sign_and_strength_are_shown(board: Scoreboard) -> None:
    terminal = shown(board)
    assert "(weak evidence: 12 texts)" in terminal
    assert re.search(r"gradient_x_input +± ", terminal)
    assert re.search(r"random +\+ ", terminal)
    assert [entry["signed"] for entry in page_data(board)["entries"]] == [each.meaning.signed for each in board.entries]
    assert page_data(board)["strength"] == "weak"


@pytest.fixture
def folder(board: Scoreboard, tmp_path: Path) -> Path:
    (tmp_path / "texts.html").write_text(texts_page(board), encoding="utf-8")
    board.to_html(tmp_path / "scoreboard.html", texts="texts.html")
    return tmp_path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_the_page_answers_at_once(browser: Any, folder: Path, board: Scoreboard, width: int, scheme: str) -> None:
    """The verdict stands above the fold in the largest letters, and nothing fails, sticks out or is fetched."""
    troubles: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("request", lambda request: None if request.url.startswith("file://") else troubles.append(request.url))
    tab.goto((folder / "scoreboard.html").as_uri())
    assert tab.text_content("#answer") == board.verdict.answer
    box = tab.locator("#answer").bounding_box()
    assert box["y"] + box["height"] < 400
    sizes = tab.evaluate("[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))")
    assert tab.evaluate("parseFloat(getComputedStyle(document.getElementById('answer')).fontSize)") == max(sizes)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    places = board.ranking().standings
    assert tab.locator("#ranking .name").all_text_contents() == [place.name for place in places]
    ranks = ["–" if a == 0 else str(a) if a == b else f"{a}–{b}" for a, b in (place.ranks for place in places)]
    assert tab.locator("#ranking .rank").all_text_contents() == ranks
    assert tab.locator("#games svg").count() == 2
    assert tab.locator("#pareto circle").count() == 6, "two entries came from elsewhere and do not say what they cost"
    assert tab.locator("#sets tbody tr").count() == len(board.ranking("set_of_best").standings)
    assert tab.locator("#ways tbody tr").count() == len(board.entries)
    assert "correlate at τ" in tab.text_content("#ways-note")
    assert tab.locator("#ranking .best").count() == len(board.entries)
    assert "the best order of each text’s words" in tab.text_content("#ranking-note")
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert [found["id"] for found in Axe().run(tab).response["violations"]] == []
    context.close()
    assert troubles == []


def test_the_ranking_can_be_by_any_metric_and_a_click_leads_to_the_text(
    browser: Any, folder: Path, board: Scoreboard
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto((folder / "scoreboard.html").as_uri())
    tab.select_option("#metric", "sufficiency")
    wanted = [place.name for place in board.ranking("sufficiency").standings]
    assert tab.locator("#ranking .name").all_text_contents() == wanted
    tab.locator("#ranking .name", has_text="shapley").click()
    assert "shapley" in tab.text_content("#games-note")
    link = tab.locator("#disputed a").first
    text = link.text_content()
    link.click()
    tab.wait_for_selector("#sources .source")
    assert tab.text_content("#sources .source") == text
    context.close()


def test_the_command_writes_the_board_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text("text,label\na gorgeous witty film,positive\na dull plot,negative\nit never comes alive,negative\n")
    command = ["evaluate", "--data", str(file), "--methods", "gradient_x_input,leave_one_out", "--layer", "embeddings",
               "--metrics", "sufficiency,cost", "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [entry["name"] for entry in found["entries"]] == [
        "gradient_x_input",
        "leave_one_out",
        "random",
        "single_effects",
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "scoreboard.json", "per_text.parquet", "curves.parquet", "scores.parquet", "texts.parquet", "scoreboard.html",
        "texts.html", "run.json", "work",
    }  # fmt: skip
    assert "games 3 of 3" in result.stderr
    again = CliRunner().invoke(app, command)
    assert json.loads(again.stdout)["means"] == found["means"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--methods", "shaply"], "unknown method 'shaply'"),
        (["--metrics", "beauty"], "unknown metric 'beauty'"),
        (["--option", "samples=3"], "'samples=3' is not an option"),
        (["--data", "nothing.csv"], "no file 'nothing.csv'"),
    ],
)
def test_wrong_use_of_the_command(arguments: list[str], problem: str, tmp_path: Path) -> None:
    file = tmp_path / "reviews.txt"
    file.write_text("a dull plot\n")
    result = CliRunner().invoke(app, ["evaluate", "--data", str(file), "--out", str(tmp_path / "out"), *arguments])
    assert result.exit_code != 0
    assert problem in result.stderr


def test_the_command_and_python_judge_the_same_texts(tmp_path: Path) -> None:
    words = ["gorgeous", "dull", "witty", "sad", "fine", "long", "odd"]
    lines = [f"a {one} and {other} film" for one in words for other in words]
    file = tmp_path / "reviews.csv"
    file.write_text("text\n" + "\n".join(lines) + "\n")
    for limit, n_judged, n_held_out in ((20, 20, 29), (40, 39, 10)):
        out = tmp_path / str(limit)
        command = ["evaluate", "--data", str(file), "--methods", "gradient_x_input,grad_cam", "--metrics", "cost",
                   "--limit", str(limit), "--out", str(out)]  # fmt: skip
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        by_command = Scoreboard.load(out)
        texts = [example.as_input for example in read(str(file), limit=limit + HELD_OUT, seed=0)]
        by_python = evaluate(
            whence.load(), texts, methods=["gradient_x_input", "grad_cam"], metrics=["cost"], limit=limit
        )
        assert [text.text for text in by_command.texts] == [text.text for text in by_python.texts]
        assert (by_command.n_texts, by_command.settings["n_held_out"]) == (n_judged, n_held_out)
        np.testing.assert_array_equal(by_command.values["faithfulness"], by_python.values["faithfulness"])


@pytest.mark.parametrize("n_texts", [10, 12, 50, 79, 80])
def test_of_few_texts_every_fifth_is_set_aside(n_texts: int) -> None:
    assert set_aside(n_texts, None, "best", chooses=True) == list(range(0, n_texts, 5))


def test_texts_are_set_aside_by_one_rule() -> None:
    spread = [int(number * 216 / 16) for number in range(16)]
    assert set_aside(216, 200, "best", chooses=True) == set_aside(216, 200, "best", chooses=False) == spread
    assert set_aside(36, 20, "best", chooses=True) == [int(number * 36 / 16) for number in range(16)]
    assert set_aside(210, 200, "best", chooses=False) == []
    assert set_aside(216, None, "best", chooses=False) == []
    assert set_aside(9, None, "best", chooses=True) == []
    assert set_aside(216, 200, 3, chooses=False) == set_aside(216, 200, "each", chooses=False) == []
