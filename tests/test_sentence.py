"""The answer in words: by hand which words are named, what is said of other tasks, and how far it may be believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from made_explanations import made

import whence
from whence.cli.reporting import board_at
from whence.embedded import NAMES, board_findings
from whence.errors import FileError
from whence.explanation import ExplainedTarget, Explanation, Meaning, ModelRecord, Prediction
from whence.metrics.rank_correlation import kendall_tau
from whence.render.belief import ALIKE, ERRORS, MISSING, board_says, strength
from whence.render.consensus import consensus_of
from whence.render.glossary import GLOSSARY
from whence.render.page import page_data
from whence.render.scale import scale_words
from whence.render.segments import target_words
from whence.render.sentence import Reasons, percent, reasons_of, sentence_of
from whence.render.wording import model_name
from whence.scoreboard.evaluate import evaluate

SIGNED = Meaning("share", "a share", signed=True, additive=True)
UNSIGNED = Meaning("size", "a size", signed=False, additive=False, low=0.0)
KEEP = Meaning("keep probability", "it stays", False, False, 0.0, 1.0, keep_probability=True)
WORDS = ("the", "story", "never", "but", "love")


def reasons(scores: list[float], meaning: Meaning = SIGNED, labels: Any = None) -> Reasons:
    return reasons_of(np.array(scores), labels or [f"w{i}" for i in range(len(scores))], meaning)


def said(scores: list[float], **changes: Any) -> str:
    return str(sentence_of(made(" ".join(WORDS[: len(scores)]), scores=[0, *scores, 0], **changes)))


# which words are named


def test_the_fewest_words_that_hold_half_are_named() -> None:
    assert reasons([0.1, 0.5, 0.2, 0.1]) == Reasons((1,), mainly=True)
    assert reasons([0.1, 0.4, 0.3, 0.1, 0.1]) == Reasons((1, 2), mainly=True)
    assert reasons([0.0, 0.5, 0.3, 0.0]) == Reasons((1, 2), mainly=True), "one nearly as strong is named too"


def test_three_at_most_and_then_not_mainly() -> None:
    scores = [0.5, 0.4, 0.4, *[0.2] * 20, -0.1]
    assert reasons(scores) == Reasons((0, 1, 2), mainly=False)


def test_only_clear_words_are_named_against() -> None:
    assert reasons([1.0, -0.24, 0.01, 0.0]).against == ()
    assert reasons([1.0, -0.26, 0.01, 0.0]).against == (1,)
    assert reasons([1.0, -0.3, -0.5, -0.4]).against == (2, 3)
    assert reasons([0.2, -1.0, 0.1, 0.0]) == Reasons((), (1,), mainly=False, outweighed=True)


def test_the_same_spelling_is_named_once_but_counts_each_time() -> None:
    found = reasons([0.4, 0.4, 0.1, 0.1, 0.1, 0.1], labels=["Not", "not", "a", "b", "c", "d"])
    assert found.speaking_for == (0,)
    assert found.mainly


def test_nothing_stands_out() -> None:
    assert reasons([0.0, 0.0, 0.0]) == Reasons()
    assert reasons([0.2, 0.2, -0.2, 0.25]) == Reasons()
    assert reasons([0.2, 0.2]).named == (0, 1), "two words are named whatever their mean"
    assert reasons([]) == Reasons()


def test_scores_without_sign_and_keep_probabilities() -> None:
    assert reasons([0.1, 0.9, 0.1, 0.1], UNSIGNED) == Reasons((1,), mainly=True)
    assert reasons([0.1, 0.9, 0.6, 0.5], KEEP).named == (1, 2)


# what is said


def test_the_sentence_of_a_decision() -> None:
    negative = Prediction("negative", 0, 0.824, {"negative": 0.824, "positive": 0.176})
    asked = ExplainedTarget("negative", "probability", 0.824)
    changes = {"prediction": negative, "target": asked}
    assert said([0.01, 0.02, 0.4, 0.3, -0.2], **changes) == (
        "Negative (82 %), mainly because of “never” and “but”; “love” pulled the other way."
    )
    assert said([0.0, 0.0, 0.4, 0.0, 0.0], **changes) == (
        "Negative (82 %), mainly because of “never”; no word clearly pulled the other way."
    )
    assert said([0.0, 0.0, -0.4, 0.0, 0.05], **changes) == (
        "Negative (82 %), although no word clearly speaks for it; “never” pulled the other way. "
        "Taken together, the words speak more against it than for it."
    )
    assert said([0.0] * 5, **changes) == "Negative (82 %): no word stands out."
    other = {"prediction": negative, "target": ExplainedTarget("positive", "probability", 0.176)}
    assert said([0.0, 0.0, -0.4, 0.0, 0.3], **other) == (
        "The model says negative (82 %). What there is for positive comes mainly from “love”; against it: “never”. "
        "Taken together, the words speak more against it than for it."
    )


def test_a_mark_between_words_goes_by_its_name() -> None:
    found = made("good . but , never", scores=[0, 0.3, 0.4, 0.0, -0.3, 0.0, 0])
    assert str(sentence_of(found)) == (
        "Good (75 %), mainly because of the full stop “.” and “good”; the comma “,” pulled the other way."
    )
    assert ("for", ".") in sentence_of(found).parts, "the mark itself stays a word of the text"


def test_scores_without_sign_say_so() -> None:
    scores = [0.0, 0.1, 0.9, 0.0, 0.0]
    assert said(scores, meaning=UNSIGNED, target=ExplainedTarget("good", "logit", 1.0)) == (
        "Good (75 %): “never” matters most; this method does not tell for from against."
    )
    assert said([0.1, 0.2, 0.9, 0.8, 0.0], meaning=KEEP) == (
        "Good (75 %): “never” and “but” must be kept for that; the other 3 can go."
    )
    assert said([0.1] * 5, meaning=KEEP) == "Good (75 %): no word must be kept for that."
    assert said(scores, method="random") == "Good (75 %): these scores are random numbers and say nothing."


@pytest.mark.parametrize(
    ("task", "label", "chance", "target", "begins"),
    [
        ("classification", "3.21", None, "LABEL_0", "3.21, raised mainly by “never”; “love” lowered it."),
        ("similarity", "similarity 0.81", None, "similarity", "Similarity 0.81, raised mainly by “never”; “love” low"),
        ("causal_lm", "Paris", 0.5, "Paris", "Next comes Paris (50 %), mainly because of “never”; “love” pulled"),
        ("masked_lm", "it", 0.5, "it", "The model fills in it (50 %), mainly because of “never”; “love” pulled"),
        ("question_answering", "1889", 0.5, "answer tokens 3 to 3 (1889)", "The answer is 1889 (50 %), mainly because"),
        ("token_classification", "B-PER", 0.9, "B-PER at token 3 (Ada)", "Ada is tagged B-PER, mainly because of"),
        ("unknown", "unknown", None, "unknown", "The decision rests mainly on “never”; “love” pulled the other way."),
        ("response", "so it goes", 0.1, "so it goes", "The response rests mainly on “never”; “love” made it less"),
        ("response", "so it goes", 0.1, "goes", "goes rests mainly on “never”; “love” made it less likely."),
    ],
)
def test_other_targets(task: str, label: str, chance: float | None, target: str, begins: str) -> None:
    changes: dict[str, Any] = {
        "prediction": Prediction(label, 0, chance, {}),
        "target": ExplainedTarget(target, "logit", 1.0),
        "model": ModelRecord("m", None, "x", task),
    }
    explanation = made(" ".join(WORDS), scores=[0, 0, 0, 0.9, 0, -0.3, 0], **changes)
    if task == "response":
        explanation = replace(explanation, pair=label)
    assert str(sentence_of(explanation)).startswith(begins)


def test_a_tag_and_a_next_token_are_said_as_they_are_written() -> None:
    """Of a piece of a word the word; of a token with a blank before it no quotes."""
    record = ModelRecord("m", None, "x", "token_classification")
    asked = ExplainedTarget("B-PER at token 1 (unhapp)", "logit", 1.0)
    pieces = made("unhappy film", scores=[0, 0.5, 0.5, 0.1, 0, 0], pieces=True, model=record, target=asked)
    assert str(sentence_of(pieces)).startswith("unhappy is tagged B-PER")
    assert target_words(pieces) == "B-PER for “unhappy”"
    label = '" Paris"'
    changes: dict[str, Any] = {
        "prediction": Prediction(label, 0, 0.5, {label: 0.5, '" the"': 0.2}),
        "target": ExplainedTarget(label, "logit", 1.0),
        "model": ModelRecord("m", None, "x", "causal_lm"),
    }
    (shown,) = page_data([made("It is", scores=[0, 1, 0.2, 0], **changes)])["texts"]
    assert "".join(text for _, text in shown["runs"][0]["sentence"]).startswith("Next comes Paris (50 %)")
    assert [row[0] for row in shown["prediction"]["probabilities"]] == ["Paris", "the"]
    assert target_words(made("It is", **changes)) == "Paris"
    changes["prediction"] = Prediction(label, 0, 0.5, {label: 0.5, "Paris": 0.2})
    (shown,) = page_data([made("It is", scores=[0, 1, 0.2, 0], **changes)])["texts"]
    assert [row[0] for row in shown["prediction"]["probabilities"]] == [label, "Paris"], "else they look the same"


def test_a_tag_tells_its_probability_where_that_was_explained() -> None:
    explanation = whence.explain(
        tiny_models.tiny("bert", "token_classification"), "a good film", "lime", scale="probability", samples=8
    )
    begins = str(sentence_of(explanation))
    assert f"({percent(explanation.target.value)})" in begins
    assert " is tagged " in begins


def test_percentages_never_say_more_than_is_known() -> None:
    chances = (0.0, 0.004, 0.5, 0.996, 1.0)
    assert [percent(chance) for chance in chances] == ["0 %", "under 1 %", "50 %", "over 99 %", "100 %"]


# how far to believe it


def beliefs(*explanations: Explanation, board: Any = None) -> dict[str, tuple[str, str]]:
    (entry,) = page_data(explanations, board=board)["texts"]
    return {each["about"]: (each["word"], each["sentence"]) for each in entry["runs"][0]["belief"]}


def test_the_words_have_bounds() -> None:
    for bounds in (ALIKE, ERRORS):
        low, high = bounds
        values = (low - 1e-9, low, high - 1e-9, high)
        assert [strength(value, bounds) for value in values] == ["weak", "fair", "fair", "strong"]


def test_adding_up() -> None:
    scores = [0, 0.5, 0.25, 0.25, 0, 0, 0]
    for missing, word in ((0.0, "strong"), (MISSING[0], "strong"), (0.1, "fair"), (MISSING[1], "fair"), (0.3, "weak")):
        explanation = made(" ".join(WORDS), scores=scores, completeness_errors=(missing,))
        assert beliefs(explanation)["adding up"][0] == word
    assert "miss it by 30 %" in beliefs(explanation)["adding up"][1]
    assert beliefs(made("a b c")) == {}, "what is not promised is not judged"


def test_sampling() -> None:
    scores = [0, 0.6, 0.2, 0.1, 0, 0, 0]
    for error, word in ((0.4, "weak"), (0.2, "fair"), (0.1, "strong"), (0.0, "strong")):
        errors = np.full((1, 7), error, np.float32)
        found = beliefs(made(" ".join(WORDS), scores=scores, standard_errors=errors))
        assert found["sampling"][0] == word, error
    assert "exact" in found["sampling"][1]
    pieces = made("unhappy film", scores=[0, 0.5, 0.5, 0.1, 0, 0], pieces=True)
    found = beliefs(replace(pieces, standard_errors=np.full((1, 6), 0.125, np.float32)))
    assert "at least 4.0 times" in found["sampling"][1], "1.0 over 0.25: errors of a word's tokens are added"


def test_other_methods() -> None:
    first = made(" ".join(WORDS), scores=[0, 5, 4, 3, 2, 1, 0], method="first")
    for order, tau, contrary, word in (
        ([5, 4, 3, 2, 1], 1.0, False, "strong"),
        ([-5, 4, 3, 2, 1], 1.0, True, "fair"),
        ([5, 4, 2, 3, 1], 0.8, False, "strong"),
        ([4, 5, 1, 3, 2], 0.4, False, "fair"),
        ([3, 5, 1, 4, 2], 0.2, False, "weak"),
    ):
        second = made(" ".join(WORDS), scores=[0, *order, 0], method="second")
        sizes = np.abs(np.array([[5, 4, 3, 2, 1], order], dtype=float))
        assert kendall_tau(sizes, sizes)[0, 1] == pytest.approx(tau)
        found, sentence = beliefs(first, second)["other methods"]
        assert (found, f"({tau:.2f};" in sentence, "the other way round" in sentence) == (word, True, contrary)
    random = made(" ".join(WORDS), scores=[0, 1, 2, 3, 4, 5, 0], method="random")
    assert beliefs(first, random) == {}, "random scores are no second opinion"


def test_what_a_board_found(tmp_path: Path) -> None:
    from weighted_words import TEXTS, length, of_tokens, weighted_words

    model = weighted_words()
    methods: dict[str, Any] = {"leave_one_out": "leave_one_out", "length": of_tokens(length, "length")}
    board = evaluate(model, TEXTS, methods=methods, layer="embeddings")
    found = board_says(board)
    assert board.verdict.believe == ("leave_one_out",)
    good, bad = (found[model.record.id, name] for name in ("leave_one_out", "length"))
    assert good.word == board.verdict.strength
    assert f"on {len(TEXTS)} texts: no method is surely more faithful" in good.sentence
    assert bad.word == "weak"
    assert (model.record.id, "random") not in found
    explanation = whence.explain(model, TEXTS[0], "leave_one_out")
    assert beliefs(explanation, board=board)["a board"][0] == good.word
    board.save(tmp_path)
    assert board_says(board_at(tmp_path)) == found, "as --board reads it"
    with pytest.raises(FileError, match="no scoreboard"):
        board_at(tmp_path / "nowhere")
    assert "a board" not in beliefs(replace(explanation, model=ModelRecord("other", None, "x", "y")), board=board)


@pytest.mark.parametrize("name", NAMES)
def test_an_embedded_model_comes_with_its_board(name: str) -> None:
    """What the pages say of the usual method, held against the board's own file."""
    boards = Path(__file__).parent.parent / "experiments" / "scoreboard" / "results"
    board = json.loads((boards / {"sentiment": "sst2", "topic": "ag_news"}[name]).with_suffix(".json").read_text())
    found = board_findings(name)
    ranked = {each["entry"]: each for each in board["rankings"]["faithfulness"]}
    assert found["believe"] == board["verdict"]["believe"]
    assert (found["strength"], found["n_texts"]) == (board["verdict"]["strength"], board["n_texts"])
    assert set(found["judged"]) == set(ranked) - {"random", "single_effects"}
    chance = ranked["random"]["high"]
    assert set(found["no_better_than_random"]) == {each for each in found["judged"] if ranked[each]["low"] <= chance}
    model = whence.load(name)
    usual = "a witty film" if name == "sentiment" else "Stocks fell on Wall Street as oil prices rose to a record."
    known = whence.explain(model, usual, "one_pass")
    assert known.warnings == ()
    best = beliefs(known)["a board"]
    assert best[0] == board["verdict"]["strength"]
    assert f"on {board['n_texts']} texts of" in best[1]
    worse = whence.explain(model, "a witty film", "gradient_x_input")
    assert beliefs(worse)["a board"][0] == "fair"
    chance_like = replace(worse, method="deep_lift_shap")
    assert (beliefs(chance_like)["a board"][0] == "weak") == ("deep_lift_shap" in found["no_better_than_random"])
    assert beliefs(replace(worse, method="unheard_of")) == {}


