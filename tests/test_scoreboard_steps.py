"""The steps of an evaluation: layers chosen, methods asked again, weights drawn anew, and what is said of all that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import TEXTS as TINY_TEXTS
from weighted_words import TEXTS, weighted_words

import whence
from whence.cli.evaluate import StepLines
from whence.engine.play import hiding_game, revealing_game
from whence.learned.diffmask import DiffMask
from whence.methods import METHODS
from whence.methods.question import Method, Question, Scores
from whence.metrics.answered import LAYER_POINTS
from whence.models.fingerprint import changed_on_purpose
from whence.scoreboard import explaining
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.evaluate import evaluate
from whence.scoreboard.randomisation import redrawn, stages

SEVERAL = [f"{text} {word}" for text in TINY_TEXTS for word in ("bad", "good", "witty", "sad")]


# -- layers


def test_the_layer_chosen_is_the_best_of_games_played_one_by_one(bert: whence.LayeredModel) -> None:
    methods = ["grad_cam", "gradient_x_input", "attention"]
    chosen = {entry.name: entry for entry in evaluate(bert, SEVERAL, methods=methods, metrics=["sufficiency"]).entries}
    held_out = SEVERAL[::5]
    for method in methods:
        explanations = whence.explain(bert, held_out, method, layers=chosen[method].chosen_from)
        means = []
        for layer in chosen[method].chosen_from:
            areas = [
                game(bert, explanations, layer=layer, grid=LAYER_POINTS.grid, tie_breaks=1).areas("probability").mean()
                for game in (revealing_game, hiding_game)
            ]
            means.append(areas[0] - areas[1])
        assert chosen[method].layer == chosen[method].chosen_from[int(np.argmax(np.round(means, 6)))]
    assert len({chosen[method].layer for method in methods}) > 1, "or the first would always do"


# -- stability


def asked(monkeypatch: pytest.MonkeyPatch, method: str) -> list[tuple[int, int]]:
    """How many texts the method is asked about, and with which seed, call by call."""
    calls: list[tuple[int, int]] = []
    real = explaining.explain

    def noted(model: Any, texts: Any, which: Any, **settings: Any) -> Any:
        if which == method:
            calls.append((len(texts), settings["seed"]))
        return real(model, texts, which, **settings)

    monkeypatch.setattr(explaining, "explain", noted)
    return calls


@pytest.mark.parametrize(("method", "again"), [("gradient_x_input", []), ("lime", [(6, 1), (6, 2)])])
def test_only_a_method_that_draws_is_asked_with_every_seed(
    method: str, again: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = asked(monkeypatch, method)
    found = evaluate(weighted_words(), TEXTS, methods=[method], layer="embeddings", metrics=["seed_stability"])
    assert calls == [(1, 0), (12, 0), *[(1, 0)] * 6, (1, 1), *again], "tried, judged, alone, with another seed"
    mean = found.interval(method, "seed_stability").mean  # type: ignore[union-attr]
    assert mean == 1.0 if method == "gradient_x_input" else mean < 1.0
    assert found.verdict.reasons, "also where the other measures of stability were not asked for"


def test_one_seed_has_nothing_to_compare() -> None:
    found = evaluate(weighted_words(), TEXTS, methods=["shapley"], layer="embeddings", metrics=["stability"], seeds=1)
    assert found.interval("shapley", "seed_stability") is None


def test_scores_that_depend_on_the_company_are_found_out() -> None:
    def sociable(question: Question) -> Scores:
        rank_in_batch = torch.arange(1.0, len(question.inputs) + 1)
        return Scores(rank_in_batch[:, None, None].expand(-1, len(question.layers), question.inputs.ids.shape[1]))

    meaning = whence.Meaning("sociable", "the text's rank in its batch", signed=False, additive=False)
    methods: dict[str, Any] = {
        "sociable": Method(sociable, meaning, needs="others", cost="none"),
        "leave_one_out": "leave_one_out",
    }
    found = evaluate(weighted_words(), TEXTS, methods=methods, layer="embeddings", metrics=["batch_difference"])
    assert found.interval("sociable", "batch_difference").mean > 0.1  # type: ignore[union-attr]
    assert found.interval("leave_one_out", "batch_difference").mean < 1e-5  # type: ignore[union-attr]
    assert any("Scores of sociable change" in reason for reason in found.verdict.reasons)
    assert found.verdict.believe == ("leave_one_out",)


# -- trained probes on a model whose weights are drawn anew


REVIEWS = [
    "a gorgeous, witty film", "the story never comes alive", "a dull plot with fine actors", "I wanted to love it",
    "not the worst of the year", "it is hard to look away from her", "two hours that feel like four", "a sad ending",
]  # fmt: skip


@pytest.fixture(scope="module")
def probed() -> Scoreboard:
    return evaluate(whence.load(), REVIEWS, methods=["diffmask"], layer=3, metrics=["randomisation"])


def test_probes_take_part_in_the_control(probed: Scoreboard) -> None:
    entry, stages_tried = probed.entries[0], np.isfinite(probed.randomised[0]).sum(axis=1)
    assert entry.note == ""
    assert stages_tried.tolist() == [4, 4, 4, 8]
    kept = np.nanmean(probed.randomised[0], axis=1)
    assert kept[0] == 1.0, "layer 3 lies below the head"
    assert kept[1] == 1.0, "and below the upper three blocks"
    assert kept[2] < 0.9, "but not below all of them"
    assert probed.interval("diffmask", "randomisation").mean < 0.6  # type: ignore[union-attr]
    assert not any("could not be run" in reason for reason in probed.verdict.reasons)


def test_the_control_asks_the_same_probes_on_the_changed_model(probed: Scoreboard) -> None:
    """Read by hand: the probes' own answer to the states of a model that has other weights."""
    model = whence.load()
    probes = DiffMask.embedded("sentiment")
    inputs = model.collate([model.encode(REVIEWS[0])])
    with redrawn(model, stages(model)[-1], seed=0):
        states = model.states(inputs)
        explanation = whence.explain(model, REVIEWS[0], "diffmask", layers=3)
        known = {layer: states.at(layer) for layer in probes.fitted_.probes.layers}  # type: ignore[union-attr]
        with torch.no_grad():
            keep = probes.fitted_.probes.log_keep(known, (3,)).exp()[0, 0]  # type: ignore[union-attr]
    np.testing.assert_allclose(explanation.scores[0][1:-1], keep[1:-1], atol=1e-6)
    assert not np.allclose(explanation.scores[0], probed.scores[0][0], atol=1e-2)


