"""What whence says when it cannot go on."""

from __future__ import annotations

from typing import Any

import pytest

import whence


def complaint(error: type[whence.WhenceError], call: Any, *args: Any, **settings: Any) -> tuple[str, str]:
    """The two lines of the message that a call gives."""
    with pytest.raises(error) as caught:
        call(*args, **settings)
    problem, *advice = str(caught.value).splitlines()
    assert advice, f"no advice: {problem}"
    return problem, "\n".join(advice)
