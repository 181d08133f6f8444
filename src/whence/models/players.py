"""Which tokens go together: the one place where tokens are gathered into units."""

from __future__ import annotations

from whence.errors import UnknownNameError
from whence.models.inputs import Encoding
from whence.units import UNITS, Units, given_spans, word_of


def player_of_each_token(encoding: Encoding, units: Units) -> list[int | None]:
    """The unit of each token, numbered in the order of the text, then of its pair; None: special, or of no unit.

    A token belongs to the unit that holds its first visible character. Units of which the model reads no token are
    not counted.
    """
    if units == "token":
        units_of_tokens: list[object] = list(range(len(encoding)))
    elif units == "word":
        units_of_tokens = [None if token.word is None else (token.segment, token.word) for token in encoding.tokens]
    elif isinstance(units, str):
        raise UnknownNameError("unit", units, UNITS)
    else:
        texts = (encoding.text, encoding.pair or "")
        spans = given_spans(units, *texts)
        units_of_tokens = []
        for token in encoding.tokens:
            unit = word_of(token.start, token.end, texts[token.segment], spans[token.segment])
            units_of_tokens.append(None if unit is None else (token.segment, unit))
    numbers: dict[object, int] = {}
    return [
        None if token.special or unit is None else numbers.setdefault(unit, len(numbers))
        for token, unit in zip(encoding.tokens, units_of_tokens, strict=True)
    ]
