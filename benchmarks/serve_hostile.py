"""What `whence serve` was tried with, and what held: strings, headers, hosts, sizes, slowness and numbers.

A server is started as a user starts it. After each attack an ordinary client must be answered.

python benchmarks/serve_hostile.py --out benchmarks/results/serve_hostile.json
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from test_page import HOSTILE

FIELDS = (
    "text", "pair", "model", "method", "target", "layers", "units", "scale", "response", "foil", "without", "options",
    "title",
)  # fmt: skip
HEADERS = (
    "User-Agent", "Cookie", "Authorization", "Referer", "Accept", "X-Forwarded-For", "X-Forwarded-Host", "Forwarded",
)  # fmt: skip
LISTENING = re.compile(r"at http://127\.0\.0\.1:(\d+)/")
PATIENCE = 10.0  # seconds, as `Limits` has it


@contextmanager
def whence_serve() -> Iterator[tuple[int, psutil.Process]]:
    """`whence serve` on a free port."""
    command = [sys.executable, "-c", "from whence.cli import main; main()", "serve", "--port", "0", "-m", "sentiment"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = LISTENING.search(process.stderr.readline())
        assert found, "the server did not say where it is"
        port = int(found[1])
        while True:
            with contextlib.suppress(OSError):
                if answered(port):
                    break
            time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


def ask(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    content = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
    try:
        connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answered(port: int) -> bool:
    """Whether an ordinary client is; told to come again in a second, it does so once."""
    asked = {"text": "a gorgeous, witty film", "method": "one_pass"}
    status, body = ask(port, "POST", "/api/explain", asked)
    if status == 503:
        time.sleep(1)
        status, body = ask(port, "POST", "/api/explain", asked)
    return status == 200 and json.loads(body)["prediction"]["label"] == "positive"


def raw(port: int, content: bytes, wait: float = 5.0) -> bytes:
    """What the server says to bytes, until it closes or is silent."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection, contextlib.suppress(OSError):
        connection.sendall(content)
        while part := connection.recv(65536):
            said += part
    return said


def strings(port: int) -> tuple[int, str, bool]:
    statuses: Counter[int] = Counter()
    echoed = 0
    for poison in HOSTILE.values():
        for route in ("/api/explain", "/api/predict", "/api/jobs"):
            for field in FIELDS:
                value: Any = {poison[:50]: poison} if field == "options" else poison
                status, body = ask(port, "POST", route, {"text": "a film", field: value})
                statuses[status] += 1
                echoed += not body.isascii()
    told = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    return (
        statuses.total(),
        f"{told}; all JSON in ASCII",
        not echoed and set(statuses) <= {200, 202, 400, 413, 422, 503},
    )


def headers(port: int) -> tuple[int, str, bool]:
    statuses: Counter[int] = Counter()
    for poison in HOSTILE.values():
        sent = poison[:2_000].encode("unicode_escape").decode()
        for header in HEADERS:
            statuses[ask(port, "GET", "/api/models", headers={header: sent})[0]] += 1
        quoted = "".join(f"%{byte:02x}" for byte in poison[:300].encode())
        for path in (f"/{quoted}", f"/api/jobs/{quoted}", f"/api/jobs/{quoted}/events", f"/?token={quoted}"):
            statuses[ask(port, "GET", path)[0]] += 1
    told = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    return statuses.total(), told, set(statuses) <= {200, 400, 404}


def paths(port: int) -> tuple[int, str, bool]:
    tried = [
        "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd",
        "/static/../app.py",
        "/api/jobs/../../etc/passwd", "/\\..\\..\\etc\\passwd", "/api/models%00.html", "/.git/config", "/favicon.ico",
    ]  # fmt: skip
    statuses = Counter(ask(port, "GET", path)[0] for path in tried)
    files = {"probes": "/etc", "model": "/etc/passwd", "method": "/etc/passwd"}
    for field, path in files.items():
        body = {
            "text": "a film",
            "method": "diffmask",
            **({"options": {field: path}} if field == "probes" else {field: path}),
        }
        statuses[ask(port, "POST", "/api/jobs", body)[0]] += 1
    return statuses.total(), "nothing but 400 and 404", set(statuses) <= {400, 404}


