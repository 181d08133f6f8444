"""A corpus run killed with `kill -9` at random moments and resumed: are its files those of an undisturbed run?

    python benchmarks/corpus_kills.py --out benchmarks/results/corpus_kills.json

The whole group of processes is killed, or the one that leads alone (its workers are then left to find out), in turn.
A run that is complete before it is killed is compared and begun anew. `--engine ray` kills a worker instead, and the
run must go on by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whence.embedded import reviews


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--shard-texts", type=int, default=100)
    parser.add_argument("--engine", default="local", choices=("local", "ray"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "texts.txt"
        some = [review["text"] for review in reviews()]
        data.write_text("".join(f"{some[number % len(some)]} {number}\n" for number in range(options.texts)))
        started = time.monotonic()
        subprocess.run(
            command(data, folder / "whole", options.shard_texts, "local"), check=True, stderr=subprocess.DEVNULL
        )
        seconds = time.monotonic() - started
        whole = digests(folder / "whole")
        kill = killed_leaders if options.engine == "local" else killed_workers
        kills, compared, equal = kill(data, folder, options.shard_texts, options.kills, seconds, chance, whole)
    report = {
        "engine": options.engine,
        "texts": options.texts,
        "shard_texts": options.shard_texts,
        "seconds_undisturbed": round(seconds, 1),
        "kills": kills,
        "runs_compared": compared,
        "runs_equal": equal,
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def killed_leaders(
    data: Path, folder: Path, shard_texts: int, count: int, seconds: float, chance: random.Random, whole: dict[str, str]
) -> tuple[list[dict], int, int]:
    kills: list[dict] = []
    compared = equal = 0
    out = folder / "killed"
    while len(kills) < count or out.exists():
        process = subprocess.Popen(
            command(data, out, shard_texts, "local"), stderr=subprocess.DEVNULL, start_new_session=True
        )
        after = chance.uniform(0, seconds) if len(kills) < count else 10 * seconds
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            alone = len(kills) % 2 == 1
            os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            finished = len(list((out / "shards").glob("part-*.json")))
            kills.append({"after_seconds": round(after, 2), "leader_alone": alone, "shards_finished": finished})
            print(kills[-1], flush=True)
            continue
        if process.returncode:
            sys.exit(f"a resumed run ended with {process.returncode}")
        compared += 1
        equal += digests(out) == whole
        shutil.rmtree(out)
    return kills, compared, equal


def killed_workers(
    data: Path, folder: Path, shard_texts: int, count: int, seconds: float, chance: random.Random, whole: dict[str, str]
) -> tuple[list[dict], int, int]:
    kills: list[dict] = []
    compared = equal = 0
    while len(kills) < count:
        out = folder / f"killed-{compared}"
        process = subprocess.Popen(command(data, out, shard_texts, "ray"), stderr=subprocess.DEVNULL)
        while process.poll() is None and len(kills) < count:
            time.sleep(chance.uniform(0.1, 0.3) * seconds)
            workers = actors()
            finished = len(list((out / "shards").glob("part-*.json")))
            if workers and process.poll() is None and finished:
                os.kill(chance.choice(workers), signal.SIGKILL)
                kills.append({"worker": len(kills), "shards_finished": finished})
                print(kills[-1], flush=True)
        if process.wait():
            sys.exit(f"a run whose workers were killed ended with {process.returncode}")
        compared += 1
        equal += digests(out) == whole
    return kills, compared, equal


def actors() -> list[int]:
    """The processes of Ray's actors that explain."""
    listing = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listing.splitlines() if "ray::" in line and "Explainer" in line]


def command(data: Path, out: Path, shard_texts: int, engine: str) -> list[str]:
    return [
        sys.executable, "-c", "from whence.cli import main; main()", "run", "--data", str(data), "--out", str(out),
        "--workers", "2", "--shard-texts", str(shard_texts), "--engine", engine, "--resume",
    ]  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


if __name__ == "__main__":
    main()
