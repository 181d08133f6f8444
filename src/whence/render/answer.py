"""What the page says of a text before any number: a sentence for each method, how far to believe it, and what the
methods say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.explanation import Explanation
from whence.render.belief import Belief, adding_up, embedded_board_says, of_such_a_text, other_methods, sampling
from whence.render.consensus import consensus_of
from whence.render.responses import Kind, response_parts
from whence.render.rows import Piece
from whence.render.scale import scale_words
from whence.render.sentence import first_layer, sentence_of, sentence_of_part

if TYPE_CHECKING:
    from jaxtyping import Float


def answer_data(
    explanations: Sequence[Explanation],
    words: Sequence[Piece],
    tables: Sequence[Float[np.ndarray, "layer piece"]],
    steps: Sequence[Sequence[int]],
    taus: Float[np.ndarray, " pair"],
    kind: str,
    judged: Mapping[tuple[str, str], Belief],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """For each run its sentence, belief and scale; and, of several methods, their consensus at every step.

    `tables` are the scores of all pieces, `steps` the index of each method's layer at each step, and `taus` the rank
    correlations of every two methods at the first; `judged` is what a board found, in place of an embedded model's own.
    """
    own = sorted(
        (index for index, piece in enumerate(words) if piece.word is not None),
        key=lambda index: (words[index].segment, words[index].word),
    )
    labels = [words[index].label for index in own]
    told = [number for number, each in enumerate(explanations) if each.method != "random"]
    signed = [explanations[number].meaning.signed for number in told]
    shares = [_shares([tables[number][at[number], own] for number in told]) for at in steps]
    between = np.full((len(explanations), len(explanations)), np.nan)
    for (one, other), tau in zip(combinations(range(len(explanations)), 2), taus, strict=True):
        between[one, other] = between[other, one] = tau
    found = []
    for number, explanation in enumerate(explanations):
        sentence = sentence_of(explanation)
        beliefs = [
            sampling(explanation, words, sentence.reasons),
            adding_up(explanation),
            of_such_a_text(
                judged.get((explanation.model.id, explanation.method)) or embedded_board_says(explanation), explanation
            ),
        ]
        if number in told and len(told) > 1:
            others = between[number, [other for other in told if other != number]]
            mine = told.index(number)
            beliefs.insert(0, other_methods(mine, others, shares[0], signed, sentence.reasons, labels))
        found.append(
            {
                "sentence": sentence.parts,
                "belief": [vars(each) for each in beliefs if each is not None],
                "scale": scale_words(explanation),
                "parts": part_sentences(explanation, words),
            }
        )
    if len(told) < 2 or len(own) < 2:
        return found, None
    together = [consensus_of(each, signed, labels, kind) for each in shares]
    return found, [
        {"parts": each.parts, "contradicted": [own[index] for index in each.contradicted]} for each in together
    ]


def _shares(rows: Sequence[Float[np.ndarray, " word"]]) -> Float[np.ndarray, "method word"]:
    """Each method's scores as shares of its largest."""
    table = np.array(rows, dtype=float).reshape(len(rows), len(rows[0]) if rows else 0)
    largest = np.abs(table).max(axis=1, keepdims=True, initial=0.0)
    shares: Float[np.ndarray, "method word"] = table / np.where(largest, largest, 1)
    return shares


def part_sentences(explanation: Explanation, words: Sequence[Piece]) -> dict[str, list[Any]] | None:
    """What each word and sentence of a response rests on, in words; None for one that was not asked about."""
    outputs = explanation.outputs
    if explanation.response is None or outputs is None:
        return None
    prompt = [piece for piece in words if piece.segment == 0 and piece.word is not None]
    labels = [piece.label for piece in prompt]
    gathered, layer = explanation.meaning.gathered, first_layer(explanation)
    by_output = np.array(
        [[gathered(row[list(piece.tokens)]) for piece in prompt] for row in outputs.scores[:, layer]], dtype=float
    ).reshape(len(outputs.positions), len(prompt))
    kinds: tuple[Kind, Kind] = ("word", "sentence")
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        sentences: list[Any] = []
        for part in response_parts(explanation, kind):
            rows = by_output[[at for at, position in enumerate(outputs.positions) if position in part.tokens]]
            scores = np.array([gathered(column) for column in rows.T]) if len(rows) else None
            said = explanation.response[part.start : part.end]
            sentences.append(None if scores is None else sentence_of_part(explanation, labels, scores, said).parts)
        found[f"{kind}s"] = sentences
    return found
