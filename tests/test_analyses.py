"""What keep probabilities say over many texts, on explanations small enough to work out by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
from made_explanations import made
from matplotlib import pyplot

from whence.errors import UsageError
from whence.explanation import Explanation, Layer, ModelRecord, Prediction, Token
from whence.learned.diffmask.analyses import answers_kept, dropped_at, dropped_by_layer, keep_by_layer, layers_kept
from whence.learned.diffmask.token_groups import (
    SENTIMENTS,
    part_of_speech_groups,
    sentiment_groups,
    spaced_spans,
    special_token_groups,
)
from whence.render.diffmask_figures import plot_dropped_by_layer, plot_keep_by_layer, plot_layers_kept

TAGS = {"good": "ADJ", "bad": "ADJ", "is": "AUX", "'s": "AUX", "n't": "PART", ".": "PUNCT", "?": "PUNCT"}
LAYERS: tuple[Layer, ...] = ("embeddings", 0, 1)


def tagged(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    return [(start, end, TAGS.get(text[start:end], "NOUN")) for start, end in spans]


def tagger(text: str) -> list[tuple[int, int, str]]:
    """A user's own tagger: a callable that says where its words stand."""
    return tagged(text, [match.span() for match in re.finditer(r"n't|\w+(?=n't)|\w+|[^\w\s]", text)])


def kept(text: str, *columns: tuple[float, ...], **options: Any) -> Explanation:
    """An explanation from one tuple a token: its keep probabilities from the lowest layer to the highest."""
    return made(text, LAYERS[: len(columns[0])], np.array(columns).T, signed=False, **options)


def with_tokens(text: str, *tokens: Token) -> Explanation:
    return replace(made(text), tokens=tokens, scores=np.zeros((1, len(tokens))))


# [CLS] good film [SEP]; [CLS] bad [SEP]
ONE = kept("good film", (1, 1, 0), (1, 0.9, 0.8), (0.5, 0.25, 0), (1, 1, 1))
OTHER = kept("bad", (1, 0, 0), (0.6, 0.3, 0.6), (1, 1, 0))
GROUPS = [["[CLS]", "ADJ", "NOUN", "[SEP]"], ["[CLS]", "ADJ", "[SEP]"]]


# groups


def test_special_tokens_by_name_and_number() -> None:
    assert special_token_groups(made("a b")) == ["[CLS]", None, None, "[SEP]"]
    assert special_token_groups(made("a", pair="b")) == ["[CLS]", None, "[SEP] 1", None, "[SEP] 2"]
    written = with_tokens("[SEP]", Token("[SEP]", 9, 0, 5, word=0), Token("[SEP]", 3, 5, 5, special=True))
    assert special_token_groups(written) == [None, "[SEP]"]  # a user may write what looks like a special token


def test_every_piece_of_a_word_has_its_tag() -> None:
    explanation = made("good films.", pieces=True)
    assert [token.text for token in explanation.tokens] == ["[CLS]", "go", "##od", "fi", "##lms", ".", "[SEP]"]
    groups = part_of_speech_groups(explanation, tagger)
    assert groups == ["[CLS]", "ADJ", "ADJ", "NOUN", "NOUN", "PUNCT", "[SEP]"]


def test_pieces_that_straddle_the_words_of_the_treebank() -> None:
    text = "isn't bad"  # whence sees one word in "isn't", a tokenizer three pieces
    tokens = [Token("isn", 9, 0, 3, word=0), Token("'", 9, 3, 4, word=0), Token("t", 9, 4, 5, word=0)]
    explanation = with_tokens(text, *tokens, Token("Ġbad", 9, 5, 9, word=1))
    assert part_of_speech_groups(explanation, tagger) == ["AUX", "PART", "PART", "ADJ"]


def test_both_halves_of_a_pair_are_tagged_each_by_itself() -> None:
    explanation = made("good ?", pair="film is bad")
    assert part_of_speech_groups(explanation, tagger) == [
        "[CLS]", "ADJ", "PUNCT", "[SEP] 1", "NOUN", "AUX", "ADJ", "[SEP] 2",
    ]  # fmt: skip


def test_texts_that_are_cut_already() -> None:
    explanation = made("film 's good-bad")
    assert [token.text for token in explanation.tokens] == ["[CLS]", "film", "'", "s", "good-bad", "[SEP]"]
    groups = part_of_speech_groups(explanation, lambda text: tagged(text, spaced_spans(text)))
    assert groups == ["[CLS]", "NOUN", "AUX", "AUX", "NOUN", "[SEP]"]


