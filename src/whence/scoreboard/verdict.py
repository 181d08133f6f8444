"""The verdict of a scoreboard in plain words, each sentence computed from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whence.metrics.confidence import FEW_TEXTS
from whence.scoreboard.board import Scoreboard
from whence.scoreboard.controls import RANDOM, SINGLE_EFFECTS
from whence.scoreboard.ranking import Ranking
from whence.scoreboard.second_way import SECOND, in_words

MANY_TEXTS = 200  # from so many on evidence may be strong
MANY_TIMES = 3  # cheaper: worth a sentence
UNSTABLE = 0.8  # τ between seeds: one pair of words in ten changes places
IN_COMPANY = 1e-3  # of the largest score: more than rounding


Strength = Literal["weak", "fair", "strong"]
STRENGTHS: dict[Strength, str] = {
    "weak": f"fewer than {FEW_TEXTS} texts, or the best is surely better than none of the other methods",
    "fair": f"at least {FEW_TEXTS} texts, and the best is surely better than some of the other methods",
    "strong": f"at least {MANY_TEXTS} texts, and the best is surely better than more than half of the other methods",
}
"""What each strength of evidence means, in words."""


@dataclass(frozen=True)
class Verdict:
    """The answer to "which should I believe?", whom it names, the evidence for it, and how strong that is."""

    answer: str
    believe: tuple[str, ...]
    reasons: tuple[str, ...]
    strength: Strength


def judge(board: Scoreboard) -> Verdict:
    """Believe the most faithful entry that is surely better than chance and does depend on the model."""
    ranking = board.ranking()
    kinds = {entry.name: entry.kind for entry in board.entries}
    moved = _in_company(board)
    able = [
        each.name
        for each in ranking.standings
        if kinds[each.name] != "control"
        and each.name not in (*board.flagged, *moved)
        and _beats_chance(ranking, each.name)
    ]
    strength = strength_of(board, ranking, able[0] if able else None)
    evidence = f"{strength} evidence: {board.n_texts} text{'s' if board.n_texts != 1 else ''}"
    if not able:
        return Verdict(
            _none(moved, evidence),
            (),
            (*_controls(board, ranking), *_flags(board), *_company(board), *_caveat(board)),
            strength,
        )
    best = able[0]
    tied = [name for name in able[1:] if not ranking.surely_better(best, name)]
    return Verdict(
        _answer(board, best, tied, evidence),
        (best, *tied),
        (
            *_strength(board, ranking, best),
            *_tied(board, best, tied),
            *_second_way(board, best),
            *_other_metrics(board, best),
            *_sets(board),
            *_sizes(board),
            *_flags(board),
            *_no_better_than_chance(board, ranking),
            *_stability(board, best),
            *_company(board),
            *_discord(board),
            *_plausibility(board, best),
            *_caveat(board),
        ),
        strength,
    )


def strength_of(board: Scoreboard, ranking: Ranking, best: str | None) -> Strength:
    """How far the texts bear the answer out: by their number, and by whether they tell the methods apart.

    Weak: fewer than 30 texts, or the best is surely better than none of the other methods. Strong: at least 200 texts,
    and it is surely better than more than half of them. Fair: all between. Where none is believed, or there is only
    one, the number of texts alone decides.
    """
    others = [each.name for each in ranking.standings if each.ranks != (0, 0) and each.name != best]
    worse = sum(best is not None and ranking.surely_better(best, name) for name in others)
    nothing_to_tell = best is None or not others
    if board.n_texts < FEW_TEXTS or not (worse or nothing_to_tell):
        return "weak"
    return "strong" if board.n_texts >= MANY_TEXTS and (2 * worse > len(others) or nothing_to_tell) else "fair"


def _none(moved: Sequence[str], evidence: str) -> str:
    alone = " and gives a text the same scores whatever its company" if moved else ""
    return f"Believe none of them ({evidence}): on these texts no method is surely better than random scores{alone}."


def _beats_chance(ranking: Ranking, name: str) -> bool:
    names = [each.name for each in ranking.standings]
    if RANDOM not in names:
        return ranking.of(name).mean.low > 0
    return ranking.surely_better(name, RANDOM)


def _answer(board: Scoreboard, best: str, tied: Sequence[str], evidence: str) -> str:
    if not tied:
        return f"Believe {best} ({evidence})."
    cheap = _cheapest(board, [best, *tied])
    if cheap == best:
        return f"Believe {best} ({evidence}): no method is surely more faithful, and none of its equals is cheaper."
    return f"Believe {best}, or {cheap}, its cheapest equal ({evidence})."


def _strength(board: Scoreboard, ranking: Ranking, best: str) -> Iterator[str]:
    mean = ranking.of(best).mean
    worse = [p for p in ranking.standings if p.ranks != (0, 0) and ranking.surely_better(best, p.name)]
    others = sum(each.ranks != (0, 0) for each in ranking.standings) - 1
    layer = next(entry.layer for entry in board.entries if entry.name == best)
    where = "" if layer == "embeddings" else f" (at layer {layer})"
    sentence = (
        f"With the words that {best}{where} names first, the model is {mean.mean:.2f} "
        f"[{mean.low:.2f}, {mean.high:.2f}] surer of its decision than without them, over all shares of words"
    )
    yield f"{sentence}; that is surely more than for {len(worse)} of {others} others." if others else f"{sentence}."
    yield from _controls(board, ranking)


def _controls(board: Scoreboard, ranking: Ranking) -> Iterator[str]:
    means = {each.name: each.mean.mean for each in ranking.standings}
    parts = []
    if RANDOM in means:
        parts.append(f"random scores get {means[RANDOM]:+.2f}")
    if SINGLE_EFFECTS in means:
        parts.append(f"the order of what each word does alone gets {means[SINGLE_EFFECTS]:+.2f}")
    if "best_faithfulness" in board.metrics:
        best = board.interval(ranking.standings[0].name, "best_faithfulness")
        parts.append(f"the best order of each text's words would get {0.0 if best is None else best.mean:+.2f}")
    if parts:
        yield f"For scale: {', '.join(parts)}."


def _tied(board: Scoreboard, best: str, tied: Sequence[str]) -> Iterator[str]:
    if not tied:
        return
    yield f"A tie: {_names(tied)} cannot be told apart from {best} on {board.n_texts} texts."
    cheap = _cheapest(board, [best, *tied])
    costs = {name: passes_of(board, name) for name in (best, cheap)}
    if cheap != best and costs[cheap] and costs[best] / costs[cheap] >= MANY_TIMES:
        yield f"{cheap} takes {costs[cheap]:.0f} passes per text, {best} {costs[best]:.0f}."


def _second_way(board: Scoreboard, best: str) -> Iterator[str]:
    """Whether the ranking is the same where words are hidden otherwise."""
    both = board.two_rankings
    if both is None:
        return
    way = _way(board, "second_hide")
    ranking = board.ranking(SECOND)
    ahead = [each.name for each in ranking.standings if each.ranks != (0, 0) and ranking.surely_better(each.name, best)]
    differs = ""
    if both.first != both.second:
        sure = f", surely ahead of {best}" if both.second in ahead else f", not surely ahead of {best}"
        differs = f"; but the two ways disagree on who comes first: here it is {both.second}{sure}"
    elif ahead:
        differs = f"; but here others are surely ahead of {best}: {_names(ahead)}"
    yield (
        f"With words hidden by {way} instead, the ranking of the methods correlates with this one at τ "
        f"{both.tau.mean:.2f} [{both.tau.low:.2f}, {both.tau.high:.2f}]{differs}."
    )


def _other_metrics(board: Scoreboard, best: str) -> Iterator[str]:
    """On how many of the other faithfulness metrics nobody is surely better."""
    led, beaten = 0, []
    for metric in board.metrics:
        kind = board.kinds[metric]
        if kind.group != "faithfulness" or kind.better is None or metric == "faithfulness":
            continue
        ranking = board.ranking(metric)
        if best not in [each.name for each in ranking.standings]:
            continue
        if ranking.of(best).ranks[0] == 1:
            led += 1
        else:
            beaten.append(kind.title)
    if led + len(beaten):
        against = f"; others are surely ahead on {_names(beaten)}" if beaten else ""
        yield f"On {led} of {led + len(beaten)} further faithfulness metrics nobody is surely ahead of it{against}."


def _sets(board: Scoreboard) -> Iterator[str]:
    """Who chooses the best set by its own threshold: another question than who orders words best."""
    leader = _leader(board, "set_of_best")
    if leader is None or not {"set_kept", "set_agreement"} <= set(board.metrics):
        return
    share, kept, same = (board.interval(leader, each) for each in ("set_of_best", "set_kept", "set_agreement"))
    if share and kept and same:
        yield (
            f"As sets, by each method's own threshold, {leader} comes nearest the best of their size: with "
            f"{100 * kept.mean:.0f} % of the words it gets {100 * share.mean:.0f} % of what these have over random "
            f"sets, and the model says the same on {100 * same.mean:.0f} % of the texts."
        )


def _sizes(board: Scoreboard) -> Iterator[str]:
    leader = _leader(board, "lds")
    found = board.interval(leader, "lds") if leader else None
    if found:
        yield f"As sizes, sums of {leader}'s scores foretell best what the model says of parts (LDS {found.mean:.2f})."


def _leader(board: Scoreboard, metric: str) -> str | None:
    """The best method on a metric, controls and those that ignore the model left out."""
    if metric not in board.metrics:
        return None
    able = (each.name for each in board.ranking(metric).standings if each.ranks != (0, 0))
    return next((name for name in able if name not in board.flagged), None)


def _flags(board: Scoreboard) -> Iterator[str]:
    methods = [entry.name for entry in board.entries if entry.name in board.flagged and entry.kind != "control"]
    if methods:
        yield (
            f"Do not believe {_names(methods)}: the order of words stays much the same when all of the model's weights "
            "are random, so it is not about the model."
        )
    untried = [entry.name for entry in board.entries if entry.note]
    if untried:
        yield f"The control with random weights could not be run on {_names(untried)}."


def _no_better_than_chance(board: Scoreboard, ranking: Ranking) -> Iterator[str]:
    kinds = {entry.name: entry.kind for entry in board.entries}
    poor = [
        each.name
        for each in ranking.standings
        if kinds[each.name] != "control" and each.name not in board.flagged and not _beats_chance(ranking, each.name)
    ]
    if poor:
        yield f"Not surely better than random scores: {_names(poor)}."


def _stability(board: Scoreboard, best: str) -> Iterator[str]:
    seeds = board.interval(best, "seed_stability") if "seed_stability" in board.metrics else None
    if seeds is not None and seeds.mean < UNSTABLE:
        yield f"Another seed changes its answer: the orders of words of two seeds correlate at τ {seeds.mean:.2f}."


def _in_company(board: Scoreboard) -> list[str]:
    """Entries whose scores of a text depend on the texts in the same batch."""
    if "batch_difference" not in board.metrics:
        return []
    changes = {entry.name: board.interval(entry.name, "batch_difference") for entry in board.entries}
    return [name for name, change in changes.items() if change is not None and change.mean > IN_COMPANY]


def _company(board: Scoreboard) -> Iterator[str]:
    moved = _in_company(board)
    if moved:
        yield f"Scores of {_names(moved)} change with the texts in the same batch: do not believe them."


def _discord(board: Scoreboard) -> Iterator[str]:
    own = [index for index, entry in enumerate(board.entries) if entry.kind != "control"]
    taus = board.rank_correlation[np.ix_(own, own)][np.triu_indices(len(own), 1)]
    known = taus[np.isfinite(taus)]
    if len(known):
        yield (
            f"The choice matters: the orders of words of two methods correlate at τ {known.mean():.2f} on average "
            f"({known.min():.2f} to {known.max():.2f})."
        )


def _plausibility(board: Scoreboard, best: str) -> Iterator[str]:
    mean = board.interval(best, "auprc") if "auprc" in board.metrics else None
    if mean is not None:
        ranking = board.ranking("auprc")
        leader = next(each for each in ranking.standings if each.ranks != (0, 0))
        theirs = "" if leader.name == best else f"; {leader.name} finds most of them ({leader.mean.mean:.2f})"
        yield (
            f"Words that people marked are found with AUPRC {mean.mean:.2f}{theirs}. What people expect is not what "
            "the model does: this does not count here."
        )


def _caveat(board: Scoreboard) -> Iterator[str]:
    if board.n_texts < FEW_TEXTS:
        yield f"{board.n_texts} texts are few: the intervals are wide, and rough."
    yield (
        f"This holds for {board.model.id} on texts like these {board.n_texts}, with words hidden by "
        f"{_way(board, 'hide')}."
    )


def _way(board: Scoreboard, setting: str) -> str:
    return in_words(str(board.settings.get(setting, "masking")))


def _cheapest(board: Scoreboard, names: Sequence[str]) -> str:
    return min(names, key=lambda name: passes_of(board, name) or np.inf)


def passes_of(board: Scoreboard, name: str) -> float:
    """Forward passes per text, and backward ones twice, since they cost about twice as much; 0 where unknown."""
    found = [board.interval(name, metric) if metric in board.metrics else None for metric in ("forwards", "backwards")]
    forwards, backwards = (0.0 if each is None else each.mean for each in found)
    return forwards + 2 * backwards


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
