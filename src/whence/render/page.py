"""Explanations as one page: each model, method and text once, and all that is drawn already worked out.

The page's scripts, in `pages/report`, only draw. Words are gathered, drops found and methods compared here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.errors import UsageError
from whence.explanation import Explanation, Layer, ModelRecord, Prediction, Unit, height
from whence.files import written
from whence.learned.diffmask.analyses import dropped_at
from whence.metrics.rank_correlation import kendall_tau
from whence.render.answer import answer_data
from whence.render.belief import Belief, board_says
from whence.render.glossary import words_for
from whence.render.lens_page import lens_data
from whence.render.responses import response_parts
from whence.render.rows import Piece, pieces_of, score_table, unquoted
from whence.render.segments import Place, answer_place, segment_names, tag_place
from whence.render.sentence import first_layer
from whence.render.shell import finite, packed, shell
from whence.render.visible import shortened, unseen, visible
from whence.render.wording import chosen_words, cost_words, model_name, range_words
from whence.units import sentence_spans

if TYPE_CHECKING:
    from jaxtyping import Float

    from whence.lens import Lens
    from whence.scoreboard.board import Scoreboard

SCHEMA = "whence.page/3"
TITLE = "Which words the decision rests on"
SCRIPTS = (
    "reading", "scores", "text", "long", "response", "comparison", "map", "lens", "list", "answer", "frame",
    "picture", "export", "report",
)  # fmt: skip
SHARED = ("lens/squares",)
_GLOSSARY = (
    "score", "method", "layer", "mainly", "other methods", "sampling", "adding up", "a board", "no colour",
    "probability", "logit", "log-probability", "baseline", "completeness error", "standard error", "sub-word",
    "special token", "random",
)  # fmt: skip
_LONGEST_LABEL = 400  # characters
_LONGEST_SNIPPET = 160
LONG = 60  # words; a longer text is read with a map of it, by sentences


def page(
    explanations: Sequence[Explanation],
    *,
    title: str = TITLE,
    lenses: Sequence[Lens] = (),
    board: Scoreboard | None = None,
) -> str:
    """The page of several explanations: texts down a list, the methods that explained the same text side by side.

    A lens stands below its text. What a board of the same model found of a method stands beside what that method says.

    >>> import whence
    >>> found = whence.explain(whence.load(), ["a witty film", "a dull film"], method="leave_one_out")
    >>> page(found).startswith("<!doctype html>")
    True
    """
    data = page_data(explanations, lenses, board)
    return shell("report", SCRIPTS, title, data, explanations[0].whence_version, shared=SHARED)


def page_of_results(results: Sequence[Any], path: str | Path | None = None) -> str:
    """The page of a list of explanations or comparisons, written to a path if one is given."""
    explanations = [each for result in results for each in getattr(result, "explanations", (result,))]
    if not all(isinstance(each, Explanation) for each in explanations):
        raise UsageError("these have a page each, and none together", "write them one by one: each.to_html(FILE)")
    return written(page(explanations), path)


def page_data(
    explanations: Sequence[Explanation], lenses: Sequence[Lens] = (), board: Scoreboard | None = None
) -> dict[str, Any]:
    """What the page holds: each model, method and text once, and a run for every explanation.

    An explanation joins the runs of its text; the same text explained twice in the same way, or in other units, or
    about the tag of another token, is a second entry. All strings but the texts and their tokens can be seen and steer
    nothing. Tables are column by column, which is half as long, and words are those of several tokens: what is one
    token has the scores of that token.
    """
    if not explanations:
        raise UsageError("there is nothing to show", "give at least one explanation; a lens has a page: lens.to_html()")
    models: dict[str, int] = {}
    methods: dict[str, int] = {}
    texts: list[_Text] = []
    alike: dict[tuple[Any, ...], list[_Text]] = {}
    for explanation in explanations:
        model = _number_of(models, _model(explanation.model))
        method = _number_of(methods, _method(explanation))
        same = alike.setdefault((explanation.text, explanation.pair, explanation.tokens, model), [])
        kind = _kind(explanation)
        entry = next((each for each in same if method not in each.methods and kind == _kind(each.shown)), None)
        if entry is None:
            entry = _Text(model)
            same.append(entry)
            texts.append(entry)
        entry.add(explanation, method)
    for lens in lenses:
        model = _number_of(models, _model(lens.model))
        mine = alike.get((lens.text, lens.pair, lens.tokens, model), [])
        if not mine:
            raise UsageError("a lens belongs to none of the explanations", "explain its text with the same model")
        for entry in mine:
            entry.lens = lens
    judged = board_says(board)
    return {
        "schema": SCHEMA,
        "models": [json.loads(model) for model in models],
        "methods": _labelled([json.loads(method) for method in methods]),
        "texts": _with_tags(texts, [text.data(judged) for text in texts]),
        "glossary": words_for(*_GLOSSARY),
    }


def _with_tags(texts: Sequence[_Text], data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each text with the tags that are explained of it: where they stand, and in which entry."""
    tagged: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for index, (text, entry) in enumerate(zip(texts, data, strict=True)):
        place = tag_place(text.shown)
        if place is not None:
            same = tagged.setdefault((text.model, text.shown.text, _units(text.shown)), [])
            same.append({**vars(place), "entry": index})
            entry["tags"] = same
    return data