@pytest.mark.parametrize(
    ("text", "warned"),
    [("a witty film " * 40, "tokens, the probes were trained on at most"), ("zxq vvk 77", "is unlike those")],
)
def test_of_a_text_that_is_not_like_those_it_learned_from_a_method_is_believed_less(text: str, warned: str) -> None:
    found = whence.explain(whence.load("topic" if "unlike" in warned else "sentiment"), text, "one_pass")
    assert any(warned in warning for warning in found.warnings)
    word, said = beliefs(found)["a board"]
    assert word == "fair", "a step less than strong"
    assert said.endswith("but this text is longer than, or unlike, those that the method learned from")


def test_a_record_that_names_a_file_as_its_embedded_model_opens_none() -> None:
    record = ModelRecord("m", None, "x", "classification", embedded="../../../../etc")
    assert beliefs(made("a b c", model=record, method="one_pass")) == {}


# several methods


def test_the_consensus() -> None:
    labels = list("abcde")
    alike = np.array([[1, 0.5, 0.3, 0.02, 0], [0.9, 1, -0.2, 0, 0.05]])
    found = consensus_of(alike, [True, True], labels, "word")
    words = "".join(text for _, text in found.parts)
    assert words == "Both methods have a, b and c among their first 3; they contradict each other on c."
    assert found.contradicted == (2,)
    unsigned = consensus_of(np.abs(alike), [True, False], labels, "word")
    assert unsigned.contradicted == ()
    apart = np.array([[1, 0.9, 0.8, 0, 0, 0, 0], [0, 0, 0, 1, 0.9, 0.8, 0], [0.1, 0, 0, 0, 0, 0.2, 1]])
    lost = consensus_of(apart, [True, True, True], list("abcdefg"), "word")
    assert "".join(text for _, text in lost.parts).startswith(
        "2 of 3 methods have a and f among their first 3; on no word"
    )
    none = consensus_of(apart[:2], [True, True], list("abcdefg"), "word")
    assert none.parts[0] == ("plain", "No word is among the first 3 of more than half of the 2 methods")


