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
    "bounds": "the same between the worst and the best that any order of the words gets",
    "second_hiding": "the same where words are hidden in another way",
    "sets": "which few words are enough, by each method's own threshold",
    "sizes": "do the sizes of the scores foretell what the model says?",
    "shape": "how scores are spread; neither more nor less is a merit",
    "stability": "does the same question get the same answer?",
    "randomisation": "do the scores change when the model does?",
    "plausibility": "are the words found that people marked? This does not count for the verdict",
    "cost": "what an explanation takes",
    "own": "metrics of your own",
}


def metrics_view() -> RenderableType:
    """All metrics, under the groups by which they can be asked for."""
    parts: list[RenderableType] = [Rule(Text(f"{len(METRICS)} metrics", style="bold"), style="dim")]
    for group in GROUPS:
        members = [metric for metric in METRICS.values() if metric.group == group]
        if not members:
            continue
        parts.append(Text(f"\n  {group}", style=f"bold {FOR}").append(f"   {_ABOUT[group]}", "dim not bold"))
        for metric in members:
            arrow = {"higher": "higher is better", "lower": "lower is better", None: "neither way is better"}
            usual = ", and ranks the methods" if metric.name == HEADLINE else ""
            facts = {"is": Text(metric.sentence), "better": Text(arrow[metric.better] + usual)}
            parts += [Text(f"    {metric.name}", style="bold"), Padding(facts_view(facts), (0, 0, 0, 4))]
    parts.append(Padding(Text("\nwhence evaluate --metrics takes names and groups, with commas.", "dim"), (0, 2)))
    return Group(*parts)