class _Text:
    """A text of the page, with the explanations and the lens that belong to it."""

    def __init__(self, model: int) -> None:
        self.model = model
        self.methods: list[int] = []
        self.explanations: list[Explanation] = []
        self.lens: Lens | None = None

    def add(self, explanation: Explanation, method: int) -> None:
        self.methods.append(method)
        self.explanations.append(explanation)

    @property
    def shown(self) -> Explanation:
        """The first, which has what all of them share."""
        return self.explanations[0]

    def data(self, judged: Mapping[tuple[str, str], Belief]) -> dict[str, Any]:
        text, pair, tokens = self.shown.text, self.shown.pair, self.shown.tokens
        kind, units = _units(self.shown)
        words, pieces = (pieces_of(tokens, text, pair, words=each, units=units) for each in (True, False))
        several = [index for index, word in enumerate(words) if len(word.tokens) > 1]
        tables = [score_table(explanation, words) for explanation in self.explanations]
        steps = _steps(self.explanations)
        found = _correlations(tables, words, steps)
        answers, together = answer_data(
            self.explanations, words, tables, [at for _, at in steps], found[0], kind, judged
        )
        first = found[0][np.isfinite(found[0])]
        sources = [text] if pair is None else [text, pair]
        return {
            "text": text,
            "pair": pair,
            "names": segment_names(self.shown.model.task),
            "answer": _place(answer_place(self.shown)),
            "tags": None,
            "sentences": _sentences(sources) if len(words) > LONG else None,
            "unseen": [unseen(source) for source in sources],
            "snippet": shortened(" / ".join(sources), _LONGEST_SNIPPET),
            "model": self.model,
            "tokens": {
                "text": [token.text for token in tokens],
                "label": [shortened(piece.label, _LONGEST_LABEL) for piece in pieces],
                "start": [token.start for token in tokens],
                "end": [token.end for token in tokens],
                "segment": [token.segment for token in tokens],
                "special": [int(token.special) for token in tokens],
                "word": [token.word for token in tokens],
            },
            "unit": kind,
            "words": {
                "label": [shortened(words[index].label, _LONGEST_LABEL) for index in several],
                "start": [words[index].start for index in several],
                "end": [words[index].end for index in several],
                "segment": [words[index].segment for index in several],
                "tokens": [list(words[index].tokens) for index in several],
                "special": [int(words[index].special) for index in several],
            },
            "response": _response(self.shown),
            "prediction": _prediction(self.shown.prediction, self.shown.model.task),
            "runs": [
                {**_run(explanation, method, table[:, several], [words[index] for index in several]), **answer}
                for explanation, method, table, answer in zip(
                    self.explanations, self.methods, tables, answers, strict=True
                )
            ],
            "consensus": together,
            "steps": [{"layer": layer, "at": at} for layer, at in steps],
            "correlations": packed(found),
            "disagreement": 1 - float(first.mean()) if len(first) else None,
            "lens": None if self.lens is None else lens_data(self.lens),
        }


def _kind(shown: Explanation) -> tuple[Any, ...]:
    """What must be the same for methods to stand side by side: the units, and the token whose tag is explained."""
    return (*_units(shown), tag_place(shown))


def _units(shown: Explanation) -> tuple[str, Sequence[Unit] | None]:
    """What the pieces of a text are called, and which they are if they are not words."""
    return ("word", None) if shown.units is None else (visible(shown.units.kind), shown.units.units)


def _number_of(seen: dict[str, int], record: Mapping[str, Any]) -> int:
    return seen.setdefault(json.dumps(record), len(seen))


def _model(model: ModelRecord) -> dict[str, str | None]:
    """The record; a model from a folder goes by the folder's name, since whose folder it was is nobody's business."""
    record = {**vars(model), "id": model_name(model.id)}
    return {name: None if value is None else visible(value) for name, value in record.items()}


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else vars(place)


def _sentences(sources: Sequence[str]) -> list[tuple[int, int, int]]:
    """Start, end and segment of every sentence."""
    return [(*span, segment) for segment, source in enumerate(sources) for span in sentence_spans(source)]


def _method(explanation: Explanation) -> dict[str, Any]:
    meaning = explanation.meaning
    return {
        "name": shortened(explanation.method, _LONGEST_LABEL),
        "options": chosen_words(explanation.options),
        "seed": explanation.seed,
        "layers": list(explanation.layers),
        "meaning": {
            "name": visible(meaning.name),
            "sentence": visible(meaning.sentence),
            "range": range_words(meaning),
            "signed": meaning.signed,
            "additive": meaning.additive,
            "keepProbability": meaning.keep_probability,
        },
    }