def test_a_token_of_spaces_has_no_part_of_speech() -> None:
    explanation = with_tokens(" bad", Token("▁", 9, 0, 1), Token("bad", 9, 1, 4, word=0))
    assert part_of_speech_groups(explanation, tagger) == [None, "ADJ"]


def test_leaves_lend_their_sentiment_to_their_pieces() -> None:
    explanation = made("It 's awful ly good", pieces=True)
    groups = sentiment_groups(explanation, [2, 2, 0, 1, 4])
    assert list(zip([token.text for token in explanation.tokens], groups, strict=True)) == [
        ("[CLS]", None), ("It", "neutral"), ("'", "neutral"), ("s", "neutral"), ("aw", "very negative"),
        ("##ful", "very negative"), ("ly", "negative"), ("go", "very positive"), ("##od", "very positive"),
        ("[SEP]", None),
    ]  # fmt: skip


def test_leaves_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="1 labels do not fit the 2 parts between spaces of 'good film'"):
        sentiment_groups(made("good film"), [2])
    with pytest.raises(UsageError, match="5 is no sentiment"):
        sentiment_groups(made("good film"), [2, 5])


# numbers of layers


def test_layers_kept_by_hand() -> None:
    frame = layers_kept([ONE, OTHER], GROUPS).set_index("group")
    assert list(frame.index) == ["ADJ", "NOUN", "[CLS]", "[SEP]"]
    assert frame["mean"].to_list() == pytest.approx([(2.7 + 1.5) / 2, 0.75, 1.5, 2.5])
    assert frame["sd"].to_list() == pytest.approx([1.2 / 2**0.5, np.nan, 2**-0.5, 2**-0.5], nan_ok=True)
    assert frame["n_tokens"].to_list() == [2, 1, 2, 2]
    assert frame["n_texts"].to_list() == [2, 1, 2, 2]
    assert set(frame["n_layers"]) == {3}
    # two texts drawn anew give both, or one of them twice: a quarter of the draws at either end
    assert frame.loc["ADJ", ["low", "high"]].to_list() == pytest.approx([1.5, 2.7])
    assert frame.loc["NOUN", ["low", "high"]].isna().all()  # one text says nothing about others


def test_counting_layers_in_place_of_adding_probabilities() -> None:
    frame = layers_kept([ONE, OTHER], GROUPS, above=0.5, order=["[SEP]", "NOUN", "ADJ"])
    assert frame["group"].to_list() == ["[SEP]", "NOUN", "ADJ"]
    assert frame["mean"].to_list() == [2.5, 0.0, 2.5]


def test_a_group_that_no_token_is_in() -> None:
    (row,) = layers_kept([ONE, OTHER], GROUPS, order=["VERB"]).to_dict("records")
    assert row["n_tokens"] == row["n_texts"] == 0
    assert all(np.isnan(row[column]) for column in ("mean", "sd", "low", "high"))


def test_tokens_without_a_group_are_left_out() -> None:
    frame = layers_kept([ONE, OTHER], [[None, "a", None, None], [None, None, "a"]])
    assert frame["mean"].to_list() == pytest.approx([(2.7 + 2) / 2])
    assert frame["n_tokens"].to_list() == [2]


def test_keep_by_layer_by_hand() -> None:
    frame = keep_by_layer([ONE, OTHER], GROUPS)
    found = frame[frame["group"] == "ADJ"]
    assert found["layer"].to_list() == ["embeddings", 0, 1]
    assert found["mean"].to_list() == pytest.approx([0.8, 0.6, 0.7])
    assert found["low"].to_list() == pytest.approx([0.6, 0.3, 0.6])
    assert found["high"].to_list() == pytest.approx([1.0, 0.9, 0.8])


def random_texts(n_texts: int) -> tuple[list[Explanation], list[list[str | None]]]:
    rng = np.random.default_rng(3)
    explanations, groups = [], []
    for _ in range(n_texts):
        n_words = int(rng.integers(1, 6))
        explanations.append(kept("w " * n_words, *(tuple(row) for row in rng.random((n_words + 2, 3)))))
        groups.append([str(name) if name != "-" else None for name in rng.choice(["a", "b", "-"], n_words + 2)])
    return explanations, groups


