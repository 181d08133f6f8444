"""What the scripts that measure have in common: their options, and what they say of the run."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any


def options(description: str | None) -> argparse.ArgumentParser:
    """Where data, models and results are, and how many threads may run."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--threads", type=int, default=1)
    return parser


def about(over: str, threads: int) -> dict[str, Any]:
    """What a results file says of its numbers: what their intervals are over, and what they were made with."""
    return {
        "intervals": f"95 %, bootstrap over {over}, 1,000 resamples",
        "hardware": f"cpu ({platform.machine()}), threads: {threads}",
        "versions": {name: version(name) for name in ("whence", "torch", "transformers")},
    }
