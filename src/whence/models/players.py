"""Which tokens go together: the one place where tokens are gathered into units."""

from __future__ import annotations

from whence.models.inputs import Encoding
from whence.units import Units, spans_of_units, word_of


def player_of_each_token(encoding: Encoding, units: Units) -> list[int | None]:
    """The unit of each token, numbered in the order of the text, then of its pair; None: special, or of no unit.

    A token belongs to the unit that holds its first visible character. Units of which the model reads no token are
    not counted.
    """
    tokens = encoding.columns
    if units == "token":
        found: list[object] = list(range(len(encoding)))
    elif units == "word":
        places = zip(tokens.segments, tokens.words, strict=True)
        found = [None if word is None else (segment, word) for segment, word in places]
    else:
        found = _units_of_tokens(encoding, units)
    numbers: dict[object, int] = {}
    return [
        None if special or unit is None else numbers.setdefault(unit, len(numbers))
        for special, unit in zip(tokens.special, found, strict=True)
    ]


def _units_of_tokens(encoding: Encoding, units: Units) -> list[object]:
    texts = (encoding.text, encoding.pair or "")
    spans = spans_of_units(texts, units, [(turn.start, turn.end) for turn in encoding.turns])
    tokens = encoding.columns
    found: list[object] = []
    for start, end, segment in zip(tokens.starts, tokens.ends, tokens.segments, strict=True):
        unit = word_of(start, end, texts[segment], spans[segment])
        found.append(None if unit is None else (segment, unit))
    return found
