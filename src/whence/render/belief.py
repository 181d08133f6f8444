"""How far an explanation may be believed, in one line: what speaks for it, each with a word that is defined here.

- *Other methods*, where several explain the text: the mean rank correlation (τ-b, by size of score) with the others,
  random scores left out. Weak below 0.3, strong from 0.6 on, fair between. Where another method gives a word that the
  sentence names the opposite sign, clearly, it is one step less.
- *Sampling*, where a method tells its standard errors: how many of them the least sure of the named words is away from
  zero. Weak below 2, strong from 4 on, fair between.
- *Adding up*, where a method promises that its scores do: the share of the whole that is missing. Strong up to a
  twentieth, weak above a fifth, fair between.
- *A board*, where one of this model is at hand, and an embedded model comes with one: weak if the method is not surely
  better than random scores there, or does not depend on the model; else, if none is surely more faithful, the board's
  own strength of evidence; else fair. Where the explanation warns that the text is not like those that its probes
  learned from, it is one step less.

What cannot be told is not told; where nothing can, that is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from whence.embedded import NAMES, board_findings
from whence.explanation import Explanation
from whence.render.sentence import Reasons, first_layer
from whence.render.visible import shortened

if TYPE_CHECKING:
    from jaxtyping import Float

    from whence.render.rows import Piece
    from whence.scoreboard.board import Scoreboard

ALIKE = (0.3, 0.6)
ERRORS = (2.0, 4.0)
MISSING = (0.05, 0.2)
CLEAR_SHARE = 0.1  # of a method's largest score: smaller ones have no colour, and no sign to speak of

_LEARNED_FROM_OTHERS = "the probes were trained on"  # in every warning of a text that is not like those

Strength = Literal["weak", "fair", "strong"]
WORDS: tuple[Strength, Strength, Strength] = ("weak", "fair", "strong")


@dataclass(frozen=True)
class Belief:
    """One reason to believe an explanation more or less: what it is about, how strong, and in words why."""

    about: str
    word: Strength
    sentence: str


def strength(value: float, bounds: tuple[float, float]) -> Strength:
    """Weak below the first bound, strong from the second on.

    >>> [strength(value, ALIKE) for value in (-0.2, 0.3, 0.6)]
    ['weak', 'fair', 'strong']
    """
    return WORDS[(value >= bounds[0]) + (value >= bounds[1])]


def signs_of(shares: Float[np.ndarray, "method word"], signed: Sequence[bool]) -> Float[np.ndarray, "method word"]:
    """1 or -1 where a method clearly speaks for or against, given each score as a share of its method's largest."""
    clear = (np.abs(shares) >= CLEAR_SHARE) & np.array(signed)[:, None]
    found: Float[np.ndarray, "method word"] = np.sign(shares) * clear
    return found


def other_methods(
    mine: int,
    taus: Float[np.ndarray, " other"],
    shares: Float[np.ndarray, "method word"],
    signed: Sequence[bool],
    reasons: Reasons,
    labels: Sequence[str],
) -> Belief | None:
    """Do the others say the same? `taus` are those with the others, `shares` those of all methods."""
    known = taus[np.isfinite(taus)]
    if not len(known):
        return None
    tau = float(known.mean())
    signs = signs_of(shares, signed)
    opposed = signs[:, list(reasons.named)] * signs[mine, list(reasons.named)] < 0
    contrary = [index for index, found in zip(reasons.named, opposed.any(axis=0), strict=True) if found]
    word = strength(tau, ALIKE)
    if contrary:
        word = _less(word)
    others = "the other method" if len(taus) == 1 else f"the {len(taus)} other methods"
    order = {"weak": "quite another", "fair": "a somewhat similar", "strong": "much the same"}[strength(tau, ALIKE)]
    puts = "puts" if len(taus) == 1 else "put"
    sentence = f"{others} {puts} the words in {order} order ({tau:.2f}; 1 is the same, 0 unrelated)"
    if contrary:
        named = ", ".join(f"“{shortened(labels[index], 40)}”" for index in contrary)
        seen = int(opposed.any(axis=1).sum())
        who = "" if len(taus) == 1 else f"{seen} of them "
        sentence += f", and {who}{'sees' if seen == 1 else 'see'} {named} the other way round"
    return Belief("other methods", word, sentence)


