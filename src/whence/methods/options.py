"""Checks of the options that many methods share."""

from __future__ import annotations

from whence.errors import UsageError


def at_least(name: str, value: float, least: float) -> None:
    """Refuse an option that is no number or is too small."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise UsageError(f"{name} must be a number of at least {least}, got {value!r}", f"give {name}={least} or more")
