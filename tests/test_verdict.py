"""The rule by which pages judge claims, and the intervals it reads, against answers known by hand and by simulation."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, ttest_1samp

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

from intervals import Interval, centred, difference, of_rank_correlation, over, with_seeds
from verdict import Asks, Claim, Here, claims_table, verdict


@pytest.mark.parametrize(
    ("paper", "asks", "here", "expected"),
    [
        (9.8, "> 0", (5.0, 1.0, 9.0), "reproduced"),
        (9.8, "> 0", (1.0, 0.0, 2.0), "not reproduced"),
        (9.8, "> 0", (-0.9, -2.4, 0.6), "not reproduced"),
        (9.8, "> 0", (-9.3, -13.4, -5.2), "reversed"),
        (-0.7, "< 0", (-0.6, -0.9, -0.3), "reproduced"),
        (-0.7, "< 0", (0.5, 0.4, 0.6), "reversed"),
        (0.94, "at least", (0.691, 0.648, 0.735), "not reproduced"),
        (0.94, "at least", (0.93, 0.91, 0.95), "reproduced"),
        (0.94, "at least", (0.99, 0.98, 1.0), "reproduced"),
        (0.05, "at most", (0.06, 0.055, 0.065), "not reproduced"),
        (0.05, "at most", (0.01, 0.005, 0.02), "reproduced"),
        (0.26, "about", (0.266, 0.25, 0.28), "reproduced"),
        (0.26, "about", (0.30, 0.28, 0.32), "not reproduced"),
    ],
)
def test_the_rule_on_paper(paper: float, asks: Asks, here: tuple[float, float, float], expected: str) -> None:
    assert verdict(paper, asks, Interval(*here)) == expected


def test_the_rule_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="does not hold its estimate"):
        verdict(0.1, "> 0", Interval(0.16, 0.06, 0.14))
    with pytest.raises(ValueError, match="not > 0"):
        verdict(-0.1, "> 0", Interval(0.1, 0.0, 0.2))


def test_a_row_is_judged_by_the_numbers_it_prints() -> None:
    here = Here(Interval(0.2, 0.04, 0.4), 12, 3, "test", of="cells", note="with a note")
    barely = Claim("one less the other", 0.5, "> 0", here, digits=1)
    assert barely.cells()[1:] == [
        "+0.5, > 0", "+0.2 [+0.0, +0.4]; n = 12 cells, 3 seeds, test; with a note", "not reproduced"
    ]  # fmt: skip
    assert Claim("one less the other", 0.5, "> 0", here).cells()[3] == "reproduced", "with two digits 0.04 is not 0"
    untried = Claim("on an ordinary model", None, None, None, why_not="no such model was trained")
    assert untried.cells() == ["on an ordinary model", "–", "no such model was trained", "not tried"]
    assert claims_table([untried])[0] == "|claim|paper|here|verdict|"


def test_seeds_widen_an_interval() -> None:
    seeds = [0.13341, 0.11077, 0.3756]
    found = with_seeds(float(np.mean(seeds)), 0.20, 0.21, float(np.std(seeds, ddof=1)), 3)
    by_t = over(seeds)
    assert found.low < by_t.low < 0 < 0.5 < by_t.high < found.high
    assert by_t.high - found.high == pytest.approx(0, abs=0.001), "documents add next to nothing"
    assert with_seeds(0.5, 0.4, 0.7, None, 1) == (0.5, pytest.approx(0.4), pytest.approx(0.7))
    assert with_seeds(0.99, 0.98, 1.0, 0.1, 3, within=(-1, 1)).high == 1
    test = ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert (by_t.low, by_t.high) == pytest.approx((test.low, test.high))


def test_a_difference_adds_squares() -> None:
    found = difference(Interval(95.0, 92.0, 98.0), Interval(96.0, 92.0, 100.0))
    assert found == (-1.0, pytest.approx(-6.0), pytest.approx(4.0))


def test_the_interval_of_a_rank_correlation_holds_the_truth() -> None:
    """Normal pairs of correlation r have τ = 2 asin(r) / π."""
    random, truth = np.random.default_rng(0), 2 * math.asin(-0.6) / math.pi
    hits = 0
    for _ in range(400):
        x = random.normal(size=45)
        y = -0.6 * x + 0.8 * random.normal(size=45)
        found = of_rank_correlation(float(kendalltau(x, y).statistic), 45)
        hits += found.low <= truth <= found.high
    assert 0.91 <= hits / 400 <= 0.99
    nothing = of_rank_correlation(-0.067, 45)
    assert nothing.low < 0 < nothing.high


def test_a_centred_interval_holds_its_estimate() -> None:
    assert centred(0.16, 0.06, 0.14) == (0.16, pytest.approx(0.12), pytest.approx(0.20))
    assert centred(0.16, 0.06, 0.14, middle=0.08) == (0.16, pytest.approx(0.14), pytest.approx(0.22))
    assert centred(0.0, 0.0, 0.02) == (0.0, 0.0, pytest.approx(0.01))
