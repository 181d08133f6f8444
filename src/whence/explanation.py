"""The one result: scores of tokens at layers, with what was explained, how, with what and at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whence.columns import Columns
from whence.errors import UnknownNameError, UsageError
from whence.files import written
from whence.results import Shown
from whence.tokens import Token as Token
from whence.tokens import Tokens
from whence.units import word_of, word_spans

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float
    from matplotlib.axes import Axes
    from rich.console import Console, ConsoleOptions, RenderResult

Layer = int | str
"""A layer: `0` is the embedding output, `l` the output of block l, "embeddings" the word embeddings below layer 0.

Those of an encoder–decoder are called "encoder 0", "encoder 1", … and, above them, "decoder 1", "decoder 2", …
"""


_HIGHER = 100_000  # than any layer of an encoder


def height(layer: Layer) -> int:
    """A number by which layers are sorted, the lowest first; an encoder–decoder's decoder stands on its encoder."""
    if isinstance(layer, int):
        return layer
    stack, _, number = layer.partition(" ")
    return -1 if stack == "embeddings" else int(number) + _HIGHER * (stack == "decoder")


def layer_of_file(name: Any) -> Any:
    """A layer as a file names it: "embeddings" was called "words" before."""
    return "embeddings" if name == "words" else name


Scale = Literal["logit", "probability", "log_probability"]
"""In which unit a target is measured."""


@dataclass(frozen=True)
class Word:
    """A word of the user's text with its score at one layer."""

    text: str
    start: int
    end: int
    segment: int
    score: float


@dataclass(frozen=True)
class Unit:
    """What is scored as a whole: characters of the text (segment 1: of its pair), and the positions of its tokens."""

    start: int
    end: int
    segment: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class UnitScores:
    """The scores of units larger than tokens, at the layers of an explanation; `kind` says which units they are.

    A unit has the sum of its tokens' scores, or the strongest where scores do not add up. Where it was taken away as a
    whole, its tokens share its score evenly. Its standard error is the sum of theirs, which is no less than its own.
    """

    kind: str
    units: Sequence[Unit]
    scores: Float[np.ndarray, "layer unit"]
    standard_errors: Float[np.ndarray, "layer unit"] | None = None


@dataclass(frozen=True, eq=False)
class OutputScores:
    """The scores of the tokens of a response one by one: `scores[k, i, j]` is what the k-th of them owes to token j at
    layer i, and `values[k]` the number explained, such as its log-probability. `positions` are those of the tokens."""

    positions: tuple[int, ...]
    values: tuple[float, ...]
    scores: Float[np.ndarray, "output layer token"]


@dataclass(frozen=True)
class Meaning:
    """What a score says, whether its sign matters, whether tokens' scores add up, and its bounds (None: unbounded).

    A `keep_probability` is the probability that the token must be kept: below one half the token is dropped. `decoded`
    scores of states were carried back to the words of the text by a language-model head.
    """

    name: str
    sentence: str
    signed: bool
    additive: bool
    low: float | None = None
    high: float | None = None
    keep_probability: bool = False
    decoded: bool = False

    def gathered(self, scores: Sequence[float] | Float[np.ndarray, " token"]) -> float:
        """The score of several tokens together: their sum, or the strongest of them where scores do not add up."""
        return float(sum(map(float, scores)) if self.additive else max(scores, key=abs))


@dataclass(frozen=True)
class Prediction:
    """What the model said about the whole text: the winning label and the probabilities of the first ten.

    A model that gives a plain number has no probability; its number is the label.
    """

    label: str
    index: int
    probability: float | None
    probabilities: Mapping[str, float]

    def __str__(self) -> str:
        return self.label if self.probability is None else f"{self.label} ({self.probability:.1%})"


@dataclass(frozen=True)
class ExplainedTarget:
    """The number that was explained, in words, and its value on the whole text."""

    description: str
    scale: Scale
    value: float

    def __str__(self) -> str:
        return f"{self.scale.replace('_', ' ')} of {self.description} = {self.value:.3f}"


