"""Citations on a terminal: the answer with numbers behind its sentences, and below what they stand for."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whence.citing.citations import Citation, Citations, CitedSentence
from whence.render.terminal import facts_view, warnings_view
from whence.render.visible import shortened, visible
from whence.render.wording import cost_words, model_words, options_words

_LONGEST = 200  # characters of a source that are shown


def citations_view(citations: Citations) -> RenderableType:
    """What a terminal shows of citations."""
    return Group(
        *warnings_view(citations.warnings),
        Rule(Text(shortened(citations.question, 100), style="bold"), style="dim"),
        Padding(_answer(citations), (1, 2)),
        *(Padding(_sentence(citations, each), (0, 2, 1, 2)) for each in citations.sentences),
        facts_view(
            {
                "scores": Text(f"{citations.method}: {citations.meaning}. {rule_words(citations)}"),
                "options": Text(options_words(citations.options)),
                "model": Text(model_words(citations.model)),
                "cost": Text(f"{cost_words(citations.cost)}, seed {citations.seed}"),
            },
            style="dim",
        ),
    )


def rule_words(citations: Citations) -> str:
    """What it takes to be cited, in words."""
    if all(sentence.cited is None for sentence in citations.sentences):
        return "This method does not tell whether a sentence rests on any source: the first of its ranking are shown."
    return (
        f"A source is cited if its interval (95 %, for all sources at once) lies above {citations.least:.2f}, that is, "
        f"if it makes the odds of the sentence at least {math.exp(citations.least):.0f} times as large; where there is "
        "no such source, the sentence rests on none of them."
    )


def _answer(citations: Citations) -> Text:
    """The answer as it was written, behind each sentence the numbers of its sources."""
    line, end = Text(), 0
    for sentence in citations.sentences:
        line.append(visible(citations.answer[end : sentence.start]))
        line.append(visible(citations.text_of(sentence)), "bold")
        numbers = ", ".join(str(each.source + 1) for each in sentence.shown)
        line.append(f" [{numbers or 'none'}]", "cyan" if numbers else "yellow")
        end = sentence.end
    return line.append(visible(citations.answer[end:]))


def _sentence(citations: Citations, sentence: CitedSentence) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True, style="cyan")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for each in sentence.shown:
        source = citations.sources[each.source]
        told = Text(shortened(source.text, _LONGEST)).append(f"  {shortened(source.document, 40)}", "dim")
        table.add_row(f"[{each.source + 1}]", f"{each.score:.2f}", interval_words(each), told)
    if not sentence.shown:
        strongest = sentence.ranked[0]
        said = f"none of them; the strongest is [{strongest.source + 1}] with {strongest.score:.2f}"
        table.add_row("", "", "", Text(said, "yellow"))
    return Group(Text(visible(citations.text_of(sentence)), style="bold"), table)


def interval_words(citation: Citation) -> str:
    """The interval of a score, if there is one."""
    if citation.low is None or citation.high is None:
        return ""
    return f"{citation.low:.2f} … {citation.high:.2f}"
