"""Corpus runs: texts per second, peak memory and output size as the corpus grows, and beside plain loops of others.

    python benchmarks/corpus.py --data-dir DATA --sizes 1000,10000,100000 --out benchmarks/results/corpus.json
    python benchmarks/corpus.py --data-dir DATA --sizes 1000 --engine ray          # beside the local engine
    python benchmarks/corpus.py --data-dir DATA --peers 1000                       # beside captum and interpreto

Texts are AG News and sentences of IMDb reviews, in turn, each corpus the beginning of the next larger one. A run is the
command itself, with two workers, in processes of its own, whose resident memory is sampled (shared pages count in each
of them). The rate is that after the start: from when as many shards are finished as there are workers, to the last.
Peers explain by gradient x activation: captum at every layer, a text at a time, and interpreto at the embeddings, which
is all it does, 16 texts at a time. whence makes tables of the same texts, with scores at all layers. Each has as many
threads (`--threads 1`), and all take turns, block by block, so that a busy machine is as busy for each. What each does
with two cores: `--peers 1000 --threads 2` beside the command with its two workers (`--sizes 10000 --methods
gradient_x_input`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

import whence
from whence.corpus.job import Asked, Job, ModelSource
from whence.corpus.shards import Shard, Work, make_shard
from whence.data.records import Record, records_of
from whence.embedded import reviews
from whence.units import sentence_spans

WORKERS, BLOCK, SHARD_TEXTS = 2, 200, 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="with ag_news.parquet and imdb.parquet; else reviews that ship")
    parser.add_argument("--sizes", default="", help="of the corpora, such as 1000,10000")
    parser.add_argument("--methods", default="one_pass,gradient_x_input")
    parser.add_argument("--engine", default="local", choices=("local", "ray"))
    parser.add_argument("--shard-texts", type=int, default=SHARD_TEXTS)
    parser.add_argument("--peers", type=int, default=0, help="texts to explain beside others")
    parser.add_argument("--threads", type=int, default=1, help="of each beside others")
    parser.add_argument("--no-interpreto", action="store_true", help="where it is not installed")
    parser.add_argument("--out", type=Path, help="results are added to those that are there")
    options = parser.parse_args()
    report: dict[str, Any] = {"runs": [], "peers": []}
    if options.out and options.out.exists():
        report = json.loads(options.out.read_text())
    report["hardware"] = f"{platform.machine()}, {os.cpu_count()} CPUs, shared"
    report["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    report["versions"] = {name: version(name) for name in ("torch", "transformers", "captum", "whence")}
    sizes = [int(size) for size in options.sizes.split(",") if size]
    with tempfile.TemporaryDirectory() as name:
        for size in sizes:
            data = Path(name) / f"{size}.jsonl"
            with data.open("w") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in islice(texts(options.data_dir), size))
            if options.engine == "local":
                report["leader"] = leader(data, size)
                print(json.dumps(report["leader"]), flush=True)
                write(report, options.out)
            for method in options.methods.split(",") if options.methods else ():
                found = measured(data, Path(name) / "out", method, options.engine, size, options.shard_texts)
                print(json.dumps(found), flush=True)
                report["runs"].append(found)
                write(report, options.out)
    if options.peers:
        some = list(islice(texts(options.data_dir), options.peers))
        for found in beside_others(some, not options.no_interpreto, options.threads):
            print(json.dumps(found), flush=True)
            report["peers"].append(found)
            write(report, options.out)


def write(report: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n")


def texts(data_dir: Path | None) -> Iterator[str]:
    """AG News and sentences of IMDb reviews in turn, without end."""
    if data_dir is None:
        while True:
            yield from (review["text"] for review in reviews())
    news = (each.text or "" for each in records_of("ag_news", data_dir=data_dir, split="all").each())
    for article, sentence in zip(news, _sentences(data_dir), strict=False):
        yield article
        yield sentence


def _sentences(data_dir: Path) -> Iterator[str]:
    for record in records_of("imdb", data_dir=data_dir, split="all").each():
        text = record.text or ""
        yield from (text[start:end] for start, end in sentence_spans(text) if end - start > 20)


def leader(data: Path, size: int) -> dict[str, Any]:
    """How fast the one process that reads can hand out texts: what it does beside waiting."""
    records = records_of(data)
    job = Job(
        folder=str(data.parent / "nowhere"), model=ModelSource(None, {}, "cpu"), methods=(), target="predicted",
        scale=None, units="word", seed=0, batch_tokens=1, format="parquet", paired=False, labelled=False, kept=(),
        labels=(),
    )  # fmt: skip
    started = time.perf_counter()
    handed = 0
    for item in Work(job, records.each(), records.each, SHARD_TEXTS, print).items(records.each()):
        assert isinstance(item, Shard), "nothing is finished"
        handed += len(item.to_json())
        _ = item.key
    seconds = time.perf_counter() - started
    return {
        "texts": size,
        "texts_per_second": round(size / seconds),
        "input_bytes_per_text": round(data.stat().st_size / size, 1),
        "handed_bytes_per_text": round(handed / size, 1),
        "load": os.getloadavg()[0],
    }


def measured(
    data: Path, out: Path, method: str, engine: str, size: int, shard_texts: int, workers: int = WORKERS,
    more: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """One run of the command: its rate, the most memory its processes held, and what it wrote."""
    command = [
        sys.executable, "-c", "from whence.cli import main; main()", "run", "--data", str(data), "--out", str(out),
        "--methods", method, "--workers", str(workers), "--engine", engine, "--shard-texts", str(shard_texts),
        *more,
    ]  # fmt: skip
    if method == "gradient_x_input":
        command += ["--layers", "all"]
    started = time.time()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    peak = Peak(process.pid)
    if process.wait():
        sys.exit(f"a run ended with {process.returncode}")
    peak.stop()
    seconds = time.time() - started
    made = sorted(path.stat().st_mtime for path in (out / "shards").iterdir())
    written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    corpus = whence.Corpus.open(out)
    begun = min(workers, len(made)) - 1  # each worker's first shard comes with its start-up
    between = made[-1] - made[begun]
    middle = made[len(made) // 4 : len(made) - len(made) // 4]
    found = {
        "method": method,
        "engine": engine,
        "texts": size,
        "words": corpus.manifest.counts["words"],
        "seconds": round(seconds, 1),
        "texts_per_second": round((size - sum(each.texts for each in corpus.shards[: begun + 1])) / between, 1)
        if between
        else None,
        "middle_texts_per_second": round(shard_texts * (len(middle) - 1) / (middle[-1] - middle[0]), 1)
        if len(middle) > 1
        else None,
        "peak_mb_leader": round(peak.leader / 1e6),
        "peak_mb_all": round(peak.everyone / 1e6),
        "output_mb": round(written / 1e6, 2),
        "load": os.getloadavg()[1],
    }
    subprocess.run(["rm", "-rf", str(out)], check=True)
    return found


class Peak:
    """The most resident memory of a process, and of its whole session together, sampled."""

    def __init__(self, leader: int) -> None:
        self.leader = self.everyone = 0
        self._pid, self._go_on = leader, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._go_on = False
        self._thread.join()

    def _watch(self) -> None:
        while self._go_on:
            held = {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    stat = (folder / "stat").read_text().rpartition(")")[2].split()
                    if int(stat[3]) == self._pid:
                        held[int(folder.name)] = int(stat[21]) * os.sysconf("SC_PAGE_SIZE")
                except (OSError, IndexError, ValueError):
                    continue
            self.leader = max(self.leader, held.get(self._pid, 0))
            self.everyone = max(self.everyone, sum(held.values()))
            time.sleep(0.2)


def beside_others(some: list[str], interpreto: bool, threads: int) -> list[dict[str, Any]]:
    """Seconds that each takes for the same texts, block by block in turn."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    model = whence.load()
    model.module.eval()
    peers = {"captum, gradient x activation at every layer": captum_loop(model)}
    if interpreto:
        peers["interpreto, gradient x input at the embeddings"] = interpreto_loop(model)
    seconds = dict.fromkeys(["whence", *peers], 0.0)
    with tempfile.TemporaryDirectory() as name:
        for table in ("texts", "words", "shards"):
            (Path(name) / table).mkdir()
        job = Job(
            folder=name, model=ModelSource("sentiment", {}, "cpu"), target="predicted", scale=None, units="word",
            seed=0, methods=(Asked("gradient_x_input", {}, model.layers("all")),), batch_tokens=2_048, format="parquet",
            paired=False, labelled=False, kept=(), labels=("negative", "positive"),
        )  # fmt: skip
        warm = Shard(0, tuple(Record(row, str(row), "", text) for row, text in enumerate(some[:4])))
        make_shard(model, job, warm)
        for index, start in enumerate(range(0, len(some), BLOCK)):
            block = some[start : start + BLOCK]
            shard = Shard(index, tuple(Record(row, str(row), "", text) for row, text in enumerate(block)))
            began = time.perf_counter()
            make_shard(model, replace(job, key=str(index)), shard)
            seconds["whence"] += time.perf_counter() - began
            for peer, loop in peers.items():
                began = time.perf_counter()
                loop(block)
                seconds[peer] += time.perf_counter() - began
    return [
        {
            "peer": peer,
            "texts": len(some),
            "threads": threads,
            "whence_seconds": round(seconds["whence"], 2),
            "peer_seconds": round(seconds[peer], 2),
            "ratio": round(seconds[peer] / seconds["whence"], 2),
        }
        for peer in peers
    ]


def captum_loop(model: whence.LayeredModel) -> Any:
    from captum.attr import LayerGradientXActivation

    module: Any = model.module
    bert = module.base_model

    def forward(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = module(input_ids=ids, attention_mask=mask).logits
        return logits

    methods = [LayerGradientXActivation(forward, layer) for layer in chain([bert.embeddings], bert.encoder.layer)]
    tokenizer = getattr(model.tokenizer, "tokenizer")  # noqa: B009

    def loop(block: list[str]) -> None:
        for text in block:
            inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
            ids, mask = inputs["input_ids"], inputs["attention_mask"]
            with torch.no_grad():
                target = int(forward(ids, mask).argmax())
            for method in methods:
                method.attribute(ids, target=target, additional_forward_args=(mask,)).sum(-1).detach().numpy()

    return loop


def interpreto_loop(model: whence.LayeredModel) -> Any:
    from interpreto import Granularity, Saliency

    tokenizer = getattr(model.tokenizer, "tokenizer")  # noqa: B009
    explainer = Saliency(model.module, tokenizer, granularity=Granularity.TOKEN, batch_size=16)
    return lambda block: explainer(block)


if __name__ == "__main__":
    main()
