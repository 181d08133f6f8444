"""What a shell completes: names that are known without a model. Typer does the rest, for bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Iterable


def methods(incomplete: str) -> list[str]:
    """Names of methods and presets; in a list with commas the last one."""
    from whence.methods import METHODS
    from whence.methods.presets import PRESETS

    return _last([*METHODS, *PRESETS], incomplete)


def metrics(incomplete: str) -> list[str]:
    """Names of metrics and their groups; in a list with commas the last one."""
    from whence.metrics.table import GROUPS, METRICS

    return _last(dict.fromkeys([*METRICS, *GROUPS]), incomplete)


def models(incomplete: str) -> list[str]:
    """The embedded models; what else may be given is a hub id or a folder, which the shell knows better."""
    from whence.embedded import NAMES

    return _last(NAMES, incomplete)


def units(incomplete: str) -> list[str]:
    from whence.units import UNITS

    return _last(UNITS, incomplete)


def scales(incomplete: str) -> list[str]:
    from typing import get_args

    from whence.explanation import Scale

    return _last(get_args(Scale), incomplete)


def _last(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]
