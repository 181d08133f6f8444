"""Write docs/scale.md: a billion texts on a cluster, reckoned from what benchmarks/corpus.py measured.

python benchmarks/write_scale.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "experiments"))  # where page_writing is

from page_writing import bullet

from whence.corpus.estimate import duration, size

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "corpus.json"
ON_GPU = RESULTS.with_name("corpus-gpu.json")
PAGE = ROOT / "docs" / "scale.md"
TEXTS = 1_000_000_000
SHARD_TEXTS = 10_000
WORKERS = 2  # of the runs measured
CPUS = (64, 1_000, 10_000)
PADDED = 512  # tokens, to which ThermoStat pads every text


def page(report: dict[str, Any]) -> str:
    local = [run for run in report["runs"] if run["engine"] == "local" and run["method"] == "one_pass"]
    run = max(local, key=lambda each: each["texts"])
    leader = report["leader"]
    per_cpu = run["texts_per_second"] / 2
    written = run["output_mb"] * 1e6 / run["texts"]
    read = leader["input_bytes_per_text"]
    feeds = leader["texts_per_second"] / per_cpu
    cpu_hours = TEXTS / per_cpu / 3_600
    shards = TEXTS // SHARD_TEXTS
    rows = "\n".join(_row(cpus, per_cpu, leader["texts_per_second"], written) for cpus in CPUS)
    return f"""# A billion texts

Made by `benchmarks/write_scale.py` from `benchmarks/results/corpus.json`: numbers of one small machine
({report["hardware"]}), multiplied, and from `corpus-gpu.json`. What was measured is said first; the rest is arithmetic.

## Measured
- One worker (a process with one thread and a model of its own) explains **{per_cpu:,.1f} texts a second** with the
  usual method on the embedded model: {run["texts"]:,} texts of {run["words"] / run["texts"]:.0f} words each on
  average, two workers, {run["texts_per_second"]:,.1f} a second together, while the machine had a load of
  {run["load"]:.0f} on {report["hardware"].split(", ")[1]}. A larger model divides this by what its forward pass
  costs more.
- The process that leads reads, numbers, digests and hands out **{leader["texts_per_second"]:,} texts a second**
  ({read:,.0f} bytes each in the source, load {leader["load"]:.0f}).
- The tables take **{written:,.0f} bytes a text** (Parquet, zstd), receipts and manifest included.
{_held(local)}
{_beside_others(report)}
{_on_gpu()}
## What is read, written, lost and paid for
- **Read**: {size(TEXTS * read)}, once; on `--resume` once more, since finished shards are told by a digest of their
  texts. **Written**: {size(TEXTS * written)} in {shards:,} shards of {SHARD_TEXTS:,} texts
  (`--shard-texts {SHARD_TEXTS}`), three files each, and a manifest of about {size(shards * 500)}.
- **Paid for**: {cpu_hours:,.0f} CPU hours, or this many machines for this long (reckoned from n = {run["texts"]:,}):

| CPUs | explaining | the leader busy | texts a second | written |
|---|---|---|---|---|
{rows}

- **Lost** when a worker dies: its shard, at most {SHARD_TEXTS:,} texts or {duration(SHARD_TEXTS / per_cpu)} of one
  CPU; the shard is made again by another. When the leader dies: the shards under way; `--resume` goes on. With one
  worker in a hundred lost every hour the waste is under {100 * (SHARD_TEXTS / per_cpu / 3_600) / 100:.2f} % of the
  work. Files are written whole and under the shard's number, so nothing is there twice.

## Which step saturates first
The leader. One feeds about **{feeds:,.0f} workers** of this speed; more of them wait. Beyond that, and always with
GPUs that are a hundred times faster than one CPU, split the corpus by files and start a run for each part, with a
folder of its own: shards know nothing of each other, and tables of several folders are read together
(`read_parquet('runs/*/words/*.parquet')`). Disks come next: {feeds:,.0f} workers write
{size(feeds * per_cpu * written)} a second together. The model does not saturate: workers share nothing.

