"""How a fit of probes goes, on a terminal: a bar while it runs, and what came out when it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from whence.render.visible import visible

if TYPE_CHECKING:
    from whence.learned.diffmask import DiffMask
    from whence.learned.diffmask.standing import Standing
    from whence.learned.diffmask.validation import LayerResult
    from whence.learned.shapley import ShapleyProbes
    from whence.learned.shapley.explainer import Standing as ShapleyStanding


@contextmanager
def fit_bar(console: Console | None = None) -> Iterator[Callable[[Standing | ShapleyStanding], None]]:
    """Inside, what is yielded shows where a run stands, on standard error if that is a terminal, and then goes away."""
    console = console or Console(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty())
    with _Bar(
        BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        yield bar.show


class _Bar(Progress):
    """A bar with a line below it that says how the training goes."""

    task: TaskID | None = None
    line = ""

    def show(self, standing: Standing | ShapleyStanding) -> None:
        self.line = standing_line(standing)
        if self.task is None:  # a run that goes on from a checkpoint starts in the middle
            self.task = self.add_task("", completed=standing.step - 1, total=standing.steps)
        self.update(self.task, completed=standing.step, total=standing.steps)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield Text(self.line, style="dim")


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f} steps/s")


def standing_line(standing: Standing | ShapleyStanding) -> str:
    """How the training goes, in words."""
    from whence.learned.shapley.explainer import Standing as ShapleyStanding

    if isinstance(standing, ShapleyStanding):
        return _shapley_line(standing)
    parts = [f"divergence {standing.divergence:.3f} of {standing.margin:.3f} allowed", f"kept {standing.kept:.0%}"]
    if standing.validation is not None:
        parts.append(f"held out: {_summary(standing.validation)}")
    return ", ".join(parts)


def _shapley_line(standing: ShapleyStanding) -> str:
    parts = [f"squared error {standing.loss:.4f}"]
    if standing.validation is not None:
        held_out, even = (standing.validation[name] for name in ("loss", "even_split"))
        parts.append(f"held out: {held_out:.4f} ({even:.4f} if all words had even shares)")
    return ", ".join(parts)


def _summary(results: Sequence[LayerResult]) -> str:
    masked = sum(result.masked for result in results) / len(results)
    same = [result.agreement for result in results if result.agreement is not None]
    agreeing = f", agreement {sum(same) / len(same):.3f}" if same else ""
    return f"masked {masked:.0%}{agreeing}"


def fit_view(probes: DiffMask | ShapleyProbes) -> RenderableType:
    """What a terminal shows of trained probes: how well they do on held-out texts."""
    from whence.learned.diffmask import DiffMask

    return _layers_view(probes) if isinstance(probes, DiffMask) else _shares_view(probes)


def _shares_view(probes: ShapleyProbes) -> RenderableType:
    """How near learned Shapley values come to sampled ones."""
    fitted = probes.fitted_
    if fitted is None:
        return Text(str(probes))
    found = fitted.calibration
    table = Table.grid(padding=(0, 2))
    for row in (
        ("correlation with sampled Shapley values", f"{found.correlation:.3f}"),
        ("squared error of what coalitions earn", f"{found.loss:.4f}"),
        ("the same of the sampled values", f"{found.floor:.4f}"),
        ("stated 90 % intervals that hold them", f"{found.coverage:.0%}"),
    ):
        table.add_row(*row)
    legend = (
        f"On {found.n_texts} held-out texts, beside a sampling of {found.orders} random orders, whose squared error "
        f"is the least that shares can reach. Trained on {fitted.n_texts} texts: {fitted.steps:,} steps in "
        f"{fitted.seconds / 60:.1f} minutes."
    )
    return Group(
        Rule(Text(f"Shapley probes for {visible(fitted.model.id)}", style="bold"), style="dim"),
        Padding(table, (1, 2)),
        Padding(Text(legend, style="dim"), (0, 2)),
    )


def _layers_view(probes: DiffMask) -> RenderableType:
    """How much each layer masks, and what that does to the output."""
    fitted = probes.fitted_
    if fitted is None:
        return Text(str(probes))
    about = f"{fitted.probes.kind} probes for {visible(fitted.model.id)}"
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    table.add_row("layer", "masked", "agreement", "divergence", style="dim")
    for result in fitted.results:
        same = "–" if result.agreement is None else f"{result.agreement:.3f}"
        table.add_row(str(result.layer), f"{result.masked:.3f}", same, f"{result.divergence:.4f}")
    n_held_out = fitted.results[0].n_texts
    legend = (
        f"On {n_held_out} held-out texts, at each layer: the share of tokens that can be masked, how often the model "
        f"then still says the same, and how far its output moves (allowed: {fitted.margin:.4f}). "
        f"Trained on {fitted.n_texts} texts in {fitted.seconds:.0f} s."
    )
    return Group(
        Rule(Text(about, style="bold"), style="dim"),
        Padding(table, (1, 2)),
        Padding(Text(legend, style="dim"), (0, 2)),
    )
