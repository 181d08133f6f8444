"""Explanations on a terminal: legible with colour, without it, and in a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whence.errors import UsageError
from whence.explanation import Explanation, Layer
from whence.metrics.rank_correlation import kendall_tau
from whence.render.belief import CLEAR_SHARE
from whence.render.responses import rests_on, told_parts
from whence.render.rows import MOST_ROWS, Row, number, rows_of, strongest
from whence.render.segments import tag_place
from whence.render.terminal_pictures import AGAINST, FOR, Bars, Columns, HeatMap, hue_of, largest_of, level_of
from whence.render.visible import shortened, visible
from whence.render.wording import chosen_words, cost_words, layer_words, model_words, options_words, range_words

if TYPE_CHECKING:
    from jaxtyping import Float

MOST_CHARACTERS = 800
_TEXT_STYLES = ("", "", "{}", "bold {}", "bold #ffffff on {}")


def explanation_view(
    explanation: Explanation,
    *,
    words: bool = True,
    everything: bool = False,
    layer: Layer | None = None,
    normalise: Literal["map", "layer"] = "map",
) -> RenderableType:
    """What a terminal shows of an explanation.

    Args:
        words: a line per word (or unit, where others were asked for); otherwise per token.
        everything: all lines and the whole text, however long; otherwise the strongest ones.
        layer: the layer by which the words of the text are coloured; by default the one nearest the input.
        normalise: what counts as full strength: the largest score of the whole "map" or of each "layer".
    """
    rows = rows_of(explanation, words=words)
    kept, left_out = strongest(rows, None if everything else MOST_ROWS)
    meaning = explanation.meaning
    largest = largest_of(rows)
    picture: RenderableType
    if len(explanation.layers) == 1:
        picture = Bars(kept, meaning.signed, largest)
    else:
        each = [
            largest_of([Row(row.label, row.scores[[i]], row.special) for row in rows])
            for i in range(len(rows[0].scores))
        ]
        full = np.array(each if normalise == "layer" else [largest] * len(each))
        picture = HeatMap(kept, explanation.layers, meaning.signed, full)
    return Group(
        *warnings_view(explanation.warnings),
        Rule(Text(explanation.method, style="bold"), style="dim"),
        *_response_lines(explanation),
        *_text_lines(explanation, everything, layer=layer),
        facts_view({"predicted": _prediction(explanation), "explained": Text(visible(str(explanation.target)))}),
        Text(),
        picture,
        *([Text(f"  {left_out}", style="yellow")] if left_out else []),
        *_rests_on(explanation),
        Text(),
        facts_view(
            {
                "scores": _reading(explanation, words),
                "strength": _strength(explanation, rows, largest, normalise),
                "layers": Text(layer_words(explanation.layers) + _coloured(explanation, layer)),
                "options": Text(chosen_words(explanation.options)),
                "notes": Text(visible("; ".join(explanation.notes))),
                "model": Text(model_words(explanation.model)),
                "cost": Text(f"{cost_words(explanation.cost)}, seed {explanation.seed}"),
            },
            style="dim",
        ),
    )


def warnings_view(warnings: Iterable[str]) -> list[RenderableType]:
    """What must be read first, in a frame; nothing where there is nothing."""
    lines = Text("\n").join(Text(f"! {visible(warning)}") for warning in warnings)
    if not lines:
        return []
    return [Panel(lines, title=Text("read this first"), title_align="left", border_style="bold yellow", style="bold")]


def facts_view(facts: Mapping[str, Text], style: str = "") -> RenderableType:
    """Names and what is to be said of them, one line each; empty ones are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold", style=style)
    for name, fact in facts.items():
        if fact:
            table.add_row(Text(name), fact)
    return Padding(table, (0, 0, 0, 2))


def _response_lines(explanation: Explanation) -> Iterator[RenderableType]:
    """What the model wrote, what was asked about in it underlined."""
    response = explanation.response
    if response is None:
        return
    start = end = 0
    if explanation.outputs is not None:
        tokens = [explanation.tokens[position] for position in explanation.outputs.positions]
        if len(tokens) < sum(token.segment == 1 for token in explanation.tokens):
            start, end = tokens[0].start, tokens[-1].end
    line = Text(visible(response[:start]), style="bold").append(visible(response[start:end]), "underline")
    line.append(visible(response[end : max(end, MOST_CHARACTERS)]))
    if len(response) > max(end, MOST_CHARACTERS):
        line.append(f" … {len(response) - max(end, MOST_CHARACTERS)} more characters are not shown", "yellow")
    yield Padding(Text("response", style="dim"), (1, 2, 0, 2))
    yield Padding(line, (0, 2, 0, 4))
    yield Padding(Text("rests on", style="dim"), (1, 2, 0, 2))


