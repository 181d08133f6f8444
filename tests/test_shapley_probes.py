"""Amortised Shapley values: the objective's minimiser, what is kept exactly, the stated error, and the fit."""

from __future__ import annotations

import itertools
import json
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ready_processes
import tiny_models
import torch
import weighted_words
from quick_probes import quick_shares, same_shares
from tiny_models import TEXTS, tiny

import whence
from whence.embedded import hard_reviews, reviews, shapley_folder
from whence.explanation import Scale
from whence.learned import checkpoint, training
from whence.learned.shapley.calibration import Checked, calibrated, error_scale
from whence.learned.shapley.coalitions import coalitions
from whence.learned.shapley.learner import Game
from whence.probes import folder as folders
from whence.probes.token_game import BatchPlayers

pytestmark = pytest.mark.filterwarnings("ignore::whence.WhenceWarning")


# The objective, on paper


def drawn(n_players: int, pairs: int = 40_000) -> torch.Tensor:
    chance = torch.rand((1, pairs, n_players + 1), generator=torch.Generator().manual_seed(0))
    return coalitions(torch.tensor([n_players]), chance)[0]


def test_coalitions_come_by_the_kernel_with_their_complements() -> None:
    found = drawn(4)
    assert (found[0::2] ^ found[1::2]).all(), "a coalition and its complement make up everybody"
    sizes = found.sum(dim=1).bincount(minlength=5) / len(found)
    weights = np.array([0, 1 / 3, 1 / 4, 1 / 3, 0])
    np.testing.assert_allclose(sizes.numpy(), weights / weights.sum(), atol=0.005)
    np.testing.assert_allclose(found.float().mean(dim=0).numpy(), 0.5, atol=1e-6)  # no player comes oftener
    pairs = (found[:, :, None] & found[:, None, :]).float().mean(dim=0)
    off = pairs[~torch.eye(4, dtype=torch.bool)]
    assert float(off.max() - off.min()) < 0.02


def test_a_lone_player_has_no_choice_and_texts_of_several_lengths_go_together() -> None:
    chance = torch.rand((3, 50, 7), generator=torch.Generator().manual_seed(0))
    found = coalitions(torch.tensor([1, 6, 3]), chance)
    assert found.shape == (3, 100, 6)
    assert not found[0, 0::2].any()
    assert found[0, 1::2, 0].all()
    assert not found[2, :, 3:].any(), "players that a text does not have"
    assert set(found[2].sum(dim=1).tolist()) == {1, 2}


