"""How far a long call has come: a bar per step on standard error, nothing, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str, int, int], None]
"""Called with (step, done, in all)."""

Progress = bool | Report | None
"""What `progress=` takes everywhere: True draws bars, False or None nothing, a function is called as things go on."""


@contextmanager
def reporter(progress: Progress) -> Iterator[Report]:
    """What a call reports its progress to.

    >>> with reporter(lambda step, done, total: print(f"{step}: {done} of {total}")) as report:
    ...     report("reading", 1, 2)
    reading: 1 of 2
    """
    if callable(progress):
        yield progress
    elif progress:
        with _bars() as report:
            yield report
    else:
        yield lambda step, done, total: None


@contextmanager
def _bars() -> Iterator[Report]:
    """A bar per step, in the order in which the steps first report; none where nobody would see it move."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    console = Console(stderr=True)
    with Bars(console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter)) as bars:
        tasks: dict[str, TaskID] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(escape(step), total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield report
