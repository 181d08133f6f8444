"""Decoded Grad-CAM of all layers: passes counted, time beside the bare passes and beside slower methods, in one run.

    python benchmarks/decoded.py --out benchmarks/results/decoded-cpu.json
    python benchmarks/decoded.py --data FOLDER --device cuda       # the dev set of SST-2, from sst2.parquet there

What is claimed is one forward and one backward of the encoder a batch and one pass of the head a layer. *bare* is the
time of exactly these passes on rows of the same lengths, nothing explained; *bare, scored rows* leaves out of the head
the positions whose score is zero, as whence does. Contestants take turns, so that a machine that slows down slows all
of them; medians count. All get the same token budget.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attribution import ORDERS, STEPS, WINDOW, backward, batches, sentences

import whence
from whence.methods.decoded import decoded
from whence.models.head import MOST_LOGITS, Head

TARGET = 1.3  # times the bare passes, at most


@dataclass
class Counts:
    """What a call of whence ran."""

    forwards: int = 0
    backwards: int = 0
    head_passes: int = 0
    head_rows: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sentiment", help="an embedded model, a folder or a hub id of a classifier")
    parser.add_argument("--head", help="the language model of its head, where the model has none")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--data", type=Path, help="a folder with sst2.parquet; otherwise the embedded reviews serve")
    parser.add_argument("--shapley-sentences", type=int, default=20, help="how many Shapley sampling gets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model = whence.load(options.model, head=options.head)
    model.module.to(options.device).eval()
    texts = sst2_dev(options.data)[: options.sentences] if options.data else sentences(options.sentences)
    few = texts[:: max(1, len(texts) // options.shapley_sentences)]
    counts, n_batches = counted(model, texts)
    rows = measured(contestants(model, texts, few, counts), options.repeats)
    report = {
        "counts": {**vars(counts), "batches": n_batches, "layers": model.n_layers + 1},
        "a_batch": {
            "forwards": counts.forwards / n_batches,
            "backwards": counts.backwards / n_batches,
            "head_passes": counts.head_passes / n_batches,
        },
        "rows": rows,
        **conclusions(rows),
        "model": model.record.id,
        "head": model.head.name if model.head else None,
        "sentences": len(texts),
        "tokens": sum(len(model.encode(text)) for text in texts),
        "settings": {"steps": STEPS, "window": WINDOW, "orders": ORDERS, "repeats": options.repeats,
                     "batch_tokens": budget(model), "target": TARGET},
        "hardware": torch.cuda.get_device_name()
        if options.device != "cpu"
        else f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {name: version(name) for name in ("torch", "transformers", "whence")},
    }  # fmt: skip
    show(report)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def sst2_dev(folder: Path) -> list[str]:
    from pyarrow import parquet

    return [row["sentence"] for row in parquet.read_table(folder / "sst2.parquet").to_pylist() if row["split"] == "dev"]


def budget(model: whence.LayeredModel) -> int:
    return 65_536 if model.device.type == "cuda" else 2_048


def counted(model: whence.LayeredModel, texts: list[str]) -> tuple[Counts, int]:
    """The passes of one call, counted where they happen: at the encoder, in autograd and at the head."""
    counts = Counts()
    head = model.head
    assert head is not None

    def read(rows: torch.Tensor) -> torch.Tensor:
        counts.head_rows += len(rows)
        return head.read(rows)

    whence.explain(model, texts[:2], "decoded_grad_cam")
    gradients, in_blocks = torch.autograd.grad, Head.in_blocks

    def counting_gradients(*args: Any, **settings: Any) -> Any:
        counts.backwards += 1
        return gradients(*args, **settings)

    def counting_blocks(head: Head, states: torch.Tensor) -> Any:
        counts.head_passes += 1
        return in_blocks(head, states)

    def forward(*everything: Any) -> None:
        counts.forwards += 1

    base: Any = model.module.base_model
    hook = base.register_forward_hook(forward)
    torch.autograd.grad, Head.in_blocks = counting_gradients, counting_blocks  # type: ignore[assignment]
    try:
        explain(replace(model, head=replace(head, read=read)), texts, "decoded_grad_cam", layers="all")
    finally:
        hook.remove()
        torch.autograd.grad, Head.in_blocks = gradients, in_blocks  # type: ignore[method-assign]
    return counts, len(batches(model, [len(model.encode(text)) for text in texts]))


def explain(model: whence.LayeredModel, texts: list[str], method: Any, **settings: Any) -> None:
    whence.explain(model, texts, method, batch_tokens=budget(model), **settings)


def contestants(
    model: whence.LayeredModel, texts: list[str], few: list[str], counts: Counts
) -> dict[str, tuple[int, Callable[[], None]]]:
    """By name: how many sentences, and what is timed."""
    lengths = [len(model.encode(text)) for text in texts]
    mask = {"baseline": model.tokenizer.masking, "special": True}
    methods: dict[str, tuple[list[str], Any, dict[str, Any]]] = {
        "decoded Grad-CAM, all layers": (texts, "decoded_grad_cam", {"layers": "all"}),
        "decoded gradient x input, all layers (no zeros)": (texts, decoded("gradient_x_input"), {"layers": "all"}),
        "Grad-CAM, all layers, not decoded": (texts, "grad_cam", {"layers": "all"}),
        "integrated gradients": (texts, "integrated_gradients", {"layers": "embeddings", "steps": STEPS, **mask}),
        "occlusion": (texts, "occlusion", {"layers": "embeddings", "window": WINDOW, **mask}),
        "decoded Grad-CAM, Shapley's sentences": (few, "decoded_grad_cam", {"layers": "all"}),
        "Shapley sampling": (few, "shapley", {"layers": "embeddings", "samples": ORDERS, **mask}),
    }
    runs: dict[str, tuple[int, Callable[[], None]]] = {
        name: (len(given), partial(explain, model, given, method, **settings))
        for name, (given, method, settings) in methods.items()
    }
    everything = [sum(lengths)] * (model.n_layers + 1)
    runs["bare"] = (len(texts), lambda: bare(model, lengths, everything))
    runs["bare, scored rows"] = (len(texts), lambda: bare(model, lengths, [counts.head_rows]))
    runs["bare, head only"] = (len(texts), lambda: bare(model, [], everything))
    return runs


def bare(model: whence.LayeredModel, lengths: list[int], head_rows: list[int]) -> None:
    """The passes and nothing else: encoder forward and backward over the texts, the head over that many states."""
    for ids, mask in batches(model, lengths):
        backward(model, ids, mask)
    head = model.head
    assert head is not None
    block = MOST_LOGITS[model.device.type] // head.n_vocabulary
    dtype = next(model.stack.embedding.parameters()).dtype
    states = torch.zeros(min(block, max(head_rows)), head.n_hidden, device=model.device, dtype=dtype)
    with torch.no_grad(), head.held():
        for rows in head_rows:
            for start in range(0, rows, block):
                head.read(states[: rows - start])


def measured(runs: dict[str, tuple[int, Callable[[], None]]], repeats: int) -> list[dict[str, Any]]:
    """Median seconds of each, one of every contestant a round."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):  # the first round warms up
        for name, (_, run) in runs.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            started = time.perf_counter()
            run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn:
                found[name].append(time.perf_counter() - started)
    return [
        {"what": name, "sentences": runs[name][0], "seconds": statistics.median(seconds), "all_seconds": seconds}
        for name, seconds in found.items()
    ]


