"""Citations as one page, drawn by the script in `pages/citations`: the answer on top, its sources below."""

from __future__ import annotations

from typing import Any

from whence.citing.citations import Citations
from whence.render.citations import rule_words
from whence.render.glossary import words_for
from whence.render.shell import finite, shell
from whence.render.visible import visible
from whence.render.wording import cost_words, model_words, options_words, running

SCHEMA = "whence.citations_page/1"
_INTERVAL = (
    "where the score would lie in 95 of 100 cases if other sets of sources had been tried; it is exact where all of "
    "them were"
)
_SCORE = "what a source adds to a sentence of the answer, above zero; below zero it makes the sentence less likely"


def citations_page(citations: Citations) -> str:
    """One self-contained file."""
    return shell("citations", ("citations",), "What the answer rests on", page_data(citations))


def page_data(citations: Citations) -> dict[str, Any]:
    """What the page holds, as plain JSON types; all text in it can be seen and steers nothing."""
    return {
        "schema": SCHEMA,
        "question": visible(citations.question),
        "answer": _pieces(citations),
        "written": citations.written,
        "documents": [visible(name) for name in citations.documents],
        "sources": [
            {"text": running(source.text), "document": list(citations.documents).index(source.document)}
            for source in citations.sources
        ],
        "sentences": [
            {
                "chance": finite(sentence.log_probability, 4),
                "cited": None if sentence.cited is None else list(sentence.cited),
                "shown": [each.source for each in sentence.shown],
                "ranked": [
                    [each.source, finite(each.score, 4), finite(each.low, 4), finite(each.high, 4)]
                    for each in sentence.ranked
                ],
            }
            for sentence in citations.sentences
        ],
        "least": finite(citations.least, 4),
        "rule": rule_words(citations),
        "warnings": [visible(warning) for warning in citations.warnings],
        "facts": [
            ["method", f"{citations.method}: {citations.meaning}"],
            ["options", options_words(citations.options)],
            ["model", model_words(citations.model)],
            ["cost", f"{cost_words(citations.cost)}, seed {citations.seed}"],
            ["answer", "written by the model" if citations.written else "given"],
        ],
        "glossary": {**words_for("odds"), "interval": _INTERVAL, "score": _SCORE},
    }


def _pieces(citations: Citations) -> list[list[Any]]:
    """The answer in pieces: each a text and the number of its sentence, or null for what stands between."""
    pieces: list[list[Any]] = []
    end = 0
    for number, sentence in enumerate(citations.sentences):
        pieces.append([running(citations.answer[end : sentence.start]), None])
        pieces.append([running(citations.text_of(sentence)), number])
        end = sentence.end
    pieces.append([running(citations.answer[end:]), None])
    return [piece for piece in pieces if piece[0]]
