"""The page as a file: what it holds, what it may run, and that nothing of a text becomes markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from made_explanations import made
from typer.testing import CliRunner

import whence
from whence.cli import app
from whence.errors import FileError, UsageError
from whence.explanation import Cost, ExplainedTarget, Explanation, Meaning, ModelRecord, Prediction, Token
from whence.learned.diffmask.analyses import dropped_at
from whence.metrics.rank_correlation import kendall_tau
from whence.render import page as report
from whence.render import scoreboard_page as board_page
from whence.render.page import page, page_data
from whence.render.shell import SHELL_SCRIPTS, embedded, framed
from whence.render.visible import visible

PAGES = Path(whence.__file__).parent / "render" / "pages"
SCRIPTS = {
    "shell": SHELL_SCRIPTS,
    "report": report.SCRIPTS,
    "scoreboard": board_page.SCRIPTS,
    "lens": ("squares", "path", "lens"),
    "audit": ("audit",),
}

HIT = "window.__hit=1"
HOSTILE = {
    "script": f"<script>{HIT}</script> ok",
    "upper case": f"<SCRIPT>{HIT}</SCRIPT> <ScRiPt type=module>{HIT}</sCrIpT> ok",
    "split": f"<scr ipt>{HIT}</scr ipt> <scr<script>ipt>{HIT}</scr</script>ipt> ok",
    "end of script": f"</script><script>{HIT}</script> </ScRiPt ><!-- <script> --> ok",
    "comment": f"<!-- <script> {HIT} --> <![CDATA[ ]]> ok",
    "handlers": f"<img src=x onerror={HIT}> <svg onload={HIT}> <b onmouseover='{HIT}'>x</b> ok",
    "attribute": f"\" onfocus={HIT} autofocus x=\" ' onclick='{HIT}' ok",
    "address": f"<a href=javascript:{HIT}>x</a> <iframe srcdoc='<script>parent.__hit=1</script>'> ok",
    "style": f"</style><style>*{{display:none}}</style><style onload={HIT}> ok",
    "braces": "{{constructor.constructor('window.__hit=1')()}} ${window.__hit=1} %%script%% %%data%% <%= 1 %> ok",
    "entities": f"&lt;script&gt;{HIT}&lt;/script&gt; &#60;script> &amp;amp; ok",
    "escapes": f"\\u003cscript\\u003e{HIT}\\u003c/script\\u003e \\x3cscript> \\ ok",
    "bidi": "a\u202egnp.exe\u202c \u2066\u2069\u200e\u200f b ok",
    "null": "null\0byte \x01\x1b[31m\x7f\x85 ok",
    "separators": "line\u2028para\u2029 \r\n tab\t ok",
    "unseen": "zero\u200bwidth\ufeff \U000e0041 soft\u00adhyphen ok",
    "emoji": "👩‍👩‍👧‍👦 👍🏽 e\u0301 שלום مرحبا ok",
    "formula": "=1+1 +2 -3 @SUM(A1) ok",
    "name": "__proto__ constructor toString ok",
    "long": "x" * 100_000,
}


def poisoned(poison: str) -> Explanation:
    """The same poison wherever a user, a model or a method can put a string."""
    return made(
        poison,
        (0, 1, 2),
        pair=poison,
        meaning=Meaning(poison, poison, True, True),
        prediction=Prediction(poison, 0, 0.5, {poison: 0.5, f"not {poison}": 0.5}),
        target=ExplainedTarget(poison, "logit", 1.0),
        method=poison,
        options={poison: poison},
        model=ModelRecord(poison, poison, poison, poison),
        warnings=(poison,),
        whence_version=poison,
    )


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what stands inside scripts and styles."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and self.cdata_elem is not None:
            self.inside.append((*self.tags[-1], data))


def data_of(content: str) -> Any:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def numbers(packed: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype="<f4")


# one file, nothing loaded


def test_the_page_is_under_150_kilobytes_without_data() -> None:
    content = page([made("a good film")])
    assert len(content.encode()) - len(embedded(page_data([made("a good film")]))) < 150_000


def test_nothing_is_loaded_from_anywhere() -> None:
    elements = Elements(page([made("a good film")]))
    assert {tag for tag, _ in elements.tags} & {"link", "img", "iframe", "object", "embed", "base"} == set()
    for tag, attributes in elements.tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "#").startswith("#"), tag  # type: ignore[union-attr]
    for file in (file for file in PAGES.rglob("*") if file.is_file()):
        addresses = re.findall(r"(?:https?:)?//[a-z][\w.]+", re.sub(r"(?m)//\s.*$", "", file.read_text()))
        assert set(addresses) <= {"http://www.w3.org"}, file  # the name of SVG, which nobody loads
        assert "@import" not in file.read_text()
        assert "url(" not in file.read_text()


def test_only_the_page_s_own_script_and_style_may_run() -> None:
    content = page([made("a good film")])
    elements = Elements(content)
    policies = [found for tag, found in elements.tags if tag == "meta" and "http-equiv" in found]
    assert [found["http-equiv"] for found in policies] == ["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policies[0]["content"]).split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in str(policies[0]["content"])
    kinds = {tag: data for tag, attributes, data in elements.inside if attributes.get("type") != "application/json"}
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        digest = base64.b64encode(hashlib.sha256(kinds[tag].encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert content.index("Content-Security-Policy") < content.index("<style")


def test_the_markup_has_no_code_and_no_style_of_its_own() -> None:
    for file in PAGES.rglob("*.html"):
        for _, attributes in Elements(file.read_text()).tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_the_script_never_parses_markup() -> None:
    for file in PAGES.rglob("*.js"):
        script = file.read_text()
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "</scr",
                       "<!--", "DOMParser", "createContextualFragment", "setHTML"):  # fmt: skip
            assert danger not in script, (file, danger)


def test_every_script_of_the_folders_is_in_a_page() -> None:
    for folder, names in SCRIPTS.items():
        assert {file.stem for file in (PAGES / folder).glob("*.js")} == set(names)


# data


def test_scores_and_tokens_come_back_exactly() -> None:
    explanation = made("unhappy 👍🏽 films\nend", ("embeddings", 0, 1), pieces=True)
    explanation = replace(explanation, standard_errors=explanation.scores / 3, completeness_errors=(0.0, 0.25, 1.0))
    data = data_of(page([explanation]))
    (entry,), (method,) = data["texts"], data["methods"]
    (run,) = entry["runs"]
    assert entry["text"] == explanation.text
    assert method["layers"] == ["embeddings", 0, 1]
    np.testing.assert_array_equal(numbers(run["scores"]["tokens"]), explanation.scores.ravel())
    np.testing.assert_array_equal(numbers(run["errors"]), (explanation.scores / 3).ravel())
    assert run["completeness"] == [0.0, 0.25, 1.0]
    columns = {**entry["tokens"], "special": map(bool, entry["tokens"]["special"])}
    labels = columns.pop("label")
    tokens = [Token(id=0, **dict(zip(columns, each, strict=True))) for each in zip(*columns.values(), strict=True)]
    assert tokens == [replace(token, id=0) for token in explanation.tokens]
    assert labels == ["[CLS]", "unh", "…appy", "👍🏽", "fi", "…lms", "end", "[SEP]"]
    assert data["models"] == [vars(explanation.model)]
    assert (method["seed"], method["options"]) == (11, "steps=25")


def test_words_of_several_tokens_come_gathered() -> None:
    explanation = made("unhappy 👍🏽 films\nend", (0, 1), pieces=True, pair="no ending")
    (entry,) = page_data([explanation])["texts"]
    several = [index for index, word in enumerate(explanation.words()) if word.text in ("unhappy", "films", "ending")]
    words = entry["words"]
    assert words["label"] == ["unhappy", "films", "ending"]
    assert [[entry["tokens"]["text"][at] for at in tokens] for tokens in words["tokens"]] == [
        ["unh", "##appy"], ["fi", "##lms"], ["end", "##ing"],
    ]  # fmt: skip
    expected = [[explanation.words(layer)[index] for index in several] for layer in (0, 1)]
    assert words["start"] == [word.start for word in expected[0]]
    np.testing.assert_allclose(
        numbers(entry["runs"][0]["scores"]["words"]), [word.score for row in expected for word in row], rtol=1e-6
    )


KEEP = Meaning("keep probability", "it stays", False, False, 0.0, 1.0, keep_probability=True)


def test_a_piece_is_dropped_where_no_layer_keeps_it_any_more() -> None:
    """As the glossary has it, and not at the first layer that does without it."""
    keep = [
        [1, 0.9, 0.2, 0.9, 0.2, 1],
        [1, 0.2, 0.1, 0.9, 0.9, 1],
        [1, 0.8, 0.1, 0.9, 0.1, 1],
        [1, 0.3, 0.1, 0.6, 0, 1],
    ]
    explanation = made("one two ending", (0, 1, 2, 3), keep, pieces=True, signed=False, meaning=KEEP)
    assert dropped_at(explanation)[1:-1] == [3, 0, None, 2]
    (run,) = page_data([explanation])["texts"][0]["runs"]
    assert run["drops"] == {"tokens": [4, 3, 0, 4, 2, 4], "words": [4]}  # a word goes with the last of its tokens


def test_rank_correlations_are_those_of_the_words_at_the_layers_shown() -> None:
    first = made("one two three four ending", (0, 1), pieces=True, method="first")
    second = made("one two three four ending", ("embeddings",), pieces=True, seed=1, method="second")
    third = made("one two three four ending", (0, 2), pieces=True, seed=2, signed=False, meaning=KEEP, method="third")
    (entry,) = page_data([first, second, third])["texts"]
    assert [(step["layer"], step["at"]) for step in entry["steps"]] == [
        (None, [0, 0, 1]), ("embeddings", [0, 0, 0]), (0, [0, 0, 0]), (1, [1, 0, 0]), (2, [1, 0, 1]),
    ]  # fmt: skip
    found = numbers(entry["correlations"]).reshape(5, 3)
    for row, step in zip(found, entry["steps"], strict=True):
        sizes = [
            [abs(word.score) for word in each.words(each.layers[at])]
            for each, at in zip((first, second, third), step["at"], strict=True)
        ]
        taus = kendall_tau(np.array(sizes), np.array(sizes))
        np.testing.assert_allclose(row, [taus[0, 1], taus[0, 2], taus[1, 2]], atol=1e-6)
    assert entry["disagreement"] == pytest.approx(1 - found[0].mean())


def test_a_text_is_held_once_however_many_methods_explain_it() -> None:
    texts = [made(text, method=method) for method in ("one", "two", "three") for text in ("a film", "a book")]
    data = page_data(texts)
    assert [entry["text"] for entry in data["texts"]] == ["a film", "a book"]
    assert [[run["method"] for run in entry["runs"]] for entry in data["texts"]] == [[0, 1, 2], [0, 1, 2]]
    assert [method["name"] for method in data["methods"]] == ["one", "two", "three"]
    assert len(data["models"]) == 1


def test_the_same_text_twice_is_two_entries() -> None:
    assert len(page_data([made("a film"), made("a film")])["texts"]) == 2


def test_a_method_with_other_options_is_another_method() -> None:
    data = page_data([made("a film", options={"steps": steps}) for steps in (5, 50)])
    assert [method["label"] for method in data["methods"]] == ["made_up", "made_up (2)"]
    assert len(data["texts"]) == 1


def test_a_thousand_texts_stay_small() -> None:
    texts = [" ".join(["word"] * 30 + [name]) for name in "ab"]
    runs = [made(text, tuple(range(7)), method=method) for text in texts for method in "abc"]
    one, two = (len(embedded(page_data(each))) for each in (runs[:3], runs))
    assert (two - one) * 1_000 < 12_000_000


def test_what_json_cannot_hold_is_still_shown() -> None:
    odd = made("a film", options={"path": Path("x"), "limit": float("nan")}, cost=Cost(1, 0, float("inf")),
               target=ExplainedTarget("good", "log_probability", float("nan")))  # fmt: skip
    data = data_of(page([odd]))
    assert data["methods"][0]["options"] == "path=x, limit=nan"
    assert data["texts"][0]["runs"][0]["cost"] == "1 forward"
    assert data["texts"][0]["runs"][0]["target"] == {"words": "log probability of good", "value": None}


def test_keep_probabilities_are_known_by_a_field_and_not_by_their_name() -> None:
    decoded = Meaning("decoded keep probability", "it stays", False, True, 0.0, None, decoded=True)
    data = page_data([made("a film", meaning=meaning, signed=False) for meaning in (KEEP, decoded)])
    assert [method["meaning"]["keepProbability"] for method in data["methods"]] == [True, False]
    assert [run["drops"] is None for run in data["texts"][0]["runs"]] == [False, True]


def test_tokens_are_shown_as_text() -> None:
    """Never as a tokenizer writes blanks and line breaks."""
    tokens = (Token("Ġthe", 5, 0, 3, word=0), Token("Ġ", 6, 3, 3), Token("Ċ", 7, 4, 4), Token("Ċ", 7, 4, 5),
              Token("▁film", 8, 5, 9, word=1))  # fmt: skip
    explanation = replace(made("a"), text="the\n\nfilm", tokens=tokens, scores=np.ones((1, 5), dtype=np.float32))
    (entry,) = page_data([explanation])["texts"]
    assert entry["tokens"]["label"] == ["the", "␣", "↵", "↵", "film"]


def test_nothing_to_show_is_said() -> None:
    with pytest.raises(UsageError, match="nothing to show"):
        page([])


# hostile texts


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_data_and_only_data(poison: str) -> None:
    content = page([poisoned(poison)], title=poison)
    harmless = page([made("a good film")])
    outside = re.compile(r'(id="data">).*?(</script>)', re.DOTALL)
    assert outside.sub(r"\1\2", content) == outside.sub(r"\1\2", harmless)
    block = re.findall(r'id="data">(.*?)</script>', content, re.DOTALL)[0]
    assert block.isascii()
    assert not set("<>&") & set(block)
    data = json.loads(block)
    assert data["texts"][0]["text"] == poison
    assert data["title"] == data["models"][0]["id"] == data["texts"][0]["runs"][0]["warnings"][0] == visible(poison)
    for shown in (data["texts"][0]["prediction"]["label"], data["methods"][0]["name"], data["methods"][0]["options"]):
        assert shown.startswith(visible(poison[:250]))
    assert [tag for tag, _ in Elements(content).tags] == [tag for tag, _ in Elements(harmless).tags]


def test_a_page_that_pastes_texts_would_be_caught() -> None:
    pasted = page([made("a good film")]).replace("<main", HOSTILE["script"] + "<main")
    assert [tag for tag, _ in Elements(pasted).tags] != [tag for tag, _ in Elements(page([made("a good film")])).tags]


def test_embedded_json_escapes_what_ends_a_script() -> None:
    assert embedded(["</script>&\u2028\u2029"]) == '["\\u003c/script\\u003e\\u0026\\u2028\\u2029"]'


# the doors


def test_to_html_returns_and_writes(tmp_path: Path) -> None:
    explanation, file = made("a good film"), tmp_path / "why.html"
    file.write_text("old")
    assert explanation.to_html() == explanation.to_html(file) == file.read_text() == page([explanation])
    assert list(tmp_path.iterdir()) == [file]


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write"):
        made("a good film").to_html(tmp_path / "none" / "why.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="cannot write"):
        made("a good film").to_html(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_a_notebook_gets_a_frame_that_holds_the_page(poison: str) -> None:
    explanation = poisoned(poison)
    content = framed(page([explanation]))
    ((tag, attributes),) = Elements(content).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == page([explanation])
    assert "allow-same-origin" not in str(attributes["sandbox"])
    assert html.escape("<script", quote=True) in content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    tiny_models.build("bert").save_pretrained(path)
    tiny_models.wordpiece().save_pretrained(path)
    return str(path)


def test_explain_writes_all_texts_into_one_page(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    command = ["explain", "a good film", "a bad film", "--model", folder, "--method", "gradient_x_input"]
    result = CliRunner().invoke(app, [*command, "--html", str(file)])
    assert result.exit_code == 0, result.stderr
    assert f"page: {file}" in result.stderr.splitlines()
    assert str(file) not in result.stdout
    assert [entry["text"] for entry in data_of(file.read_text())["texts"]] == ["a good film", "a bad film"]


def test_compare_writes_all_methods_into_one_page(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    command = ["compare", "a good film", "--model", folder, "--methods", "gradient_x_input,attention", "--json"]
    result = CliRunner().invoke(app, [*command, "--html", str(file)])
    assert result.exit_code == 0, result.stderr
    assert all(line.startswith("{") for line in result.stdout.splitlines())
    data = data_of(file.read_text())
    assert [method["name"] for method in data["methods"]] == ["gradient_x_input", "attention"]
    assert len(data["texts"]) == 1


@pytest.mark.parametrize("command", [["explain", "a film"], ["compare", "a film", "--methods", "random"]])
def test_a_missing_folder_is_said_before_the_model_runs(command: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*command, "--model", "no/such/model", "--html", str(tmp_path / "no" / "x.html")])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no folder")
    result = CliRunner().invoke(app, [*command, "--model", "no/such/model", "--html", str(tmp_path)])
    assert result.exit_code == 2
    assert "is a folder" in result.stderr
