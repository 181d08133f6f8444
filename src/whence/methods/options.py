"""Checks of the options that many methods share."""

from __future__ import annotations

from whence.errors import UsageError


def check_seed(seed: int) -> None:
    """Refuse what cannot be the seed of a random generator everywhere."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**31:
        raise UsageError(f"seed must be a whole number from 0 to 2147483647, got {seed!r}", "give seed=0")


def at_least(name: str, value: float, least: float) -> None:
    """Refuse an option that is no number or is too small."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise UsageError(f"{name} must be a number of at least {least}, got {value!r}", f"give {name}={least} or more")
