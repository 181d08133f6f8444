"""Units: what is taken away as a whole, what is gathered, and how both are kept and shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from made_explanations import made
from rich.console import Console
from tiny_models import tiny
from typer.testing import CliRunner
from weighted_words import STEEP, truth, weighted_words

import whence
from whence.cli import app
from whence.explanation import Unit, UnitScores
from whence.metrics.rank_correlation import kendall_tau
from whence.models.players import player_of_each_token
from whence.render.page import page_data
from whence.render.rows import rows_of
from whence.render.terminal import comparison_view, explanation_view
from whence.testing import check_units_have_the_scores_of_their_tokens

TEXT = "a good plot . it was witty and fine !\n\nthe end was bad ."
SENTENCES = ["a good plot .", "it was witty and fine !", "the end was bad ."]
PERTURBATIONS: dict[str, dict[str, Any]] = {
    "leave_one_out": {},
    "occlusion": {"window": 1},
    "shapley": {},
    "lime": {"ridge": 0.0},
    "kernel_shap": {},
}


@pytest.mark.parametrize("baseline", ["zero", "pad", "delete"])
@pytest.mark.parametrize(("method", "options"), PERTURBATIONS.items(), ids=PERTURBATIONS)
def test_a_planted_sum_is_found_for_every_unit(method: str, options: dict[str, Any], baseline: str) -> None:
    """The model adds up weights of words, so a unit taken away takes the weights of its words with it."""
    found = whence.explain(weighted_words(), TEXT, method, target="yes", units="sentence", baseline=baseline, **options)
    assert found.units is not None
    assert found.units.kind == "sentence"
    assert [word.text for word in found.gathered()] == SENTENCES
    planted = [STEEP * sum(truth(sentence)) for sentence in SENTENCES]
    np.testing.assert_allclose(found.units.scores[0], planted, atol=2e-5)
    assert "sentence" in found.meaning.sentence
    assert "token" not in found.meaning.sentence
    for unit, score in zip(found.units.units, planted, strict=True):
        np.testing.assert_allclose(found.scores[0, list(unit.tokens)], score / len(unit.tokens), atol=1e-5)
    assert [word.text for word in found.top(1)] == [SENTENCES[0]] or planted[1] >= planted[0]


@pytest.mark.parametrize(
    ("units", "texts"),
    [
        ("word", TEXT.split()),
        ("paragraph", ["a good plot . it was witty and fine !", "the end was bad ."]),
        ([(14, 26), (2, 11)], ["good plot", "it was witty"]),
    ],
)
def test_units_of_every_kind(units: Any, texts: list[str]) -> None:
    found = whence.explain(weighted_words(), TEXT, "leave_one_out", target="yes", units=units, baseline="zero")
    assert found.units is not None
    assert [word.text for word in found.gathered()] == texts
    np.testing.assert_allclose(found.units.scores[0], [STEEP * sum(truth(text)) for text in texts], atol=1e-5)
    assert found.cost.forwards == 1 + len(texts)


def test_a_window_is_one_of_units() -> None:
    found = whence.explain(
        weighted_words(), TEXT, "occlusion", target="yes", units="sentence", baseline="zero", window=2
    )
    one, two, three = (STEEP * sum(truth(sentence)) for sentence in SENTENCES)
    assert found.units is not None
    expected = [one + two, (one + two + two + three) / 2, two + three]
    np.testing.assert_allclose(found.units.scores[0], expected, atol=1e-5)


def test_shapley_values_of_sentences_by_brute_force() -> None:
    """On a model with interactions: two players, so a value is the mean of what a sentence adds first and last."""
    model = tiny("bert")
    text = "the plot was not bad. it is too long!"
    encoding = model.encode(text)
    players = player_of_each_token(encoding, "sentence")
    assert set(players) == {None, 0, 1}
    found = whence.explain(model, text, "shapley", units="sentence", baseline="mask")
    label = model.reading.labels.index(found.target.description)

    def worth(*present: int) -> float:
        ids = [
            token.id if player is None or player in present else model.tokenizer.masking
            for token, player in zip(encoding.tokens, players, strict=True)
        ]
        with torch.no_grad():
            return float(model.module(input_ids=torch.tensor([ids])).logits[0, label])

    first = (worth(0) - worth() + worth(0, 1) - worth(1)) / 2
    second = (worth(1) - worth() + worth(0, 1) - worth(0)) / 2
    assert found.units is not None
    np.testing.assert_allclose(found.units.scores[0], [first, second], atol=1e-5)
    assert found.notes == ("exact at layer embeddings: all 4 sets of 2 sentences were asked",)
    assert found.units.standard_errors is not None
    assert not found.units.standard_errors.any()


def test_special_tokens_play_by_themselves_above_the_input() -> None:
    model = tiny("bert")
    text = "the plot was not bad. it is too long!"
    at_input, above = (whence.explain(model, text, "leave_one_out", units="sentence", layers=each) for each in (0, 2))
    assert above.cost.forwards == at_input.cost.forwards + 2, "[CLS] and [SEP]"
    assert above.scores[0, [0, -1]].all()
    assert not at_input.scores[0, [0, -1]].any()


@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "attn_lrp", "grad_cam", "attention"])
def test_other_methods_gather_the_scores_of_tokens(method: str) -> None:
    model = tiny("bert")
    text = "unhappily the plot was not bad. it is playful!"
    alone, together = (whence.explain(model, text, method, layers=[1, 2], units=each) for each in ("token", "sentence"))
    assert alone.units is None
    assert together.units is not None
    np.testing.assert_array_equal(alone.scores, together.scores)
    for number, unit in enumerate(together.units.units):
        own = alone.scores[:, list(unit.tokens)]
        expected = own.sum(axis=1) if alone.meaning.additive else own[np.arange(2), np.abs(own).argmax(axis=1)]
        np.testing.assert_allclose(together.units.scores[:, number], expected, atol=1e-6)
    assert together.meaning == alone.meaning


def test_the_error_of_a_unit_is_that_of_its_player() -> None:
    model = tiny("gpt2")
    text = "the plot was not bad. it is long! so dull. why? a film. the end was sad. good? no."
    found = whence.explain(model, text, "shapley", units="sentence", samples=30)
    assert found.units is not None
    assert found.units.standard_errors is not None
    assert found.units.standard_errors.all()
    exact = whence.explain(model, text, "shapley", units="sentence", samples=600)
    assert exact.notes == ("exact at layer embeddings: all 256 sets of 8 sentences were asked",)
    assert exact.units is not None
    assert (np.abs(exact.units.scores - found.units.scores) < 4 * found.units.standard_errors).all()


def test_both_texts_of_a_pair_have_units() -> None:
    model = tiny("bert", "question_answering")
    pair = ("what was dull?", "the story was dull. it was long.")
    found = whence.explain(model, pair, "leave_one_out", units="sentence")
    assert [(word.segment, word.text) for word in found.gathered()] == [
        (0, "what was dull?"), (1, "the story was dull."), (1, "it was long."),
    ]  # fmt: skip
    spans = whence.explain(model, pair, "leave_one_out", units=([], [(0, 19), (20, 32)]))
    assert [word.text for word in spans.gathered()] == ["the story was dull.", "it was long."]
    assert found.units is not None
    assert spans.units is not None
    np.testing.assert_allclose(spans.units.scores[0], found.units.scores[0, 1:], atol=1e-5)


def test_units_in_a_batch_are_those_alone() -> None:
    model = tiny("llama")
    texts = [TEXT, "a witty film", "so sad. so dull. the end"]
    for one, text in zip(whence.explain(model, texts, "shapley", units="sentence"), texts, strict=True):
        alone = whence.explain(model, text, "shapley", units="sentence")
        assert one.units is not None
        assert alone.units is not None
        assert one.units.units == alone.units.units
        np.testing.assert_allclose(one.units.scores, alone.units.scores, atol=1e-5)


def test_deleting_sentences_of_a_decoder_is_a_fresh_run() -> None:
    model = tiny("gpt2", "causal_lm")
    text = "the plot was not bad. it is too long! so dull"
    found = whence.explain(model, text, "leave_one_out", units="sentence", baseline="delete")
    encoding = model.encode(text)
    players = player_of_each_token(encoding, "sentence")
    ids = torch.tensor(encoding.ids)
    with torch.no_grad():
        whole = model.module(input_ids=ids[None]).logits[0, -1]
        for number, score in enumerate(found.units.scores[0] if found.units else ()):
            left = ids[[player != number for player in players]]
            gone = model.module(input_ids=left[None]).logits[0, -1, whole.argmax()]
            assert score == pytest.approx(float(whole.max() - gone), abs=1e-5)


# what is refused ----------------------------------------------------------------------------------------------------


def test_units_that_do_not_fit_are_refused() -> None:
    model = tiny("bert")
    with pytest.raises(whence.UnknownNameError, match="did you mean 'sentence'"):
        whence.explain(model, TEXT, "random", units="sentences")  # type: ignore[arg-type]
    with pytest.raises(whence.UsageError, match="spans of one text, here are 2"):
        whence.explain(model, ["a film", "a plot"], "random", units=[(0, 1)])
    with pytest.raises(whence.UsageError, match="lies outside a text of 6 characters"):
        whence.explain(model, "a film", "random", units=[(0, 7)])
    with pytest.raises(whence.UsageError, match="no token of the text lies in any of the units"):
        whence.explain(model, "a film", "leave_one_out", units=[(1, 2)])
    with pytest.raises(whence.UsageError, match="ids are features of tokens"):
        whence.explain(model, "a film", "lime", units="word", features="ids")


def shares_nothing(question: whence.Question) -> whence.Scores:
    return whence.Scores(
        torch.rand(len(question.inputs), 1, question.inputs.ids.shape[1], generator=question.generator(0))
    )


def test_the_contract_of_units_can_fail(bert: whence.LayeredModel) -> None:
    liar = replace(whence.METHODS["leave_one_out"], compute=shares_nothing, needs="nothing")
    text = "unhappily playful"
    assert max(len(unit.tokens) for unit in whence.explain(bert, text, liar, units="word").units.units) > 1  # type: ignore[union-attr]
    with pytest.raises(AssertionError):
        check_units_have_the_scores_of_their_tokens(liar, tiny("gpt2"))


# what is kept and shown ---------------------------------------------------------------------------------------------


def with_sentences(**changes: Any) -> whence.Explanation:
    """Two sentences of three tokens each (the first word of the first is two), at two layers, with errors."""
    explanation = made("unlikely it. was so.", ("embeddings", 1), pieces=True)
    whole = explanation.text
    groups = [tuple(i for i, token in enumerate(explanation.tokens) if not token.special and low <= token.start < high)
              for low, high in ((0, 13), (13, 20))]  # fmt: skip
    spans = [(0, 12), (13, len(whole))]
    units = tuple(Unit(start, end, 0, tokens) for (start, end), tokens in zip(spans, groups, strict=True))
    scores = np.array([[0.5, -1.0], [2.0, 0.25]], dtype=np.float32)
    return replace(explanation, units=UnitScores("sentence", units, scores, np.abs(scores) / 8), **changes)


def test_units_are_written_and_read(tmp_path: Path) -> None:
    explanation = with_sentences()
    explanation.save(tmp_path / "e.json")
    again = whence.Explanation.load(tmp_path / "e.json")
    assert again == explanation
    assert again.units is not None
    assert [word.text for word in again.gathered(1)] == ["unlikely it.", "was so."]
    assert [word.score for word in again.gathered(1)] == [2.0, 0.25]
    assert [word.text for word in again.top(1)] == ["was so."]
    with pytest.raises(whence.UnknownNameError, match="unknown layer 7"):
        again.gathered(7)
    data = json.loads((tmp_path / "e.json").read_text())
    assert data["schema"] == "whence.explanation/2"
    assert data["units"]["units"][1]["start"] == 13


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda units: units.pop("kind"), "units: missing or unknown field kind"),
        (lambda units: units.update(scores=[[0, 1]], standard_errors=None), "units.scores: expected 2 rows"),
        (lambda units: units.update(scores=[[0], [1]]), "units.scores: expected 2 x 2 numbers"),
        (lambda units: units["scores"].pop(), "units.standard_errors: expected 1 x 2 numbers"),
        (lambda units: units["standard_errors"][0].append(1.0), "units.standard_errors"),
        (lambda units: units["units"][0].update(end=99), r"units.units\[0\]: span 0:99 lies outside the text"),
        (lambda units: units["units"][0].update(tokens=[99]), r"units.units\[0\]: expected positions of some of"),
        (lambda units: units["units"][0].update(tokens=[]), r"units.units\[0\]: expected positions of some of"),
    ],
)
def test_broken_units_are_refused(change: Any, message: str) -> None:
    data = json.loads(json.dumps(with_sentences().to_dict()))
    change(data["units"])
    with pytest.raises(whence.FileError, match=message):
        whence.Explanation.from_dict(data)


def test_pictures_have_a_line_per_unit() -> None:
    explanation = with_sentences()
    rows = rows_of(explanation, words=True)
    assert [row.label for row in rows] == ["[CLS]", "unlikely it.", "was so.", "[SEP]"]
    assert rows[1].scores.tolist() == [0.5, 2.0]
    assert rows[2].errors is not None
    assert rows[2].errors.tolist() == [0.125, 0.03125]
    assert len(rows_of(explanation, words=False)) == len(explanation.tokens)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(explanation_view(explanation))
    shown = console.export_text()
    assert "unlikely it." in shown
    assert "a sentence has the sum of its tokens' scores" in shown
    assert "the largest of a sentence" in shown


def test_a_page_holds_units_in_place_of_words() -> None:
    explanation = with_sentences()
    words = replace(explanation, units=None, method="other")
    data = page_data([explanation, replace(explanation, method="another"), words])
    assert [len(text["runs"]) for text in data["texts"]] == [2, 1], "other units are another entry"
    assert [text["unit"] for text in data["texts"]] == ["sentence", "word"]
    assert data["texts"][0]["words"]["label"] == ["unlikely it.", "was so."]
    assert data["texts"][0]["runs"][0]["unitErrors"] is not None
    assert data["texts"][1]["runs"][0]["unitErrors"] is None


def test_methods_are_compared_in_units() -> None:
    text = "the plot was not bad. it is too long! so dull"
    found = whence.compare(tiny("bert"), text, ["leave_one_out", "gradient_x_input"], units="sentence")
    assert repr(found) == "<Comparison of leave_one_out, gradient_x_input: 3 sentences>"
    sizes = [np.abs(each.units.scores[0]) for each in found.explanations if each.units is not None]
    assert found.rank_correlations[0, 1] == pytest.approx(kendall_tau(np.stack(sizes), np.stack(sizes))[0, 1])
    assert found.to_dataframe()["word"].tolist()[:3] == ["the plot was not bad.", "it is too long!", "so dull"]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(comparison_view(found.explanations))
    assert "Do they rank the sentences alike?" in console.export_text()
    other = whence.explain(tiny("bert"), text, "leave_one_out")
    with pytest.raises(whence.UsageError, match="different units"):
        whence.Comparison((found.explanations[0], other))


def test_the_command_takes_units() -> None:
    runner = CliRunner()
    text = "A gorgeous film. Not dull at all!"
    found = runner.invoke(app, ["explain", text, "--method", "leave_one_out", "--units", "sentence", "--json"])
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert data["units"]["kind"] == "sentence"
    assert len(data["units"]["units"]) == 2
    shown = runner.invoke(app, ["explain", text, "--method", "leave_one_out", "--units", "sentence"])
    assert "Not dull at all!" in shown.stdout
    beside = runner.invoke(app, ["compare", text, "--methods", "leave_one_out,random", "--units", "sentence"])
    assert "Do they rank the sentences alike?" in beside.stdout
    wrong = runner.invoke(app, ["explain", text, "--units", "chapter"])
    assert wrong.exit_code == 2
    assert "unknown unit 'chapter'" in wrong.stderr


def test_texts_of_every_tokenizer_have_units() -> None:
    for family in ("bert", "roberta", "gpt2", "llama"):
        found = whence.explain(tiny(family), tiny_models.LONG + " it is. 日本。", "leave_one_out", units="sentence")
        assert [word.text for word in found.gathered()] == [tiny_models.LONG, "it is.", "日本。"], family
