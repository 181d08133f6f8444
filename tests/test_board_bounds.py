"""Bounds of the games: against all orders played one by one, and against every method on a board."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import tiny_models
from tiny_models import TEXTS as TINY_TEXTS
from weighted_words import TEXTS, explained, weighted_words

import whence
from whence.engine import asking
from whence.engine import bounds as engine_bounds
from whence.engine.asking import Contestant, Memory, Told, answered, ask, may_go
from whence.engine.bounds import Goal, best_chain, goals
from whence.engine.searching import Search, search
from whence.metrics.answered import BOARD_POINTS
from whence.metrics.curves import area_under, hidden_counts
from whence.metrics.normalised import normalised
from whence.models.hiding import Hiding
from whence.scoreboard.board import GRID
from whence.scoreboard.evaluate import evaluate


def played(model: whence.LayeredModel, text: str) -> dict[str, list[float]]:
    """The areas of every order of a text's tokens."""
    encoding = model.encode(text)
    words = may_go(encoding)
    found: dict[str, list[float]] = {"faithfulness": [], "revealing": [], "hiding": []}
    rows = {}
    for order in permutations(range(int(words.sum()))):
        row = np.zeros(len(encoding))
        row[words] = -np.argsort(order).astype(float)
        rows[str(order)] = Contestant([row])
    settings = {"hiding": Hiding.of(model, "auto"), "batch_tokens": 512}
    for _, texts in answered(model, [encoding], rows, BOARD_POINTS, **settings):  # type: ignore[arg-type]
        for each in texts.values():
            revealing, hiding = each.area("revealing"), each.area("hiding")
            for name, value in zip(found, (revealing - hiding, revealing, -hiding), strict=True):
                found[name].append(value)
    return found


def searched(model: whence.LayeredModel, text: str, width: int = 3) -> dict[str, float]:
    encoding = model.encode(text)
    n_words = int(may_go(encoding).sum())
    searches = {(0, name): best_chain(n_words, goal, width) for name, goal in goals(n_words, GRID).items()}
    found = search(model, [encoding], searches, hiding=Hiding.of(model, "auto"), batch_tokens=512)
    return {name: value for (_, name), value in found.items()}


@pytest.mark.parametrize("text", ["good", "not bad", "so bad film", "a good bad film", "it is not so witty"])
def test_bounds_are_those_of_all_orders(text: str) -> None:
    for model in (weighted_words(), tiny_models.tiny("bert", "classification")):
        all_orders, best = played(model, text), searched(model, text)
        for name, value in best.items():
            assert value == pytest.approx(max(all_orders[name]), abs=1e-6), name
        # the worst is the reverse of the best
        assert min(all_orders["faithfulness"]) == pytest.approx(-best["faithfulness"], abs=1e-6)
        assert min(all_orders["revealing"]) == pytest.approx(-best["hiding"], abs=1e-6)
        assert max(all_orders["hiding"]) == pytest.approx(-min(all_orders["revealing"]), abs=1e-6)


def interacting(n_tokens: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=n_tokens), np.triu(draw.normal(size=(n_tokens, n_tokens)), 1)


def alone(found: Search[float], single: np.ndarray, pairs: np.ndarray) -> tuple[float, int]:
    """A search over a game of single and pairwise effects, and how many sets it asked for."""
    asked = 0
    try:
        sets = next(found)
        while True:
            asked += len(sets)
            seen = sets.astype(float)
            logits = seen @ single + ((seen @ pairs) * seen).sum(axis=1)
            sets = found.send(Told(0.5, 1 / (1 + np.exp(-logits)), np.ones(len(sets)), None))
    except StopIteration as end:
        return float(end.value), asked