def test_users_probes_refuse_the_changed_model_before_and_after() -> None:
    model, probes = whence.load(), DiffMask.embedded("sentiment")
    weight: Any = model.module.classifier.weight  # type: ignore[union-attr]
    with torch.no_grad():
        weight.add_(1.0)
    with pytest.raises(whence.ModelError, match="this is another model"):
        probes.explain(model, "a film")
    with changed_on_purpose(model.module):
        probes.explain(model, "a film")
        with pytest.raises(whence.ModelError, match="this is another model"):
            probes.explain(whence.load("topic"), "a film")
    with pytest.raises(whence.ModelError, match="this is another model"):
        probes.explain(model, "a film")


# -- what is said while it runs


def test_every_step_is_announced_and_brought_to_its_end(bert: whence.LayeredModel) -> None:
    steps: dict[str, list[tuple[int, int]]] = {}
    found = evaluate(
        bert, SEVERAL, methods=["grad_cam", "leave_one_out"],
        progress=lambda step, done, total: steps.setdefault(step, []).append((done, total)),
    )  # fmt: skip
    n_texts, n_entries, n_explaining = found.n_texts, 4, 3
    totals = {"choosing layers": 1, "explanations": n_entries * n_texts, "games": n_texts, "stability": n_explaining,
              "random weights": len(stages(bert)) * n_explaining}  # fmt: skip
    assert list(steps) == list(totals)
    for step, reports in steps.items():
        assert reports[0] == (0, totals[step])
        assert reports[-1] == (totals[step], totals[step])
        assert [done for done, _ in reports] == sorted(done for done, _ in reports)


def test_steps_that_are_not_wanted_are_not_announced() -> None:
    steps = []
    evaluate(
        weighted_words(), TEXTS[:2], methods=["gradient_x_input"], layer="embeddings", metrics=["sufficiency"],
        progress=lambda step, done, total: steps.append(step),
    )  # fmt: skip
    assert list(dict.fromkeys(steps)) == ["explanations", "games"]


def test_lines_are_few_and_say_what_is_left() -> None:
    said: list[str] = []
    now = 0.0
    report = StepLines(said.append, lambda: now)
    for step, total in {"choosing layers": 2, "explanations": 100, "games": 50, "stability": 4}.items():
        report(step, 0, total)
    report("choosing layers", 1, 2)
    report("choosing layers", 2, 2)
    for done in range(1, 101):
        now += 0.5
        report("explanations", done, 100)
        if done % 50 == 0:
            report("games", done // 2, 50)
    for done in range(1, 5):
        report("stability", done, 4)
    assert said == [
        "0:00 choosing layers 2 of 2; to come: explanations, games, stability",
        "0:10 explanations 20 of 100; to come: games, stability",
        "0:20 explanations 40 of 100; to come: games, stability",
        "0:30 explanations 60 of 100, games 25 of 50; to come: stability",
        "0:40 explanations 80 of 100, games 25 of 50; to come: stability",
        "0:50 explanations 100 of 100, games 25 of 50; to come: stability",
        "0:50 games 50 of 50; to come: stability",
        "0:50 stability 4 of 4",
    ]


def test_methods_taken_one_by_one_elsewhere_take_many_texts_on_a_board() -> None:
    """And the column says what company did to them."""
    sizes: list[int] = []
    compute = METHODS["noise_tolerance"].compute

    def counting(question: Question, *, steps: int = 2) -> Scores:
        sizes.append(len(question.inputs))
        return compute(question, steps=steps)

    own = replace(METHODS["noise_tolerance"], compute=counting)
    assert own.one_by_one
    found = evaluate(weighted_words(), TEXTS, methods={"noise": own}, layer="embeddings", metrics=["batch_difference"])
    assert max(sizes) > 1
    assert np.isfinite(found.per_text("batch_difference")[0]).any()
