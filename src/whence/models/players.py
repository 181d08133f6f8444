"""Which tokens go together: the one place where tokens are gathered into units."""

from __future__ import annotations

from whence.models.inputs import Encoding
from whence.units import Units, spans_of_units, word_of


def player_of_each_token(encoding: Encoding, units: Units) -> list[int | None]:
    """The unit of each token, numbered in the order of the text, then of its pair; None: special, or of no unit.

    A token belongs to the unit that holds its first visible character. Units of which the model reads no token are
    not counted.
    """
    if units == "token":
        found: list[object] = list(range(len(encoding)))
    elif units == "word":
        found = [None if token.word is None else (token.segment, token.word) for token in encoding.tokens]
    else:
        found = _units_of_tokens(encoding, units)
    numbers: dict[object, int] = {}
    return [
        None if token.special or unit is None else numbers.setdefault(unit, len(numbers))
        for token, unit in zip(encoding.tokens, found, strict=True)
    ]


def _units_of_tokens(encoding: Encoding, units: Units) -> list[object]:
    texts = (encoding.text, encoding.pair or "")
    spans = spans_of_units(texts, units, [(turn.start, turn.end) for turn in encoding.turns])
    found: list[object] = []
    for token in encoding.tokens:
        unit = word_of(token.start, token.end, texts[token.segment], spans[token.segment])
        found.append(None if unit is None else (token.segment, unit))
    return found
