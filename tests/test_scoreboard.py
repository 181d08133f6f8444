"""The scoreboard: planted truth on every faithfulness metric, controls, ranking, verdict, files, and going on."""

from __future__ import annotations

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ready_processes
import tiny_models
import torch
from tiny_models import TEXTS as TINY_TEXTS
from weighted_words import TEXTS, explained, length, of_tokens, position, probability, rows_of, truth, weighted_words

import whence
from whence.data import Example
from whence.engine import asking
from whence.engine.asking import Contestant, answered
from whence.engine.play import play
from whence.errors import FileError, InputError, UnknownNameError, UsageError
from whence.explanation import Explanation
from whence.metrics.answered import BOARD_POINTS
from whence.metrics.curves import area_under, hidden_counts
from whence.metrics.table import METRICS, chosen_metrics
from whence.models.hiding import Hiding
from whence.scoreboard import explaining
from whence.scoreboard.board import GRID, Scoreboard, curve_points
from whence.scoreboard.evaluate import evaluate
from whence.scoreboard.randomisation import redrawn, stages
from whence.scoreboard.rationales import leaf_rationale

FAITHFULNESS = tuple(name for name, metric in METRICS.items() if metric.group == "faithfulness")


def judged(
    model: whence.LayeredModel, texts: list[str], rows: dict[str, list[np.ndarray]], gold: list[int] | None = None
) -> dict[str, list[dict[str, float]]]:
    """Every metric of answered texts, and the area of the first curve, text by text."""
    found: dict[str, list[Any]] = {name: [None] * len(texts) for name in rows}
    contestants = {name: Contestant(each, tie_breaks=1) for name, each in rows.items()}
    for index, records in answered(
        model, [model.encode(text) for text in texts], contestants, BOARD_POINTS,
        hiding=Hiding.of(model, "auto"), batch_tokens=64, gold=gold,
    ):  # fmt: skip
        for name, record in records.items():
            found[name][index] = {
                "first curve": float(area_under(GRID, curve_points(record)[0])),
                **{metric: METRICS[metric].compute(record) for metric in FAITHFULNESS},  # type: ignore[misc]
            }
    return found


def planted(**settings: Any) -> Scoreboard:
    """The truth and its reverse beside the controls."""
    given = {"truth": explained(TEXTS), "reverse": explained(TEXTS, -1.0)}
    return evaluate(
        weighted_words(), TEXTS, ["yes"] * len(TEXTS), methods=["gradient_x_input"], explanations=given,
        layer="embeddings", **{"metrics": FAITHFULNESS, **settings},
    )  # fmt: skip


@pytest.fixture(scope="module")
def board() -> Scoreboard:
    return planted(metrics=None, rationales=[[(0, 4)] for _ in TEXTS])


def check_truth_comes_first(board: Scoreboard, metric: str) -> None:
    sign = 1 if METRICS[metric].better == "higher" else -1
    best, chance, worst = (
        sign * board.interval(name, metric).mean  # type: ignore[union-attr]
        for name in ("truth", "random", "reverse")
    )
    assert best > chance + 0.02, metric
    assert chance > worst + 0.02, metric


# -- planted truth


@pytest.mark.parametrize("metric", FAITHFULNESS)
def test_truth_comes_first_and_its_reverse_last(board: Scoreboard, metric: str) -> None:
    check_truth_comes_first(board, metric)
    names = [place.name for place in board.ranking(metric).standings]
    assert names[-1] == "reverse"
    assert board.ranking(metric).of("truth").ranks[0] == 1


BROKEN_BY_KEPT_MASKED = ("sufficiency", "sufficiency_at_mass", "revealing_auc", "revealing_agreement", "monotonicity")


