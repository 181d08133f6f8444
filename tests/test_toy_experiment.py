"""The digit-counting experiment: its data, model and metric by themselves, all of it at toy size, and its record."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import whence

HERE = Path(__file__).parents[1] / "experiments" / "diffmask"
sys.path.insert(0, str(HERE))

import toy  # noqa: E402
import toy_figures  # noqa: E402
import toy_task  # noqa: E402
from toy_task import Example  # noqa: E402


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return toy_task.make_examples(seed=0)


@pytest.fixture(scope="module")
def model() -> whence.LayeredModel:
    """Not trained."""
    torch.manual_seed(0)
    return toy_task.layered(toy_task.DigitCounter())


def test_an_example_on_paper() -> None:
    example = Example((8, 1), (8, 8, 3, 1, 3, 9))
    assert example.text == "8 1: 8 8 3 1 3 9"
    assert example.label == 1
    assert example.relevant.tolist() == [True, True, False, True, False, False]
    assert Example((1, 8), (8, 8, 3, 1, 3, 9)).label == 0
    assert Example((8, 1), (8, 1)).label == 0, "as often is not more often"


def test_the_law_of_the_data(examples: list[Example]) -> None:
    assert len(examples) == 10_000
    assert all(example.query[0] != example.query[1] for example in examples)
    lengths = np.bincount([len(example.digits) for example in examples], minlength=11)
    assert lengths[0] == 0
    assert lengths[1:].min() > 900
    assert len(lengths) == 11
    assert np.mean([example.label for example in examples]) == pytest.approx(0.365, abs=0.012)
    digits = np.concatenate([example.relevant for example in examples])
    assert digits.mean() == pytest.approx(0.5, abs=0.01)
    assert np.mean([not example.relevant.any() for example in examples]) == pytest.approx(0.099, abs=0.01)
    training, held_out = toy_task.split(examples, seed=0)
    assert (len(training), len(held_out)) == (9_000, 1_000)
    assert sorted(training + held_out, key=str) == sorted(examples, key=str)
    assert toy_task.make_examples(seed=0, n_texts=50) == toy_task.make_examples(seed=0, n_texts=50)
    assert toy_task.make_examples(seed=0, n_texts=50) != toy_task.make_examples(seed=1, n_texts=50)


def test_the_digits_are_the_tokens_and_know_what_is_asked() -> None:
    encoding = toy_task.DigitTokenizer().encode("8 1: 8 8 3", None)
    assert [token.id for token in encoding.tokens] == [818, 818, 813]
    assert [encoding.text[token.start : token.end] for token in encoding.tokens] == ["8", "8", "3"]
    for text in ("", "8 1:", "8 1 8 8", "8 1: 8 ten", "8 1: 8  8"):
        with pytest.raises(whence.InputError, match="asks nothing about digits"):
            toy_task.DigitTokenizer().encode(text, None)


def test_the_model_is_layered(model: whence.LayeredModel, examples: list[Example]) -> None:
    inputs = model.collate([model.encode(example.text) for example in examples[:20]])
    states = model.states(inputs)
    assert (model.n_layers, states.at(1).shape[-1]) == (1, 2)
    assert torch.equal(states.embeddings, states.at(0))
    for layer in ("embeddings", 0, 1):
        assert torch.equal(model.resume(layer, states.at(layer), inputs), states.logits)
    alone = model.states(model.collate([model.encode(examples[3].text)])).logits[0]
    assert alone.tolist() == pytest.approx(states.logits[3].tolist(), abs=1e-6), "padding does not matter"
    assert (states.logits[:, 0] == 0).all()
    embedded = model.embed(inputs.ids)
    assert torch.equal(embedded, states.embeddings)
    same = {token for row in inputs.ids.tolist() for token in row if token % 10 == 7}
    assert len(same) > 1, "sevens of several questions"
    assert len({tuple(model.embed(torch.tensor([[token]]))[0, 0].tolist()) for token in same}) == 1, "and one embedding"


def cross_entropy(model: whence.LayeredModel, examples: list[Example]) -> float:
    inputs = model.collate([model.encode(example.text) for example in examples])
    labels = torch.tensor([example.label for example in examples])
    return float(nn.functional.cross_entropy(model.states(inputs).logits, labels))


def test_training_learns_and_can_be_repeated(model: whence.LayeredModel, examples: list[Example]) -> None:
    texts, unseen = examples[:1_000], examples[1_500:2_000]
    first, accuracy, epochs = toy_task.train(texts, unseen, seed=1, epochs=3)
    assert epochs == 3
    assert cross_entropy(first, unseen) < 0.67 < cross_entropy(model, unseen)
    second, again, _ = toy_task.train(texts, unseen, seed=1, epochs=3)
    assert again == accuracy
    for one, other in zip(first.module.parameters(), second.module.parameters(), strict=True):
        assert torch.equal(one, other)
    assert toy_task.train(texts, unseen, seed=1, epochs=3, enough=0.5)[2] == 1, "enough is enough"


def test_the_metric_on_paper() -> None:
    example = Example((8, 1), (8, 1, 3))  # the truth: 1/2, 1/2, 0
    perfect = toy.against_the_truth([np.array([0.4, 0.4, 0.0])], [example])
    assert (perfect["kl"], perfect["js"]) == pytest.approx((0, 0), abs=1e-12)
    even = toy.against_the_truth([np.array([3.0, 3.0, 3.0])], [example])
    assert even["kl"] == pytest.approx(math.log(3 / 2))
    # the middle is 5/12, 5/12, 1/6
    expected = 0.5 * math.log(0.5 / (5 / 12)) + 0.5 * (2 / 3 * math.log(1 / 3 / (5 / 12)) + 1 / 3 * math.log(2))
    assert even["js"] == pytest.approx(expected)
    silent = toy.against_the_truth([np.zeros(3)], [example])
    assert (silent["kl"], silent["silent"]) == (even["kl"], 1.0), "no score at all says what equal scores say"
    missed = toy.against_the_truth([np.array([1.0, 0.0, 0.0])], [example])
    assert missed["kl"] == math.inf
    both = toy.against_the_truth([np.array([0.4, 0.4, 0.0]), np.array([3.0, 3.0, 3.0])], [example, example])
    assert (both["kl"], both["kl_sd_over_texts"]) == pytest.approx((even["kl"] / 2, even["kl"] / 2))


def test_acceptance_2_one_hot_erasure_is_as_far_from_the_truth_as_the_paper_says(examples: list[Example]) -> None:
    counted = [example for example in examples if example.relevant.any()][:4_000]
    found = toy.against_the_truth(toy.one_hot_erasure(counted), counted)
    assert found["js"] == pytest.approx(0.2614, abs=0.008)
    assert found["kl"] == math.inf
    # an example on paper: n is not more often, so the first m is shown
    assert toy.one_hot_erasure([Example((8, 1), (3, 8, 1, 1))])[0].tolist() == [0, 0, 1, 0]


def test_an_extra_alpha_halves_the_integral_of_a_linear_model() -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(4, 1)
            self.embedding.weight.data = torch.tensor([[0.0], [2.0], [-3.0], [5.0]])
            self.block = nn.Identity()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            total = (self.block(self.embedding(ids))[..., 0] * mask).sum(dim=1)
            return torch.stack([torch.zeros_like(total), total], dim=1)

    module = Linear()
    words = whence.WordTokenizer({"<pad>": 0, "a": 1, "b": 2, "c": 3})
    linear = whence.load(module, words, blocks=[module.block], labels=["no", "yes"])
    for text, expected in (("a b", [1.0, -1.5]), ("c", [2.5])):
        found = whence.explain(linear, text, toy.EXTRA_ALPHA, target="yes", layers=1, steps=101)
        assert found.scores[0] == pytest.approx(expected, abs=1e-5)
        whole = whence.explain(linear, text, "integrated_gradients", target="yes", layers=1, baseline="zero")
        assert whole.scores[0] == pytest.approx([2 * each for each in expected], abs=1e-5)


def test_the_means_over_seeds() -> None:
    def found(kl: float, js: float) -> dict[str, Any]:
        row = {"kl": kl, "js": js, "kl_sd_over_texts": kl, "js_sd_over_texts": js, "silent": 0.0}
        return {"rows": {"DiffMask, hidden": row}}

    row = toy.summary([found(0.1, 0.2), found(0.3, 0.2)])["DiffMask, hidden"]
    assert (row["kl"], row["js"], row["kl_sd_over_seeds"]) == pytest.approx((0.2, 0.2, math.sqrt(0.02)))
    assert (row["paper"], row["notebook"]) == ((0.0, 0.0), (0.0372, 0.0128))
    assert toy.summary([found(math.inf, 0.2), found(0.3, 0.2)])["DiffMask, hidden"]["kl"] is None
    assert toy._finite({"a": [math.inf, 1.0], "b": (math.nan,)}) == {"a": [None, 1.0], "b": [None]}


def test_one_seed_from_data_to_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toy, "DESCENT_STEPS", 3)
    found = toy.run(0, n_texts=160, n_held_out=40, epochs=1, probes={**toy.PROBES, "steps": 4, "batch_size": 16})
    assert set(found["rows"]) >= set(toy.PAPER) | set(toy.NOTEBOOK)
    assert found["rows"]["erasure, searched"]["silent"] > 0.3, "a model that says no to all needs nothing to say it"
    assert all(0 <= row["js"] <= math.log(2) for row in found["rows"].values())
    assert [result["layer"] for result in found["hidden_probes"]] == ["embeddings", 0, 1]
    assert sum(len(points) for points in found["figure_12"].values()) == sum(
        len(example.digits) for example in toy_task.split(toy_task.make_examples(0, 160), 0, 40)[1]
    )
    for shares in found["figure_3"]["shares"].values():
        assert (len(shares), sum(shares)) == (len(found["figure_3"]["digits"]), pytest.approx(1, abs=1e-5))
    drawn = [
        toy_figures.draw_shares(found["figure_3"], tmp_path / "figures" / "toy-figure-3.png"),
        toy_figures.draw_clusters(found["figure_12"], tmp_path / "figures" / "toy-figure-12.png"),
    ]
    assert all(path.stat().st_size > 5_000 for path in drawn)


@pytest.mark.minutes
def test_the_probes_find_the_states_that_count(examples: list[Example]) -> None:
    """One seed of the table, trained here on all its texts for half the steps: about a minute and a half.

    The truth is known: all inputs are read, and half of the states, those of the two digits, are counted.
    """
    torch.set_num_threads(1)
    training, held_out = toy_task.split(examples, seed=0)
    model, accuracy, _ = toy_task.train(training, held_out, seed=0)
    assert accuracy > 0.99
    texts, unseen = ([example.text for example in part] for part in (training, held_out))
    probes = whence.DiffMask("hidden", **toy.PROBES | {"steps": toy.PROBES["steps"] // 2}).fit(
        model, texts, held_out=unseen, seed=0, patience=None, progress=False
    )
    assert probes.fitted_ is not None
    results = {result.layer: result for result in probes.fitted_.results}
    assert (results["embeddings"].masked, results[0].masked) == pytest.approx((0, 0), abs=0.01)
    assert results[1].masked == pytest.approx(0.5, abs=0.03)
    assert (results[1].agreement or 0) >= 0.99
    counted = [example for example in held_out if example.relevant.any()]
    explained = whence.explain(model, [each.text for each in counted], "diffmask", layers=1, probes=probes)
    found = toy.against_the_truth([each.row(1).astype(float) for each in explained], counted)
    assert found["kl"] <= 0.02, "which states, not only how many"
    assert found["js"] <= 0.01


def test_the_committed_record_of_three_seeds() -> None:
    """Reads a file: it guards the numbers on the page, not the code that made them (see the run above)."""
    record = json.loads((HERE / "results" / "toy.json").read_text())
    table = record["table"]
    assert record["seeds"] == [0, 1, 2]
    assert (record["n_texts"], record["n_held_out"]) == (10_000, 1_000)
    assert all(run["accuracy"] > 0.99 for run in record["runs"])
    assert table["DiffMask, hidden"]["kl"] <= 0.02
    assert table["DiffMask, hidden"]["js"] <= 0.01
    assert table["erasure, one-hot"]["kl"] is None
    assert table["erasure, one-hot"]["js"] == pytest.approx(0.26, abs=0.01)
    assert record["seconds"] <= 600
    for name, row in table.items():
        for metric in ("kl", "js"):
            if row[metric] is not None:
                assert row[metric] == pytest.approx(np.mean([run["rows"][name][metric] for run in record["runs"]]))


def test_the_committed_record_of_the_probes() -> None:
    """Reads a file, like the test before."""
    for run in json.loads((HERE / "results" / "toy.json").read_text())["runs"]:
        probes = {result["layer"]: result for result in run["hidden_probes"]}
        assert (probes["embeddings"]["masked"], probes[0]["masked"]) == pytest.approx((0, 0), abs=0.01)
        assert probes[1]["masked"] == pytest.approx(0.5, abs=0.03)
        assert probes[1]["agreement"] >= 0.99
        assert run["rows"]["DiffMask, hidden"]["js"] <= 0.01, "which states, not only how many"
