"""NAOPC: an area between the worst and the best that any order of the text's tokens gets (Edin et al., 2024)."""

from __future__ import annotations

NOTHING_TO_GAIN = 1e-6  # between the bounds: rounding, and no place to be between


def normalised(value: float, lowest: float, highest: float) -> float:
    """0 at the worst, 1 at the best; NaN where both are the same, since every order gets as much.

    >>> normalised(0.75, 0.5, 1.0)
    0.5
    >>> normalised(0.5, 0.5, 0.5)
    nan
    """
    room = highest - lowest
    return (value - lowest) / room if room > NOTHING_TO_GAIN else float("nan")