@pytest.mark.parametrize("metric", BROKEN_BY_KEPT_MASKED)
def test_a_sufficiency_that_masks_what_it_should_keep_is_found_out(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = asking.kept_sets
    wrong = lambda order, hidden, game: right(order, hidden, game) ^ (game == "revealing")  # noqa: E731
    monkeypatch.setattr(asking, "kept_sets", wrong)
    with pytest.raises(AssertionError, match=metric):
        check_truth_comes_first(planted(), metric)


def test_a_comprehensiveness_that_hides_the_last_words_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = asking.orders
    monkeypatch.setattr(asking, "orders", lambda scores, **rest: right(-scores, **rest))
    found = planted()
    for metric in ("comprehensiveness", "hiding_auc", "faithfulness"):
        with pytest.raises(AssertionError, match=metric):
            check_truth_comes_first(found, metric)


# -- a second implementation, on random scores


def slow_metrics(weights: list[float], order: list[int], scores: list[float]) -> dict[str, float]:
    """Everything from the closed form of the model's probability, set by set."""
    n_tokens = len(weights)
    hide = lambda k: probability([weights[i] for i in order[k:]])  # noqa: E731
    show = lambda k: probability([weights[i] for i in order[:k]])  # noqa: E731
    whole = probability(weights)
    decision = whole > 0.5
    given = lambda value: value if decision else 1 - value  # noqa: E731
    hidden = [math.floor(round(share * n_tokens, 9) + 0.5) for share in GRID]
    shown = [n_tokens - math.floor(round((1 - share) * n_tokens, 9) + 0.5) for share in GRID]
    area = lambda points: sum((a + b) / 2 / 10 for a, b in pairwise(points))  # noqa: E731
    hiding, revealing = [given(hide(k)) for k in hidden], [given(show(k)) for k in shown]
    bins = [math.ceil(round(share * n_tokens, 9)) for share in (0.01, 0.05, 0.1, 0.2, 0.5)]
    mass = [max(0.0, scores[i]) for i in order]
    by_mass = []
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        wanted = share * sum(mass)
        by_mass.append(next((k for k in range(n_tokens + 1) if sum(mass[:k]) >= wanted - 1e-7), 0) if wanted else 0)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    return {
        "faithfulness": area(revealing) - area(hiding),
        "hiding_auc": area(hiding),
        "revealing_auc": area(revealing),
        "hiding_agreement": area([float(value > 0.5) for value in hiding]),
        "revealing_agreement": area([float(value > 0.5) for value in revealing]),
        "comprehensiveness": mean([given(whole) - given(hide(k)) for k in bins]),
        "sufficiency": mean([given(whole) - given(show(k)) for k in bins]),
        "comprehensiveness_at_mass": mean([given(whole) - given(hide(k)) for k in by_mass]),
        "sufficiency_at_mass": mean([given(whole) - given(show(k)) for k in by_mass]),
    }


@pytest.mark.parametrize("case", range(8))
def test_metrics_against_the_closed_form(case: int) -> None:
    model = weighted_words()
    rows = [rows_of(model, text, 100 * case + number) for number, text in enumerate(TEXTS)]
    outcome = judged(model, TEXTS, {"case": rows})["case"]
    for text, row, found in zip(TEXTS, rows, outcome, strict=True):
        order = sorted(range(len(row)), key=lambda i, row=row: -row[i])  # type: ignore[misc]
        wanted = slow_metrics(truth(text), order, row.tolist())
        for metric, value in wanted.items():
            assert found[metric] == pytest.approx(value, abs=1e-5), (metric, text)


def test_the_areas_are_those_of_the_games(bert: whence.LayeredModel) -> None:
    """The other view of the engine, on a model with attention and gold labels."""
    texts = [*TINY_TEXTS, "she was not so witty"]
    rows = [np.random.default_rng(number).normal(size=len(bert.encode(text))) for number, text in enumerate(texts)]
    gold = [0, 1, 2, 1]
    mine = judged(bert, texts, {"a": rows}, gold)["a"]
    theirs = play(bert, texts, {"a": Contestant(rows)}, gold, grid=GRID)["a"]
    for game, measure, metric in [
        ("hiding", "probability", "hiding_auc"), ("revealing", "probability", "revealing_auc"),
        ("hiding", "agreement", "hiding_agreement"), ("revealing", "agreement", "revealing_agreement"),
        ("hiding", "accuracy", "hiding_accuracy"), ("revealing", "accuracy", "revealing_accuracy"),
        ("hiding", "probability", "first curve"),
    ]:  # fmt: skip
        areas = theirs[game].areas(measure)  # type: ignore[index,arg-type]
        np.testing.assert_allclose([text[metric] for text in mine], areas, atol=1e-5)


def test_reverse_scores_get_the_reverse_faithfulness() -> None:
    """What is hidden at p in one order is what is shown at 1 − p in the other, so the areas change places."""
    model = weighted_words()
    rows = [rows_of(model, text, number) for number, text in enumerate(TEXTS)]
    both = judged(model, TEXTS, {"a": rows, "b": [-row for row in rows]})
    forth, back = ([text["faithfulness"] for text in both[name]] for name in "ab")
    np.testing.assert_allclose(forth, [-value for value in back], atol=1e-6)
    assert hidden_counts(7, GRID, "hiding").tolist() == hidden_counts(7, GRID, "revealing")[::-1].tolist()


# -- the controls


def test_methods_that_ignore_the_model_are_flagged(bert: whence.LayeredModel) -> None:
    methods: dict[str, Any] = {"length": of_tokens(length, "length"), "position": of_tokens(position, "position"),
               "leave_one_out": "leave_one_out", "integrated_gradients": "integrated_gradients"}  # fmt: skip
    before = {name: weight.clone() for name, weight in bert.module.state_dict().items()}
    texts = [f"{text} and {word}" for text in TINY_TEXTS[1:] for word in ("bad", "good", "witty")]
    found = evaluate(bert, texts, methods=methods, metrics=["randomisation"], layer="embeddings")
    assert found.flagged == ("length", "position", "random")
    assert all("length and position" in reason for reason in found.verdict.reasons if "Do not believe" in reason)
    assert set(found.verdict.believe) & {"length", "position"} == set()
    assert all(torch.equal(weight, before[name]) for name, weight in bert.module.state_dict().items())


def test_weights_come_back_after_an_error(bert: whence.LayeredModel) -> None:
    before = {name: weight.clone() for name, weight in bert.module.state_dict().items()}

    def fail_inside() -> None:
        with redrawn(bert, stages(bert)[-1], seed=0):
            assert not torch.equal(bert.module.state_dict()["classifier.weight"], before["classifier.weight"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert all(torch.equal(weight, before[name]) for name, weight in bert.module.state_dict().items())


def test_stages_go_down_from_the_top(bert: whence.LayeredModel) -> None:
    changed: list[set[str]] = []
    before = {name: weight.clone() for name, weight in bert.module.named_parameters()}
    for stage in stages(bert):
        with redrawn(bert, stage, seed=0):
            changed.append({name for name, weight in bert.module.named_parameters() if not weight.equal(before[name])})
    assert all(lower < upper for lower, upper in pairwise(changed))
    assert changed[0]
    assert not any("encoder" in name or "embeddings" in name for name in changed[0])
    assert not any("embeddings" in name for name in changed[-2])
    assert any("word_embeddings" in name for name in changed[-1])


def test_a_method_that_does_not_sample_is_stable(board: Scoreboard) -> None:
    assert board.interval("gradient_x_input", "seed_stability").mean == 1.0  # type: ignore[union-attr]
    assert board.interval("gradient_x_input", "batch_difference").mean < 1e-5  # type: ignore[union-attr]
    assert board.interval("random", "seed_stability").mean < 0.6  # type: ignore[union-attr]
    assert board.interval("truth", "seed_stability") is None, "what came from elsewhere cannot be asked again"


def test_checkpoints(bert: whence.LayeredModel) -> None:
    other = whence.load(tiny_models.build("bert", seed=3), tiny_models.wordpiece())
    settings: dict[str, Any] = {"methods": ["leave_one_out"], "metrics": ["checkpoint_stability"]}
    same = evaluate(bert, TINY_TEXTS, checkpoints=[bert], **settings)
    changed = evaluate(bert, TINY_TEXTS, checkpoints=[other], **settings)
    assert same.interval("leave_one_out", "checkpoint_stability").mean == 1.0  # type: ignore[union-attr]
    assert changed.interval("leave_one_out", "checkpoint_stability").mean < 0.9  # type: ignore[union-attr]


# -- ranking and verdict


def test_ties_are_said_to_be_ties() -> None:
    """Three copies of the truth share ranks 1 to 3; the reverse is surely last."""
    given = {name: explained(TEXTS) for name in ("one", "two", "three")} | {"reverse": explained(TEXTS, -1.0)}
    found = evaluate(weighted_words(), TEXTS, methods=[], explanations=given, metrics=["sufficiency"])
    assert {place.name: place.ranks for place in found.ranking().standings} == {
        "one": (1, 3), "two": (1, 3), "three": (1, 3), "reverse": (4, 4), "random": (0, 0), "single_effects": (0, 0),
    }  # fmt: skip
    assert found.verdict.believe == ("one", "two", "three")
    assert any(reason.startswith("A tie: two and three") for reason in found.verdict.reasons)


def test_the_verdict_on_planted_truth(board: Scoreboard) -> None:
    assert board.verdict.believe[0] in ("truth", "gradient_x_input"), "which are the same on a linear model"
    assert board.verdict.answer.startswith("Believe ")
    assert any("12 texts are few" in reason for reason in board.verdict.reasons)


def test_no_method_better_than_chance_means_none_is_believed() -> None:
    noise = [
        Explanation.from_scores(text, text.split(), np.random.default_rng(place).normal(size=len(text.split())))
        for place, text in enumerate(TEXTS)
    ]
    found = evaluate(weighted_words(), TEXTS, methods=[], explanations={"noise": noise}, metrics=["cost"])
    assert found.verdict.believe == ()
    assert found.verdict.answer.startswith("Believe none")


def test_a_metric_without_direction_gives_no_ranking(board: Scoreboard) -> None:
    with pytest.raises(UsageError, match="neither more nor less entropy"):
        board.ranking("entropy")
    with pytest.raises(UnknownNameError, match="unknown metric 'beauty'"):
        board.interval("truth", "beauty")


def test_rank_correlation_between_methods(board: Scoreboard) -> None:
    names = [entry.name for entry in board.entries]
    matrix = board.rank_correlation
    assert np.allclose(np.diag(matrix), 1)
    assert matrix[names.index("truth"), names.index("reverse")] == pytest.approx(-1)
    assert np.nanmax(board.discord) <= 2
    with pytest.warns(whence.WhenceWarning, match="rank_correlation"):
        assert board.agreement is matrix
    with pytest.warns(whence.WhenceWarning, match="text_rank_correlation"):
        assert board.text_agreement is board.text_rank_correlation


# -- plausibility


def test_leaves_on_the_side_of_the_sentence() -> None:
    leaves = Example("so bad and dull but fine", label=0, token_labels=(2, 0, 2, 1, 2, 3))
    assert leaf_rationale(leaves) == [(3, 6), (11, 15)]
    assert leaf_rationale(Example("fine", label=2, token_labels=(3,))) is None
    assert leaf_rationale(Example("fine", label=1)) is None
    with pytest.raises(UsageError, match="2 labels for 1 words"):
        leaf_rationale(Example("fine", label=1, token_labels=(3, 2)))


def test_plausibility_counts_where_people_marked_words() -> None:
    marks = [[(text.index("good"), text.index("good") + 4)] if place % 2 else None for place, text in enumerate(TEXTS)]
    found = evaluate(
        weighted_words(), TEXTS, methods=[], explanations={"truth": explained(TEXTS)}, rationales=marks,
        metrics=["plausibility"],
    )  # fmt: skip
    wanted = (5 + 0.5) / 6  # in "good good film" one of two equal words is marked
    assert found.interval("truth", "auprc").mean == pytest.approx(wanted)  # type: ignore[union-attr]
    assert np.isfinite(found.values["auprc"][0]).tolist() == [mark is not None for mark in marks]
    without = evaluate(
        weighted_words(), TEXTS, methods=[], explanations={"truth": explained(TEXTS)}, metrics=["plausibility"]
    )
    assert "auprc" not in without.metrics


# -- layers


def test_the_best_layer_is_chosen_on_texts_that_are_not_judged(bert: whence.LayeredModel) -> None:
    texts = [f"{text} {word}" for text in TINY_TEXTS for word in ("bad", "good", "witty", "sad")]
    found = evaluate(bert, texts, methods=["grad_cam", "leave_one_out"], metrics=["sufficiency"])
    entry = found.entries[0]
    assert entry.chosen_from == tuple(range(bert.n_layers + 1))
    assert entry.layer in entry.chosen_from
    assert found.entries[1].chosen_from == ()
    assert {text.text for text in found.texts} == set(texts) - {texts[0], texts[5], texts[10]}
    given = evaluate(bert, texts[1:], methods=["grad_cam"], held_out=texts[:1], metrics=["sufficiency"])
    assert given.n_texts == len(texts) - 1


def test_each_layer_can_be_an_entry(bert: whence.LayeredModel) -> None:
    found = evaluate(bert, TINY_TEXTS, methods=["grad_cam"], layer="each", metrics=["sufficiency"])
    assert [entry.name for entry in found.entries[:-2]] == [f"grad_cam@{n}" for n in range(bert.n_layers + 1)]


def test_with_few_texts_the_lowest_layer_is_taken_and_that_is_said(bert: whence.LayeredModel) -> None:
    found = evaluate(bert, TINY_TEXTS, methods=["grad_cam"], metrics=["sufficiency"])
    assert found.entries[0].layer == 0
    assert "too few texts to choose layers on: grad_cam" in found.warnings[0]


# -- what came from elsewhere


def test_scores_from_elsewhere_find_their_place_in_the_text() -> None:
    made = Explanation.from_scores("An UNHAPPY film!", ["[CLS]", "an", "un", "##happy", "film", "!"], range(6))
    assert [(token.start, token.end, token.special) for token in made.tokens] == [
        (0, 0, True), (0, 2, False), (3, 5, False), (5, 10, False), (11, 15, False), (15, 16, False),
    ]  # fmt: skip
    assert [word.score for word in made.words()] == [1.0, 5.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("tokens", "scores", "problem"),
    [
        (["a"], [1.0, 2.0], "2 scores do not fit 1 tokens"),
        ([], [], "0 scores do not fit 0 tokens"),
        (["a", "film"], [1.0, math.nan], "not finite"),
        (["quite", "another"], [1.0, 2.0], "none of the tokens is in the text"),
    ],
)
def test_scores_from_elsewhere_that_do_not_fit(tokens: list[str], scores: list[float], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Explanation.from_scores("a film", tokens, scores)


def test_words_from_elsewhere_meet_the_models_pieces(bert: whence.LayeredModel) -> None:
    """A word's score goes to each of its pieces; letters' scores are added up in a word."""
    encoding = bert.encode("unhappiness ! film")
    words = Explanation.from_scores("unhappiness ! film", ["unhappiness", "!", "film"], [3.0, 1.0, 2.0])
    row = explaining.aligned(words, encoding)
    assert row.tolist() == [0.0, *[3.0] * (len(encoding) - 4), 1.0, 2.0, 0.0]
    letters = Explanation.from_scores("unhappiness ! film", list("unhappiness!film"), np.ones(16))
    assert explaining.aligned(letters, encoding)[-2] == 4.0
    with pytest.raises(UsageError, match="another text"):
        explaining.aligned(words, bert.encode("a film"))


# -- wrong use


@pytest.mark.parametrize(
    ("settings", "kind", "problem"),
    [
        ({"texts": []}, InputError, "no text to evaluate on"),
        ({"texts": "a good film"}, InputError, "texts is str"),
        ({"texts": ["a good film", " "]}, InputError, "empty"),
        ({"methods": ["shaply"]}, UnknownNameError, "unknown method 'shaply'"),
        ({"methods": "shapley"}, UsageError, "methods is 'shapley'"),
        ({"methods": []}, UsageError, "no method is left"),
        ({"methods": {"single_effects": "gradient"}}, UsageError, "name of a control"),
        ({"metrics": ["beauty"]}, UnknownNameError, "unknown metric 'beauty'"),
        ({"labels": ["yes"]}, UsageError, "1 labels for 12 texts"),
        ({"rationales": [None]}, UsageError, "1 rationales for 12 texts"),
        ({"options": {"lime": {"samples": 3}}}, UnknownNameError, "unknown method with options 'lime'"),
        ({"explanations": {"mine": []}}, UsageError, "mine has 0 explanations for 12 texts"),
        ({"seed": -1}, UsageError, "seed must be"),
        ({"hide": "ink"}, UnknownNameError, "unknown way to hide"),
        ({"second_hide": "ink"}, UnknownNameError, "unknown way to hide"),
        ({"beam": 0}, UsageError, "beam must be a number of at least 1"),
    ],
)
def test_wrong_use(settings: dict[str, Any], kind: type[Exception], problem: str) -> None:
    with pytest.raises(kind, match=problem):
        evaluate(weighted_words(), **{"texts": TEXTS, "methods": ["gradient_x_input"], **settings})


def test_metrics_by_group() -> None:
    assert list(chosen_metrics(["shape"])) == ["faithfulness", "entropy", "sparsity"]
    assert chosen_metrics(None) == METRICS


def test_every_metric_is_documented() -> None:
    documented = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()
    assert all(f"`{name}`" in documented for name in METRICS)


def test_odd_texts_are_judged(bert: whence.LayeredModel) -> None:
    texts = ["film", "👍🏽 שלום <b>[/]</b> \x1b[31m", " ".join(["witty"] * 300)]
    found = evaluate(bert, texts, methods=["gradient_x_input"], layer=0, metrics=["shape", "sufficiency"])
    assert np.isfinite(found.values["sufficiency"]).all()
    assert math.isnan(found.values["entropy"][0, 0]), "of one token there is none"
    assert any("truncated" in warning for warning in found.warnings)


# -- files


def test_a_board_comes_back_as_it_was_saved(board: Scoreboard, tmp_path: Path) -> None:
    board.save(tmp_path)
    again = Scoreboard.load(tmp_path)
    assert again.to_dict() == board.to_dict()
    assert again.texts == board.texts
    assert again.entries == board.entries
    for metric in board.metrics:
        np.testing.assert_array_equal(again.values[metric], board.values[metric])
    np.testing.assert_array_equal(again.curves, board.curves)
    assert all(
        np.array_equal(a, b) for x, y in zip(again.scores, board.scores, strict=True) for a, b in zip(x, y, strict=True)
    )
    assert json.loads((tmp_path / "scoreboard.json").read_text())["verdict"]["answer"] == board.verdict.answer
    assert len(again.to_dataframe()) == len(board.entries) * board.n_texts


@pytest.mark.parametrize("spoil", ["missing", "not json", "schema", "table"])
def test_a_broken_folder_is_refused(board: Scoreboard, tmp_path: Path, spoil: str) -> None:
    board.save(tmp_path)
    summary = tmp_path / "scoreboard.json"
    if spoil == "missing":
        summary.unlink()
    elif spoil == "not json":
        summary.write_text("{")
    elif spoil == "schema":
        summary.write_text('{"schema": "other"}')
    else:
        (tmp_path / "curves.parquet").write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"scoreboard|cannot be read"):
        Scoreboard.load(tmp_path)


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that explain, one entry a call; texts of planning and predictions are told apart by their number."""
    calls: list[str] = []
    real = explaining.explain

    def counted(model: Any, texts: Any, method: Any, **settings: Any) -> Any:
        calls.append(f"{method} of {len(texts)}")
        return real(model, texts, method, **settings)

    monkeypatch.setattr(explaining, "explain", counted)
    return calls


def test_finished_work_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {
        "methods": ["gradient_x_input", "leave_one_out"],
        "layer": "embeddings",
        "folder": tmp_path,
    }
    first = evaluate(weighted_words(), TEXTS, **settings)
    calls = calls_of(monkeypatch)
    monkeypatch.setattr("whence.scoreboard.games.answered", lambda *_, **__: pytest.fail("played again"))
    again = evaluate(weighted_words(), TEXTS, **settings)
    assert sorted(calls) == ["gradient_x_input of 1", "leave_one_out of 1", "random of 12"]
    assert {**again.to_dict(), "seconds": 0} == {**first.to_dict(), "seconds": 0}


def test_a_method_can_be_added_to_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"metrics": ["sufficiency"], "layer": "embeddings", "folder": tmp_path}
    evaluate(weighted_words(), TEXTS, methods=["gradient_x_input"], **settings)
    calls = calls_of(monkeypatch)
    evaluate(weighted_words(), TEXTS, methods=["gradient_x_input", "occlusion"], **settings)
    assert [call for call in calls if call.endswith("of 12")] == ["random of 12", "occlusion of 12"]


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"methods": ["gradient_x_input"], "metrics": ["cost"], "folder": tmp_path}
    evaluate(weighted_words(), TEXTS, layer="embeddings", **settings)
    with pytest.raises(UsageError, match="another texts"):
        evaluate(weighted_words(), TEXTS[1:], layer="embeddings", **settings)
    with pytest.raises(UsageError, match="another seed"):
        evaluate(weighted_words(), TEXTS, layer="embeddings", seed=1, **settings)


SHORT = ["a gorgeous, witty film", "a dull plot"]


def probes_with(bias: float) -> whence.DiffMask:
    """The probes of the embedded model, all a little surer."""
    probes = whence.DiffMask.embedded("sentiment")
    with torch.no_grad():
        for name, weight in probes.fitted_.probes.named_parameters():  # type: ignore[union-attr]
            if name.endswith("bias"):
                weight.add_(bias)
    return probes


@pytest.mark.parametrize("given", ["probes", "path", "string"])
def test_other_probes_do_not_get_the_scores_of_the_first(given: str, tmp_path: Path) -> None:
    model, found = whence.load(), []
    for bias in (0.0, 0.3):
        probes: Any = probes_with(bias)
        wanted = [each.row() for each in probes.explain(model, SHORT, layers=3)]
        if given != "probes":
            shutil.rmtree(tmp_path / "probes", ignore_errors=True)
            probes.save(tmp_path / "probes")
            probes = tmp_path / "probes" if given == "path" else str(tmp_path / "probes")
        board = evaluate(
            model, SHORT, methods=["diffmask"], options={"diffmask": {"probes": probes}}, layer=3, metrics=["shape"],
            folder=tmp_path / "board",
        )  # fmt: skip
        for row, right in zip(board.scores[0], wanted, strict=True):
            np.testing.assert_allclose(row, right, atol=1e-6)
        found.append(board)
    assert not np.allclose(found[0].scores[0][0], found[1].scores[0][0], atol=1e-3)


def test_another_method_of_the_same_name_does_not_get_the_scores_of_the_first(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"layer": "embeddings", "metrics": ["shape"], "folder": tmp_path}
    several = [
        evaluate(weighted_words(), TEXTS, methods={"mine": method}, **settings).scores[0][2].tolist()
        for method in ("leave_one_out", "gradient", of_tokens(length, "mine"), of_tokens(position, "mine"))
    ]
    assert len({tuple(row) for row in several}) == 4


def test_an_option_without_contents_is_refused_only_where_work_is_kept(tmp_path: Path) -> None:
    def compute(question: whence.Question, *, source: object = None) -> whence.Scores:
        return whence.Scores(torch.ones(len(question.inputs), 1, question.inputs.ids.shape[1]))

    method = whence.Method(compute, whence.Meaning("one", "one", False, False), needs="nothing", cost="none")
    settings: dict[str, Any] = {
        "methods": {"one": method}, "options": {"one": {"source": iter(())}}, "metrics": ["shape"],
    }  # fmt: skip
    assert evaluate(weighted_words(), TEXTS[:2], **settings).n_texts == 2
    with pytest.raises(UsageError, match="no contents to tell finished work by"):
        evaluate(weighted_words(), TEXTS[:2], folder=tmp_path, **settings)


def test_a_model_is_the_same_wherever_it_is_loaded_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_models.build("bert").save_pretrained(tmp_path / "tiny")
    tiny_models.wordpiece().save_pretrained(tmp_path / "tiny")
    tiny_models.build("bert", seed=3).save_pretrained(tmp_path / "other")
    tiny_models.wordpiece().save_pretrained(tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    settings: dict[str, Any] = {"methods": ["gradient_x_input"], "layer": 0, "metrics": ["cost"], "folder": "board"}
    evaluate(whence.load("tiny"), TINY_TEXTS, **settings)
    calls = calls_of(monkeypatch)
    evaluate(whence.load("./tiny"), TINY_TEXTS, **settings)
    assert sorted(calls) == ["gradient_x_input of 1", "random of 3"], "tried and read, but not explained again"
    with pytest.raises(UsageError, match="a run with another model"):
        evaluate(whence.load("other"), TINY_TEXTS, **settings)


def test_a_flipped_bit_never_gives_another_board(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"methods": ["gradient_x_input"], "layer": "embeddings", "folder": tmp_path}
    evaluate(weighted_words(), TEXTS[:3], **settings)
    files = sorted((tmp_path / "work").iterdir())
    assert {file.name.split("-")[0] for file in files} == {
        "scores", "answers", "bounds", "sets", "values", "stability", "randomised",
    }  # fmt: skip
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:-2] + bytes([whole[-2] ^ 4]) + whole[-1:])
        with pytest.raises(FileError, match="do not match its checksum"):
            evaluate(weighted_words(), TEXTS[:3], **settings)
        file.write_bytes(whole)


def test_a_flipped_bit_in_a_saved_table_is_found_out(board: Scoreboard, tmp_path: Path) -> None:
    board.save(tmp_path)
    file = tmp_path / "scores.parquet"
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 4] ^= 4
    file.write_bytes(bytes(whole))
    with pytest.raises(FileError, match="cannot be read"):
        Scoreboard.load(tmp_path)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from weighted_words import TEXTS, weighted_words
from whence.scoreboard import trial
from whence.scoreboard.evaluate import evaluate
trial.CHUNK = 4
def progress(step, done, total):
    if (step, done) == ("explanations", 4 * 4 + 2 * 4):  # of four entrants: the second chunk's second
        os.kill(os.getpid(), signal.SIGKILL)
evaluate(weighted_words(), TEXTS, methods=["gradient_x_input", "leave_one_out"], layer="embeddings",
         metrics=["sufficiency", "seed_stability"], folder={folder!r}, progress=progress)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    assert ready_processes.run(code).returncode == -9
    assert not (tmp_path / "scoreboard.json").exists()
    monkeypatch.setattr("whence.scoreboard.trial.CHUNK", 4)
    settings: dict[str, Any] = {"methods": ["gradient_x_input", "leave_one_out"], "layer": "embeddings",
                                "metrics": ["sufficiency", "seed_stability"]}  # fmt: skip
    whole = evaluate(weighted_words(), TEXTS, **settings)
    calls = calls_of(monkeypatch)
    resumed = evaluate(weighted_words(), TEXTS, folder=tmp_path, **settings)
    assert [call for call in calls if call.endswith(" of 4")] == [
        "random of 4", "gradient_x_input of 4", "leave_one_out of 4", "random of 4",
    ], "of three chunks the first was done, and in the second only the control is missing"  # fmt: skip
    for metric in whole.metrics:
        np.testing.assert_array_equal(whole.values[metric], resumed.values[metric])


# -- other models


@pytest.mark.parametrize(
    ("family", "head"),
    [("gpt2", "classification"), ("gpt2", "causal_lm"), ("llama", "causal_lm"), ("bert", "question_answering")],
)
def test_other_models_have_boards_too(family: str, head: str) -> None:
    model = tiny_models.tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    found = evaluate(model, texts, methods=["leave_one_out", "gradient_x_input"], layer="embeddings")
    for metric in ("faithfulness", "sufficiency", "randomisation", "batch_difference"):
        assert np.isfinite(found.values[metric][:2]).any(axis=1).all(), metric
    assert found.interval("leave_one_out", "batch_difference").mean < 1e-3  # type: ignore[union-attr]
    assert [text.pair for text in found.texts] == [None if isinstance(each, str) else each[1] for each in texts]


def test_a_model_without_a_decision_has_none() -> None:
    model = whence.load(tiny_models.build("bert", num_labels=1), tiny_models.wordpiece())
    with pytest.raises(UsageError, match="plain number"):
        evaluate(model, TINY_TEXTS, methods=["leave_one_out"])


def test_all_methods_that_a_model_allows_by_default(bert: whence.LayeredModel) -> None:
    found = evaluate(bert, TINY_TEXTS[:1], metrics=["shape"])
    named = {entry.name for entry in found.entries} | set(found.left_out)
    assert named == set(whence.METHODS) | {"single_effects"}
    assert "diffmask" in found.left_out, "which has no probes for this model"
    assert len(found.entries) >= 15
