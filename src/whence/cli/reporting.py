"""What the commands say: results on standard output, errors, notes and warnings on standard error."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from whence.errors import UsageError, WhenceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.explanation import Explanation
    from whence.lens import Lens
    from whence.scoreboard.board import Scoreboard


@contextmanager
def errors_reported(debug: bool) -> Iterator[None]:
    """Errors as plain text on standard error with their exit code; nothing of the libraries' own chatter."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    with warnings.catch_warnings():
        warnings.simplefilter("default" if debug else "ignore")
        try:
            yield
        except BrokenPipeError:
            # Whoever read our output has left (`| head`): what is still in the buffer must go somewhere at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except WhenceError as error:
            if debug:
                raise
            _print_error(error.problem, error.advice)
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if debug:
                raise
            _print_error(f"{type(error).__name__}: {error}", "this was not foreseen: --debug shows where it happened")
            raise typer.Exit(1) from None


def _print_error(problem: str, advice: str) -> None:
    for line in (f"error: {problem.strip()}", *advice.splitlines()):
        say(line)


def say(line: str) -> None:
    """A line on standard error, in which no character can steer the terminal."""
    from whence.render.visible import visible

    typer.echo(visible(line), err=True)


def print_views(views: Sequence[RenderableType] | Iterator[RenderableType]) -> None:
    """The views on standard output, an empty line between them."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    for index, view in enumerate(views):
        if index:
            console.print()
        console.print(view)
    sys.stdout.flush()


def print_json(explanations: Sequence[Explanation]) -> None:
    """One explanation per line on standard output."""
    for explanation in explanations:
        print_line(explanation.to_dict())
    sys.stdout.flush()


def print_line(data: dict[str, Any]) -> None:
    """One JSON object as a line of plain ASCII, which no terminal can take for a command."""
    sys.stdout.write(json.dumps(data, ensure_ascii=True, allow_nan=False, default=str) + "\n")


def repeat_warnings(explanations: Sequence[Explanation], as_json: bool) -> None:
    """On standard error too, unless they were just read on the same terminal."""
    if sys.stdout.isatty() and not as_json:
        return
    for explanation in explanations:
        for warning in explanation.warnings:
            shown = explanation.text if len(explanation.text) <= 40 else f"{explanation.text[:39]}…"
            say(f"warning: {explanation.method}, {shown!r}: {warning}")


def check_page(html: Path | None) -> None:
    """Before the model runs, so that no work is lost for want of a folder."""
    if html is not None and not html.parent.is_dir():
        raise UsageError(f"there is no folder {str(html.parent)!r} for the page", "make it, or choose another file")
    if html is not None and html.is_dir():
        raise UsageError(f"{str(html)!r} is a folder", "name a file, as in --html why.html")


def board_at(folder: Path | None) -> Scoreboard | None:
    """The board in a folder, if one was named; read before the model runs."""
    if folder is None:
        return None
    from whence.scoreboard.board import Scoreboard

    return Scoreboard.load(folder)


def write_page(
    explanations: Sequence[Explanation],
    html: Path | None,
    lenses: Sequence[Lens] = (),
    board: Scoreboard | None = None,
) -> None:
    """Write the page, if one was asked for, and say where it is."""
    if html is None:
        return
    from whence.files import write_whole
    from whence.render.page import page

    write_whole(page(explanations, lenses=lenses, board=board), html)
    say(f"page: {html.absolute()}")
