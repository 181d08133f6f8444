"""The metrics of the scoreboard on a terminal, group by group."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from whence.metrics.table import GROUPS, HEADLINE, METRICS
from whence.render.terminal import facts_view
from whence.render.terminal_pictures import FOR

_ABOUT = {
    "faithfulness": "does the decision hang on the words that a method names first?",
    "bounds": "the same, between the worst and the best order of the words",
    "second_hiding": "the same where words are hidden in another way",
    "sets": "which few words are enough, by each method's own threshold",
    "sizes": "do the sizes of the scores foretell what the model says?",
    "shape": "how scores are spread; neither more nor less is a merit",
    "stability": "does the same question get the same answer?",
    "randomisation": "do the scores change when the model does?",
    "plausibility": "are the words found that people marked? No part of the verdict",
    "cost": "what an explanation takes",
    "own": "metrics of your own",
}


_ARROWS = {"higher": "↑", "lower": "↓", None: "·"}


def metrics_view() -> RenderableType:
    """All metrics, under the groups by which they can be asked for."""
    parts: list[RenderableType] = [Rule(Text(f"{len(METRICS)} metrics", style="bold"), style="dim")]
    for group in GROUPS:
        members = [metric for metric in METRICS.values() if metric.group == group]
        if members:
            parts.append(Text(f"\n  {group}", style=f"bold {FOR}").append(f"   {_ABOUT[group]}", "dim not bold"))
            facts = {f"{metric.name} {_ARROWS[metric.better]}": Text(metric.sentence) for metric in members}
            parts.append(Padding(facts_view(facts), (0, 0, 0, 2)))
    legend = (
        f"↑ higher is better, ↓ lower is better, · neither; {HEADLINE} ranks the methods. "
        "whence evaluate --metrics takes names and groups, with commas."
    )
    parts.append(Padding(Text(legend, "dim"), (1, 2, 0, 2)))
    return Group(*parts)