@dataclass(frozen=True)
class ModelRecord:
    """Which model was explained; `embedded` is its name among the models that ship with whence, if it is one."""

    id: str
    revision: str | None
    architecture: str
    task: str
    embedded: str | None = None


@dataclass(frozen=True)
class Cost:
    """Passes of this text through the model (a pass resumed at a layer counts as one), and its share of the time."""

    forwards: int
    backwards: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Explanation(Shown):
    """Scores of tokens at layers, and everything needed to read and repeat them.

    `scores[i, j]` is the score of `tokens[j]` at `layers[i]`. `standard_errors` has the same shape where a method
    samples; `completeness_errors` has one number per layer where a method promises that scores add up. `warnings` are
    reasons to doubt the scores, `notes` are not: they say, for instance, that sampled numbers happen to be exact.
    `units` holds the scores of words, sentences or other units, where those were asked for.

    Of a response (`pair`, whose tokens are special and come last), `scores` are those of all that was asked about
    together; `outputs` holds them for each of its tokens, and `part` gives the explanation of some words of it.

    >>> import whence
    >>> explanation = whence.explain(whence.load(), "a gorgeous, witty film", method="gradient_x_input")
    >>> explanation.prediction.label
    'positive'
    >>> explanation.scores.shape == (len(explanation.layers), len(explanation.tokens))
    True
    """

    text: str
    pair: str | None
    tokens: Sequence[Token]
    layers: tuple[Layer, ...]
    scores: Float[np.ndarray, "layer token"]
    meaning: Meaning
    prediction: Prediction
    target: ExplainedTarget
    method: str
    options: Mapping[str, Any]
    model: ModelRecord
    seed: int
    cost: Cost
    warnings: tuple[str, ...] = ()
    standard_errors: Float[np.ndarray, "layer token"] | None = None
    completeness_errors: tuple[float, ...] | None = None
    whence_version: str = field(default="")
    notes: tuple[str, ...] = ()
    units: UnitScores | None = None
    outputs: OutputScores | None = None

    @classmethod
    def from_scores(
        cls,
        text: str,
        tokens: Sequence[str | Token],
        scores: Sequence[float] | Float[np.ndarray, " token"] | Float[np.ndarray, "layer token"],
        *,
        pair: str | None = None,
        method: str = "outside",
        layers: Sequence[Layer] = ("embeddings",),
        meaning: Meaning | None = None,
        prediction: Prediction | None = None,
        model: ModelRecord | None = None,
        cost: Cost | None = None,
    ) -> Explanation:
        """Scores from elsewhere (your own method, another library, people) as an explanation, to show and to judge.

        >>> e = Explanation.from_scores("an unhappy film", ["an", "un", "##happy", "film"], [0, 0.4, 0.5, 0.1])
        >>> [(word.text, round(word.score, 2)) for word in e.words()]
        [('an', 0.0), ('unhappy', 0.9), ('film', 0.1)]

        Args:
            tokens: pieces of the text in order, as strings (marks of sub-words such as ## are looked through; what is
                not in the text, such as [CLS], is special) or as tokens.
            scores: one per token, or a row per layer.
            meaning: what a score says; by default something signed that adds up.
        """
        table = np.array(scores, dtype=np.float32).reshape(-1, len(tokens) if len(tokens) else 1)
        if table.shape != (len(layers), len(tokens)) or not len(tokens):
            raise UsageError(
                f"{np.size(scores)} scores do not fit {len(tokens)} tokens at {len(layers)} layers", "give one each"
            )
        if not np.isfinite(table).all():
            raise UsageError("some scores are not finite numbers", "look for NaN in the scores")
        table.setflags(write=False)
        return cls(
            text=text,
            pair=pair,
            tokens=_located(text, pair, tokens),
            layers=tuple(layers),
            scores=table,
            meaning=meaning or Meaning("score", "what its maker says", signed=True, additive=True),
            prediction=prediction or Prediction("unknown", 0, None, {}),
            target=ExplainedTarget("unknown" if prediction is None else prediction.label, "logit", 0.0),
            method=method,
            options={},
            model=model or ModelRecord("unknown", None, "unknown", "unknown"),
            seed=0,
            cost=cost or Cost(0, 0, 0.0),
        )

    @property
    def response(self) -> str | None:
        """What the model wrote after the text, where that is what was explained."""
        return self.pair if self.model.task == "response" else None

    def part(self, words: str | tuple[int, int]) -> Explanation:
        """What some words of the response rest on: given as they stand there, or by their first and last character.

        The scores of their tokens are gathered: added up, or the strongest where scores do not add up.
        """
        if self.outputs is None:
            raise UsageError(
                "the tokens of a response were not told apart here", "explain a response by a method that tells them"
            )
        response = self.pair or ""
        start, end = (response.find(words), response.find(words) + len(words)) if isinstance(words, str) else words
        tokens = [self.tokens[position] for position in self.outputs.positions]
        chosen = [k for k, token in enumerate(tokens) if token.start < end and start < token.end]
        if start < 0 or not chosen:
            raise UsageError(f"{words!r} is not in what was explained of the response", "give words that stand there")
        gather = self.meaning.gathered
        scores = np.apply_along_axis(gather, 0, self.outputs.scores[chosen]).astype(np.float32)
        scores.setflags(write=False)
        units = self.units
        if units is not None:
            table = np.array([[gather(row[list(unit.tokens)]) for unit in units.units] for row in scores], np.float32)
            table.setflags(write=False)
            units = UnitScores(units.kind, units.units, table)
        values = tuple(self.outputs.values[k] for k in chosen)
        whole = float(np.prod(values)) if self.target.scale == "probability" else sum(values)
        return replace(
            self,
            scores=scores,
            units=units,
            target=ExplainedTarget(response[start:end].strip(), self.target.scale, whole),
            standard_errors=None,
            completeness_errors=None,
            outputs=OutputScores(tuple(self.outputs.positions[k] for k in chosen), values, self.outputs.scores[chosen]),
        )

    def row(self, layer: Layer | None = None) -> Float[np.ndarray, " token"]:
        """The scores of all tokens at one layer; by default the layer nearest the input."""
        row: Float[np.ndarray, " token"] = self.scores[self._index(layer)]
        return row

    def _index(self, layer: Layer | None) -> int:
        if layer is not None and layer not in self.layers:
            raise UnknownNameError("layer", layer, self.layers)
        return 0 if layer is None else self.layers.index(layer)

    def words(self, layer: Layer | None = None) -> list[Word]:
        """The words of the text in order, each with the sum (scores that add up) or the strongest of its tokens'."""
        row = self.row(layer)
        members: dict[tuple[int, int], list[int]] = {}
        for index, token in enumerate(self.tokens):
            if token.word is not None and not token.special:
                members.setdefault((token.segment, token.word), []).append(index)
        units = units_of_tokens(self.tokens, [members[key] for key in sorted(members)], self.text, self.pair)
        return [self._scored(unit, self.meaning.gathered(row[list(unit.tokens)])) for unit in units]

    def gathered(self, layer: Layer | None = None) -> list[Word]:
        """The units that were asked for, in order, each with its score; words where no others were."""
        if self.units is None:
            return self.words(layer)
        row = self.units.scores[self._index(layer)]
        return [self._scored(unit, float(score)) for unit, score in zip(self.units.units, row, strict=True)]

    def _scored(self, unit: Unit, score: float) -> Word:
        source = self.text if unit.segment == 0 else self.pair or ""
        return Word(source[unit.start : unit.end], unit.start, unit.end, unit.segment, score)

    def top(self, k: int = 5, layer: Layer | None = None) -> list[Word]:
        """The `k` words (or units asked for) with the strongest scores, strongest first; ties in the text's order."""
        return sorted(self.gathered(layer), key=lambda word: -abs(word.score))[:k]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON types, with a schema version."""
        from whence.explanation_json import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Explanation:
        """The explanation that `to_dict` wrote; every field is checked."""
        from whence.explanation_json import from_dict

        return from_dict(data)

    def save(self, path: str | Path) -> None:
        """Write the explanation as JSON; a file already there is replaced only once the new one is whole."""
        from whence.explanation_json import save

        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Read an explanation that `save` wrote; nothing in the file is executed."""
        from whence.explanation_json import load

        return load(path)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per layer and token: layer, token, start, end, segment, special, word, score.

        Where the tokens of a response were told apart, they come in rows of their own, with their position in a column
        `output`; it is -1 in the rows of the whole.
        """
        import pandas

        tables: list[tuple[int, Any]] = [(-1, self.scores)]
        if self.outputs is not None:
            tables += zip(self.outputs.positions, self.outputs.scores, strict=True)
        return pandas.DataFrame(
            {
                **({} if self.outputs is None else {"output": output}),
                "layer": layer,
                "position": position,
                "token": token.text,
                "start": token.start,
                "end": token.end,
                "segment": token.segment,
                "special": token.special,
                "word": token.word,
                "score": float(scores[i, position]),
            }
            for output, scores in tables
            for i, layer in enumerate(self.layers)
            for position, token in enumerate(self.tokens)
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw tokens x layers on matplotlib axes (new ones if none are given) and return them."""
        from whence.render.figure import plot

        return plot(self, ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """The explanation as one self-contained page, returned and, if a path is given, written there.

        For several explanations in one page, see `whence.render.page.page`.
        """
        from whence.render.page import page

        return written(page([self]), path)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from whence.render.terminal import explanation_view

        yield explanation_view(self)

    def __repr__(self) -> str:
        layers = f"{len(self.layers)} layer{'s' if len(self.layers) > 1 else ''}"
        return f"<Explanation {self.method} of {self.prediction}: {len(self.tokens)} tokens x {layers}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explanation):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def units_of_tokens(
    tokens: Sequence[Token], members: Sequence[Sequence[int]], text: str, pair: str | None
) -> Columns[Unit]:
    """The pieces of the text that groups of tokens, given by their positions, come from, without spaces before them."""
    columns = Tokens.of(tokens)
    starts, ends, segments = [], [], []
    for own in members:
        start, end, segment = columns.starts[own[0]], columns.ends[own[0]], columns.segments[own[0]]
        for position in own[1:]:
            start, end = min(start, columns.starts[position]), max(end, columns.ends[position])
        source = text if segment == 0 else pair or ""
        while start < end and source[start : start + 1].isspace():
            start += 1
        starts.append(start)
        ends.append(end)
        segments.append(segment)
    return Columns(Unit, starts, ends, segments, list(map(tuple, members)))