def test_means_and_spreads_are_those_of_pandas() -> None:
    explanations, groups = random_texts(40)
    rows = [
        (layer, group, float(explanation.scores[row, position]))
        for explanation, names in zip(explanations, groups, strict=True)
        for row, layer in enumerate(explanation.layers)
        for position, group in enumerate(names)
        if group is not None
    ]
    expected = pandas.DataFrame(rows, columns=["layer", "group", "score"]).groupby(["group", "layer"])["score"]
    found = keep_by_layer(explanations, groups).set_index(["group", "layer"])
    for key, row in found.iterrows():
        assert row["mean"] == pytest.approx(expected.mean()[key])
        assert row["sd"] == pytest.approx(expected.std()[key])
        assert row["n_tokens"] == expected.count()[key]


def test_intervals_are_those_of_texts_drawn_one_by_one() -> None:
    explanations, groups = random_texts(25)
    found = layers_kept(explanations, groups, resamples=4000, seed=1).set_index("group")
    again = layers_kept(explanations, groups, resamples=4000, seed=1).set_index("group")
    assert found.equals(again)
    assert not found.equals(layers_kept(explanations, groups, resamples=4000, seed=2).set_index("group"))
    rng = np.random.default_rng(7)
    for group in ("a", "b"):
        sums = [
            e.scores.sum(axis=0)[[n == group for n in names]] for e, names in zip(explanations, groups, strict=True)
        ]
        means = [np.concatenate([sums[i] for i in rng.integers(0, 25, 25)]).mean() for _ in range(4000)]
        assert found.loc[group, ["low", "high"]].to_list() == pytest.approx(
            np.quantile(means, [0.025, 0.975]), abs=0.02
        )


# where tokens are dropped


def test_the_layer_that_drops_a_token() -> None:
    assert dropped_at(ONE) == [1, None, "embeddings", None]
    assert dropped_at(OTHER) == [0, None, 1]  # "bad" is done without at layer 0, but kept again at the top
    assert dropped_at(ONE, above=0.85) == [1, 1, "embeddings", None]


def test_shares_dropped_by_layer() -> None:
    frame = dropped_by_layer([ONE, OTHER], GROUPS)
    shares = {group: rows["mean"].to_list() for group, rows in frame.groupby("group")}
    assert frame["layer"].to_list()[:4] == ["embeddings", 0, 1, "kept"]
    assert shares == {"ADJ": [0, 0, 0, 1], "NOUN": [1, 0, 0, 0], "[CLS]": [0, 0.5, 0.5, 0], "[SEP]": [0, 0, 0.5, 0.5]}


def test_shares_add_up_to_one() -> None:
    frame = dropped_by_layer(*random_texts(20))
    assert frame.groupby("group")["mean"].sum().to_list() == pytest.approx([1, 1])


def test_answers_that_all_layers_keep() -> None:
    # [CLS] who [SEP] it was Jane Doe . [SEP]
    sure = [(0.0, 0.0)] * 5 + [(0.9, 0.6), (1.0, 0.7)] + [(0.0, 0.0)] * 2
    unsure = [*sure[:6], (0.9, 0.5), *sure[7:]]
    settings: dict[str, Any] = {
        "pair": "it was Jane Doe.",
        "prediction": Prediction("Jane Doe", 5, 0.9, {}),
        "model": ModelRecord("m", None, "BertForQuestionAnswering", "question_answering"),
    }
    explanations = [kept("who", *sure, **settings), kept("who", *unsure, **settings)]
    assert explanations[0].tokens[5].text == "Jane"
    assert answers_kept(explanations) == [True, False]
    assert answers_kept(explanations, above=0.65) == [False, False]
    with pytest.raises(UsageError, match="classification gives no answer span"):
        answers_kept([ONE])


# wrong use


def test_what_cannot_be_looked_at() -> None:
    with pytest.raises(UsageError, match="2 explanations, but groups for 1"):
        layers_kept([ONE, OTHER], GROUPS[:1])
    with pytest.raises(UsageError, match="no explanation"):
        layers_kept([], [])
    with pytest.raises(UsageError, match="explanation 1 has 3 tokens, but groups for 4"):
        layers_kept([ONE, OTHER], [GROUPS[0], GROUPS[0]])
    with pytest.raises(
        UsageError, match=r"explanation 1 has layers \('embeddings',\), the first \('embeddings', 0, 1\)"
    ):
        layers_kept([ONE, made("bad", signed=False)], GROUPS)
    with pytest.raises(UsageError, match="no token has a group"):
        layers_kept([OTHER], [[None, None, None]])