def _rests_on(explanation: Explanation) -> Iterator[RenderableType]:
    """For each word or sentence of a response, what it rests on most."""
    parts = told_parts(explanation) if explanation.response is not None else []
    if len(parts) < 2:
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", max_width=36, style="bold")
    table.add_column(overflow="fold")
    for part in parts:
        line = Text()
        found = rests_on(explanation, part)
        clear = CLEAR_SHARE * max((abs(word.score) for word in found), default=0.0)
        for word in (each for each in found if abs(each.score) >= clear):
            hue = hue_of(word.score, explanation.meaning.signed)
            line.append(f"{'   ' if line else ''}{shortened(word.text, 40)} ")
            line.append(number(word.score, sign=explanation.meaning.signed), hue)
        table.add_row(Text(shortened((explanation.response or "")[part.start : part.end], 60)), line)
    yield Padding(Text("each part of the response, and what it rests on most", "dim"), (1, 2, 0, 2))
    yield Padding(table, (0, 2, 0, 4))


def _text_lines(
    explanation: Explanation, everything: bool, *, layer: Layer | None = None, coloured: bool = True
) -> Iterator[RenderableType]:
    """The text as written, its words coloured by their scores; what the model did not read is dim."""
    found = explanation.gathered(layer)
    full = max((abs(word.score) for word in found), default=0.0) or 1.0
    pair = None if explanation.response is not None else explanation.pair
    for segment, source in enumerate([explanation.text, *([] if pair is None else [pair])]):
        most = len(source) if everything else MOST_CHARACTERS
        line, end = Text(), 0
        for word in found:
            if word.segment == segment and end <= word.start < most:
                line.append(visible(source[end : word.start]))
                style = _TEXT_STYLES[level_of(word.score / full)] if coloured else ""
                hue = hue_of(word.score, explanation.meaning.signed)
                line.append(visible(source[word.start : word.end]), style.format(hue))
                end = word.end
        line.append(visible(source[end : max(end, most)]), "dim")
        if len(source) > max(end, most):
            line.append(f" … {len(source) - max(end, most)} more characters are not shown", "yellow")
        yield Padding(line, (1, 2, 0 if segment == 0 and pair is not None else 1, 2))


def _prediction(explanation: Explanation) -> Text:
    prediction = explanation.prediction
    if explanation.response is not None or tag_place(explanation) is not None:
        return Text()  # beside one tag, or one token of a response, what the whole is would be beside the point
    if not prediction.probabilities:
        return Text(visible(prediction.label), style="bold")
    line = Text()
    chances = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    for label, chance in chances[:4]:
        line.append(
            f"{'   ' if line else ''}{visible(label)} {chance:.1%}", "bold" if label == prediction.label else "dim"
        )
    if len(chances) > 4:
        line.append(f"   and {len(chances) - 4} more", "dim")
    return line


def _reading(explanation: Explanation, words: bool) -> Text:
    """What a score says, in words."""
    meaning = explanation.meaning
    text = Text(f"{meaning.name}: {meaning.sentence}. ", style="not dim")
    if meaning.signed:
        text.append("+", f"bold {FOR}").append(" speaks for what is explained, ")
        text.append("-", f"bold {AGAINST}").append(" against it. ")
    else:
        text.append("No sign: how much, not in which direction. ")
    text.append(f"{range_words(meaning)}; ")
    if words:
        kind, which = _kind(explanation), "the sum" if meaning.additive else "the strongest"
        text.append(f"a {kind} has {which} of its tokens' scores.")
    else:
        text.append(f"scores of tokens {'add up' if meaning.additive else 'do not add up'}.")
    return text


def _strength(explanation: Explanation, rows: Sequence[Row], largest: float, normalise: str) -> Text:
    whole = f"the largest of a {_kind(explanation)}"
    whole = f"{number(largest)}, {whole}" if normalise == "map" else f"{whole} at that layer"
    beyond = max((row.strength for row in rows if row.special), default=0.0)
    more = f"; special tokens reach {number(beyond)}" if beyond > largest else ""
    if len(explanation.layers) == 1:
        return Text(f"the longest bar is {whole}{more}")
    return Text(f"░ ▒ ▓ █ are up to ¼, ½, ¾ and all of {whole}{more}; · is next to nothing")


def _kind(explanation: Explanation) -> str:
    return "word" if explanation.units is None else explanation.units.kind


def _coloured(explanation: Explanation, layer: Layer | None) -> str:
    if len(explanation.layers) == 1:
        return ""
    return f"; the text above is coloured by layer {explanation.layers[0] if layer is None else layer}"


