"""The hiding and the revealing game with twelve methods at 21 points: seconds, forward rows, and memory on the way.

    python benchmarks/games.py --data FOLDER --out benchmarks/results/games-cpu.json    # the dev set of SST-2
    python benchmarks/games.py                                                          # the embedded reviews

The resident set is read after each batch of texts: if memory is flat, it is no higher at the end than after the first
quarter of the texts. What explaining takes is told apart from what playing takes.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attribution import resident, sentences
from decoded import sst2_dev

import whence
from whence.engine.asking import Contestant
from whence.engine.masked import MaskedTexts
from whence.engine.play import play
from whence.metrics.curves import GAMES, GRID

METHODS: dict[str, dict[str, Any]] = {
    "decoded_grad_cam": {"layers": 3}, "grad_cam": {"layers": 0}, "gradient": {}, "gradient_x_input": {},
    "smooth_grad": {}, "integrated_gradients": {"steps": 10}, "lime": {"samples": 50}, "occlusion": {},
    "leave_one_out": {}, "attention": {"layers": -1}, "attention_rollout": {"layers": -1}, "random": {},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with sst2.parquet; otherwise the embedded reviews serve")
    parser.add_argument("--sentences", type=int, default=872)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load()
    model.module.to(options.device)
    texts = sst2_dev(options.data)[: options.sentences] if options.data else sentences(options.sentences)
    explained, contestants = {}, {}
    for name, settings in METHODS.items():
        started = time.perf_counter()
        contestants[name] = Contestant([each.row() for each in whence.explain(model, texts, name, **settings)])
        explained[name] = time.perf_counter() - started
    report = {
        **played(model, texts, contestants),
        "explaining_seconds": explained,
        "sentences": len(texts),
        "tokens": sum(len(model.encode(text)) for text in texts),
        "methods": len(METHODS),
        "points": len(GRID),
        "hardware": torch.cuda.get_device_name()
        if options.device != "cpu"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {name: version(name) for name in ("torch", "transformers", "whence")},
    }
    show(report)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def played(model: whence.LayeredModel, texts: list[str], contestants: dict[str, Contestant]) -> dict[str, Any]:
    """Both games with everyone: time, maskings asked for and run, and the resident set over the course of it."""
    rows, answers = 0, MaskedTexts.answers
    memory: list[tuple[int, float]] = []

    def counting(asked: MaskedTexts, *given: Any) -> Any:
        nonlocal rows
        rows += len(given[0])
        return answers(asked, *given)

    MaskedTexts.answers = counting  # type: ignore[assignment,method-assign]
    started = time.perf_counter()
    try:
        play(model, texts, contestants, progress=lambda step, done, total: memory.append((done, resident() / 1e6)))
    finally:
        MaskedTexts.answers = answers  # type: ignore[method-assign]
    seconds = time.perf_counter() - started
    quarter = max(mb for done, mb in memory if done <= max(len(texts) // 4, memory[0][0]))
    return {
        "seconds": seconds,
        "maskings_asked": len(contestants) * len(GAMES) * len(GRID) * len(texts),
        "maskings_run": rows,
        "resident_mb": {"after a quarter": quarter, "at the end": memory[-1][1], "most": max(mb for _, mb in memory)},
    }


def show(report: dict[str, Any]) -> None:
    memory = report["resident_mb"]
    print(
        f"{report['methods']} methods, {report['points']} points, {report['sentences']} sentences: "
        f"{report['seconds']:.0f} s, {report['maskings_run']:,} of {report['maskings_asked']:,} maskings run"
    )
    print(f"memory: {', '.join(f'{mb:.0f} MB {when}' for when, mb in memory.items())}")
    print(f"explaining took {sum(report['explaining_seconds'].values()):.0f} s")


if __name__ == "__main__":
    main()