def conclusions(rows: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = {row["what"]: row["seconds"] for row in rows}
    mine = seconds["decoded Grad-CAM, all layers"]
    ratio = mine / seconds["bare"]
    return {
        "bare_ratio": ratio,
        "bare_ratio_scored_rows": mine / seconds["bare, scored rows"],
        "within_target": ratio <= TARGET,
        "head_share_of_bare": seconds["bare, head only"] / seconds["bare"],
        "head_share_of_decoded": 1 - seconds["Grad-CAM, all layers, not decoded"] / mine,
        "times_longer": {
            "integrated gradients": seconds["integrated gradients"] / mine,
            "occlusion": seconds["occlusion"] / mine,
            "Shapley sampling": seconds["Shapley sampling"] / seconds["decoded Grad-CAM, Shapley's sentences"],
        },
    }


def show(report: dict[str, Any]) -> None:
    for row in report["rows"]:
        print(f"{row['what']:48} {row['sentences']:4} sentences {row['seconds']:9.3f} s")
    a_batch, counts = report["a_batch"], report["counts"]
    n_states = report["tokens"] * counts["layers"]
    print(
        f"a batch: {a_batch['forwards']:g} forward, {a_batch['backwards']:g} backward, {a_batch['head_passes']:g} head "
        f"passes for {counts['layers']} layers; {counts['head_rows']} of {n_states} states read"
    )
    print(
        f"{report['bare_ratio']:.2f} x the bare passes ({report['bare_ratio_scored_rows']:.2f} x with the scored rows "
        f"only), target {TARGET}; the head is {report['head_share_of_bare']:.0%} of the bare passes and "
        f"{report['head_share_of_decoded']:.0%} of the decoded method"
    )
    for name, times in report["times_longer"].items():
        print(f"{name} takes {times:.1f} times as long")


if __name__ == "__main__":
    main()
