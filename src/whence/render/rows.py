"""The lines of every picture: words or tokens in the order of the text, with a score a layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.explanation import Explanation, Token
from whence.render.visible import visible

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_ROWS = 40
_UNKNOWN = ("[UNK]", "<unk>", "<|unk|>")


@dataclass(frozen=True)
class Row:
    """A line of a picture: a word or a token, its scores and (if it is one token) standard errors, one a layer."""

    label: str
    scores: Float[np.ndarray, " layer"]
    special: bool = False
    errors: Float[np.ndarray, " layer"] | None = None

    @property
    def strength(self) -> float:
        return float(np.abs(self.scores).max())


def rows_of(explanation: Explanation, *, words: bool) -> list[Row]:
    """The lines of a picture in the order of the text; in place of a word's tokens the word, if asked."""
    places: dict[tuple[int, int], list[int]] = {}
    for place, token in enumerate(explanation.tokens):
        alone = not words or token.special or token.word is None
        places.setdefault((-1, place) if alone else (token.segment, token.word or 0), []).append(place)
    gathered = {}
    if words:
        columns = [explanation.words(layer) for layer in explanation.layers]
        keys = sorted(key for key in places if key[0] >= 0)
        for key, *column in zip(keys, *columns, strict=True):
            gathered[key] = (column[0].text, np.array([word.score for word in column]))
    rows = []
    for key, members in sorted(places.items(), key=lambda item: item[1][0]):
        tokens = [explanation.tokens[place] for place in members]
        errors = explanation.standard_errors
        own = errors[:, members[0]] if errors is not None and len(members) == 1 else None
        if key in gathered:
            text, scores = gathered[key]
            rows.append(Row(visible(text) + _unknown(tokens), scores, False, own))
        else:
            label = token_label(explanation.tokens, members[0], explanation.text, explanation.pair)
            rows.append(Row(label, explanation.scores[:, members[0]], tokens[0].special, own))
    return rows


def token_label(tokens: Sequence[Token], place: int, text: str, pair: str | None) -> str:
    """A token as the user wrote it; "…" before it says that it goes on with the word before."""
    token = tokens[place]
    source = text if token.segment == 0 else pair or ""
    piece = source[token.start : token.end]
    if token.special or not piece:
        return visible(token.text)
    before = tokens[place - 1] if place else None
    goes_on = (
        before is not None and token.word is not None and (before.segment, before.word) == (token.segment, token.word)
    )
    return ("…" if goes_on else "") + (visible(piece.strip(" ")) or "␠" * len(piece)) + _unknown([token])


def _unknown(tokens: Iterable[Token]) -> str:
    """Says so where the model saw no more than "some word I do not know"."""
    return next((f" {token.text}" for token in tokens if not token.special and token.text in _UNKNOWN), "")


def strongest(rows: Sequence[Row], most: int | None) -> tuple[list[Row], str]:
    """The `most` strongest rows in their order (None: all), and a sentence about those left out."""
    if most is None or len(rows) <= most:
        return list(rows), ""
    special = [place for place, row in enumerate(rows) if row.special]
    always = special if len(special) <= 4 else []
    order = sorted(set(range(len(rows))) - set(always), key=lambda place: -rows[place].strength)
    kept = sorted([*always, *order[: most - len(always)]])
    bound = rows[order[most - len(always)]].strength
    return [rows[place] for place in kept], (
        f"{len(rows) - len(kept)} of {len(rows)} lines are not shown, none with a score above {number(bound)} in size; "
        "everything=True (--all-tokens) shows them"
    )


def number(value: float, largest: float | None = None, *, sign: bool = False) -> str:
    """A score with three significant digits of the largest beside it."""
    largest = abs(value) if largest is None else largest
    if value == 0 or largest == 0:
        return "0"
    decimals = max(2, 2 - math.floor(math.log10(largest)))
    if largest >= 1e6 or decimals > 7:
        return f"{value:{'+' if sign else ''}.2e}"
    shown = f"{value:{'+' if sign else ''}.{decimals}f}"
    return shown if float(shown) else shown.lstrip("+-")
