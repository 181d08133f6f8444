"""The door of `whence.attention`: what it exports, and that its guide runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from whence import attention

GUIDE = (Path(__file__).parent.parent / "docs" / "attention.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_the_guide_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/attention.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert float(said[0].split()[-1]) > 0.95
    assert said[1].startswith("blame")
    assert "dull" in said[1]
    shares = dict(line.split(": ") for line in said[3:8])
    assert list(shares) == ["attention", "gradient", "state_gradient", "removal", "state_removal"]
    assert shares["removal"].startswith("dull")
    assert said[8].startswith("attention 0.")


def test_what_the_guide_names_is_exported() -> None:
    named = set(re.findall(r"attention\.([A-Za-z_]+)\(", "".join(BLOCKS))) - {"load", "explain", "audit_attention"}
    assert named
    assert named <= set(attention.__all__)
    assert attention.__all__ == sorted(attention.__all__)
    assert all(hasattr(attention, name) for name in attention.__all__)
