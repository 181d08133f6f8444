"""The command `whence`, one file per command. What is heavy loads inside the commands, so that help comes at once."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer import Option

from whence.cli import (
    audit,
    cite,
    compare,
    evaluate,
    explain,
    fit,
    lens,
    methods,
    metrics,
    overview,
    run,
    serve,
    table,
)  # fmt: skip
from whence.cli.arguments import option_of_today
from whence.cli.commands import Commands

app = typer.Typer(
    name="whence",
    cls=Commands,
    help="Which words a text model's decision rests on, at every layer.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": option_of_today},
)

# Help lists the commands in this order.
for command in (
    explain.explain, compare.compare, lens.lens, cite.cite, serve.serve, run.run, table.table, overview.overview,
    fit.fit, evaluate.evaluate, audit.audit, methods.methods, metrics.metrics,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """The console entry point."""
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a character gets its code, not a traceback
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="whence")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"whence {version('whence')}")
        raise typer.Exit


@app.callback()
def _whence(
    _: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