# scales, names, glossary


def test_the_relation_of_headline_and_scores_is_said() -> None:
    model = whence.load()
    points = whence.explain(model, "a witty film", "leave_one_out", scale="probability")
    assert "ten points towards" in scale_words(points)
    assert percent(points.target.value) in scale_words(points)
    inner = whence.explain(model, "a witty film", "leave_one_out", scale="logit")
    assert "inner scale" in scale_words(inner)
    assert f"has {inner.target.value:.2f}; they are not percentage points" in scale_words(inner)
    shares = whence.explain(model, "a witty film", "one_pass")
    assert "a tenth of all" in scale_words(shares)
    assert "compare words" in scale_words(whence.explain(model, "a witty film", "attention"))
    assert "compare words" in scale_words(made("a film")), "of scores from elsewhere nothing is known"


def test_no_folder_is_named() -> None:
    assert model_name("/home/me/secret/model/") == "model"
    assert model_name("C:\\Users\\me\\model") == "model"
    assert model_name("~/model") == "model"
    assert model_name("org/model") == "org/model"
    record = ModelRecord("/home/me/secret/model", None, "x", "classification")
    data = page_data([made("a film", model=record, options={"probes": "/home/me/probes"})])
    assert "/home/me" not in str(data)


def test_every_word_of_belief_is_in_the_glossary() -> None:
    assert {"other methods", "sampling", "adding up", "a board", "mainly", "no colour", "random"} <= set(GLOSSARY)
    assert f"{ALIKE[0]:g}" in GLOSSARY["other methods"]
    assert f"{ERRORS[1]:g}" in GLOSSARY["sampling"]
    assert f"{MISSING[1]:.0%}" in GLOSSARY["adding up"]
