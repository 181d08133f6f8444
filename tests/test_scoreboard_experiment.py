"""The page of the scoreboards says what its results files hold."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from weighted_words import TEXTS, explained, length, of_tokens, weighted_words

from whence.scoreboard.evaluate import evaluate

FOLDER = Path(__file__).parent.parent / "experiments" / "scoreboard"
COSTS = ("forwards", "backwards")


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"scoreboard_{name}", FOLDER / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@contextmanager
def page_writer() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield script("write_page")
    finally:
        sys.path.remove(str(FOLDER))
        for module in ("figures", "later_probes"):
            sys.modules.pop(module, None)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    given: dict[str, Any] = {
        "layer": "embeddings", "explanations": {"reverse": explained(TEXTS, -1.0)},
        "options": {"shapley": {"samples": 4}},
    }  # fmt: skip
    methods: dict[str, Any] = {"shapley": "shapley", "length": of_tokens(length, "length")}
    sst2 = evaluate(weighted_words(), TEXTS, methods=methods, metrics=["sufficiency", "randomisation", "cost"], **given)
    decoder = evaluate(weighted_words(), TEXTS, methods=["shapley"], metrics=["forwards", "backwards"], **given)
    told = {"sst2": {**sst2.to_dict(), "warnings": ["16 texts do not settle which layer is best: length"]}}
    for name, board in {**told, "decoder": decoder.to_dict()}.items():
        (folder / f"{name}.json").write_text(json.dumps(board), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "scoreboard.md"
    with page_writer() as writing:
        writing.main(argparse.Namespace(results=results, out=out))
    return out


def test_a_section_a_results_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall("^## (.*)$", text, flags=re.MULTILINE)
    assert titles == ["On all boards", "Sentiment: the embedded model on SST-2", "A decoder, read at the next token"]
    for link in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (page.parent / link).stat().st_size > 1_000
    assert text.count("![") == 2
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


def test_the_numbers_are_those_of_the_results(page: Path, results: Path) -> None:
    text = page.read_text(encoding="utf-8")
    board = json.loads((results / "sst2.json").read_text(encoding="utf-8"))
    assert f"**{board['verdict']['answer']}**" in text
    rows = {row[1]: row for line in text.splitlines() if len(row := [c.strip() for c in line.split("|")][1:-1]) > 6}
    shapley = board["means"]["faithfulness"]["shapley"]
    assert rows["shapley"][3] == f"{shapley['mean']:.2f} [{shapley['low']:.2f}, {shapley['high']:.2f}]"
    assert rows["*random*"][0] == ""
    assert "length (ignores the model)" in rows
    assert "Found to ignore the model on some board: length." in text
    assert "shapley (samples 4)" in text
    assert rows["shapley"][-1] == "samples 4", "a handicap is named in the row"
    assert text.count(f"n = {len(TEXTS)} texts; intervals are over texts.") == 2
    assert "| seconds |" not in text, "machines differ from board to board"


def test_a_row_says_that_its_scores_depend_on_the_batch(page: Path) -> None:
    with page_writer() as module:
        writing = module
    board = {
        "entries": [
            {"name": "one", "options": {"steps": 10, "probes": "<ShapleyProbes of /somewhere/model>"}},
            {"name": "other", "options": {}},
        ],
        "means": {"batch_difference": {"one": {"mean": 0.25}, "other": {"mean": 0.0001}}},
    }
    assert writing.notes(board, "one") == "steps 10; changes with its batch, by 0.250 of the largest score"
    assert writing.notes(board, "other") == ""


def test_how_often_the_model_is_right_is_told_of_the_boards_own_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {"model": {"id": "decoder"}, "n_texts": 200, "settings": {"n_held_out": 64}}
    file = tmp_path / "decoder_accuracy.json"
    told = {"model": "decoder", "accuracy": {"mean": 0.735, "low": 0.675, "high": 0.79}, "largest_class": 0.51}
    with page_writer() as writing:
        assert writing.right_how_often(file, board) == ""
        file.write_text(json.dumps({**told, "n_texts": 200, "n_held_out": 64}))
        assert "right on 0.73 [0.68, 0.79] of the n = 200 texts" in writing.right_how_often(file, board)
        assert capsys.readouterr().err == ""
        for other in ({"n_texts": 100}, {"n_texts": 200, "n_held_out": 16}, {"n_texts": 200, "model": "another"}):
            file.write_text(json.dumps({**told, **other}))
            assert writing.right_how_often(file, board) == ""
            assert "about other texts or another model" in capsys.readouterr().err


def test_readme_takes_boards_of_today_and_names_the_cheapest_of_the_best(results: Path) -> None:
    boards = {name: json.loads((results / f"{name}.json").read_text()) for name in ("sst2", "decoder")}
    names = [each["entry"] for each in boards["sst2"]["rankings"]["faithfulness"]]
    with page_writer() as writing:
        readme = f"before {writing.BEGIN} old {writing.END} after"
        found = writing.with_methods(readme, boards, {}, {}, {})
        assert "| SST-2 | decoder |" in found
        assert found.startswith("before ")
        assert found.endswith(" after")
        assert f"n = {len(TEXTS)} and {len(TEXTS)} texts" in found
        assert "The cheapest" not in found, "what each text got is not known"
        old = {**boards["decoder"], "settings": {"hide": "mask_and_attention"}}
        assert "| SST-2 |\n" in writing.with_methods(readme, {**boards, "decoder": old}, {}, {}, {})

        # shapley and length do equally well here, and length takes fewer passes; it ignores the model, though
        rising = {name: [float(number + rank) for number in range(40)] for rank, name in enumerate(reversed(names))}
        texts = {**rising, "length": rising["shapley"]}
        found = writing.cheapest_of_the_best(boards["sst2"], texts, trained=True)
        assert found == "`shapley`"
        found = writing.cheapest_of_the_best({**boards["sst2"], "flagged": []}, texts, trained=True)
        assert found == "`length`"
        same = dict.fromkeys(names, rising["random"])
        assert writing.cheapest_of_the_best(boards["sst2"], same, trained=True) == "", "no better than chance"


def test_a_board_that_was_read_again_gives_readme_its_later_probes(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(value: float, *others: str) -> dict[str, Any]:
        """A board on which the probes got this much, and all others half of it."""
        names = ("one_pass", "amortised_shapley", "attn_lrp", "random", *others)
        means = {name: value if name in names[:2] else value / 2 for name in names} | {"random": 0.0}
        interval = {name: {"mean": mean, "low": mean - 0.01, "high": mean + 0.01} for name, mean in means.items()}
        ranked = [{"entry": name, "ranks": [int(name != "random")] * 2, **interval[name]} for name in names]
        return {
            "model": {"id": "decoder"}, "n_texts": 40, "settings": {"seed": 0, "budget": "full"}, "flagged": [],
            "entries": [
                {"name": name, "kind": "control" if name == "random" else "method", "layer": 0} for name in names
            ],
            "rankings": {"faithfulness": ranked}, "verdict": {"answer": f"Believe what got {value}."},
            "means": {"faithfulness": interval, **{cost: {name: {"mean": 1.0} for name in names} for cost in COSTS}},
        }  # fmt: skip

    def texts(board: dict[str, Any], shift: float = 0.0) -> dict[str, list[float]]:
        spread = [(number % 8) / 100 for number in range(40)]
        of_all = board["means"]["faithfulness"]
        return {name: [each["mean"] + part + shift for part in spread] for name, each in of_all.items()}

    before, after = told(0.2, "lime"), told(0.8)
    with page_writer() as writing:
        monkeypatch.setattr(sys.modules["later_probes"], "FOLDER", tmp_path)
        of = writing.LaterProbes.of
        assert of("decoder", before, texts(before)) is None, "it was not read again"
        (tmp_path / "decoder.json").write_text(json.dumps(after))
        (tmp_path / "decoder.run.json").write_text(json.dumps({"faithfulness": texts(after)}))
        assert of("decoder", before, texts(before, shift=0.1)) is None, "other texts"
        assert of("decoder", {**before, "model": {"id": "another"}}, texts(before)) is None
        again = of("decoder", before, texts(before))
        assert "one_pass gets 0.80 [0.79, 0.81]" in again.told()
        assert "beside 1 of the other methods: Believe what got 0.8." in again.told()
        boards, runs = {"decoder": before}, {"decoder": {"faithfulness": texts(before)}}
        readme = f"{writing.BEGIN} old {writing.END}"
        alone = writing.with_methods(readme, boards, runs, {}, {})
        as_run = {"decoder": {"method": "attn_lrp", "n_texts": 40, "faithfulness": {"mean": 0.25}}}
        both = writing.with_methods(readme, boards, runs, {"decoder": again}, as_run)
        assert "On the board decoder, `attn_lrp` as it is then run gets 0.25 (n = 40)." in " ".join(both.split())
        learned, other = (
            next(line for line in both.splitlines() if f"`{name}`" in line) for name in ("one_pass", "attn_lrp")
        )
        assert learned.endswith("| 0.80 |")
        assert learned not in alone
        assert other.endswith("| 0.10 |"), "of the whole board"
        opening = " ".join(writing.opening(boards, {"decoder": again}))
        assert "decoder: Believe what got 0.2. With later probes: Believe what got 0.8." in opening


def test_how_the_usual_method_does_as_it_is_run_is_told() -> None:
    beside = {
        "leave_one_out": {"mean": 0.05, "low": 0.02, "high": 0.08},
        "shapley": {"mean": -0.1, "low": -0.2, "high": -0.05},
        "lime": {"mean": 0.0, "low": -0.1, "high": 0.1},
        "random": {"mean": 0.3, "low": 0.2, "high": 0.4},
    }
    found = {"method": "leave_one_out", "how": "by deletion", "faithfulness": {"mean": 0.3, "low": 0.2, "high": 0.4}}
    with page_writer() as writing:
        said = writing.as_usual({"n_texts": 40, **found, "minus": beside})
    assert "by deletion, leave_one_out gets 0.30 [0.20, 0.40] on n = 40 texts, +0.050 [+0.020" in said
    assert "below shapley; not told apart from lime, and above all others." in said


def test_settings_tried_for_masks_are_told(tmp_path: Path) -> None:
    file = tmp_path / "response_masks.json"
    layers = [{"layer": "embeddings", "masked": 0.25, "agreement": 0.5, "n_texts": 8}]
    with page_writer() as writing:
        assert writing.masks_tried(file) == []
        file.write_text(json.dumps({"chosen": "gentle", "results": {"usual": layers, "gentle": layers}}))
        said = writing.masks_tried(file)
    assert "(n = 8)" in " ".join(said)
    assert "*gentle*" in " ".join(said)
    assert said[-2:] == ["| usual | 0.25, 0.50 |", "| gentle | 0.25, 0.50 |"]


def test_methods_with_trained_probes_are_left_out_where_asked(results: Path) -> None:
    board = json.loads((results / "sst2.json").read_text())
    entries = [{**each, "name": each["name"].replace("length", "one_pass_seed_1")} for each in board["entries"]]
    ranked = [
        {**each, "entry": each["entry"].replace("length", "one_pass_seed_1")}
        for each in board["rankings"]["faithfulness"]
    ]
    means = {
        metric: {name.replace("length", "one_pass_seed_1"): each for name, each in of.items()}
        for metric, of in board["means"].items()
    }
    board |= {"entries": entries, "rankings": {"faithfulness": ranked}, "means": means, "flagged": []}
    texts = {each["entry"]: [1.0 + number / 50 for number in range(40)] for each in ranked}
    texts["random"] = [0.0 + number / 50 for number in range(40)]
    with page_writer() as writing:
        assert writing.cheapest_of_the_best(board, texts, trained=True) == "`one_pass`"
        assert writing.cheapest_of_the_best(board, texts, trained=False) == "`shapley`"


def test_what_a_run_warned_of_and_did_not_measure_is_said(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "\n- 16 texts do not settle which layer is best: length.\n" in text
    section = text[text.index("## A decoder") :]
    assert "Not measured on this board: normalised, hidden otherwise, compr., suff." in section
    assert "AUPRC" not in section


def test_ranks_on_all_boards(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    together = text[text.index("## On all boards") : text.index("## Sentiment")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in together.splitlines() if line.startswith("| ")]
    assert rows[0] == ["method", f"SST-2 (n = {len(TEXTS)})", f"decoder (n = {len(TEXTS)})"]
    assert rows[1] == ["shapley", "1", "1"]
    assert ["length", "–"] in [[row[0], row[2]] for row in rows]
    assert "On every board nobody is surely more faithful than shapley." in together
