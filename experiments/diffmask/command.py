"""What the scripts that measure have in common: their options, and what they say of the run."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import whence

PARTS = ("numbers", "figures")


def options(description: str | None) -> argparse.ArgumentParser:
    """Where data, models and results are, and how many threads may run."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS),
        help="numbers in NAME.json, those behind the figures there too or, by themselves, in NAME_figures.json",
    )  # fmt: skip
    return parser


def file_of(name: str, parts: Sequence[str]) -> str:
    """Where the parts of a report go; figures take long, so that they may be left to another process."""
    return f"{name}.json" if "numbers" in parts else f"{name}_figures.json"


def about(over: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    """What a results file says of its numbers: what their intervals are over, and what they were made with."""
    return {
        "intervals": f"95 %, bootstrap over {over}, 1,000 resamples",
        "hardware": f"cpu ({platform.machine()}), threads: {threads}"
        if device == "cpu"
        else f"{torch.cuda.get_device_name(device)}, matrices in TF32",
        "versions": {name: version(name) for name in ("whence", "torch", "transformers")},
    }


def load(folder: Path, device: str) -> whence.LayeredModel:
    """A fine-tuned model in full precision (on a GPU TF32), where it is to be measured."""
    torch.set_float32_matmul_precision("highest" if device == "cpu" else "high")
    model = whence.load(folder, dtype=torch.float32)
    model.module.to(device)
    return model