@pytest.mark.parametrize("value", [1.5, -0.5, np.nan, np.inf])
def test_scores_that_are_no_probabilities(value: float) -> None:
    wrong = kept("bad", (1, 1, 1), (1, value, 1), (0, 0, 0))
    for look in (lambda: layers_kept([wrong], GROUPS[1:]), lambda: dropped_at(wrong)):
        with pytest.raises(UsageError, match="the scores of made_up are not keep probabilities"):
            look()


# figures


@pytest.fixture
def _closed() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    pyplot.close("all")


@pytest.mark.usefixtures("_closed")
def test_a_figure_of_layers_kept() -> None:
    ax = plot_layers_kept(layers_kept([ONE, OTHER], GROUPS))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["ADJ (2)", "NOUN (1)", "[CLS] (2)", "[SEP] (2)"]
    (dots,) = ax.get_lines()
    assert dots.get_xdata() == pytest.approx([2.1, 0.75, 1.5, 2.5])
    assert ax.get_xlim() == (0, 3)
    assert ax.get_xlabel() == "layers that keep a token, of 3"
    ax.figure.canvas.draw()


@pytest.mark.usefixtures("_closed")
def test_a_figure_of_keep_probabilities_by_layer() -> None:
    ax = plot_keep_by_layer(keep_by_layer([ONE, OTHER], GROUPS, order=["[SEP]", "[CLS]"]))
    assert [line.get_label() for line in ax.get_lines()] == ["[SEP]", "[CLS]"]
    assert ax.get_lines()[1].get_ydata() == pytest.approx([1, 0.5, 0])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["e", "0", "1"]
    ax.figure.canvas.draw()


@pytest.mark.usefixtures("_closed")
def test_a_figure_of_where_tokens_are_dropped() -> None:
    ax = plot_dropped_by_layer(dropped_by_layer([ONE, OTHER], GROUPS))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["e", "0", "1", "kept"]
    shares: Any = ax.collections[0].get_array()
    assert shares.shape == (4, 5)  # with a gap before those kept
    assert shares[2].filled(-1).tolist() == [0, 0.5, 0.5, -1, 0]
    ax.figure.canvas.draw()


@pytest.mark.filterwarnings("ignore:Glyph")  # the font has no sign for a control character
@pytest.mark.usefixtures("_closed")
def test_figures_go_where_they_are_told_and_show_names_as_they_are() -> None:
    _, axes = pyplot.subplots(1, 3)
    groups = [["$x_{$", "\x1b[31m", "a", "b"], ["$x_{$", "\x1b[31m", "b"]]
    frames = [make([ONE, OTHER], groups) for make in (layers_kept, keep_by_layer, dropped_by_layer)]
    plots = (plot_layers_kept, plot_keep_by_layer, plot_dropped_by_layer)
    for plot, frame, ax in zip(plots, frames, axes, strict=True):
        assert plot(frame, ax) is ax
    assert len(pyplot.get_fignums()) == 1
    axes[0].figure.canvas.draw()  # would fail where "$" began mathematics
    shown = [tick.get_text() for tick in axes[0].get_yticklabels()]
    assert shown == ["␛[31m (2)", "$x_{$ (2)", "a (1)", "b (2)"]


@pytest.mark.usefixtures("_closed")
def test_many_layers_and_many_groups_are_drawn() -> None:
    layers = ("embeddings", *range(33))
    explanations = [made("w " * 30, layers, signed=False, seed=seed) for seed in range(3)]
    groups: list[list[str | None]] = [[f"group {i % 30}" for i in range(32)] for _ in explanations]
    ax = plot_keep_by_layer(keep_by_layer(explanations, groups))
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.get_lines()}) >= 28
    assert len(ax.get_xticks()) <= 14
    ax.figure.canvas.draw()


def test_the_sentiments_are_in_order() -> None:
    explanation = made("a b c d e", signed=False)
    frame = layers_kept([explanation], [sentiment_groups(explanation, [4, 3, 2, 1, 0])], order=SENTIMENTS)
    assert frame["group"].to_list() == ["very negative", "negative", "neutral", "positive", "very positive"]