def hosts(port: int) -> tuple[int, str, bool]:
    names = ["evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
             "127.0.0.1@evil",
             "", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "LOCALHOST."]  # fmt: skip
    origins = [
        "http://evil.example",
        "null",
        "https://127.0.0.1",
        "http://127.0.0.1:1",
        "file://",
        "http://localhost.evil",
    ]
    body = {"text": "a film"}
    found = [ask(port, "POST", "/api/predict", body, {"Host": name})[0] for name in names]
    found += [ask(port, "POST", "/api/predict", body, {"Origin": origin})[0] for origin in origins]
    found += [
        ask(port, "POST", "/api/predict", body, {"Sec-Fetch-Site": site})[0] for site in ("cross-site", "same-site")
    ]
    two = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    none = b"GET /api/models HTTP/1.1\r\n\r\n"
    refused = [raw(port, content).startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")) for content in (two, none)]
    return len(found) + 2, "refused, all of them", set(found) <= {400, 403} and all(refused)


def forms(port: int) -> tuple[int, str, bool]:
    """What a page of another site can send without asking first."""
    kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
    found = [ask(port, "POST", "/api/predict", b'{"text": "a film"}', {"Content-Type": kind})[0] for kind in kinds]
    return len(found), "415, all of them", set(found) == {415}


def bodies(port: int) -> tuple[int, str, bool]:
    head = f"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    declared = raw(port, f"{head}Content-Length: 1000000000000\r\n\r\n".encode())
    endless = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 8
    chunked = raw(port, endless)
    nested = ask(port, "POST", "/api/predict", b"[" * 1_000_000)[0]
    numbers = ask(port, "POST", "/api/explain", b'{"text": "a", "seed": ' + b"9" * 100_000 + b"}")[0]
    wide = ask(port, "POST", "/api/explain", {"text": "a", "options": {f"o{i}": i for i in range(50_000)}})[0]
    long = ask(port, "POST", "/api/explain", {"text": "film " * 300_000})[0]
    large = ask(port, "POST", "/api/jobs", {"text": "a film", "method": "shapley", "options": {"samples": 10**15}})[0]
    held = declared.startswith(b"HTTP/1.1 413") and (not chunked or chunked.startswith(b"HTTP/1.1 413"))
    return 7, "413 or 4xx, none read to its end", held and {nested, numbers, wide, long, large} <= {400, 413, 422}


def broken(port: int) -> tuple[int, str, bool]:
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    tried = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,  # TLS
        b"GET\r\n\r\n", b"\r\n" * 10_000, b"\x00" * 10_000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"".join(b"X%d: y\r\n" % i for i in range(20_000)) + b"\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"POST /api/predict HTTP/1.1\r\n" + host
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
        b"POST /api/predict HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"X: a\r\n b\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ]  # fmt: skip
    said = [raw(port, content, wait=2.0) for content in tried]
    good = [not each or each.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or b"200 OK" in each[:20] for each in said]
    return len(tried), "refused or closed", all(good)


def slow(port: int) -> tuple[int, str, bool]:
    """Two hundred heads and bodies that never end: ordinary clients are answered meanwhile, the slow ones let go."""
    head = f"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    body = f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    held = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(200)]
    for number, each in enumerate(held):
        each.sendall((head if number % 2 else body).encode())
    begun = time.monotonic()
    while_slow = [answered(port) for _ in range(20)]
    took = (time.monotonic() - begun) / 20
    ended = 0
    for each in held:
        with contextlib.suppress(TimeoutError):
            said = each.recv(100)
            ended += said == b"" or said.startswith(b"HTTP/1.1 408")
        each.close()
    gone = time.monotonic() - begun
    told = f"let go after {gone:.0f} s; others were answered in {1000 * took:.0f} ms meanwhile"
    return 200, told, all(while_slow) and ended == 200 and gone < 3 * PATIENCE