On `--resume` the leader checks every finished file against its checksum, at the speed of the disk. What does grow
with the corpus is the manifest, the number of files, and the vocabulary that `whence table` and `whence overview` add
up; the latter is bounded by the words of a language, not by texts.
"""


def _beside_others(report: dict[str, Any]) -> str:
    """Plain loops of other packages over the same texts, and Ray."""
    runs = {(run["engine"], run["method"], run["texts"]): run["texts_per_second"] for run in report["runs"]}
    [[size, rate]] = [[texts, rate] for (_, method, texts), rate in runs.items() if method == "gradient_x_input"]
    loops = "; ".join(
        f"{each['peer']}: {each['texts'] / each['peer_seconds']:.1f} (n = {each['texts']:,})"
        for each in report["peers"]
        if each["threads"] == WORKERS
    )
    in_turns = " and ".join(
        ", ".join(f"{each['ratio']:.1f}" for each in report["peers"] if each["threads"] == threads)
        + f" times as long with {threads} thread{'s' * (threads > 1)} each"
        for threads in (WORKERS, 1)
    )
    [[texts, of_ray]] = [[texts, rate] for (engine, _, texts), rate in runs.items() if engine == "ray"]
    told = [
        f"""Beside plain loops of others, {WORKERS} cores each: tables of gradient x input at all layers come at
        {rate:,.1f} texts a second from {WORKERS} workers (n = {size:,}, after their start); {loops}. In one process and
        in turns, in shards of 200 texts, they take {in_turns}.""",
        f"""{WORKERS} workers of Ray: {of_ray:,.1f} texts a second at {texts:,},
        {of_ray / runs["local", "one_pass", texts]:.2f} of what as many of whence's own have.""",
    ]
    return "\n".join(line for each in told for line in bullet(each))


def _on_gpu() -> str:
    """What corpus_gpu.py measured: tables beside the bare forward pass, and beside a published cost."""
    report = json.loads(ON_GPU.read_text())
    loops = {loop["loop"]: loop["texts_per_second"] for loop in report["loops"]}
    runs = "; ".join(
        f"{run['workers']} workers {run['middle_texts_per_second']:,.0f} texts a second, {run['beside']:.2f} times the"
        f" forward's time ({run['seconds']:.0f} s with all that comes before)"
        for run in report["runs"]
    )
    fastest = min(report["runs"], key=lambda run: run["seconds"])
    tokens = report["tokens"] / report["loop_texts"]
    told = [
        f"""On a GPU ({report["hardware"]}, {report["cpus"]} CPUs; `benchmarks/corpus_gpu.py`), {report["texts"]:,}
        texts of AG News ({report["different_texts"]:,} different ones), `{report["method"]}`: the model's own forward
        pass over batches that were tokenised before, in one process, {loops["forward"]:,.0f} texts a second; tables of
        workers who share the GPU: {runs}. One process, from texts: {loops["forward, from texts"]:,.0f} classified,
        {loops["whence.explain"]:,.0f} explained; tokenizer and Python take that time, so a GPU wants many workers.""",
        f"""ThermoStat (Feldhus et al., 2021) tells of more than 10,000 GPU-hours for its explanations, made one text at
        a time and padded to {PADDED} tokens. The run above took {fastest["seconds"] / 3_600:.4f}. These are not the
        same work: theirs has larger models and methods of hundreds of passes, here a model of six narrow layers gives
        one pass. What does carry over: a text has {tokens:.0f} tokens here, so that their padding alone reads
        {PADDED / tokens:.1f} times as many.""",
    ]
    return "\n".join(line for each in told for line in bullet(each)) + "\n"


def _held(runs: list[dict[str, Any]]) -> str:
    return "\n".join(
        bullet(f"""The most that all processes of a run held together, and its leader alone: {_memory(runs)}. A worker
        holds a model and a shard; the leader a shard for each worker, and the receipts.""")
    )


def _memory(runs: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{run['peak_mb_all']:,} and {run['peak_mb_leader']:,} MB at {run['texts']:,} texts"
        for run in sorted(runs, key=lambda each: each["texts"])
    )


def _row(cpus: int, per_cpu: float, leader: float, written: float) -> str:
    rate = min(cpus * per_cpu, leader)
    note = "" if rate < leader else ": the leader is the limit, split the corpus"
    busy = min(1.0, cpus * per_cpu / leader)
    return f"| {cpus:,} | {duration(TEXTS / rate)}{note} | {busy:.0%} | {rate:,.0f} | {size(rate * written)}/s |"


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RESULTS.read_text())))
