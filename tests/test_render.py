"""What is shown: nothing hidden, nothing executed, legible without colour, and aligned."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from made_explanations import made
from rich.cells import cell_len
from rich.console import Console, RenderableType

from whence.errors import UsageError
from whence.explanation import Cost, ExplainedTarget, Layer, ModelRecord, Prediction, Token
from whence.methods import METHODS
from whence.methods.presets import PRESETS
from whence.metrics.rank_correlation import kendall_tau
from whence.render.figure import plot
from whence.render.rows import number, rows_of
from whence.render.terminal import comparison_view, explanation_view, methods_view
from whence.render.visible import visible
from whence.render.wording import options_words

mpl.use("Agg")

BIDI = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F]))
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
HOSTILE = [
    "emoji 👩‍👩‍👧‍👦 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ok",
    "combining e\u0301 n\u0303\u0323 ok",
    "שלום עולם مرحبا بالعالم ok",
    "<script>alert(1)</script> ok",
    "[/red] [bold]x[/bold] [/] [link=file:///etc]y[/link] :smile: ok",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 ok",
    "null\0byte\x7f\x85 ok",
    f"bidi {BIDI} ok",
    f"zero {ZERO_WIDTH} ok",
    "lines\r\nand\u2028more\ttabs ok",
    "dollars $x_1^2$ and $ \\frac{1}{2} {} % ok",
    "lone \ud800 surrogate ok",
]


def shown(view: RenderableType, width: int = 80, colour: bool = False) -> str:
    console = Console(
        width=width, file=io.StringIO(), force_terminal=colour, color_system="truecolor" if colour else None
    )  # fmt: skip
    console.print(view)
    return console.file.getvalue()  # type: ignore[attr-defined]


def lines_of(view: RenderableType, width: int = 80) -> list[str]:
    return [line.rstrip() for line in shown(view, width).splitlines()]


def line_of(word: str, view: RenderableType, width: int = 80) -> str:
    """The line of the picture that belongs to a word."""
    lines = lines_of(view, width)
    start = next(place for place, line in enumerate(lines) if line.startswith("  explained"))
    return next(line for line in lines[start:] if line.startswith(f"  {word} "))


# visible


def test_options_hold_neither_folders_nor_a_tokenizer_s_marks() -> None:
    found = options_words({"baseline": "Ġthe", "probes": "/home/me/probes", "stop": "▁Ċ", "steps": 25})
    assert found == 'baseline=" the", probes=probes, stop=" ↵", steps=25'


@pytest.mark.parametrize("character", [*CONTROLS, *BIDI, *ZERO_WIDTH, "\u2028", "\u2029", "\ud800", "\U000e0041"])
def test_what_cannot_be_seen_becomes_a_symbol(character: str) -> None:
    found = visible(f"a{character}b")
    assert re.fullmatch(r"a([\u2400-\u2424↵]|⟨U\+[0-9A-F]{4,6}⟩)b", found), ascii(found)
    found.encode()


def test_the_symbols_are_the_known_ones() -> None:
    assert visible("\0\x1b\n\r\t\x7f\u202e") == "␀␛↵␍␉␡⟨U+202E⟩"


@pytest.mark.parametrize(
    "text",
    [
        "plain text, with  spaces\u00a0and $!",
        "👩‍👩‍👧‍👦 👍🏽 ❤️‍🔥 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪",
        "e\u0301 n\u0303\u0323 क्षि",
        "שלום עולם مرحبا بالعالم",
        "می\u200cخواهم क्\u200dष",  # joiners that belong to the spelling
        "日本語 ไทย",
    ],
)
def test_what_can_be_seen_stays(text: str) -> None:
    assert visible(text) == text


# one explanation


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("layers", [("embeddings",), (0, 1, 2)], ids=["bars", "map"])
def test_hostile_text_is_shown_and_does_nothing(text: str, layers: tuple[Layer, ...]) -> None:
    explanation = made(
        text, layers, pair=text, prediction=Prediction(text, 0, 0.5, {text: 0.5}),
        target=ExplainedTarget(text, "logit", 0.5), options={"baseline": text}, warnings=(text,),
        model=ModelRecord(text, text, text, text),
    )  # fmt: skip
    for words in (True, False):
        plain = shown(explanation_view(explanation, words=words), 200)
        assert not re.search(f"[{BIDI}\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", plain)
        plain.encode()
        assert visible(text) in plain  # markup and emoji codes too are shown as they were written
        coloured = shown(explanation_view(explanation, words=words), 200, colour=True)
        assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain  # no escape but our own colours


def test_a_map_has_a_line_a_word_and_a_column_a_layer() -> None:
    explanation = made("good film", (0, 1, 2), [[0, 1, -1, 0], [0, 0.5, 0, 0], [0, 0.2, -0.6, 0]])
    assert line_of("good", explanation).split() == ["good", "+██████+▒▒▒▒▒▒+░░░░░░"]
    assert line_of("film", explanation).split() == ["film", "-██████", "·", "-▓▓▓▓▓▓"]
    heading = next(line for line in lines_of(explanation) if "layer " in line)
    assert heading.split() == ["layer", "0", "1", "2"]


def test_without_sign_there_is_none_in_the_map() -> None:
    explanation = made("good film", (0, 1), [[0, 1, 0.5, 0], [0, 0.1, 0, 0]], signed=False)
    assert line_of("good", explanation).split() == ["good", "██████", "░░░░░░"]
    assert "No sign" in shown(explanation)
    assert "0 or more" in " ".join(shown(explanation).split())


def test_sign_and_colour_say_the_same() -> None:
    explanation = made("good film", (0, 1), [[0, 1, -1, 0], [0, 1, -1, 0]])
    coloured = shown(explanation, colour=True)
    blue, orange = "38;2;47;127;224m", "38;2;217;115;13m"
    assert f"{blue}+██████" in coloured
    assert f"{orange}-██████" in coloured


def test_one_layer_is_bars_with_numbers() -> None:
    explanation = made("good bad film", ("embeddings",), [0, 2, -1, 0, 0])
    good, bad = line_of("good", explanation), line_of("bad", explanation)
    assert good.split()[:2] == ["good", "+2.00"]
    assert bad.split()[:2] == ["bad", "-1.00"]
    assert good.count("█") == pytest.approx(2 * bad.count("█"), abs=1)
    assert bad.rindex("█") < good.index("█")  # to the left of the axis, and to the right
    assert line_of("film", explanation).split() == ["film", "0"]


def test_sampling_errors_are_shown() -> None:
    explanation = made(
        "good film", ("embeddings",), [0, 2, -1, 0], standard_errors=np.full((1, 4), 0.25, dtype=np.float32)
    )
    assert "+2.00 ± 0.25" in line_of("good", explanation)


@pytest.mark.parametrize("n_layers", [1, 7, 13, 33, 90])
@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("signed", [True, False])
def test_no_line_is_wider_than_the_terminal(n_layers: int, width: int, signed: bool) -> None:
    explanation = made("a 日本語 👩‍👩‍👧‍👦 incomprehensibilities-of-words שלום", range(n_layers), signed=signed)
    for line in shown(explanation, width).splitlines():
        assert cell_len(line) <= width, line


@pytest.mark.parametrize("n_layers", [13, 33])
def test_deep_models_fit_eighty_columns_in_one_map(n_layers: int) -> None:
    lines = lines_of(made("a good film", range(n_layers)))
    assert sum(line.startswith("  film ") for line in lines) == 1
    full = made("a good film", range(n_layers), np.ones((n_layers, 5)))
    assert line_of("film", full).count("+") == n_layers


def test_layers_that_do_not_fit_go_below() -> None:
    explanation = made("good film", range(90), np.ones((90, 4)))
    lines = [line for line in lines_of(explanation) if line.startswith("  film ")]
    assert len(lines) > 1
    assert sum(line.count("+") for line in lines) == 90


def test_cells_are_aligned_whatever_the_script() -> None:
    explanation = made("film 日本 👩‍👩‍👧‍👦 e\u0301t", (0, 1), np.ones((2, 7)))
    lines = lines_of(explanation)
    rows = [line for line in lines if "+██████" in line]
    assert len(rows) == 7
    assert len({cell_len(line[: line.index("+")]) for line in rows}) == 1


@pytest.mark.parametrize(("count", "words"), [(300, True), (300, False), (10_000, True)])
def test_a_long_text_is_folded_and_says_so(count: int, words: bool) -> None:
    text = " ".join(f"word{i}" for i in range(count))
    scores = np.zeros((2, count + 2))
    scores[:, 1:-1] = np.linspace(0.01, 1, count)
    explanation = made(text, (0, 1), scores)
    view = shown(explanation_view(explanation, words=words))
    assert f"{count + 2 - 40} of {count + 2} lines are not shown" in view
    assert "more characters are not shown" in " ".join(view.split())
    assert line_of(f"word{count - 1}", explanation_view(explanation, words=words))
    assert len(view.splitlines()) < 80
    kept = [line.split()[0] for line in view.splitlines() if re.match(r"  (word\d+|\[\w+\]) .*(█|▓|·)", line)]
    assert kept == ["[CLS]", *(f"word{i}" for i in range(count - 38, count)), "[SEP]"]


def test_everything_is_shown_if_asked() -> None:
    text = " ".join(f"word{i}" for i in range(300))
    view = shown(explanation_view(made(text, (0, 1)), everything=True))
    assert "not shown" not in view
    assert all(f"  word{i} " in view for i in range(300))


def test_special_tokens_are_shown_and_do_not_set_the_scale() -> None:
    explanation = made("good film", (0, 1), [[50, 1, 0.5, 0], [0, 1, 0, 0]])
    assert line_of("[CLS]", explanation).split()[1] == "+██████"
    assert line_of("good", explanation).split()[1].startswith("+██████")
    assert "special tokens reach 50.00" in shown(explanation)


def test_each_layer_may_have_its_own_scale() -> None:
    explanation = made("good film", (0, 1), [[0, 1, 0.1, 0], [0, 0.1, 0.1, 0]])
    assert line_of("film", explanation).split()[1] == "+░░░░░░+░░░░░░"
    assert line_of("film", explanation_view(explanation, normalise="layer")).split()[1] == "+░░░░░░+██████"


def test_words_are_gathered_and_tokens_told_apart() -> None:
    base = made("unhappy 🎉", ("embeddings",), [0, 1, 1, 0])
    tokens = (
        base.tokens[0], Token("un", 5, 0, 2, word=0), Token("##happy", 6, 2, 7, word=0),
        Token("[UNK]", 1, 8, 9, word=1), base.tokens[-1],
    )  # fmt: skip
    explanation = replace(base, tokens=tokens, scores=np.array([[0, 1, 2, -1, 0]], dtype=np.float32))
    assert [(row.label, row.scores.tolist()) for row in rows_of(explanation, words=True)] == [
        ("[CLS]", [0]), ("unhappy", [3]), ("🎉 [UNK]", [-1]), ("[SEP]", [0]),
    ]  # fmt: skip
    assert [row.label for row in rows_of(explanation, words=False)] == ["[CLS]", "un", "…happy", "🎉 [UNK]", "[SEP]"]


def test_warnings_come_first() -> None:
    lines = lines_of(made("good film", warnings=("truncated: the last 9 tokens were not seen",)))
    assert "read this first" in lines[0]
    assert "truncated: the last 9 tokens were not seen" in lines[1]


def test_everything_needed_to_repeat_it_is_told() -> None:
    view = " ".join(shown(made("good film", (0, 1)), 120).split())
    for fact in [
        "made_up", "good 75.0% bad 25.0%", "logit of good = 1.500", "made up: what it says.", "steps=25",
        "some/model at abc123", "26 forwards, 25 backwards, 1.50 s, seed 11", "+ speaks for", "- against",
        "0: the embedding output", "coloured by layer 0",
    ]:  # fmt: skip
        assert fact in view, fact


def test_the_text_is_coloured_by_the_layer_asked_for() -> None:
    explanation = made("good film", (0, 1), [[0, 1, 0, 0], [0, 0, -1, 0]])
    first = shown(explanation_view(explanation), colour=True).splitlines()[2]
    second = shown(explanation_view(explanation, layer=1), colour=True).splitlines()[2]
    assert re.search(r"48;2;47;127;224mgood", first)
    assert re.search(r"48;2;217;115;13mfilm", second)
    assert "48;2" not in second.split("good")[0]


def test_all_zero_scores_can_be_shown() -> None:
    for layers in (("embeddings",), (0, 1)):
        assert "good" in shown(made("good film", layers, np.zeros((len(layers), 4))))
        assert plot(made("good film", layers, np.zeros((len(layers), 4)))) is not None


@pytest.mark.parametrize(
    ("value", "largest", "text"),
    [(0, 1, "0"), (1.5, 2, "+1.50"), (-1e-9, 2, "0.00"), (0.00123, 0.00123, "+0.00123"), (-3e-9, 3e-9, "-3.00e-09")],
)
def test_numbers(value: float, largest: float, text: str) -> None:
    assert number(value, largest, sign=True) == text


# several explanations


def test_a_comparison_has_words_down_and_methods_across() -> None:
    first = made("good bad film", ("embeddings",), [9, 2, -1, 0, 9], method="first")
    second = made(
        "good bad film", (0, 1), [[0, 1, 1, 4, 0], [7] * 5], signed=False, method="second", cost=Cost(2, 0, 0.5)
    )
    view = comparison_view([first, second])
    assert line_of("good", view).split()[:2] == ["good", "+1.00"]
    assert re.findall(r"[+-]?\d\.\d\d", line_of("bad", view)) == ["-0.50", "0.25"]
    assert re.findall(r"[+-]?\d\.\d\d", line_of("film", view)) == ["1.00"]
    text = " ".join(shown(view).split())
    assert "1 first layer embeddings; 26 forwards, 25 backwards, 1.50 s" in text
    assert "2 second layer 0, no sign; 2 forwards, 0.50 s" in text
    assert "[CLS]" not in text
    tau = kendall_tau(np.array([[2.0, 1, 0]]), np.array([[1.0, 1, 4]])).item()
    assert f"1 first 1.00 {tau:.2f}" in text
    assert "Kendall's τ-b" in text


def test_in_a_comparison_bars_point_the_way_of_their_sign() -> None:
    """Left of the axis what is below zero, right of it what is above; without a sign all bars go to the right."""
    first = made("good bad film", scores=[0, 2, -1, 0, 0], method="first")
    view = comparison_view([first, made("good bad film", scores=[0, 2, 1, 1, 0], method="second", signed=False)])
    lines = {word: line_of(word, view) for word in ("good", "bad", "film")}
    for word, line in lines.items():
        before, after, sizes = line.split("│")
        assert ("█" in before or "▐" in before) == (word == "bad"), line
        assert ("█" in after) == (word == "good"), line
        assert "█" in sizes
    assert len({line.index("│") for line in lines.values()}) == 1


def test_methods_that_do_not_fit_go_below_with_their_whole_names() -> None:
    names = ["integrated_gradients", "decoded_integrated_gradients", "leave_one_out", "gradient_x_input", "lime"]
    text = shown(comparison_view([made("a good film", method=name) for name in names]))
    table = text.split("Each method")[0]
    assert sum(line.strip().startswith("good ") for line in table.splitlines()) == 2
    squeezed = re.sub(r"\s+", "", table)
    assert "…" not in table
    assert all(part in squeezed for part in ("1integrated_", "2decoded_", "5lime"))


def test_a_comparison_names_a_target_that_differs() -> None:
    other = made("good film", target=ExplainedTarget("good", "log_probability", -0.2))
    assert "explains log probability of good = -0.200" in " ".join(
        shown(comparison_view([made("good film"), other])).split()
    )


@pytest.mark.parametrize("count", [1, 2, 5, 9, 20])
def test_any_number_of_methods_fits(count: int) -> None:
    view = comparison_view([made("a good 日本 film", method=f"integrated_gradients_{i}") for i in range(count)])
    table = shown(view).split("Each method")[0]
    assert all(cell_len(line) <= 80 for line in table.splitlines())
    assert line_of("good", view)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_in_a_comparison(text: str) -> None:
    plain = shown(comparison_view([made(text, warnings=(text,)), made(text, signed=False)]), 200)
    assert not re.search(f"[{BIDI}\x00-\x09\x0b-\x1f\x7f-\x9f]", plain)
    assert visible(text) in plain


def test_a_long_comparison_is_folded_and_says_so() -> None:
    text = " ".join(f"word{i}" for i in range(300))
    assert "260 of 300 lines are not shown" in shown(comparison_view([made(text), made(text)]))
    assert "not shown" not in shown(comparison_view([made(text), made(text)], everything=True))


def test_only_one_text_can_be_compared() -> None:
    with pytest.raises(UsageError, match="different texts"):
        comparison_view([made("good film"), made("bad film")])
    with pytest.raises(UsageError, match="nothing to compare"):
        comparison_view([])


def test_every_method_is_listed_with_its_options() -> None:
    text = " ".join(shown(methods_view(), 200).split())
    for name, method in METHODS.items():
        assert f" {name} " in text
        assert method.cost in text
        assert all(f"{option}={value}" in text for option, value in method.options.items())
    for name, preset in PRESETS.items():
        assert f" {name} " in text
        assert preset.about in text


# figures


def words_on(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_map_on_new_axes() -> None:
    explanation = made("good film", ("embeddings", 0, 1, 2))
    ax: Any = plot(explanation)
    assert words_on(ax) == ["[CLS]", "good", "film", "[SEP]"]
    mesh = ax.collections[0]
    assert np.allclose(np.ravel(mesh.get_array()), explanation.scores.T.ravel())
    assert mesh.norm.vmin == -mesh.norm.vmax  # white is zero
    assert ax.figure.axes[1].get_ylabel() == "made up"
    assert "layer" in ax.get_xlabel()
    assert "good (75.0%)" in ax.get_title(loc="left")
    assert ax.figure.get_figwidth() == pytest.approx(3.3)


def test_without_sign_white_is_zero_too() -> None:
    mesh: Any = plot(made("good film", (0, 1), signed=False)).collections[0]
    assert mesh.norm.vmin == 0
    assert mesh.cmap(0.0)[:3] == (1, 1, 1)


def test_one_layer_is_a_bar_chart() -> None:
    explanation = made("good film", (3,), [0, 2, -1, 0], standard_errors=np.full((1, 4), 0.1, dtype=np.float32))
    ax: Any = plot(explanation)
    assert [bar.get_width() for bar in ax.patches] == [0, 2, -1, 0]
    assert ax.patches[1].get_facecolor() != ax.patches[2].get_facecolor()
    assert ax.get_xlabel() == "made up (layer 3)"
    assert ax.lines or ax.collections  # error bars


def test_given_axes_are_used_and_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda *_: pytest.fail("plot must not show"))
    figure, axes = pyplot.subplots(1, 2)
    assert made("good film", (0, 1)).plot(axes[1]) is axes[1]
    assert not axes[0].collections
    before = pyplot.get_fignums()
    plot(made("good film"), axes[0])
    assert pyplot.get_fignums() == before
    pyplot.close(figure)


def test_a_long_text_is_folded_on_axes_too_and_says_so() -> None:
    ax: Any = plot(made(" ".join(f"word{i}" for i in range(300)), (0, 1)))
    assert len(words_on(ax)) == 40
    assert ax.get_ylabel() == "the 40 strongest of 302 tokens"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("layers", [("embeddings",), (0, 1)], ids=["bars", "map"])
def test_hostile_text_can_be_drawn(text: str, layers: tuple[Layer, ...]) -> None:
    explanation = made(
        text, layers, prediction=Prediction(text, 0, 0.5, {text: 0.5}), target=ExplainedTarget(text, "logit", 1)
    )
    ax: Any = plot(replace(explanation, meaning=replace(explanation.meaning, name=text)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that the font does not have
        ax.figure.savefig(io.BytesIO(), format="svg")
        ax.figure.savefig(io.BytesIO(), format="png", dpi=40)
    predicted, _ = ax.get_title(loc="left").split("\n")
    assert predicted[:50] == visible(f"predicted: {text} (50.0%)")[:50]


def test_a_dollar_is_a_dollar() -> None:
    ax: Any = plot(made("$a$ $b_1$", (0, 1)))
    assert words_on(ax)[1:4] == ["$", "a", "$"]
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())
    ax.set_yticks([0], ["kept"])  # the text is plain for whoever goes on with these axes


@pytest.fixture(autouse=True)
def no_figure_left() -> Any:
    yield
    from matplotlib import pyplot

    pyplot.close("all")
