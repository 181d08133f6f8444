"""`whence serve` under load: requests per second and waiting times, beside the bare model behind the same server.

A server is started in a process of its own, clients in another; each keeps its connection and asks again as soon as it
is answered. *bare* is transformers alone: tokenizer, model and softmax, behind the same guard, routes and batches.
Memory is the server's resident set over many requests, all of different texts.

python benchmarks/serve.py --out benchmarks/results/serve.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch
from fastapi import Response

import whence
from whence.embedded import reviews
from whence.serving.app import make_app
from whence.serving.asked import AskedPrediction
from whence.serving.desk import Desk
from whence.serving.guard import LOOPBACK, Guard
from whence.serving.jobs import Jobs
from whence.serving.limits import Limits
from whence.serving.models import Models, ServedModel, as_json
from whence.serving.running import listen, serve_until, server_of
from whence.serving.work import apart

CLIENTS = (1, 8, 50)
ASKED = {
    "bare": ("/bare", {}),
    "predict": ("/api/predict", {}),
    "one_pass": ("/api/explain", {"method": "one_pass"}),
    "held_still": ("/api/explain", {"method": "held_still"}),
}


def some_texts() -> list[str]:
    return [review["text"] for review in reviews()]


def serve() -> None:
    """The server's process: what `whence serve` runs, and a route for the bare model."""
    limits = Limits()
    models = Models([apart(lambda: ServedModel("sentiment", whence.load(), whence.load(), limits))])
    jobs = Jobs(limits)
    app = make_app(models, jobs, limits)
    alone = apart(whence.load)
    module: Any = alone.module
    tokenizer = alone.tokenizer.tokenizer  # type: ignore[attr-defined]
    names = module.config.id2label

    def said(asked: Sequence[AskedPrediction]) -> list[bytes]:
        encoded = tokenizer([each.text for each in asked], padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            chances = module(**encoded).logits.softmax(dim=-1).tolist()
        told = [dict(zip(names.values(), row, strict=True)) for row in chances]
        return [as_json({"label": max(each, key=each.__getitem__), "probabilities": each}) for each in told]

    desk: Desk[AskedPrediction, bytes] = Desk("bare", said, limits.waiting)

    @app.post("/bare")
    async def bare(asked: AskedPrediction) -> Response:
        return Response(await desk.ask(asked, limits.seconds), media_type="application/json")

    listening = listen("127.0.0.1", 0)
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    serve_until(server_of(Guard(app, LOOPBACK, limits), limits), listening, jobs.close)


@contextmanager
def started(*command: str) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a server, which ends afterwards."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline()), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


def request(port: int, path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def client(port: int, requests: Iterator[bytes], until: float, waited: list[float]) -> None:
    """Asks again and again over one connection; every answer must be good."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for each in requests:
        begun = time.perf_counter()
        if begun > until:
            break
        writer.write(each)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        waited.append(time.perf_counter() - begun)
    writer.close()


def load(port: int, name: str, clients: int, seconds: float, texts: Sequence[str]) -> dict[str, float]:
    """Requests per second and quantiles of the waiting time, in milliseconds."""
    path, more = ASKED[name]
    waited: list[float] = []

    def endless(number: int) -> Iterator[bytes]:
        draw = random.Random(number)
        while True:
            yield request(port, path, {"text": draw.choice(texts), **more})

    async def all_of_them() -> float:
        begun = time.perf_counter()
        until = begun + seconds
        await asyncio.gather(*(client(port, endless(number), until, waited) for number in range(clients)))
        return time.perf_counter() - begun

    taken = asyncio.run(all_of_them())
    cuts = statistics.quantiles(waited, n=100)
    return {"rate": len(waited) / taken, "p50_ms": 1000 * cuts[49], "p99_ms": 1000 * cuts[98]}


def memory(port: int, process: psutil.Process, count: int) -> list[list[float]]:
    """Requests made so far and the server's resident set in MB: texts of all lengths, none of them twice."""
    vocabulary = sorted({word for text in some_texts() for word in text.split()})
    draw = random.Random(0)

    def some(number: int) -> Iterator[bytes]:
        for index in range(number):
            text = " ".join(draw.choices(vocabulary, k=1 + index % 40))
            yield request(port, "/api/explain", {"text": text, "method": "one_pass"})

    found = []
    made = 0
    for _ in range(11):
        found.append([made, process.memory_info().rss / 1e6])
        asked = some(count // 10)

        async def eight(asked: Iterator[bytes] = asked) -> None:
            await asyncio.gather(*(client(port, asked, float("inf"), []) for _ in range(8)))

        asyncio.run(eight())
        made += count // 10
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="be the server")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    texts = some_texts()
    rows = []
    with started(sys.executable, __file__, "--serve") as (port, process):
        for name in ASKED:
            load(port, name, 8, 2.0, texts)
        for clients in CLIENTS:
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in ASKED}
            for _ in range(options.repeats):  # in turn, so that a busy moment falls on all
                for name in ASKED:
                    runs[name].append(load(port, name, clients, options.seconds, texts))
            medians = {
                name: {key: statistics.median(run[key] for run in mine) for key in mine[0]}
                for name, mine in runs.items()
            }
            for name, numbers in medians.items():
                of_bare = statistics.median(
                    mine["rate"] / bare["rate"] for mine, bare in zip(runs[name], runs["bare"], strict=True)
                )
                rows.append({"clients": clients, "asked": name, **numbers, "of_bare": of_bare})
                print(json.dumps(rows[-1]), flush=True)
        held = memory(port, process, options.requests)
        print(json.dumps(held), flush=True)
    report = {
        "hardware": f"CPU, {len(os.sched_getaffinity(0))} cores, server and clients together",
        "versions": {name: version(name) for name in ("fastapi", "uvicorn", "torch", "transformers")},
        "load": os.getloadavg()[0],
        "settings": {"seconds": options.seconds, "repeats": options.repeats, "texts": len(texts)},
        "rows": rows,
        "memory": held,
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
