"""The lines of every picture: words or tokens in the order of the text, with a score per layer."""

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
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t"})  # how tokenizers write what cannot be seen


@dataclass(frozen=True)
class Piece:
    """A word or a token: how it is shown, its characters in the user's text, and the positions of its tokens."""

    label: str
    start: int
    end: int
    segment: int
    special: bool
    tokens: tuple[int, ...]
    word: int | None


@dataclass(frozen=True)
class Row:
    """A line of a picture: a word or a token, its scores and (if it is one token) standard errors, one per layer."""

    label: str
    scores: Float[np.ndarray, " layer"]
    special: bool = False
    errors: Float[np.ndarray, " layer"] | None = None

    @property
    def strength(self) -> float:
        return float(np.abs(self.scores).max())


def pieces_of(tokens: Sequence[Token], text: str, pair: str | None, *, words: bool) -> list[Piece]:
    """The pieces of a text in its order: tokens, or if asked words in place of the tokens they were cut into."""
    members: dict[tuple[int, int], list[int]] = {}
    for position, token in enumerate(tokens):
        alone = not words or token.special or token.word is None
        members.setdefault((-1, position) if alone else (token.segment, token.word or 0), []).append(position)
    pieces = []
    for (segment, word), positions in members.items():
        first = tokens[positions[0]]
        source = text if first.segment == 0 else pair or ""
        start, end = min(tokens[i].start for i in positions), max(tokens[i].end for i in positions)
        while start < end and source[start : start + 1].isspace():
            start += 1
        if segment < 0:
            label = token_label(tokens, positions[0], text, pair)
            pieces.append(Piece(label, start, end, first.segment, first.special, tuple(positions), None))
        else:
            label = visible(source[start:end]) + _unknown(tokens[i] for i in positions)
            pieces.append(Piece(label, start, end, segment, False, tuple(positions), word))
    return pieces


def score_table(explanation: Explanation, pieces: Sequence[Piece]) -> Float[np.ndarray, "layer piece"]:
    """The scores of pieces at every layer: of a token its own, of a word what `Explanation.words` gathers."""
    table: Float[np.ndarray, "layer piece"] = explanation.scores[:, [piece.tokens[0] for piece in pieces]].astype(float)
    words = sorted((piece.segment, piece.word, i) for i, piece in enumerate(pieces) if piece.word is not None)
    if words:
        columns = [i for _, _, i in words]
        for row, layer in zip(table, explanation.layers, strict=True):
            row[columns] = [word.score for word in explanation.words(layer)]
    return table


def rows_of(explanation: Explanation, *, words: bool) -> list[Row]:
    """The lines of a picture in the order of the text; in place of a word's tokens the word, if asked."""
    pieces = pieces_of(explanation.tokens, explanation.text, explanation.pair, words=words)
    errors = explanation.standard_errors
    return [
        Row(
            piece.label,
            scores,
            piece.special,
            errors[:, piece.tokens[0]] if errors is not None and len(piece.tokens) == 1 else None,
        )
        for piece, scores in zip(pieces, score_table(explanation, pieces).T, strict=True)
    ]


def token_label(tokens: Sequence[Token], position: int, text: str, pair: str | None) -> str:
    """A token as the user wrote it; "…" before it says that it goes on with the word before."""
    token = tokens[position]
    piece = (text if token.segment == 0 else pair or "")[token.start : token.end]
    if token.special:
        return visible(token.text)
    if not piece:
        return blanks_shown(token.text.translate(_MARKS))
    before = tokens[position - 1] if position else None
    goes_on = (
        before is not None and token.word is not None and (before.segment, before.word) == (token.segment, token.word)
    )
    return ("…" if goes_on else "") + blanks_shown(piece) + _unknown([token])


def blanks_shown(text: str) -> str:
    """Made safe to show; blanks around a text are left out, a text of blanks is not."""
    return visible(text.strip(" ")) or "␣" * len(text)


def _unknown(tokens: Iterable[Token]) -> str:
    """Says so where the model saw no more than "some word I do not know"."""
    return next((f" {token.text}" for token in tokens if not token.special and token.text in _UNKNOWN), "")


def strongest(rows: Sequence[Row], most: int | None) -> tuple[list[Row], str]:
    """The `most` strongest rows in their order (None: all), and a sentence about those left out."""
    if most is None or len(rows) <= most:
        return list(rows), ""
    special = [index for index, row in enumerate(rows) if row.special]
    always = special if len(special) <= 4 else []
    order = sorted(set(range(len(rows))) - set(always), key=lambda index: -rows[index].strength)
    kept = sorted([*always, *order[: most - len(always)]])
    bound = rows[order[most - len(always)]].strength
    return [rows[index] for index in kept], (
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