_MARKS = ("##", "Ġ", "▁", "Ċ")  # with which tokenizers mark that a piece goes on, or that a word begins


def _located(text: str, pair: str | None, tokens: Sequence[str | Token]) -> tuple[Token, ...]:
    """Tokens with their spans in the text (then in the pair), found in order; any case will do."""
    sources = [text] if pair is None else [text, pair]
    spans = [word_spans(source) for source in sources]
    found: list[Token] = []
    segment = position = 0
    for token in tokens:
        if isinstance(token, Token):
            found.append(token)
            continue
        piece = token
        for mark in _MARKS:
            piece = piece.removeprefix(mark)
        piece = _lower(piece.strip())
        for candidate in range(segment, len(sources)):
            start = _lower(sources[candidate]).find(piece, position if candidate == segment else 0)
            if piece and start >= 0:
                segment, position = candidate, start + len(piece)
                word = word_of(start, position, sources[candidate], spans[candidate])
                found.append(Token(token, -1, start, position, segment, word=word))
                break
        else:
            found.append(Token(token, -1, position, position, segment, special=True))
    if all(token.special for token in found):
        raise UsageError("none of the tokens is in the text", "give the tokens of this text, in order")
    return tuple(found)


def _lower(text: str) -> str:
    """In small letters, each character still one: those that would become two, and move the others, stay."""
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in text)