def comparison_view(explanations: Sequence[Explanation], *, everything: bool = False) -> RenderableType:
    """What several methods say of one text: words down, methods across, and below how far they rank alike."""
    if not explanations:
        raise UsageError("there is nothing to compare", "give at least one explanation")
    first = explanations[0]
    if any((each.text, each.pair) != (first.text, first.pair) for each in explanations):
        raise UsageError("explanations of different texts cannot be compared", "explain one text by several methods")
    found = [{(word.segment, word.start): word for word in each.gathered()} for each in explanations]
    labels = {key: visible(word.text) for column in found for key, word in column.items()}
    scores = np.array([[column[key].score if key in column else 0.0 for column in found] for key in labels])
    full = np.abs(scores).max(axis=0)
    rows = [Row(label, row) for label, row in zip(labels.values(), scores / np.where(full, full, 1), strict=True)]
    kept, left_out = strongest(rows, None if everything else MOST_ROWS)
    methods = [f"{number} {each.method}" for number, each in enumerate(explanations, start=1)]
    return Group(
        *warnings_view(f"{each.method}: {warning}" for each in explanations for warning in each.warnings),
        Rule(Text(f"{len(explanations)} methods", style="bold"), style="dim"),
        *_text_lines(first, everything, coloured=False),
        facts_view({"predicted": _prediction(first), "explained": Text(visible(str(first.target)))}),
        Text(),
        Columns(kept, methods, [each.meaning.signed for each in explanations]),
        *([Text(f"  {left_out}", style="yellow")] if left_out else []),
        Padding(Text("Each method against its own largest score; special tokens are left out.", "dim"), (0, 2, 1, 2)),
        facts_view({name: _side(each, first) for name, each in zip(methods, explanations, strict=True)}),
        *_correlations(methods, scores, _kind(first)),
    )


def _side(explanation: Explanation, first: Explanation) -> Text:
    """A method's layer, cost and sign, and its target where it is not the one above."""
    other = f"; explains {explanation.target}" if explanation.target != first.target else ""
    sign = "" if explanation.meaning.signed else ", no sign"
    return Text(f"layer {explanation.layers[0]}{sign}; {cost_words(explanation.cost)}{visible(other)}", style="dim")


def _correlations(
    methods: Sequence[str], scores: Float[np.ndarray, "word method"], kind: str
) -> Iterator[RenderableType]:
    if len(methods) < 2 or len(scores) < 2:
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in methods:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", *(Text(method.split()[0], style="dim") for method in methods))
    sizes = np.abs(scores.T)
    for method, row in zip(methods, kendall_tau(sizes, sizes).tolist(), strict=True):
        shown = ["–" if math.isnan(value) else f"{value:.2f}" for value in row]
        table.add_row(Text(method), *(Text(value, "dim" if value in ("1.00", "–") else "bold") for value in shown))
    about = f"Do they rank the {kind}s alike? 1 is the same order, 0 unrelated, -1 the reverse"
    yield Padding(Text(f"{about} (Kendall's τ-b, by size of score).", "dim"), (1, 2, 0, 2))
    yield Padding(table, (0, 2))


def methods_view() -> RenderableType:
    """All methods and presets: what their scores say, what they need, cost and can be told."""
    from whence.methods import METHODS
    from whence.methods.presets import PRESETS
    from whence.methods.usual import USUAL

    where = {"all": "all layers", "blocks": "all blocks", "embeddings": "the word embeddings"}
    parts: list[RenderableType] = [Rule(Text(f"{len(METHODS)} methods", style="bold"), style="dim")]
    for name, method in METHODS.items():
        title = Text(f"\n  {name}", style=f"bold {FOR}")
        title.append(f"   usual {USUAL[name]}" if name in USUAL else "", "dim")
        sign = "with a sign" if method.meaning.signed else "no sign"
        facts = {
            "score": Text(f"{method.meaning.sentence}; {sign}"),
            "needs": Text(", ".join(method.needs) or "nothing"),
            "cost": Text(method.cost),
            "looks at": Text(f"{where.get(method.layers, method.layers)}, unless told otherwise"),
            "options": Text(options_words(method.options)),
        }
        parts += [title, Padding(facts_view(facts), (0, 0, 0, 2))]
    carried = {"score": Text("that of the method NAME, whatever it is, carried back to words as in decoded_grad_cam")}
    parts += [Text("\n  decoded_NAME", style=f"bold {FOR}"), Padding(facts_view(carried), (0, 0, 0, 2))]
    parts += [Text(), Rule(Text(f"{len(PRESETS)} presets: the settings of other packages", style="bold"), style="dim")]
    for name, preset in PRESETS.items():
        facts = {
            "is": Text(f"{preset.about}: {preset.method} at layer {', '.join(map(str, preset.layers))}"),
            "options": Text(options_words(preset.options)),
        }
        parts += [Text(f"\n  {name}", style=f"bold {FOR}"), Padding(facts_view(facts), (0, 0, 0, 2))]
    return Group(*parts)