def sampling(explanation: Explanation, words: Sequence[Piece], reasons: Reasons) -> Belief | None:
    """Would other random numbers name other words? The error of a word is at most the sum of its tokens'."""
    layer, table = first_layer(explanation), explanation.standard_errors
    units = None if explanation.units is None else explanation.units.standard_errors
    if (table is None and units is None) or not reasons.named:
        return None
    own = sorted((piece for piece in words if piece.word is not None), key=lambda piece: (piece.segment, piece.word))
    scores = [word.score for word in explanation.gathered(explanation.layers[layer])]
    away = math.inf
    for index in reasons.named:
        if units is not None:
            error = float(units[layer, index])
        else:
            assert table is not None
            error = float(table[layer, list(own[index].tokens)].sum())
        away = min(away, abs(scores[index]) / error if error else math.inf)
    word = strength(away, ERRORS)
    if math.isinf(away):
        return Belief("sampling", word, "the numbers are exact: nothing was left to chance")
    ends = {"weak": "might well name others", "fair": "would likely name the same", "strong": "would name the same"}
    far = f"at least {away:.1f} times their error away from zero"
    return Belief("sampling", word, f"other random numbers {ends[word]} ({far})")


def adding_up(explanation: Explanation) -> Belief | None:
    """Do the scores add up to what they should?"""
    if explanation.completeness_errors is None:
        return None
    layer = first_layer(explanation)
    missing, whole = abs(explanation.completeness_errors[layer]), abs(float(explanation.scores[layer].sum()))
    share = missing / whole if whole else (math.inf if missing else 0.0)
    word: Strength = "strong" if share <= MISSING[0] else "fair" if share <= MISSING[1] else "weak"
    if share < 0.005:
        said = "the scores add up to the whole, as they should"
    elif share < 10:
        said = f"the scores should add up to the whole, and miss it by {100 * share:.0f} %"
    else:
        said = "the scores should add up to the whole, and miss it altogether"
    return Belief("adding up", word, said)


def of_such_a_text(belief: Belief | None, explanation: Explanation) -> Belief | None:
    """What a board found, one step weaker for a text that is not like those that the method's probes learned from."""
    if belief is None or not any(_LEARNED_FROM_OTHERS in warning for warning in explanation.warnings):
        return belief
    said = f"{belief.sentence}; but this text is longer than, or unlike, those that the method learned from"
    return Belief(belief.about, _less(belief.word), said)


def _less(word: Strength) -> Strength:
    return WORDS[max(0, WORDS.index(word) - 1)]


def board_says(board: Scoreboard | None) -> dict[tuple[str, str], Belief]:
    """What a board found of its methods, by model and method."""
    if board is None:
        return {}
    from whence.scoreboard.controls import RANDOM

    verdict, ranking = board.verdict, board.ranking()
    ranked = {each.name for each in ranking.standings}
    about = f"{board.n_texts} text{'s' if board.n_texts != 1 else ''}"
    found: dict[tuple[str, str], Belief] = {}
    for entry in board.entries:
        name = entry.name
        if name == RANDOM or name not in ranked:
            continue
        found[board.model.id, name] = _judged(
            about,
            ignores_model=name in board.flagged,
            believed=verdict.strength if name in verdict.believe else None,
            beats_random=RANDOM not in ranked or ranking.surely_better(name, RANDOM),
        )
    return found


def embedded_board_says(explanation: Explanation) -> Belief | None:
    """What the board that comes with an embedded model found of the method."""
    if explanation.model.embedded not in NAMES:  # a record from elsewhere may say anything, and is never a path
        return None
    board = board_findings(explanation.model.embedded)
    name = explanation.method
    if name not in board["judged"]:
        return None
    return _judged(
        f"{board['n_texts']} texts of {board['data']}",
        ignores_model=name in board["flagged"],
        believed=board["strength"] if name in board["believe"] else None,
        beats_random=name not in board["no_better_than_random"],
    )


def _judged(texts: str, *, ignores_model: bool, believed: Strength | None, beats_random: bool) -> Belief:
    word: Strength = "fair"
    said = "better than random scores, but others are surely more faithful"
    if ignores_model:
        word, said = "weak", "this method says the same of a model with random weights"
    elif believed is not None:
        word, said = believed, "no method is surely more faithful"
    elif not beats_random:
        word, said = "weak", "this method is not surely better than random scores"
    return Belief("a board", word, f"with this model, on {texts}: {said}")
