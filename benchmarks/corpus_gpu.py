"""A corpus on a GPU: `whence run` with the usual method beside the model's own forward pass over the same batches.

    python benchmarks/corpus_gpu.py --data-dir DATA --out benchmarks/results/corpus-gpu.json

The texts are those of AG News, from the beginning again where there are not enough. Three loops of one process classify
the first of them, shard by shard as the run does: the model over batches that are tokenised already, the same from
texts, and the same with whence's explanations, of which nothing is written. Then the command itself makes tables of all
of them, with as many workers as are given, who share the GPU (start its MPS daemon before). Loading many workers takes
longer than their work, so a run's rate is that of the middle half of its shards.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import torch
from corpus import measured
from one_pass import batches_of, classified, forward

import whence
from whence.data.records import records_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="with ag_news.parquet")
    parser.add_argument("--model", default="topic")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--loop-texts", type=int, default=20_000, help="how many the loops of one process get")
    parser.add_argument("--shard-texts", type=int, default=500)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 15])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load(options.model)
    model.module.to(options.device).eval()
    read = [each.text or "" for each in records_of("ag_news", data_dir=options.data_dir, split="all").each()]
    texts = list(islice(chain.from_iterable(repeat(read)), options.texts))
    few = texts[: options.loop_texts]
    shards = [few[start : start + options.shard_texts] for start in range(0, len(few), options.shard_texts)]
    grouped = [batches_of(model, shard) for shard in shards]
    loops: dict[str, Callable[[], object]] = {
        "forward": lambda: [[forward(model, each.ids, each.mask) for each in batches] for batches in grouped],
        "forward, from texts": lambda: [classified(model, shard, forward) for shard in shards],
        "whence.explain": lambda: [whence.explain(model, shard) for shard in shards],
    }
    classified(model, shards[0], forward)
    whence.explain(model, shards[0][:100])
    seconds = {name: timed(loop) for name, loop in loops.items()}
    report: dict[str, Any] = {
        "texts": len(texts),
        "loop_texts": len(few),
        "different_texts": min(len(read), len(texts)),
        "tokens": sum(int(each.mask.sum()) for batches in grouped for each in batches),
        "model": options.model,
        "method": whence.explain(model, texts[0]).method,
        "loops": [
            {"loop": name, "seconds": each, "texts_per_second": len(few) / each, "beside": each / seconds["forward"]}
            for name, each in seconds.items()
        ],
        "runs": [],
        "hardware": torch.cuda.get_device_name() if model.device.type == "cuda" else platform.machine(),
        "cpus": os.cpu_count(),
        "versions": {name: version(name) for name in ("torch", "transformers", "whence")},
    }
    show(report["loops"])
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "texts.jsonl"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        for workers in options.workers:
            found = measured(
                data, Path(name) / "out", report["method"], "local", len(texts), options.shard_texts,
                workers=workers, more=["--model", options.model, "--device", options.device],
            )  # fmt: skip
            beside = len(few) / seconds["forward"] / found["middle_texts_per_second"]
            report["runs"].append({"workers": workers, "beside": beside, **found})
            show(report["runs"][-1:])
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def timed(loop: Callable[[], object]) -> float:
    started = time.perf_counter()
    loop()
    return time.perf_counter() - started


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        name = row.get("loop") or f"whence run, {row['workers']} workers"
        rate = row.get("middle_texts_per_second", row["texts_per_second"])
        print(f"{name:24} {row['seconds']:8.1f} s  {rate:8.0f} texts/s  {row['beside']:6.2f} x forward", flush=True)


if __name__ == "__main__":
    main()
