"""A fit that ends with the clock: the plan follows the machine's speed, the learning rate follows the plan."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from quick_probes import QUICK
from tiny_models import TEXTS, tiny
from torch import Tensor, nn

import whence
from whence.learned import checkpoint, training
from whence.learned.checkpoint import Parts
from whence.learned.schedule import Pace
from whence.learned.shapley.calibration import LEAST_ORDERS, LEAST_TEXTS, within
from whence.learned.shapley.recipe import RECIPES
from whence.learned.texts import gather
from whence.learned.time_limit import VALIDATING, TimeLimit
from whence.learned.training import Batch, Training
from whence.models.inputs import Encoding

if TYPE_CHECKING:
    from jaxtyping import Float

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


class Clock:
    """A clock that moves only when a step or a validation is taken."""

    def __init__(self, a_step: float = 1.0, a_validation: float = 0.5) -> None:
        self.now, self.a_step, self.a_validation = 100.0, a_step, a_validation

    def __call__(self) -> float:
        return self.now


class Slow:
    """Learns nothing, takes its time, and notes the rates it is given."""

    settings: Mapping[str, Any] = {}

    def __init__(self, clock: Clock) -> None:
        self.probe = nn.Linear(1, 1)
        self.optimiser = torch.optim.SGD(self.probe.parameters(), lr=1.0)
        self.clock = clock
        self.rates: list[float] = []

    def begin(self, texts: Sequence[Encoding]) -> None: ...

    def add_gradients(self, batch: Batch) -> Float[Tensor, ""]:
        return torch.zeros(())

    def update(self, batch: Batch, means: Float[Tensor, ""]) -> None:
        self.rates.append(self.optimiser.param_groups[0]["lr"])
        self.clock.now += self.clock.a_step

    def validate(self, held_out: Sequence[Sequence[Encoding]]) -> dict[str, Any]:
        self.clock.now += self.clock.a_validation
        return {}

    def merit(self, validation: Mapping[str, Any]) -> float:
        return 0.0

    def is_under_way(self, validation: Mapping[str, Any]) -> bool:
        return True

    def state(self) -> tuple[Parts, dict[str, Any]]:
        return {}, {}

    def restore(self, parts: Parts, values: Mapping[str, Any]) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(training, "monotonic", found)
    return found


def limited(
    clock: Clock, *, steps: int = 10_000, cool_down: float = 1.0, patience: int | None = None,
    minutes: float | None = 1.0,
) -> Training:  # fmt: skip
    model, pace = tiny("bert"), Pace(steps, 2, 10, cool_down, patience=patience, minutes=minutes)
    return Training(model, Slow(clock), gather(model, TEXTS, None, 0), pace, batch_tokens=100)


def rates(run: Training) -> list[float]:
    assert isinstance(run.learner, Slow)
    return run.learner.rates


def test_it_ends_with_its_time_and_the_rate_falls_to_zero_by_then(clock: Clock) -> None:
    run = limited(clock)
    run.run(None)
    assert 55 <= run.step <= 60, "60 seconds of steps of one, less what validations take"
    assert run.seconds <= 60
    assert clock.now - 100 == run.seconds
    assert run.history[-1]["step"] == run.step, "what came out is validated"
    shares = rates(run)
    assert max(shares) == max(shares[:10]), "it rises over a tenth of the steps"
    assert all(late <= early for early, late in pairwise(shares[8:]))
    assert shares[-1] < 0.05
    assert abs(shares[len(shares) // 2] - 0.5) < 0.05


def test_a_machine_that_slows_down_has_fewer_steps_and_still_ends_in_time(clock: Clock) -> None:
    run = limited(clock)

    def after_step() -> None:
        clock.a_step = 3.0 if run.step >= 20 else 1.0

    run.run(None, after_step)
    assert 30 <= run.step <= 34, "20 steps of one second, and then of three"
    assert run.seconds <= 60
    assert rates(run)[-1] < 0.1


def test_steps_that_take_no_time_are_all_taken_as_without_a_limit(clock: Clock) -> None:
    clock.a_step = clock.a_validation = 0.001
    run, free = limited(clock, steps=120), limited(clock, steps=120, minutes=None)
    run.run(None)
    free.run(None)
    assert run.step == free.step == 120
    assert rates(run) == rates(free)


def test_a_plateau_ends_a_limited_run_too(clock: Clock) -> None:
    run = limited(clock, cool_down=0.2, patience=1)
    run.run(None)
    assert run.stands_still
    assert 30 <= run.step < 50
    assert rates(run)[-1] < 0.2


def test_validations_before_the_last_take_little_of_the_time(clock: Clock) -> None:
    clock.a_validation = 2.0
    run = limited(clock)
    run.run(None)
    early = run.history[:-1]
    assert early
    assert 2.0 * len(early) <= 2.0 + VALIDATING * 60
    assert run.seconds <= 60


def test_a_killed_run_goes_on_with_the_plan_that_was_saved(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", (-1,))
    run = limited(clock)

    def stop() -> None:
        if run.step == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.run(tmp_path, stop)
    clock.now += 10_000  # nobody trained meanwhile
    again = limited(clock)
    seen: list[tuple[int, int]] = []
    again.run(tmp_path, lambda: seen.append((again.step, again.last_step)))
    assert seen[0][0] == 26
    assert abs(seen[0][1] - run.last_step) <= 1, "it knows how fast it was"
    assert 55 <= again.step <= 60
    with pytest.raises(whence.UsageError, match="had other minutes"):
        limited(clock, minutes=2.0).run(tmp_path)


def test_the_first_step_says_nothing_of_the_others() -> None:
    limit = TimeLimit(100)
    limit.stepped(30.0)
    assert limit.last_step(1, 30.0, most=500) == 500
    limit.stepped(1.0)
    assert limit.last_step(2, 31.0, most=500) == 2 + 69
    assert limit.last_step(2, 31.0, most=40) == 40
    assert limit.last_step(2, 98.9, most=500) == 3
    assert limit.last_step(2, 99.1, most=500) == 2, "none begins that would not end in time"
    assert limit.last_step(2, 100.0, most=500) == 2


def test_a_validation_takes_little_of_the_time_whatever_a_text_takes() -> None:
    limit = TimeLimit(1_000)
    limit.judge(8, took=0.1, n_texts=500)
    assert limit.n_judged == 500
    limit.judge(8, took=10.0, n_texts=500)
    assert (limit.n_judged, limit.validation) == (40, VALIDATING * 1_000)
    limit.judge(8, took=400.0, n_texts=500)
    assert limit.n_judged == 8


def test_a_long_run_is_cut_to_the_time_there_is() -> None:
    lengths = [30] * 64
    assert within(lengths, 40, 1e9) == (64, 40)
    texts, orders = within(lengths, 40, 600_000)
    assert LEAST_TEXTS <= texts <= 64
    assert LEAST_ORDERS <= orders < 40
    assert texts * (orders * 30 + 32) * 30 <= 600_000 < 4 * texts * (orders * 30 + 32) * 30
    assert within([500] * 64, 40, 10) == (LEAST_TEXTS, LEAST_ORDERS)
    assert within([30] * 3, 2, 10) == (3, 2)


def test_both_explainers_keep_it_and_say_what_they_reached(tmp_path: Path) -> None:
    model = tiny("bert")
    assert RECIPES["quick"].minutes == 50
    probes = whence.ShapleyProbes(
        "quick", minutes=0.01, width=16, step_tokens=40, pairs=2, checked_texts=4, checked_orders=3
    ).fit(model, TEXTS * 4, folder=tmp_path / "shares", progress=False)
    assert probes.fitted_ is not None
    assert 1 <= probes.fitted_.steps < 6_000
    assert f"{probes.fitted_.steps:,} steps" in (tmp_path / "shares" / "README.md").read_text()
    assert whence.ShapleyProbes.load(tmp_path / "shares").recipe.minutes == 0.01
    masks = whence.DiffMask("input", **{**QUICK, "steps": 100_000, "minutes": 0.01}).fit(
        model, TEXTS * 4, progress=False
    )
    assert masks.fitted_ is not None
    assert masks.fitted_.history[-1]["step"] < 100_000
    with pytest.raises(whence.UsageError, match="minutes must be above 0"):
        whence.DiffMask(minutes=0)


def test_the_guide_is_given_what_a_run_reached_and_a_later_run_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("", "one_pass"):
        monkeypatch.syspath_prepend(EXPERIMENTS / folder)
    quick = importlib.import_module("quick")
    guide = quick.GUIDE.read_text(encoding="utf-8")
    found = {
        "n_texts": 3,
        "minutes": 15,
        "faithfulness": {"quick": [0.5, 0.6, 0.7], "shipped": [0.8] * 3, "held_still": [0.6] * 3, "shapley": [0.7] * 3},
        "fit": {
            "steps": 1_234,
            "n_texts": 20_000,
            "calibration": {
                "loss": 0.02, "floor": 0.01, "correlation": 0.9, "coverage": 0.88, "n_texts": 32, "orders": 40,
            },
        },
    }  # fmt: skip
    once = quick.told_in(guide, found)
    assert quick.told_in(once, found) == once
    assert once.index("1,234 steps") < once.index(quick.NEXT)
    told = " ".join(quick.told(found))
    assert "0.600; `held_still`" in told
    assert "`shapley` 0.700 (-0.100 ± 0.113)" in told, "1.96 standard errors of differences -.2, -.1 and 0"
