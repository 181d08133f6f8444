"""Scores of tokens gathered into those of the units that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from whence.errors import UnknownNameError, UsageError
from whence.explanation import Explanation, UnitScores, unit_of_tokens
from whence.models.inputs import Encoding
from whence.models.players import player_of_each_token
from whence.units import UNITS, Units


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
    members: dict[int, list[int]] = {}
    for position, player in enumerate(player_of_each_token(encoding, units)):
        if player is not None:
            members.setdefault(player, []).append(position)
    positions = list(members.values())
    found = tuple(unit_of_tokens(explanation.tokens, own, explanation.text, explanation.pair) for own in positions)
    scores = np.array(
        [[explanation.meaning.gathered(row[own]) for own in positions] for row in explanation.scores], np.float32
    )
    errors = None
    if explanation.standard_errors is not None:
        errors = np.array([[row[own].sum() for own in positions] for row in explanation.standard_errors], np.float32)
        errors.setflags(write=False)
    scores.setflags(write=False)
    return replace(explanation, units=UnitScores(kind_of(units), found, scores, errors))
