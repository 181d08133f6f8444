"""`whence serve` as a user starts it: what it refuses, where it says it is, and that it prints no text."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from whence.cli import app


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--host", "0.0.0.0"], "others can reach 0.0.0.0, so they must know a token"),
        (["--host", "192.0.2.1"], "others can reach 192.0.2.1, so they must know a token"),
        (["--token", "short"], "a token has at least 16 letters"),
        (["--token", "sixteen letters and a blank"], "a token has at least 16 letters"),
        (["-m", "/one/model", "-m", "/other/model", "--port", "0"], "two models are called 'model'"),
    ],
)
def test_what_is_unsafe_or_cannot_be_is_refused(arguments: list[str], problem: str) -> None:
    found = CliRunner().invoke(app, ["serve", *arguments])
    assert found.exit_code == 2
    assert problem in found.stderr


def test_it_says_where_it_is_answers_and_prints_no_text() -> None:
    command = [sys.executable, "-c", "from whence.cli import main; main()", "serve", "--port", "0", "-m", "sentiment"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        where = re.search(r"whence serves sentiment at http://127\.0\.0\.1:(\d+)/$", said)
        assert where, said
        connection = http.client.HTTPConnection("127.0.0.1", int(where[1]), timeout=60)
        body = json.dumps({"text": "zebra zebra"})  # unlike what the probes know, so it comes with a warning
        connection.request("POST", "/api/explain", body, {"content-type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        assert answer["warnings"]
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) in (0, 1, -signal.SIGINT, 130)
    assert "zebra" not in rest
    assert "Traceback" not in rest