def all_coalitions(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All but nobody and everybody, each as often as its kernel weight (a whole number for n = 4)."""
    sets = [np.array(each, dtype=bool) for each in itertools.product([0, 1], repeat=n) if 0 < sum(each) < n]
    weights = [1 / (comb(n, int(each.sum())) * each.sum() * (n - each.sum())) for each in sets]
    smallest = min(weights)
    return np.array(sets), np.round(np.array(weights) / smallest * 2).astype(int)


def game_of(values: dict[tuple[int, ...], float], n: int) -> Game:
    sets, times = all_coalitions(n)
    repeated = np.repeat(sets, times, axis=0)
    earned = torch.tensor([values[tuple(each.astype(int))] for each in repeated], dtype=torch.float64)
    players = BatchPlayers.of_tokens(torch.arange(n)[None])
    nobody, everybody = (torch.tensor([[values[(each,) * n]]], dtype=torch.float64) for each in (0, 1))
    return Game(players, torch.from_numpy(repeated)[None], earned[None, :, None], nobody, everybody)


def minimiser(game: Game, n: int) -> np.ndarray:
    """What descends `Game.errors` to its end."""
    raw = torch.zeros(1, 1, n, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([raw], max_iter=200, tolerance_grad=1e-14, tolerance_change=1e-16)

    def close() -> torch.Tensor:
        optimiser.zero_grad()
        loss = game.errors(raw).sum()
        loss.backward()
        return loss

    optimiser.step(close)
    return game.players.efficient(raw.detach(), game.everybody - game.nobody)[0, 0].numpy()


def test_the_minimiser_of_an_additive_game_is_its_shares() -> None:
    planted = np.array([0.5, -0.25, 0.125, 1.0])
    values = {each: 0.3 + float(planted @ np.array(each)) for each in itertools.product([0, 1], repeat=4)}
    game = game_of(values, 4)
    np.testing.assert_allclose(minimiser(game, 4), planted, atol=1e-9)
    assert float(game.errors(torch.from_numpy(planted)[None, None])) == pytest.approx(0, abs=1e-18)


def test_the_minimiser_of_any_game_is_its_shapley_values() -> None:
    """Beside the definition: the mean over all 24 orders of what a player adds."""
    generator = np.random.default_rng(0)
    values = {each: float(generator.normal()) for each in itertools.product([0, 1], repeat=4)}
    truth = np.zeros(4)
    for order in itertools.permutations(range(4)):
        here = [0] * 4
        for player in order:
            before = values[tuple(here)]
            here[player] = 1
            truth[player] += (values[tuple(here)] - before) / 24
    np.testing.assert_allclose(minimiser(game_of(values, 4), 4), truth, atol=1e-8)


def test_players_of_several_tokens_get_even_parts_of_what_is_missing() -> None:
    players = BatchPlayers.of_tokens(torch.tensor([[-1, 0, 0, 1, -1]]))
    found = players.efficient(torch.tensor([[[9.0, 1.0, 2.0, 3.0, 9.0]]]), torch.tensor([[10.0]]))
    np.testing.assert_allclose(found[0, 0].numpy(), [0, 2, 3, 5, 0])  # 4 are missing, 2 for each player
    np.testing.assert_allclose(players.sums(found)[0, 0].numpy(), [5, 5])


# What is kept exactly, on every kind of task

TASKS = [
    ("bert", "classification"), ("roberta", "question_answering"), ("bert", "token_classification"),
    ("bert", "masked_lm"), ("gpt2", "causal_lm"), ("llama", "causal_lm"), ("gpt2", "classification"),
]  # fmt: skip


def empty_value(model: whence.LayeredModel, text: Any, explanation: whence.Explanation, **target: Any) -> float:
    """The target when every token of the text is absent, by another road: the last set that `shapley` asks about."""
    found = whence.explain(model, text, "shapley", scale="probability", layers="embeddings", samples=1, **target)
    return explanation.target.value - float(found.scores.sum())


@pytest.mark.parametrize(("family", "head"), TASKS)
def test_shapley_values_add_up_and_cost_one_pass(family: str, head: str) -> None:
    model = tiny(family, head)
    texts = tiny_models.texts_for(family, head)
    probes = quick_shares(model, texts * 4)
    assert (probes.shares.network.n_labels is None) == (head in ("masked_lm", "causal_lm"))
    found = probes.explain(model, texts, part="shapley")
    for text, explanation in zip(texts, found, strict=True):
        total = explanation.target.value - empty_value(model, text, explanation)
        np.testing.assert_allclose(explanation.scores.sum(), total, atol=1e-6)
        assert all(
            score == 0 for score, token in zip(explanation.row(), explanation.tokens, strict=True) if token.special
        )
    if head in ("classification", "masked_lm", "causal_lm"):
        again = probes.explain(model, texts[0], part="shapley")
        assert again.cost.forwards == 1, "what a text of that length says without its words is known by now"
        np.testing.assert_allclose(again.scores, found[0].scores, atol=1e-6)


def test_every_class_comes_from_one_pass_and_a_contrast_is_a_difference() -> None:
    model = tiny("bert")
    probes = quick_shares(model)
    each = [probes.explain(model, TEXTS[2], part="shapley", target=label) for label in tiny_models.LABELS]
    for label, explanation in zip(tiny_models.LABELS, each, strict=True):
        empty = empty_value(model, TEXTS[2], explanation, target=label)
        np.testing.assert_allclose(explanation.scores.sum(), explanation.target.value - empty, atol=1e-6)
    assert np.abs(each[0].scores - each[1].scores).max() > 1e-5
    both = probes.explain(model, TEXTS[2], part="shapley", target=whence.Contrast("good", "bad"))
    np.testing.assert_allclose(both.scores, each[2].scores - each[0].scores, atol=1e-6)


def test_pairs_and_plain_numbers_and_several_labels_are_learnt_too() -> None:
    pairs = tiny_models.PAIRS
    found = quick_shares(tiny("bert"), pairs * 4).explain(tiny("bert"), pairs[0])
    assert {token.segment for token in found.tokens} == {0, 1}
    number = whence.load(tiny_models.build("bert", num_labels=1), tiny_models.wordpiece())
    probes = quick_shares(number)
    assert probes.shares.scale == "logit"
    assert probes.explain(number, TEXTS[0]).target.scale == "logit"
    several = tiny_models.build("bert", problem_type="multi_label_classification")
    loaded = whence.load(several, tiny_models.wordpiece())
    assert quick_shares(loaded).explain(loaded, TEXTS[0], part="shapley").scores.any()


def test_words_are_players() -> None:
    model = tiny("bert")
    probes = quick_shares(
        model, ["unhappiness played so playful", "a playful and unhappy actor acted"] * 6, units="word"
    )
    found = probes.explain(model, "unhappiness played so playful", part="shapley")
    pieces = [token for token in found.tokens if token.word == 0 and not token.special]
    assert len(pieces) > 1
    empty = empty_value(model, "unhappiness played so playful", found)
    np.testing.assert_allclose(found.scores.sum(), found.target.value - empty, atol=1e-6)
    errors = found.standard_errors[0]  # type: ignore[index]
    of_pieces = [error for error, token in zip(errors, found.tokens, strict=True) if token in pieces]
    assert max(of_pieces) == min(of_pieces) > 0, "a word's error is shared evenly by its pieces"


def test_the_mean_is_that_of_its_parts_as_shares() -> None:
    model = tiny("bert")
    probes = quick_shares(model)
    both, shapley, still = (probes.explain(model, TEXTS, part=part) for part in ("both", "shapley", "relevance"))
    for mean, one, other in zip(both, shapley, still, strict=True):
        shares = [each.scores / np.abs(each.scores).sum() for each in (one, other)]
        np.testing.assert_allclose(mean.scores, (shares[0] + shares[1]) / 2, atol=1e-6)
        assert mean.standard_errors is None
        assert "off by up to" in mean.notes[0]


# What is learnt


class WideWords(weighted_words.WeightedWords):
    """The same with a word told by many features: of two, a norm leaves but their order."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__(vocabulary)
        others = torch.randn(len(vocabulary), 16, generator=torch.Generator().manual_seed(0))
        self.embedding = torch.nn.Embedding.from_pretrained(
            torch.cat([self.embedding.weight.detach()[:, :1], others], dim=1), freeze=False
        )


def test_it_learns_the_shapley_values_of_a_known_model() -> None:
    tokenizer = tiny_models.word_tokenizer()
    module = WideWords(tokenizer.vocabulary)
    model = whence.load(module, tokenizer, blocks=[module.same], labels=["no", "yes"])
    probes = whence.ShapleyProbes(
        steps=400, width=32, warm_up=20, step_tokens=200, learning_rate=5e-3, held_still=0, checked_texts=6,
        checked_orders=60,
    )  # fmt: skip
    probes.fit(model, weighted_words.TEXTS * 4, held_out=weighted_words.TEXTS, progress=False, validations=4)
    assert probes.fitted_ is not None
    losses = [each["loss"] for each in probes.fitted_.history]
    assert losses[-1] < 0.5 * probes.fitted_.history[0]["even_split"]
    for text in ("the good and witty story of the year", "they say the film is good and bad"):
        ours = probes.explain(model, text, part="shapley").row()
        truth = whence.explain(model, text, "shapley", scale="probability", samples=400).row()
        assert np.corrcoef(ours, truth)[0, 1] > 0.97
    with pytest.raises(whence.UsageError, match="have learnt Shapley values alone"):
        probes.explain(model, "good", part="both")


@pytest.mark.parametrize(
    ("head", "changes", "taught"),
    [
        ("causal_lm", {}, "attn_lrp"),
        ("causal_lm", {"relevance": "held_still"}, "held_still"),
        ("classification", {}, "held_still"),
        ("classification", {"relevance": "attn_lrp"}, "attn_lrp"),
    ],
)
def test_the_second_part_is_that_of_the_relevance_it_was_taught(
    head: str, changes: dict[str, Any], taught: str, tmp_path: Path
) -> None:
    """Of a decoder AttnLRP by default: learnt by heart, it is nearer to its teacher than to the other."""
    model = tiny("llama", head)
    by_heart: dict[str, Any] = {"steps": 250, "learning_rate": 1e-2, "warm_up": 10, "held_still": 30.0, "width": 64}
    probes = quick_shares(model, TEXTS * 4, **by_heart, held_out=TEXTS, **changes)
    assert probes.shares.relevance == taught
    scale: Scale = "log_probability" if head == "causal_lm" and taught == "attn_lrp" else "logit"
    learnt = probes.explain(model, TEXTS, part="relevance")
    near = {
        method: np.mean([_alike(*pair) for pair in zip(learnt, teachers, strict=True)])
        for method in ("attn_lrp", "held_still")
        for teachers in [whence.explain(model, TEXTS, method, layers="embeddings", scale=scale)]
    }
    assert near[taught] > 0.6
    assert near[taught] > max(value for method, value in near.items() if method != taught) + 0.03, near
    assert {"attn_lrp": "AttnLRP", "held_still": "held still"}[taught] in learnt[0].meaning.name
    probes.save(tmp_path)
    assert whence.ShapleyProbes.load(tmp_path).shares.relevance == taught
    config = json.loads((tmp_path / "config.json").read_text())
    del config["relevance"]  # as folders were before there was a choice
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert whence.ShapleyProbes.load(tmp_path).shares.relevance == "held_still"


def _alike(learnt: whence.Explanation, teacher: whence.Explanation) -> float:
    kept = [not token.special for token in learnt.tokens]
    return float(np.corrcoef(learnt.row()[kept], teacher.row()[kept])[0, 1])


def test_the_probes_that_ship_tell_what_a_long_sampling_tells() -> None:
    model = whence.load()
    texts = [review["text"] for review in reviews()[:6]]
    learned = whence.explain(model, texts, "amortised_shapley")
    sampled = whence.explain(model, texts, "shapley", scale="probability", samples=60)
    correlations = [np.corrcoef(a.row(), b.row())[0, 1] for a, b in zip(learned, sampled, strict=True)]
    assert np.mean(correlations) > 0.85, correlations
    inside = [
        np.abs(a.row() - b.row()) <= 1.645 * np.hypot(a.standard_errors[0], b.standard_errors[0])  # type: ignore[index]
        for a, b in zip(learned, sampled, strict=True)
    ]
    assert np.concatenate(inside).mean() > 0.75
    still = whence.explain(model, texts, "held_still", layers="embeddings")
    foretold = whence.explain(model, texts, "one_pass", part="relevance")
    of_words = [[not token.special for token in each.tokens] for each in still]
    correlations = [
        np.corrcoef(a.row()[kept], b.row()[kept])[0, 1] for a, b, kept in zip(still, foretold, of_words, strict=True)
    ]
    assert np.mean(correlations) > 0.85, correlations


# The stated error


@pytest.mark.parametrize("name", ["sentiment", "topic"])
def test_the_errors_that_ship_were_borne_out_by_held_out_texts(name: str) -> None:
    fitted = whence.ShapleyProbes.load(shapley_folder(name)).fitted_
    assert fitted is not None
    assert fitted.calibration.n_texts >= 64
    assert 0.85 <= fitted.calibration.coverage <= 0.95


def made_up(n_texts: int, seed: int, noise: float, apart: float = 0.0, uneven: float = 0.0) -> list[Checked]:
    """Texts whose learned values are off by an amount that grows with their size and falls with their number.

    Texts are `apart` if some are farther off than others that look the same; the long run's noise is `uneven` if it is
    larger for some values than for others.
    """
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(n_texts):
        n = int(generator.integers(3, 30))
        truth = generator.laplace(size=(2, n)) / n
        off = generator.normal(size=truth.shape) * (0.3 * np.abs(truth) + 0.2 / n)
        off *= np.exp(apart * generator.normal())
        chance = np.full(truth.shape, noise / n)
        if uneven:
            chance *= np.exp(uneven * generator.normal(size=truth.shape))
        sampled = generator.normal(size=truth.shape) * chance
        texts.append(Checked(truth + off, truth + sampled, chance, 0.1, 0.05))
    return texts


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_nine_of_ten_intervals_hold_the_truth(noise: float) -> None:
    errors = error_scale(made_up(200, 0, noise))
    found = calibrated(made_up(400, 1, noise), errors, orders=10)
    assert 0.87 < found.coverage < 0.94
    assert errors.own > 0, "larger values are farther off"
    few = [text for text in made_up(400, 2, noise) if text.learned.shape[1] < 8]
    many = [text for text in made_up(400, 2, noise) if text.learned.shape[1] > 20]
    assert all(0.8 < calibrated(some, errors, orders=10).coverage < 0.98 for some in (few, many))


def test_few_texts_do_not_make_intervals_too_narrow() -> None:
    """Judged by the texts that set it, the error would be too small: it held .85 of the truths."""
    found = []
    for seed in range(60):
        errors = error_scale(made_up(6, 2 * seed, 0.0, apart=0.6))
        found.append(calibrated(made_up(40, 2 * seed + 1, 0.0, apart=0.6), errors, orders=10).coverage)
    assert np.mean(found) == pytest.approx(0.9, abs=0.02)


def test_a_long_run_that_is_surer_of_some_values_makes_no_interval_too_narrow() -> None:
    """With the mean noise taken off all residuals alike .875 held."""
    found = []
    for seed in range(5):
        errors = error_scale(made_up(64, 2 * seed, 0.5, uneven=1.0))
        found.append(calibrated(made_up(200, 2 * seed + 1, 0.5, uneven=1.0), errors, orders=10).coverage)
    assert 0.89 < np.mean(found) < 0.95


def test_an_error_half_as_large_would_be_found_out() -> None:
    errors = error_scale(made_up(200, 0, 0.05))
    smaller = replace(errors, constant=errors.constant - 0.7)
    assert calibrated(made_up(400, 1, 0.05), smaller, orders=10).coverage < 0.8


def test_texts_unlike_the_training_are_told() -> None:
    model = whence.load()

    def warned(texts: list[str]) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = whence.explain(model, texts, "one_pass")
        return float(np.mean([any("unlike" in each for each in one.warnings) for one in found]))

    assert warned([review["text"] for review in [*reviews(), *hard_reviews()]]) < 0.1
    strange = [
        "Die Katze sitzt auf dem Dach und schläft", "zxq wvut 77 83 91 lkj", "def f(x): return [y for y in x]",
        "Сегодня хорошая погода", "11:45 12:30 13:15 14:00 platform 4 delayed", "la película no me gustó nada de nada",
    ]  # fmt: skip
    assert warned(strange) >= 0.5
    long = whence.explain(model, "a fine film . " * 120, "one_pass")
    assert any("the probes were trained on at most" in each for each in long.warnings)


# The fit


def killed_at(step: int, folder: Path) -> None:
    """For a process of its own: fit with a checkpoint after every step, until it kills itself."""
    checkpoint.SECONDS = (-1,)

    def kill(standing: Any) -> None:
        if standing.step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    quick_shares(tiny("bert"), folder=folder, steps=6, watch=kill)


def test_a_killed_fit_goes_on_to_the_same_probes(tmp_path: Path) -> None:
    folder = tmp_path / "shares"
    script = f"""
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_shapley_probes import killed_at
killed_at(4, Path({str(folder)!r}))
"""
    result = ready_processes.run(script)
    assert result.returncode == -signal.SIGKILL, result.stderr
    seen: list[int] = []
    resumed = quick_shares(
        tiny("bert"), folder=folder, steps=6, watch=lambda standing: seen.append(standing.step)
    )  # fmt: skip
    assert seen == [5, 6]
    assert same_shares(resumed, quick_shares(tiny("bert"), steps=6))
    assert sorted(file.name for file in folder.iterdir()) == sorted(folders.FILES)
    with pytest.raises(whence.UsageError, match="already holds something"):
        quick_shares(tiny("bert"), folder=folder)


def test_the_same_seed_gives_the_same_probes_and_another_does_not() -> None:
    first = quick_shares(tiny("bert"), seed=1)
    torch.manual_seed(5)
    assert same_shares(first, quick_shares(tiny("bert"), seed=1))
    assert not same_shares(first, quick_shares(tiny("bert"), seed=2))


def test_saved_and_loaded_they_explain_alike_and_refuse_another_model(tmp_path: Path) -> None:
    model = tiny("bert")
    probes = quick_shares(model, folder=tmp_path / "shares")
    loaded = whence.ShapleyProbes.load(tmp_path / "shares")
    assert same_shares(loaded, probes)
    assert loaded.content_key() == probes.content_key() != quick_shares(model, seed=3).content_key()
    assert loaded.recipe == probes.recipe
    ours, theirs, by_folder = (
        probes.explain(model, TEXTS[1]), loaded.explain(model, TEXTS[1]),
        whence.explain(model, TEXTS[1], "one_pass", probes=tmp_path / "shares"),
    )  # fmt: skip
    np.testing.assert_array_equal(ours.scores, theirs.scores)
    np.testing.assert_array_equal(ours.scores, by_folder.scores)
    other = whence.load(tiny_models.build("bert", seed=1), tiny_models.wordpiece())
    with pytest.raises(whence.ModelError, match="this is another model"):
        loaded.explain(other, TEXTS[1])
    with pytest.raises(whence.FileError, match="other things than probes of this kind"):
        whence.DiffMask.load(tmp_path / "shares")
    sizes = {"whole": (tmp_path / "shares" / "model.safetensors").stat().st_size}
    for name, dtype in {"half": torch.float16, "eighth": torch.int8}.items():
        probes.save(tmp_path / name, dtype=dtype)
        sizes[name] = (tmp_path / name / "model.safetensors").stat().st_size
        rounded = whence.explain(model, TEXTS[1], "one_pass", probes=tmp_path / name)
        assert np.corrcoef(rounded.row(), ours.row())[0, 1] > 0.99
    assert sizes["eighth"] < sizes["half"] < sizes["whole"]


def test_half_precision_of_the_model_changes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a fit runs the model in bfloat16; the probes stay in float32."""
    model = tiny("bert")
    whole = quick_shares(model, steps=20, learning_rate=1e-2)
    monkeypatch.setattr(training, "precision", in_bfloat16)
    rounded = quick_shares(model, steps=20, learning_rate=1e-2)
    assert not same_shares(rounded, whole), "it was in bfloat16"
    assert {weight.dtype for weight in rounded.shares.network.parameters()} == {torch.float32}
    for part in ("shapley", "relevance"):
        ours, theirs = (each.explain(model, TEXTS[2], part=part).row() for each in (whole, rounded))
        assert np.corrcoef(ours, theirs)[0, 1] > 0.99
    narrow = whence.load(tiny_models.build("bert").bfloat16(), tiny_models.wordpiece())
    assert np.isfinite(quick_shares(narrow).explain(narrow, TEXTS[2]).scores).all()


@contextmanager
def in_bfloat16(model: whence.LayeredModel) -> Iterator[None]:
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        yield


def test_what_cannot_be_is_refused_in_words() -> None:
    model = tiny("bert")
    with pytest.raises(whence.UsageError, match="not trained yet"):
        whence.ShapleyProbes().explain(model, TEXTS[0])
    with pytest.raises(whence.UnknownNameError, match="recipe"):
        whence.ShapleyProbes("paper")
    with pytest.raises(whence.UnknownNameError, match="setting of Shapley probes"):
        whence.ShapleyProbes(margin=1)
    with pytest.raises(whence.UnknownNameError, match="relevance"):
        whence.ShapleyProbes(relevance="cam")
    with pytest.raises(whence.UnknownNameError, match="unit"):
        whence.ShapleyProbes(units="chapter")
    for name, value in {"steps": 0, "blocks": -1, "checked_texts": 1, "width": 0}.items():
        with pytest.raises(whence.UsageError, match="must"):
            whence.ShapleyProbes("whence", **{name: value})
    probes = quick_shares(model)
    with pytest.raises(whence.UsageError, match="shares of the probability, not of the logit"):
        probes.explain(model, TEXTS[0], scale="logit")
    with pytest.raises(whence.UsageError, match="says nothing of layer 2"):
        probes.explain(model, TEXTS[0], layers=2)
    with pytest.raises(whence.UnknownNameError, match="part"):
        probes.explain(model, TEXTS[0], part="half")
    with pytest.raises(whence.UsageError, match="no Shapley probes came with"):
        whence.explain(model, TEXTS[0], "one_pass")
    with pytest.raises(whence.UsageError, match="probes is int"):
        whence.explain(model, TEXTS[0], "one_pass", probes=3)
    with pytest.raises(whence.InputError, match="too few to train on"):
        quick_shares(model, TEXTS[:1])
    broken = tiny_models.build("bert")
    with torch.no_grad():
        broken.classifier.bias.fill_(float("nan"))
    with pytest.raises(whence.NonFiniteError):
        quick_shares(whence.load(broken, tiny_models.wordpiece()))


class Hyperbolic(torch.nn.Module):
    """No activation, as it has a weight: nothing says how to hold it still."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.size = inner, torch.nn.Parameter(torch.ones(()))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return torch.sinh(self.size * self.inner(h))


def test_a_model_that_cannot_be_held_still_is_named_before_the_first_step() -> None:
    module = tiny_models.build("bert")
    output = module.bert.encoder.layer[1].output
    output.dense = Hyperbolic(output.dense)
    odd = whence.load(module, tiny_models.wordpiece())
    with pytest.raises(whence.ModelError, match=r"(?si)sinh.*held_still=0"):
        quick_shares(odd)
    assert quick_shares(odd, held_still=0).explain(odd, TEXTS[0]).meaning.name == "learned Shapley value"


def test_randomised_weights_do_not_meet_what_is_remembered_of_the_others() -> None:
    """The control that explains a model with other weights must not be given the empty texts of the real ones."""
    from whence.models.fingerprint import changed_on_purpose

    model = tiny("bert")
    probes = quick_shares(model)
    probes.explain(model, TEXTS[0], part="shapley")
    bias = model.module.get_parameter("classifier.bias")
    with torch.no_grad():
        bias.add_(torch.tensor([2.0, 0.0, -2.0]))
    try:
        with changed_on_purpose(model.module):
            found = probes.explain(model, TEXTS[0], part="shapley")
        assert found.cost.forwards == 2
        np.testing.assert_allclose(
            found.scores.sum(), found.target.value - empty_value(model, TEXTS[0], found), atol=1e-6
        )
    finally:
        with torch.no_grad():
            bias.sub_(torch.tensor([2.0, 0.0, -2.0]))
