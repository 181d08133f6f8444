"""Scores of tokens gathered into those of the units that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Explanation, UnitScores, units_of_tokens
from whence.models.inputs import Encoding
from whence.models.players import player_of_each_token
from whence.units import UNITS, Units

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def kind_of(units: Units) -> str:
    """What one of the units is called; an unknown name is an error."""
    if isinstance(units, str) and units not in UNITS:
        raise UnknownNameError("unit", units, UNITS)
    return units if isinstance(units, str) else "unit"


def check_units(units: Units, encodings: Sequence[Encoding]) -> None:
    """Refuse units that do not fit the texts: spans are those of one text, and must hold some of its tokens."""
    if not isinstance(units, str) and len(encodings) > 1:
        raise UsageError(
            f"units are given as spans of one text, here are {len(encodings)}", "explain one text at a time"
        )
    for encoding in encodings if units not in ("token", "word") else ():
        if all(player is None for player in player_of_each_token(encoding, units)):
            raise UsageError("no token of the text lies in any of the units", "give spans of characters of the text")


def with_units(explanation: Explanation, encoding: Encoding, units: Units) -> Explanation:
    """The explanation with the scores of the units, if others than tokens were asked for."""
    if units == "token":
        return explanation
    players = player_of_each_token(encoding, units)
    members: list[list[int]] = []
    for position, player in enumerate(players):
        if player is not None:
            if player == len(members):  # they are numbered as they come
                members.append([])
            members[player].append(position)
    found = units_of_tokens(explanation.tokens, members, explanation.text, explanation.pair)
    numbers = np.array([-1 if player is None else player for player in players])
    if explanation.meaning.additive:
        scores = _sums(explanation.scores, numbers, len(members))
    else:
        gathered = explanation.meaning.gathered
        scores = np.array([[gathered(row[own]) for own in members] for row in explanation.scores], np.float32)
    errors = explanation.standard_errors
    if errors is not None:
        errors = _sums(errors, numbers, len(members))
        errors.setflags(write=False)
    scores.setflags(write=False)
    return replace(explanation, units=UnitScores(kind_of(units), found, scores, errors))


def _sums(
    rows: Float[np.ndarray, "layer token"], players: Int[np.ndarray, " token"], count: int
) -> Float[np.ndarray, "layer unit"]:
    """The sum over each player's tokens, layer by layer."""
    inside = players >= 0
    sums = [np.bincount(players[inside], row[inside], minlength=count) for row in rows]
    return np.array(sums, np.float32).reshape(len(rows), count)