def _labelled(methods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Methods with a label each: the name, and where several share it a number too."""
    seen: dict[str, int] = {}
    for method in methods:
        name = method["name"]
        seen[name] = seen.get(name, 0) + 1
        method["label"] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return methods


def _steps(explanations: Sequence[Explanation]) -> list[tuple[Layer | None, list[int]]]:
    """What can be shown beside each other: at first, then at every layer, the index of each method's layer.

    One begins to read at the layer nearest the input; with keep probabilities at the last, where all is settled. A
    method that has not the layer asked for stands with its nearest.
    """
    start = [first_layer(each) for each in explanations]
    layers = sorted({layer for each in explanations for layer in each.layers}, key=height)
    return [(None, start), *((layer, [_nearest(each.layers, layer) for each in explanations]) for layer in layers)]


def _nearest(layers: Sequence[Layer], wanted: Layer) -> int:
    return min(range(len(layers)), key=lambda index: abs(height(layers[index]) - height(wanted)))


def _correlations(
    tables: Sequence[Float[np.ndarray, "layer piece"]],
    words: Sequence[Piece],
    steps: Sequence[tuple[Layer | None, list[int]]],
) -> Float[np.ndarray, "step pair"]:
    """At each step τ-b between the sizes of the words' scores, of every two methods; NaN where undefined."""
    pairs = list(combinations(range(len(tables)), 2))
    own = [index for index, piece in enumerate(words) if not piece.special]
    if not pairs or not own:
        return np.full((len(steps), len(pairs)), np.nan)
    sizes = np.abs(np.concatenate(tables)[:, own])
    taus = kendall_tau(sizes, sizes)
    first = np.cumsum([0, *(len(table) for table in tables)])
    found = [[taus[first[one] + at[one], first[other] + at[other]] for one, other in pairs] for _, at in steps]
    return np.array(found)


def _prediction(prediction: Prediction, task: str) -> dict[str, Any]:
    chances = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    plain = {label: unquoted(label) for label in prediction.probabilities}
    if task not in ("causal_lm", "masked_lm") or len(set(plain.values())) < len(plain):
        plain = {label: label for label in plain}  # of tokens that differ by a space alone both keep their quotes
    return {
        "label": shortened(prediction.label, 300),
        "probability": finite(prediction.probability),
        "probabilities": [
            [shortened(plain[label], 80), finite(chance), label == prediction.label] for label, chance in chances
        ],
    }


def _run(
    explanation: Explanation, method: int, gathered: Float[np.ndarray, "layer word"], words: Sequence[Piece]
) -> dict[str, Any]:
    errors, missing, target = explanation.standard_errors, explanation.completeness_errors, explanation.target
    of_units = None if explanation.units is None else explanation.units.standard_errors
    return {
        "method": method,
        "scores": {"tokens": packed(explanation.scores), "words": packed(gathered)},
        "errors": None if errors is None else packed(errors),
        "unitErrors": None if of_units is None else packed(of_units[:, [piece.word or 0 for piece in words]]),
        "drops": _drops(explanation, words) if explanation.meaning.keep_probability else None,
        "completeness": None if missing is None else [finite(error) for error in missing],
        "target": {
            "words": f"{target.scale.replace('_', ' ')} of {shortened(target.description, 300)}",
            "value": finite(target.value),
        },
        "outputs": _outputs(explanation),
        "cost": cost_words(explanation.cost),
        "warnings": [visible(warning) for warning in explanation.warnings],
        "notes": [visible(note) for note in explanation.notes],
    }


def _response(shown: Explanation) -> dict[str, Any] | None:
    """The words and sentences of a response, with their tokens' positions."""
    if shown.response is None:
        return None
    parts = {"words": response_parts(shown, "word"), "sentences": response_parts(shown, "sentence")}
    return {
        kind: [{"start": part.start, "end": part.end, "tokens": list(part.tokens)} for part in found]
        for kind, found in parts.items()
    }


def _outputs(explanation: Explanation) -> dict[str, Any] | None:
    """What each token of a response rests on, where that is told."""
    if explanation.outputs is None:
        return None
    return {
        "positions": list(explanation.outputs.positions),
        "values": [finite(value) for value in explanation.outputs.values],
        "scale": explanation.target.scale,
        "scores": packed(explanation.outputs.scores),
    }


def _drops(explanation: Explanation, words: Sequence[Piece]) -> dict[str, list[int]]:
    """The index of the layer that drops each piece, one past the last if none does; a word goes with its last token."""
    layers = explanation.layers
    tokens = [len(layers) if layer is None else layers.index(layer) for layer in dropped_at(explanation)]
    return {"tokens": tokens, "words": [max(tokens[position] for position in piece.tokens) for piece in words]}
