"""The group of commands: whatever is wrong with a command line is said as every other error is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from whence.cli.reporting import print_error

# what typer raises of a wrong command line; its own base class is private and has moved between its versions
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """The commands of whence: the first line of an error says what is wrong, the next what to do."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> Any:
            return super(Commands, self).main(args, prog_name, complete_var, False, windows_expand_args, **extra)

        if not standalone_mode:
            return run()
        try:
            code = run()
        except UsageError as error:
            self._report(error)
        except typer.Abort:
            print_error("stopped", "")
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

    def _report(self, error: Any) -> None:
        """A wrong command line; without any argument the help is what is asked for."""
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(error.exit_code)
        said = error.format_message().strip().rstrip(".")
        path = error.ctx.command_path if error.ctx is not None else "whence"
        print_error(said[:1].lower() + said[1:], f"{path} --help tells what it takes")
        sys.exit(error.exit_code)