def many(port: int, process: psutil.Process, count: int = 10_000) -> tuple[int, str, bool]:
    """As many connections at once: the server holds so many and no more, and who was there before goes on."""
    before = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = json.dumps({"text": "a gorgeous, witty film"})

    def ordinary() -> int:
        before.request("POST", "/api/predict", body, {"Content-Type": "application/json"})
        answer = before.getresponse()
        answer.read()
        return answer.status

    ordinary()
    opened: list[socket.socket] = []
    failed = 0
    most = 0
    statuses = []
    for number in range(count):
        connection = socket.socket()
        connection.settimeout(10)
        try:
            connection.connect(("127.0.0.1", port))
            opened.append(connection)
        except OSError:
            failed += 1
            connection.close()
        if number % 250 == 0:
            statuses.append(ordinary())
            most = max(most, len(process.net_connections("tcp")))
    statuses.append(ordinary())
    for connection in opened:
        connection.close()
    before.close()
    until = time.monotonic() + 3 * PATIENCE
    back = False
    while time.monotonic() < until and not back:
        with contextlib.suppress(OSError):
            back = answered(port)
        time.sleep(0.1)
    told = f"at most {most:,} were held, the others refused; a client that was there before was always answered"
    return count, told, set(statuses) == {200} and most < 700 and back


def flood(port: int) -> tuple[int, str, bool]:
    """Many long jobs at once: so many wait, the rest are told when to come again; cancelled, they are gone."""
    body = {"text": "a gorgeous, witty film " * 20, "method": "shapley", "options": {"samples": 200}}
    begun = [ask(port, "POST", "/api/jobs", body) for _ in range(100)]
    taken = [json.loads(answer)["id"] for status, answer in begun if status == 202]
    meanwhile = answered(port)
    for job in reversed(taken):
        ask(port, "DELETE", f"/api/jobs/{job}")
    refused = sum(status == 503 for status, _ in begun)
    until = time.monotonic() + 20
    states: Counter[str] = Counter()
    while time.monotonic() < until and set(states) != {"cancelled"}:
        states = Counter(
            json.loads(ask(port, "GET", f"/api/jobs/{job}")[1]).get("state", "gone") for job in taken[-10:]
        )
    told = f"{len(taken)} were taken, {refused} told to come again; short questions were answered meanwhile"
    return 100, told, meanwhile and len(taken) + refused == 100 and len(taken) <= 18 and set(states) == {"cancelled"}


def leaving(port: int) -> tuple[int, str, bool]:
    content = json.dumps({"text": "a gorgeous, witty film", "method": "held_still"})
    head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    for _ in range(500):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
    return 500, "clients that ask and leave at once; others are answered", answered(port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    with whence_serve() as (port, process):
        begun = process.memory_info().rss / 1e6
        tried: dict[str, Callable[[], tuple[int, str, bool]]] = {
            "hostile strings in every field": lambda: strings(port),
            "hostile strings in headers and addresses": lambda: headers(port),
            "paths of files": lambda: paths(port),
            "foreign hosts and origins": lambda: hosts(port),
            "forms of other sites": lambda: forms(port),
            "huge bodies": lambda: bodies(port),
            "broken protocol": lambda: broken(port),
            "slow clients": lambda: slow(port),
            "parallel connections": lambda: many(port, process),
            "a flood of long jobs": lambda: flood(port),
            "clients that leave": lambda: leaving(port),
        }
        for name, attack in tried.items():
            count, told, held = attack()
            rows.append({"tried": name, "times": count, "what": told, "held": held and answered(port)})
            print(json.dumps(rows[-1]), flush=True)
        grown = process.memory_info().rss / 1e6 - begun
    print(f"memory grew by {grown:.0f} MB over all of it")
    if options.out:
        options.out.write_text(json.dumps({"rows": rows, "memory_grew_mb": grown}, indent=1) + "\n")


if __name__ == "__main__":
    main()
