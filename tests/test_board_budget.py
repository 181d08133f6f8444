"""What a board spends: own defaults, the small budget under names that say so, and the cost told beforehand."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from weighted_words import TEXTS, explained, weighted_words

import whence
from whence.cli import app
from whence.errors import UnknownNameError, WhenceWarning
from whence.methods import METHODS
from whence.models.hiding import Hiding
from whence.scoreboard import budget as spending_module
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.budget import SMALL, Estimate, seconds_of_a_pass
from whence.scoreboard.evaluate import evaluate

MANY = TEXTS * 3
SETTINGS: dict[str, Any] = {"layer": "embeddings", "metrics": ["cost"]}


def test_methods_run_at_their_own_defaults() -> None:
    found = evaluate(weighted_words(), TEXTS[:3], methods=["shapley", "integrated_gradients"], **SETTINGS)
    assert [entry.name for entry in found.entries[:2]] == ["shapley", "integrated_gradients"]
    assert all(not entry.options for entry in found.entries)
    alone = whence.explain(weighted_words(), TEXTS[2], "shapley", layers="embeddings")
    assert found.values["forwards"][0, 2] == alone.cost.forwards


def test_the_small_budget_is_in_the_name() -> None:
    options: dict[str, Any] = {"shapley": {"baseline": "zero"}, "lime": {"samples": 30}}
    found = evaluate(
        weighted_words(), TEXTS[:3], methods={"shapley": "shapley", "mine": "kernel_shap", "lime": "lime"},
        options=options, budget="small", **SETTINGS,
    )  # fmt: skip
    assert {entry.name: dict(entry.options) for entry in found.entries[:3]} == {
        "shapley (4 orders)": {"samples": "4", "baseline": "zero"},
        "mine (64 samples)": {"samples": "64"},
        "lime": {"samples": "30"},
    }
    assert found.settings["budget"] == "small"
    with pytest.raises(UnknownNameError, match="unknown budget 'tiny'"):
        evaluate(weighted_words(), TEXTS[:3], methods=["shapley"], budget="tiny", **SETTINGS)  # type: ignore[arg-type]


def test_the_small_budget_is_smaller_than_the_defaults() -> None:
    for name, (words, less) in SMALL.items():
        number = int(words.split()[0])
        assert number in less.values()
        default = METHODS[name].options["samples" if "samples" in less else "steps"]
        assert default == "auto" or number < default, name


def test_the_cost_is_told_beforehand_and_is_about_right() -> None:
    said: list[str] = []
    steps: list[str] = []

    def progress(step: str, done: int, total: int) -> None:
        assert said, "the plan speaks first"
        steps.append(step)

    found = evaluate(
        weighted_words(), MANY, methods=["shapley"], layer="embeddings", metrics=["cost"], announce=said.append,
        progress=progress,
    )  # fmt: skip
    assert steps
    assert len(said) == 1
    assert "passes" in said[0]
    planned = found.settings["planned_passes"]
    taken = float(found.values["forwards"][0].sum())
    assert taken < planned < taken + 4 * len(MANY) * 60, "and the games, of which this is an upper bound"


def test_few_texts_are_not_reckoned() -> None:
    found = evaluate(weighted_words(), TEXTS, methods=["shapley"], announce=pytest.fail, **SETTINGS)
    assert "planned_passes" not in found.settings


def test_a_long_board_on_a_cpu_offers_the_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending_module, "LONG", 0.0)
    with pytest.warns(WhenceWarning, match=r"passes, .* on this machine; budget='small'"):
        evaluate(weighted_words(), MANY, methods=["gradient"], **SETTINGS)
    monkeypatch.setattr(spending_module, "LONG", 1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(weighted_words(), MANY, methods=["gradient"], **SETTINGS)


def test_the_command_tells_the_cost_and_takes_a_budget(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text(
        "text\n" + "\n".join(f"a {word} film" for word in ("good", "bad", "fine") for _ in range(12)) + "\n"
    )
    command = [
        "evaluate",
        "--data",
        str(file),
        "--methods",
        "lime",
        "--metrics",
        "cost",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, [*command, "--budget", "small", "--limit", "36"])
    assert result.exit_code == 0, result.output
    assert "note: this board will take about" in result.stderr
    assert Scoreboard.load(tmp_path / "out").entries[0].name == "lime (64 samples)"
    wrong = CliRunner().invoke(app, [*command, "--budget", "tiny"])
    assert wrong.exit_code == 2
    assert "unknown budget 'tiny'" in wrong.stderr


def test_sentences() -> None:
    assert Estimate(1_234_567, 840, "cpu").sentence("full") == (
        "this board will take about 1.2 million passes, 14 minutes on this machine; budget='small' (--budget small) "
        "makes dear methods cheaper; fewer texts, methods or metrics do so too"
    )
    assert "budget" not in Estimate(1_234_567, 840, "cpu").sentence("small")
    assert Estimate(1_234_567, 840, "cuda").sentence("full").endswith("14 minutes on this machine")
    assert Estimate(43_210, 20, "cpu").sentence("full") == (
        "this board will take about 43,000 passes, 20 seconds on this machine"
    )


def test_a_pass_takes_time() -> None:
    model = weighted_words()
    found = seconds_of_a_pass(model, model.encode(TEXTS[-1]), Hiding.of(model, "auto"), 512)
    assert 0 < found < 1


# -- the evidence stands in the first line


def test_the_first_line_says_how_strong_the_evidence_is() -> None:
    given = {"truth": explained(TEXTS), "reverse": explained(TEXTS, -1.0)}
    found = evaluate(weighted_words(), TEXTS, methods=[], explanations=given, metrics=["sufficiency"])
    assert found.verdict.answer == "Believe truth (weak evidence: 12 texts)."
    assert found.verdict.strength == "weak"
    many = TEXTS * 17
    told = {
        n: evaluate(
            weighted_words(), many[:n], methods=[], metrics=["sufficiency"],
            explanations={"truth": explained(many[:n]), "reverse": explained(many[:n], -1.0)},
        ).verdict.strength
        for n in (29, 30, 200)
    }  # fmt: skip
    assert told == {29: "weak", 30: "fair", 200: "strong"}


def test_equals_are_weak_evidence_however_many_texts_there_are() -> None:
    many = TEXTS * 17
    given = {"one": explained(many), "two": explained(many)}
    found = evaluate(weighted_words(), many, methods=[], explanations=given, metrics=["sufficiency"])
    assert found.verdict.strength == "weak"
    assert "(weak evidence: 204 texts)" in found.verdict.answer
