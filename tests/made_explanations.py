"""Explanations made by hand, for tests of what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whence.explanation import Cost, ExplainedTarget, Explanation, Layer, Meaning, ModelRecord, Prediction, Token
from whence.units import word_spans


def made(
    text: str,
    layers: Sequence[Layer] = ("embeddings",),
    scores: Any = None,
    *,
    signed: bool = True,
    pair: str | None = None,
    seed: int = 0,
    pieces: bool = False,
    **changes: Any,
) -> Explanation:
    """A token a word (two with `pieces`), [CLS] before and [SEP] after; scores drawn at random if not given."""
    tokens = [Token("[CLS]", 2, 0, 0, special=True)]
    for segment, source in enumerate([text] if pair is None else [text, pair]):
        for word, (start, end) in enumerate(word_spans(source)):
            middle = (start + end) // 2 if pieces and end - start > 3 else end
            spans = [(start, middle), (middle, end)] if middle < end else [(start, end)]
            tokens += [
                Token(("##" if first > start else "") + source[first:last], 9, first, last, segment, word=word)
                for first, last in spans
            ]
        tokens.append(Token("[SEP]", 3, len(source), len(source), segment, special=True))
    if scores is None:
        scores = np.random.default_rng(seed).uniform(-1 if signed else 0, 1, (len(layers), len(tokens)))
        scores[:, [token.special for token in tokens]] = 0
    explanation = Explanation(
        text=text,
        pair=pair,
        tokens=tuple(tokens),
        layers=tuple(layers),
        scores=np.array(scores, dtype=np.float32).reshape(len(layers), len(tokens)),
        meaning=Meaning("made up", "what it says", signed, additive=True, low=None if signed else 0.0),
        prediction=Prediction("good", 1, 0.75, {"good": 0.75, "bad": 0.25}),
        target=ExplainedTarget("good", "logit", 1.5),
        method="made_up",
        options={"steps": 25},
        model=ModelRecord("some/model", "abc123", "BertForSequenceClassification", "classification"),
        seed=11,
        cost=Cost(26, 25, 1.5),
    )
    return replace(explanation, **changes)