@pytest.mark.parametrize("case", range(6))
def test_the_beam_comes_near_the_exact_bound_and_never_above(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    single, pairs = interacting(9, case)
    for name, goal in goals(9, GRID).items():
        monkeypatch.setattr(engine_bounds, "EXACT", 12)
        exact, _ = alone(best_chain(9, goal), single, pairs)
        monkeypatch.setattr(engine_bounds, "EXACT", 0)
        found = [alone(best_chain(9, goal, width), single, pairs)[0] for width in (1, 3, 400)]
        assert all(value <= exact + 1e-9 for value in found), name
        assert found[1] >= exact - 0.02, name
        assert found[2] == pytest.approx(exact, abs=1e-9), "a beam that drops nothing is exact"


def test_a_beam_that_adds_several_tokens_at_once_still_finds_a_real_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not above the patient search, and far above random orders; its cost does not explode."""
    single, pairs = interacting(60, 1)
    pairs *= 0.05
    goal = goals(60, GRID)["faithfulness"]
    patient, more = alone(best_chain(60, goal), single, pairs)
    monkeypatch.setattr(engine_bounds, "ROUNDS_TIMES_TOKENS", 0)
    found, asked = alone(best_chain(60, goal), single, pairs)
    assert 0.3 < found <= patient + 0.01
    assert asked < more / 2


@pytest.mark.parametrize("n_tokens", [13, 35, 45, 101, 255])
def test_the_cost_of_a_search_is_bounded_and_no_point_of_the_grid_is_left_out(n_tokens: int) -> None:
    """Where words just add up the best order is that of their weights, and its areas are known."""
    single, pairs = interacting(n_tokens, 3)
    single /= math.sqrt(n_tokens)
    order = np.argsort(-single)
    first = np.concatenate([[0.0], np.cumsum(single[order])])
    p = 1 / (1 + np.exp(-first))
    without = 1 / (1 + np.exp(-(first[-1] - first)))
    revealing = area_under(GRID, p[n_tokens - hidden_counts(n_tokens, GRID, "revealing")])
    hiding = area_under(GRID, without[hidden_counts(n_tokens, GRID, "hiding")])
    wanted = {"faithfulness": revealing - hiding, "revealing": revealing, "hiding": -hiding}
    for name, goal in goals(n_tokens, GRID).items():
        found, asked = alone(best_chain(n_tokens, goal), single, 0 * pairs)
        assert found == pytest.approx(wanted[name], abs=1e-9), name
        assert asked < 2 * 3 * (n_tokens + 3) * (12 + max(10, 2_000 // n_tokens)), name


def test_weights_of_the_chain_are_those_of_the_areas() -> None:
    for n_tokens in (1, 4, 5, 7, 25):
        for goal in goals(n_tokens, GRID).values():
            assert isinstance(goal, Goal)
            assert all(weights.sum() == pytest.approx(1) or not weights.any() for weights in (goal.alone, goal.without))


# -- on a board


def test_no_method_is_beyond_the_bounds() -> None:
    given = {"truth": explained(TEXTS), "reverse": explained(TEXTS, -1.0)}
    found = evaluate(
        weighted_words(), TEXTS, methods=["gradient_x_input", "shapley"], explanations=given, layer="embeddings",
        metrics=["bounds", "hiding_auc", "revealing_auc"],
    )  # fmt: skip
    best = found.values["best_faithfulness"]
    assert np.ptp(best, axis=0).max() == 0, "the same for everybody"
    assert (np.abs(found.values["faithfulness"]) <= best + 1e-6).all()
    for metric in ("naopc", "hiding_naopc", "revealing_naopc"):
        known = found.values[metric][np.isfinite(found.values[metric])]
        assert ((known >= -1e-6) & (known <= 1 + 1e-6)).all(), metric
    share = found.values["naopc"]
    room = best[0] > 1e-6
    assert room.tolist() == [text != "good" for text in TEXTS], "one word has one order"
    np.testing.assert_allclose(share[:, room], (found.values["faithfulness"] / best + 1)[:, room] / 2, atol=1e-9)
    assert np.isnan(share[:, ~room]).all()
    mirrored = share[found.index("truth")] + share[found.index("reverse")]
    np.testing.assert_allclose(mirrored[np.isfinite(mirrored)], 1, atol=1e-6)
    assert found.interval("truth", "naopc").mean > 0.95  # type: ignore[union-attr]
    assert any("the best order of each text's words would get" in reason for reason in found.verdict.reasons)


def test_a_method_that_beats_the_search_is_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.scoreboard.bounds.best_chain", lambda n, goal, width: finds_nothing(n))
    found = evaluate(
        weighted_words(), TEXTS, methods=["gradient_x_input"], layer="embeddings", metrics=["bounds"],
    )  # fmt: skip
    share = found.values["naopc"]
    assert np.nanmax(share) == pytest.approx(1)
    assert np.nanmin(share) >= 0


def finds_nothing(n_tokens: int) -> Search[float]:
    yield np.zeros((1, n_tokens), dtype=bool)
    return -math.inf


def test_equal_bounds_have_no_between() -> None:
    assert math.isnan(normalised(0.4, 0.4, 0.4))
    assert normalised(0.4, 0.2, 0.4) == 1
    found = evaluate(
        weighted_words(), ["of the year"], methods=["gradient_x_input"], layer="embeddings", metrics=["bounds"]
    )
    assert np.isnan(found.values["naopc"]).all(), "no word of it counts, so every order gets as much"


# -- nothing is asked twice


def test_memory_spares_questions(monkeypatch: pytest.MonkeyPatch, bert: whence.LayeredModel) -> None:
    asked: list[int] = []
    real = asking.MaskedTexts.answers

    def counted(self: object, rows: np.ndarray, keep: np.ndarray) -> object:
        asked.append(len(rows))
        return real(self, rows, keep)  # type: ignore[arg-type]

    monkeypatch.setattr(asking.MaskedTexts, "answers", counted)
    encodings = [bert.encode(text) for text in TINY_TEXTS[:2]]
    sets = [np.eye(int(may_go(each).sum()), dtype=bool) for each in encodings]
    memory: Memory = [{} for _ in encodings]
    settings = {"hiding": Hiding.of(bert, "auto"), "batch_tokens": 256, "memory": memory}
    first = dict(ask(bert, encodings, sets.__getitem__, gold=[0, 1], **settings))  # type: ignore[arg-type]
    again = dict(ask(bert, encodings, lambda index: sets[index][::-1], gold=[0, 1], **settings))  # type: ignore[arg-type]
    assert asked == [sum(len(each) for each in sets)], "the second time nothing is new"
    for index, told in again.items():
        np.testing.assert_array_equal(told.probability, first[index].probability[::-1])
        np.testing.assert_array_equal(told.right, first[index].right[::-1])  # type: ignore[index]
        assert told.whole == first[index].whole
    fresh = dict(ask(bert, encodings, sets.__getitem__, hiding=Hiding.of(bert, "auto"), batch_tokens=256, gold=[0, 1]))
    np.testing.assert_array_equal(fresh[0].right, first[0].right)


def test_no_metric_of_a_board_asks_what_another_has_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    recording = [False]
    real = asking.MaskedTexts.answers

    def noted(self: Any, rows: np.ndarray, keep: np.ndarray) -> Any:
        if recording[0] and self._hiding.name == "mask":
            ids = [self._inputs.encodings[row].text.encode() for row in rows]
            seen.extend(text + each.tobytes() for text, each in zip(ids, np.packbits(keep, axis=1), strict=True))
        return real(self, rows, keep)

    def progress(step: str, done: int, total: int) -> None:
        recording[0] = (recording[0] or (step, done) == ("explanations", total)) and (step, done) != ("games", total)

    monkeypatch.setattr(asking.MaskedTexts, "answers", noted)
    texts = [text for text in TEXTS if len(text.split()) > 9]  # of one length, so that a set has one name
    given = {"truth": explained(texts), "reverse": explained(texts, -1.0)}
    evaluate(
        weighted_words(), texts, methods=["shapley"], explanations=given, layer="embeddings", hide="mask",
        metrics=["comprehensiveness", "bounds", "sets", "sizes"], progress=progress,
    )  # fmt: skip
    assert len(seen) > 1_000
    assert len(set(seen)) == len(seen)


def test_searches_of_several_texts_go_together(bert: whence.LayeredModel) -> None:
    """As one by one, and in as many rounds as the longest needs."""
    encodings = [bert.encode(text) for text in TINY_TEXTS]
    sizes = [int(may_go(each).sum()) for each in encodings]

    def make() -> dict[tuple[int, str], Search[float]]:
        return {(i, name): best_chain(n, goal, 2) for i, n in enumerate(sizes) for name, goal in goals(n, GRID).items()}

    settings = {"hiding": Hiding.of(bert, "auto"), "batch_tokens": 256}
    together = search(bert, encodings, make(), **settings)  # type: ignore[arg-type]
    for index, encoding in enumerate(encodings):
        alone_found = {key: each for key, each in make().items() if key[0] == index}
        renamed = {(0, name): each for (_, name), each in alone_found.items()}
        for (_, name), value in search(bert, [encoding], renamed, **settings).items():  # type: ignore[arg-type]
            assert together[index, name] == pytest.approx(value, abs=1e-5)
