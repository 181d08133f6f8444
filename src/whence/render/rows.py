"""The lines of every picture: words, other units or tokens in the order of the text, with a score per layer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.explanation import Explanation, Token, Unit, units_of_tokens
from whence.render.visible import visible

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_ROWS = 40
_UNKNOWN = ("[UNK]", "<unk>", "<|unk|>")
MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t"})  # how tokenizers write what cannot be seen


@dataclass(frozen=True)
class Piece:
    """A word, another unit or a token: how it is shown, its characters in the user's text, and its tokens' positions.

    `word` numbers words (of their segment) and units; of a token it is None.
    """

    label: str
    start: int
    end: int
    segment: int
    special: bool
    tokens: tuple[int, ...]
    word: int | None


@dataclass(frozen=True)
class Row:
    """A line of a picture: a word, a unit or a token, its scores and (if known) standard errors, one per layer."""

    label: str
    scores: Float[np.ndarray, " layer"]
    special: bool = False
    errors: Float[np.ndarray, " layer"] | None = None

    @property
    def strength(self) -> float:
        return float(np.abs(self.scores).max())


def pieces_of(
    tokens: Sequence[Token], text: str, pair: str | None, *, words: bool, units: Sequence[Unit] | None = None
) -> list[Piece]:
    """The pieces of a text in its order: tokens, or if asked words (or units) in place of their tokens."""
    if units is None:
        group = {i: token.word for i, token in enumerate(tokens) if token.word is not None and not token.special}
    else:
        group = {position: number for number, unit in enumerate(units) for position in unit.tokens}
    members: dict[tuple[int, int], list[int]] = {}
    for position, token in enumerate(tokens):
        alone = not words or position not in group
        members.setdefault((-1, position) if alone else (token.segment, group[position]), []).append(position)
    if words:
        members = _with_runs(members, tokens)
    found = units_of_tokens(tokens, list(members.values()), text, pair)
    pieces = []
    for ((segment, word), positions), unit in zip(members.items(), found, strict=True):
        first = tokens[positions[0]]
        if segment < 0 and len(positions) == 1:
            label = token_label(tokens, positions[0], text, pair)
        elif segment < 0:
            label = blanks_shown(text[first.start : tokens[positions[-1]].end])  # of a template, blanks and all
        else:
            source = text if segment == 0 else pair or ""
            label = visible(source[unit.start : unit.end]) + _unknown(tokens[i] for i in positions)
        number = None if segment < 0 else word
        special = first.special and segment < 0
        pieces.append(Piece(label, unit.start, unit.end, unit.segment, special, unit.tokens, number))
    return pieces


def _with_runs(
    members: Mapping[tuple[int, int], list[int]], tokens: Sequence[Token]
) -> dict[tuple[int, int], list[int]]:
    """With the tokens of a template that stand side by side as one piece: those with characters, yet special."""
    found: dict[tuple[int, int], list[int]] = {}
    before: list[int] = []
    for key, positions in members.items():
        token = tokens[positions[0]]
        template = key[0] < 0 and token.special and token.segment == 0 and token.end > token.start
        if template and before and before[-1] == positions[0] - 1:
            before.append(positions[0])
            continue
        found[key] = own = list(positions)
        before = own if template else []
    return found


def score_table(explanation: Explanation, pieces: Sequence[Piece]) -> Float[np.ndarray, "layer piece"]:
    """The scores of pieces at every layer: of a token its own, of a word or unit what `Explanation.gathered` says."""
    table: Float[np.ndarray, "layer piece"] = explanation.scores[:, [piece.tokens[0] for piece in pieces]].astype(float)
    for i, piece in enumerate(pieces):
        if piece.word is None and len(piece.tokens) > 1:
            table[:, i] = [explanation.meaning.gathered(row[list(piece.tokens)]) for row in explanation.scores]
    words = sorted((piece.segment, piece.word, i) for i, piece in enumerate(pieces) if piece.word is not None)
    if words:
        columns = [i for _, _, i in words]
        for row, layer in zip(table, explanation.layers, strict=True):
            row[columns] = [word.score for word in explanation.gathered(layer)]
    return table


def rows_of(explanation: Explanation, *, words: bool) -> list[Row]:
    """The lines of a picture in the order of the text; in place of a word's or unit's tokens that, if asked."""
    units = None if explanation.units is None else explanation.units.units
    pieces = pieces_of(explanation.tokens, explanation.text, explanation.pair, words=words, units=units)
    if explanation.response is not None:  # what is explained is no line of its own, and blanks between units are none
        pieces = [
            piece
            for piece in pieces
            if piece.segment == 0 and (piece.special or not words or explanation.text[piece.start : piece.end].strip())
        ]
    return [
        Row(piece.label, scores, piece.special, _errors(explanation, piece))
        for piece, scores in zip(pieces, score_table(explanation, pieces).T, strict=True)
    ]


def _errors(explanation: Explanation, piece: Piece) -> Float[np.ndarray, " layer"] | None:
    """The standard errors of a unit or of a token; those of a word's tokens do not tell the word's."""
    if explanation.units is not None and piece.word is not None:
        errors = explanation.units.standard_errors
        return None if errors is None else errors[:, piece.word]
    errors = explanation.standard_errors
    return errors[:, piece.tokens[0]] if errors is not None and len(piece.tokens) == 1 else None


def token_label(tokens: Sequence[Token], position: int, text: str, pair: str | None) -> str:
    """A token as the user wrote it; "…" before it says that it goes on with the word before."""
    token = tokens[position]
    piece = (text if token.segment == 0 else pair or "")[token.start : token.end]
    if not piece:  # the tokenizer added it
        return visible(token.text) if token.special else blanks_shown(token.text.translate(MARKS))
    before = tokens[position - 1] if position else None
    goes_on = (
        before is not None and token.word is not None and (before.segment, before.word) == (token.segment, token.word)
    )
    return ("…" if goes_on else "") + blanks_shown(piece) + _unknown([token])


def blanks_shown(text: str) -> str:
    """Made safe to show; blanks around a text are left out, a text of blanks is not."""
    return visible(text.strip(" ")) or "␣" * len(text)


def unquoted(label: str) -> str:
    """What a language model says, as it is read: without the quotes that show a token's space.

    >>> unquoted('" Paris"'), unquoted('"')
    ('Paris', '"')
    """
    quoted = len(label) > 2 and label[0] == label[-1] == '"'
    return blanks_shown(label[1:-1] if quoted else label)


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
