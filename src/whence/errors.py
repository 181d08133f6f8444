"""Everything whence raises on purpose.

WhenceError
├── UsageError                   the call is wrong: the caller can mend it (exit code 2)
│   ├── UnknownNameError         a method, layer, label, option or model name that does not exist
│   └── InputError               a text that cannot be explained
├── ModelError                   the model cannot do what is asked (exit code 1)
│   ├── UnknownArchitectureError no stack of blocks was found
│   └── NonFiniteError           the model gives NaN or infinite numbers
└── FileError                    a file is missing, broken or of another kind (exit code 1)

The first line of a message says what is wrong, the following lines what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches


class WhenceError(Exception):
    """The root of every error that whence raises on purpose."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}\n{advice}" if advice else problem)
        self.problem = problem
        self.advice = advice


class UsageError(WhenceError, ValueError):
    """The call is wrong and the caller can mend it."""


class UnknownNameError(UsageError):
    """A name that does not exist; the message lists those that do."""

    def __init__(self, kind: str, name: object, known: Iterable[object]) -> None:
        choices = [str(choice) for choice in known]
        near = get_close_matches(str(name), choices, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}", f"{guess}known: {', '.join(choices) or 'none'}")


class InputError(UsageError):
    """A text that cannot be explained."""


class ModelError(WhenceError):
    """The model cannot do what is asked."""


class UnknownArchitectureError(ModelError):
    """No stack of blocks was found in the model, or more than one."""


class NonFiniteError(ModelError):
    """The model gives NaN or infinite numbers, so nothing can be explained."""


class FileError(WhenceError):
    """A file is missing, broken or of another kind."""


class WhenceWarning(UserWarning):
    """Something the reader of an explanation must know, such as a truncated text."""


def warn_of_old_name(old: str, new: str) -> None:
    """Say that a name of before still works, and what it is called now."""
    warnings.warn(f"{old} is now called {new}; the old name will go", WhenceWarning, stacklevel=3)
