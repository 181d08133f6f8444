"""One rule by which every page says whether a claim of a paper was found again, and the row in which it says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from intervals import Interval

Asks = Literal["> 0", "< 0", "at least", "at most", "about"]
Verdict = Literal["reproduced", "not reproduced", "reversed", "not tried"]

RULE = (
    "*Reproduced*: the 95 % interval lies wholly on the paper's side of 0 (*reversed*: beyond), or reaches its “at "
    "least”, “at most”, “about”; else *not reproduced*."
)
HEAD = ("claim", "paper", "here", "verdict")


@dataclass(frozen=True)
class Here:
    """What was measured: a number with its interval, on how many texts or what `of` says, with seeds, on which part."""

    number: Interval
    n: int
    seeds: int | str
    split: str
    of: str = ""
    note: str = ""

    def __str__(self) -> str:
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        return f"n = {self.n:,}{self.of and ' ' + self.of}, {seeds}, {self.split}{self.note and '; ' + self.note}"


@dataclass(frozen=True)
class Claim:
    """What a paper says: a difference on one side of 0, or a number reached."""

    words: str
    paper: float | None
    asks: Asks | None
    here: Here | None
    digits: int = 2
    signed: bool = False
    why_not: str = ""

    def cells(self) -> list[str]:
        """The row; its verdict follows from the numbers as they are printed."""
        if self.here is None or self.asks is None or self.paper is None:
            return [self.words, "–" if self.paper is None else self._paper(), self.why_not, "not tried"]
        shown = Interval(*(round(each, self.digits) + 0.0 for each in self.here.number))
        value, low, high = (self._number(each) for each in shown)
        here = f"{value} [{low}, {high}]; {self.here}"
        return [self.words, self._paper(), here, verdict(round(self.paper, self.digits), self.asks, shown)]

    def _paper(self) -> str:
        assert self.paper is not None
        number = self._number(self.paper)
        return f"{number}, {self.asks}" if self.asks in ("> 0", "< 0") else f"{self.asks} {number}"

    def _number(self, value: float) -> str:
        sign = "+" if self.signed or self.asks in ("> 0", "< 0") else ""
        return f"{value:{sign}.{self.digits}f}"


def verdict(paper: float, asks: Asks, here: Interval) -> Verdict:
    """The rule."""
    if not here.low <= here.value <= here.high:
        raise ValueError(f"the interval {here} does not hold its estimate")
    if asks in ("> 0", "< 0"):
        side = 1 if asks == "> 0" else -1
        if side * paper <= 0:
            raise ValueError(f"the paper's own number {paper} is not {asks}")
        if min(side * here.low, side * here.high) > 0:
            return "reproduced"
        return "reversed" if max(side * here.low, side * here.high) < 0 else "not reproduced"
    reached = {"at least": here.high >= paper, "at most": here.low <= paper, "about": here.low <= paper <= here.high}
    return "reproduced" if reached[asks] else "not reproduced"


def claims_table(claims: Iterable[Claim]) -> list[str]:
    """The rows as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *(claim.cells() for claim in claims)]
    return [f"|{'|'.join(row)}|" for row in rows]
