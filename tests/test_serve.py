"""`whence serve` over HTTP: the same answers as Python, who may ask, how much, and that it stays up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from served import Running, decoder, running, small
from test_page import HOSTILE

import whence
from whence.explanation_json import to_json
from whence.methods import METHODS
from whence.methods.names import method_named
from whence.serving import models as serving_models
from whence.serving.asked import AskedExplanation, AskedPrediction
from whence.serving.desk import AT_ONCE, Desk
from whence.serving.limits import BusyError, Limits, TooLongError
from whence.serving.models import predicted
from whence.serving.running import listen

TEXT = "the plot was not bad, but it is too long and so very dull in the end!"
LIMITS = Limits(characters=2_000, body=300_000, jobs=3, waiting=8, patience=1.0, connections=40, seconds=20)
TOKEN = "a-token-of-enough-letters"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A classifier that breaks down at the word "sad", and a decoder."""
    with running({"films": small, "writer": decoder}, LIMITS) as found:
        films = found.models.named("films")
        sad = films.model.encode("sad").ids[1]

        def break_down(module: Any, args: Any, kwargs: Any) -> None:
            if (kwargs["input_ids"] == sad).any():
                raise RuntimeError("a secret of the model: sad")

        for model in (films.model, films.twin):
            model.module.register_forward_pre_hook(break_down, with_kwargs=True)
        yield found


@pytest.fixture(scope="module")
def fresh() -> whence.LayeredModel:
    """The same classifier, in nobody's hands."""
    return small()


# the same answers as Python


@pytest.mark.parametrize("method", [None, "gradient_x_input", "attention"])
def test_an_explanation_is_that_of_python(server: Running, fresh: whence.LayeredModel, method: str | None) -> None:
    answer = server.post("/api/explain", text=TEXT, method=method, layers="all" if method != "attention" else None)
    found = whence.Explanation.from_dict(answer.json())
    mine = whence.explain(fresh, TEXT, method, layers="all" if method != "attention" else None)
    np.testing.assert_allclose(found.scores, mine.scores, atol=1e-5)
    assert (found.tokens, found.layers, found.method) == (mine.tokens, mine.layers, mine.method)
    assert found.prediction.label == mine.prediction.label


def test_the_json_of_an_answer_is_that_of_to_dict(fresh: whence.LayeredModel) -> None:
    for settings in ({"method": "leave_one_out", "units": "word"}, {"method": "shapley", "samples": 2}):
        found = whence.explain(fresh, TEXT, **settings)
        assert json.loads(to_json(found)) == found.to_dict()


def test_targets_units_and_options_go_by_their_names(server: Running, fresh: whence.LayeredModel) -> None:
    asked = {"text": TEXT, "method": "gradient_x_input", "units": "sentence"}
    contrast = {"this": "good", "that": {"label": "bad"}}
    found = whence.Explanation.from_dict(server.post("/api/explain", **asked, target=contrast).json())
    mine = whence.explain(fresh, TEXT, "gradient_x_input", units="sentence", target=whence.Contrast("good", "bad"))
    assert found.units is not None
    assert mine.units is not None
    np.testing.assert_allclose(found.units.scores, mine.units.scores, atol=1e-5)
    assert found.target.description == mine.target.description == "good rather than bad"


def test_a_prediction_is_what_the_model_says(server: Running, fresh: whence.LayeredModel) -> None:
    said = server.post("/api/predict", text=TEXT).json()
    mine = whence.explain(fresh, TEXT, "random").prediction
    assert said["label"] == mine.label
    assert said["probabilities"] == pytest.approx(dict(mine.probabilities), abs=1e-5)
    both = predicted(fresh, [TEXT, "a witty film"])
    assert both[0].probability == pytest.approx(said["probability"], abs=1e-5)


def test_memory_is_given_back_after_so_many_answers(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(serving_models, "BETWEEN_TRIMS", 3)
    monkeypatch.setattr(serving_models, "give_memory_back", lambda: given.append(1))
    for _ in range(7):
        assert server.post("/api/predict", text=TEXT).status == 200
    assert len(given) >= 2


def test_a_job_says_how_far_it_is_and_what_it_found(server: Running, fresh: whence.LayeredModel) -> None:
    refused = server.post("/api/explain", text=TEXT, method="leave_one_out")
    assert refused.status == 400
    assert refused.json()["problem"] == "leave_one_out takes many passes of the model"
    begun = server.post("/api/jobs", text=TEXT, method="leave_one_out")
    assert begun.status == 202
    events = server.call("GET", f"/api/jobs/{begun.json()['id']}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    records = [json.loads(line.removeprefix("data: ")) for line in events.body.decode().split("\n\n") if line]
    assert records[-1]["state"] == "done"
    assert records[-1]["passes"] >= 1
    answer = server.call("GET", f"/api/jobs/{begun.json()['id']}/explanation")
    found = whence.Explanation.from_dict(answer.json())
    mine = whence.explain(fresh, TEXT, "leave_one_out")
    np.testing.assert_allclose(found.scores, mine.scores, atol=1e-5)


def test_a_decoder_writes_and_is_explained(server: Running) -> None:
    job = server.post("/api/jobs", model="writer", text="the film was", response=None, max_new_tokens=4).json()["id"]
    assert server.ended(job)["state"] == "done"
    found = whence.Explanation.from_dict(server.call("GET", f"/api/jobs/{job}/explanation").json())
    assert found.response
    assert found.outputs is not None
    assert server.post("/api/predict", model="writer", text="the film was").status == 200
    chat = server.post("/api/jobs", model="writer", text=[{"role": "user", "content": "why"}]).json()
    assert server.ended(chat["id"])["state"] == "failed"  # this decoder has no chat template
    assert server.post("/api/explain", model="films", text=TEXT, response="x").status == 400


def test_models_methods_schema_and_docs(server: Running) -> None:
    models = server.call("GET", "/api/models").json()
    assert [(model["name"], model["writes"]) for model in models] == [("films", False), ("writer", True)]
    assert models[0]["labels"] == ["bad", "fair", "good"]
    assert "one_pass" not in models[0]["methods"]
    assert {method["name"] for method in server.call("GET", "/api/methods").json()} == set(METHODS)
    schema = server.call("GET", "/openapi.json").json()
    fields = set(schema["components"]["schemas"]["AskedExplanation"]["properties"])
    assert fields - {"model", "text", "pair", "options"} <= set(whence.explain.__code__.co_varnames)
    docs = server.call("GET", "/docs").body.decode()
    assert "POST /api/explain" in docs
    assert "<script" not in docs
    assert "http://" not in docs
    assert "`" not in docs
    named = set(re.findall('href="#([^"]+)"', docs))
    assert {"Message", "AskedContrast"} <= named == set(re.findall('id="([^"]+)"', docs))


def test_a_page_can_be_taken_away(server: Running) -> None:
    found = server.post("/api/explain", text=TEXT, method="gradient_x_input").json()
    page = server.post("/api/page", explanations=[found])
    assert page.headers["content-disposition"] == 'attachment; filename="whence.html"'
    assert page.body.decode() == whence.Explanation.from_dict(found).to_html()
    data = server.post("/api/page/data", explanations=[found]).json()
    assert data["texts"][0]["text"] == TEXT
    assert server.post("/api/page", explanations=[{"schema": "of another kind"}]).status == 400


def test_methods_of_few_passes_say_so_truly(server: Running) -> None:
    """One or two forwards and one backward, however long the text."""
    model = whence.load()
    for name in [name for name, method in METHODS.items() if method.few_passes]:
        for text in ("a witty film", TEXT + " " + TEXT):
            cost = whence.explain(model, text, name).cost
            assert cost.forwards <= 2, name
            assert cost.backwards <= 1, name
    many = [name for name, method in METHODS.items() if not method.few_passes]
    assert "leave_one_out" in many
    assert "integrated_gradients" in many
    assert method_named("decoded_gradient").method.few_passes


# who may ask


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:99"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "127.0.0.1:80@evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_sites_are_refused(server: Running, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"text": "a witty film"}).encode()
    assert server.call("POST", "/api/predict", body, **headers).status == status


def test_its_own_page_may_ask_and_a_link_may_lead_to_it(server: Running) -> None:
    host = f"127.0.0.1:{server.port}"
    own = server.call("POST", "/api/predict", {"text": "a witty film"}, host=host, origin=f"http://{host}")
    assert own.status == 200
    assert "access-control-allow-origin" not in own.headers
    assert server.call("GET", "/", sec_fetch_site="cross-site").status == 200
    assert server.call("GET", "/api/models", sec_fetch_site="cross-site").status == 403
    assert server.call("OPTIONS", "/api/predict", origin="http://evil.example").status == 403


def test_every_answer_says_what_a_browser_may_do(server: Running) -> None:
    for path in ("/", "/docs", "/openapi.json", "/api/models", "/nowhere", "/api/jobs/none"):
        headers = server.call("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
    assert "connect-src 'self'" in server.call("GET", "/").headers["content-security-policy"]


def test_a_token_opens_and_nothing_else_does() -> None:
    with running({"films": small}, LIMITS, TOKEN, hosts=["127.0.0.1", "machine.example"]) as server:
        assert server.call("GET", "/api/models").status == 401
        assert server.call("GET", "/").status == 401
        assert server.call("GET", "/?token=wrong").status == 401
        assert server.call("GET", f"//evil.example/?token={TOKEN}").status == 401
        welcome = server.call("GET", f"/?token={TOKEN}", host="machine.example")
        assert (welcome.status, welcome.headers["location"]) == (303, "/")
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert server.call("GET", "/", cookie=cookie.split(";")[0]).status == 200
        assert server.call("GET", "/api/models", authorization=f"Bearer {TOKEN}").status == 200
        assert server.call("GET", "/api/models", authorization="Bearer ünïcode", cookie='a="').status == 401
        assert server.call("GET", "/api/models", authorization=f"Bearer {TOKEN}", host="evil.example").status == 403


# how much


def test_too_much_is_refused_in_words(server: Running) -> None:
    long = server.post("/api/predict", text="film " * 1_000)
    assert (long.status, long.json()["problem"]) == (413, "the texts have 5,000 characters")
    assert server.call("POST", "/api/predict", b"x" * 400_000).status == 413
    assert server.post("/api/jobs", text=TEXT, method="shapley", options={"samples": 10**12}).status == 413
    assert server.post("/api/jobs", text=TEXT, method="shapley", options={"samples": float("1e300")}).status == 413
    assert server.post("/api/jobs", model="writer", text="a", response=None, max_new_tokens=10**6).status == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 422), (b"[]", 422), (b"null", 422), (b"\xff\xfe", 422), (b"[" * 100_000, 400),
        (b'{"text": "a", "other": 1}', 422), (b'{"text": 1}', 422), (b'{"text": ""}', 400), (b'{"text": " "}', 400),
        (b'{"text": "\\ud800"}', 400), (b'{"text": "a", "seed": NaN}', 422), (b'{"text": "a", "seed": 1e999}', 422),
        (b'{"text": "a", "seed": -1}', 422), (b'{"text": "a", "layers": 99}', 400),
        (b'{"text": "a", "units": [[5, 2]]}', 400),
        (b'{"text": "a", "model": "none"}', 400), (b'{"text": "a", "method": "none"}', 400),
        (b'{"text": "a", "target": "none"}', 400), (b'{"text": "a", "method": "random", "options": {"x": 1}}', 400),
        (b'{"text": "a", "method": "random", "options": {"progress": 1}}', 400),
    ],
)  # fmt: skip
def test_a_bad_request_is_told_so(server: Running, body: bytes, status: int) -> None:
    answer = server.call("POST", "/api/explain", body)
    assert answer.status == status, answer.body
    assert set(answer.json()) == {"problem", "advice"}


def test_no_request_opens_a_file(server: Running, tmp_path: Any) -> None:
    """Every string of a request is made the path of a folder that is there: none is looked at."""
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "config.json").write_text("{}")
    opened: list[str] = []

    def listen_to(event: str, args: tuple[Any, ...]) -> None:
        if armed and event in ("open", "os.listdir", "os.scandir") and "canary" in str(args[0]):
            opened.append(str(args[0]))

    armed = True
    sys.addaudithook(listen_to)
    path = str(canary)
    fields = ("model", "method", "target", "layers", "units", "scale", "pair", "response", "foil", "without")
    for field in fields:
        server.post("/api/explain", **{"text": path, "method": "random", field: path})
    for name, method in METHODS.items():
        for option in (option for option, usual in method.options.items() if not isinstance(usual, (int, float))):
            job = server.post("/api/jobs", text="a film", method=name, options={option: path}).json()
            if "id" in job:
                server.ended(job["id"])
    refused = server.post("/api/jobs", text="a film", method="diffmask", options={"probes": path}).json()
    assert refused["problem"] == "'probes' cannot be an option of a request"
    server.call("GET", f"/{path}")
    server.call("GET", f"/api/jobs/{path}")
    server.call("GET", "/../../../../etc/passwd")
    armed = False
    assert opened == []


@pytest.mark.parametrize("poison", HOSTILE.values(), ids=HOSTILE)
def test_hostile_strings_are_data_in_every_field(server: Running, poison: str) -> None:
    """In texts they are explained, elsewhere refused; nothing is echoed as markup, and the server goes on."""
    for field in (
        "text",
        "pair",
        "model",
        "method",
        "target",
        "layers",
        "units",
        "scale",
        "response",
        "title",
        "options",
    ):
        value: Any = {poison[:50]: poison} if field == "options" else poison
        answer = server.post("/api/explain", **{"text": "a film", "method": "random", field: value})
        assert answer.status in (200, 400, 413, 422), (field, answer.body)
        assert answer.headers["content-type"] == "application/json"
        assert answer.body.isascii()
        answer.json()
    for header in ("user_agent", "cookie", "authorization", "referer", "x_forwarded_for", "accept"):
        sent = poison[:1_000].encode("unicode_escape").decode()
        assert server.call("GET", "/api/models", **{header: sent}).status == 200
    quoted = "".join(f"%{byte:02x}" for byte in poison[:200].encode())
    assert server.call("GET", f"/{quoted}").status in (404, 405)
    assert server.call("GET", f"/api/jobs/{quoted}").status in (400, 404)


# it stays up


def test_one_bad_text_spoils_no_other(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Asked at the same time, so that they come into one batch: the crash is told to its own client alone."""
    texts = ["a witty film", "so sad", "", "not the best movie of the year", "x" * 1_500] * 8
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda text: server.post("/api/explain", text=text, method="gradient"), texts))
    wanted = {"so sad": 500, "": 400}
    assert [each.status for each in answers if each.status != 503] == [
        wanted.get(text, 200) for text, each in zip(texts, answers, strict=True) if each.status != 503
    ]
    failed = [each for each in answers if each.status == 500]
    assert failed
    assert failed[0].json()["problem"] == "the model failed: RuntimeError"
    assert "sad" not in failed[0].body.decode() + caplog.text
    assert all(each.headers["retry-after"] for each in answers if each.status == 503)


def patient(server: Running, text: str) -> Any:
    """The answer for a client that comes again when it is told to."""
    while (answer := server.post("/api/explain", text=text, method="gradient_x_input")).status == 503:
        time.sleep(float(answer.headers["retry-after"]) / 50)
    assert answer.status == 200
    return answer.json()


def test_fifty_clients_are_answered_rightly(server: Running, fresh: whence.LayeredModel) -> None:
    texts = [f"the film was fine {'very ' * (number % 7)}good {number}" for number in range(50)]
    mine = whence.explain(fresh, texts, "gradient_x_input")

    with ThreadPoolExecutor(30) as pool:
        for found, wanted in zip(pool.map(lambda text: patient(server, text), texts), mine, strict=True):
            assert found["text"] == wanted.text
            np.testing.assert_allclose(np.array(found["scores"]), wanted.scores, atol=1e-5)


def test_a_full_queue_says_when_to_come_again(server: Running) -> None:
    """One job is worked on, three wait; meanwhile cheap questions are answered, and cancelling frees the queue."""
    let_go = threading.Event()
    films = server.models.named("films")
    hold = films.twin.module.register_forward_pre_hook(lambda *_: (let_go.wait(20), None)[1])
    try:
        begun = [server.post("/api/jobs", text=TEXT, method="leave_one_out") for _ in range(4)]
        deadline = time.monotonic() + 5
        while server.call("GET", f"/api/jobs/{begun[0].json()['id']}").json()["state"] == "queued":
            assert time.monotonic() < deadline
        begun.append(server.post("/api/jobs", text=TEXT, method="leave_one_out"))
        full = [each for each in begun if each.status == 503]
        assert full
        assert full[0].headers["retry-after"] == "10"
        assert full[0].json()["problem"] == "3 jobs are waiting: no more can wait"
        waiting = [each.json()["id"] for each in begun if each.status == 202]
        assert server.call("GET", f"/api/jobs/{waiting[-1]}").json()["ahead"] == len(waiting) - 1
        assert server.post("/api/explain", text=TEXT, method="gradient").status == 200
        for job in reversed(waiting):
            assert server.call("DELETE", f"/api/jobs/{job}").json()["state"] == "cancelled"
    finally:
        let_go.set()
        hold.remove()
    assert server.ended(waiting[0])["state"] == "cancelled"
    assert server.call("GET", f"/api/jobs/{waiting[0]}/explanation").json()["problem"] == "the job is cancelled"
    again = server.post("/api/jobs", text=TEXT, method="leave_one_out").json()
    assert server.ended(again["id"])["state"] == "done"


def test_a_job_is_stopped_in_the_middle_and_the_model_is_as_before(server: Running) -> None:
    films = server.models.named("films")
    before = predicted(films.twin, [TEXT])[0].probability
    begun = threading.Event()
    go_on = threading.Event()

    def wait(*_: Any) -> None:
        begun.set()
        go_on.wait(20)

    hold = films.twin.module.register_forward_pre_hook(wait)
    job = server.post("/api/jobs", text=TEXT, method="integrated_gradients", layers="all").json()["id"]
    assert begun.wait(10)
    server.call("DELETE", f"/api/jobs/{job}")
    hold.remove()
    go_on.set()
    record = server.ended(job)
    assert record["state"] == "cancelled"
    again = server.post("/api/jobs", text="a witty film", method="leave_one_out").json()["id"]
    assert server.ended(again)["state"] == "done"
    assert record["passes"] < 5
    assert predicted(films.twin, [TEXT])[0].probability == pytest.approx(before)


def test_a_job_nobody_asks_after_is_given_up(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.serving.jobs.FORGOTTEN", 0.05)
    films = server.models.named("films")
    hold = films.twin.module.register_forward_pre_hook(lambda *_: time.sleep(0.2))
    try:
        job = server.jobs.add(AskedExplanation(text=TEXT, method="integrated_gradients"), films)
        until = time.monotonic() + 10
        while job.state in ("queued", "running") and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        hold.remove()
    assert job.state == "cancelled"


def test_a_job_that_takes_too_long_is_ended() -> None:
    with running({"films": small}, Limits(job_seconds=0.0, seconds=0.0)) as server:
        job = server.post("/api/jobs", text=TEXT, method="leave_one_out").json()["id"]
        record = server.ended(job)
        assert (record["state"], record["problem"]) == ("failed", "no answer within 0 seconds")
        late = server.post("/api/explain", text=TEXT, method="gradient")
        assert late.status == 504


def test_finished_jobs_are_forgotten_in_time(server: Running) -> None:
    first = server.post("/api/jobs", text="a film", method="random").json()["id"]
    assert server.ended(first)["state"] == "done"
    for _ in range(20):
        server.ended(server.post("/api/jobs", text="a film", method="random").json()["id"])
    assert server.call("GET", f"/api/jobs/{first}").json()["problem"] == "there is no such job"


def test_slow_and_silent_clients_are_let_go(server: Running) -> None:
    """One says nothing, one stops in its head, one in its body, one sends its head byte by byte."""
    address = ("127.0.0.1", server.port)
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    beginnings = {
        "silent": b"",
        "head": f"POST /api/predict HTTP/1.1\r\n{host}".encode(),
        "body": (
            f"POST /api/predict HTTP/1.1\r\n{host}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
        ).encode(),
    }
    sockets = {name: socket.create_connection(address, timeout=10) for name in beginnings}
    for name, beginning in beginnings.items():
        sockets[name].sendall(beginning)
    dripping = socket.create_connection(address, timeout=10)
    begun = time.monotonic()
    while not _is_closed(dripping) and time.monotonic() - begun < 20:
        with contextlib.suppress(OSError):
            dripping.sendall(b"G")
        time.sleep(0.05)
    assert time.monotonic() - begun < 8 * LIMITS.patience
    said = {name: each.recv(1_000) for name, each in sockets.items()}
    for each in sockets.values():
        each.close()
    assert said["silent"] == said["head"] == b""
    assert b"408" in said["body"]
    assert server.post("/api/predict", text="a film").status == 200


def test_connections_are_bounded(server: Running) -> None:
    address = ("127.0.0.1", server.port)
    held = [socket.create_connection(address, timeout=10) for _ in range(LIMITS.connections + 60)]
    refused = [each for each in held if _first_bytes(each).startswith(b"HTTP/1.1 503")]
    assert len(refused) >= 60
    for each in held:
        each.close()
    until = time.monotonic() + 5
    while True:
        try:
            assert server.post("/api/predict", text="a film").status == 200
            break
        except (AssertionError, OSError):
            assert time.monotonic() < until
            time.sleep(0.05)


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _first_bytes(connection: socket.socket) -> bytes:
    connection.settimeout(0.01)
    try:
        return connection.recv(100)
    except OSError:
        return b""


def test_clients_that_leave_wait_in_nobody_s_place(server: Running) -> None:
    """Twenty ask and leave while the model is busy with one: soon only that one waits."""
    films = server.models.named("films")
    let_go = threading.Event()
    hold = films.model.module.register_forward_pre_hook(lambda *_: (let_go.wait(20), None)[1])
    body = json.dumps({"text": TEXT, "method": "gradient"}).encode()
    head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    try:
        with ThreadPoolExecutor(1) as pool:
            staying = pool.submit(patient, server, TEXT)
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", server.port), timeout=10) as gone:
                    gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until = time.monotonic() + 10
            while films.waiting != 1 and time.monotonic() < until:
                time.sleep(0.01)
            assert films.waiting == 1
            let_go.set()
            assert staying.result(20)["text"] == TEXT
    finally:
        let_go.set()
        hold.remove()


def test_texts_are_logged_only_if_asked_for(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for log_texts in (False, True):
        caplog.clear()
        with caplog.at_level(logging.DEBUG), running({"films": small}, LIMITS, log_texts=log_texts) as server:
            server.post("/api/predict", text="the film was zebra")
            server.post("/api/explain", text="the film was zebra", target="zebra")
            server.post("/api/explain", text="the film was zebra", method="zebra")
            server.call("GET", "/zebra?zebra")
        assert ("zebra" in caplog.text) is log_texts
        assert "zebra" not in capfd.readouterr().err


def test_a_model_and_its_twin_share_weights(server: Running) -> None:
    films = server.models.named("films")
    for mine, its in zip(films.model.module.parameters(), films.twin.module.parameters(), strict=True):
        assert mine.data_ptr() == its.data_ptr()


# the desk


def test_the_desk_answers_together_what_waits() -> None:
    seen: list[int] = []
    start = threading.Event()

    def answer(questions: Any) -> list[int | Exception]:
        start.wait(10)
        seen.append(len(questions))
        return [ValueError("odd") if question % 2 else question for question in questions]

    async def ask_all() -> list[Any]:
        desk: Desk[int, int] = Desk("test", answer, most=1_000)
        asked = [asyncio.ensure_future(desk.ask(number, 10)) for number in range(100)]
        await asyncio.sleep(0.05)
        asked[4].cancel()
        start.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(ask_all())
    assert [each for each in found if isinstance(each, int)] == [number for number in range(0, 100, 2) if number != 4]
    assert sum(isinstance(each, ValueError) for each in found) == 50
    assert max(seen) == AT_ONCE
    assert len(seen) <= 6


def test_the_desk_is_bounded_in_number_and_time() -> None:
    release = threading.Event()

    def answer(questions: Any) -> list[int | Exception]:
        release.wait(10)
        return list(questions)

    async def ask() -> None:
        desk: Desk[int, int] = Desk("test", answer, most=2)
        waiting = [asyncio.ensure_future(desk.ask(number, 0.2)) for number in range(3)]
        await asyncio.sleep(0.05)
        late = [asyncio.ensure_future(desk.ask(number, 0.2)) for number in range(3)]
        found = await asyncio.gather(*waiting, *late, return_exceptions=True)
        release.set()
        assert any(isinstance(each, BusyError) for each in found)
        assert any(isinstance(each, TooLongError) for each in found)

    asyncio.run(ask())


def test_what_is_asked_alike_goes_together() -> None:
    one, other = (AskedExplanation(text=text, method="gradient", seed=1) for text in ("a", "b"))
    assert one.alike == other.alike is not None
    assert AskedExplanation(text="a", method="gradient").alike != one.alike
    assert AskedExplanation(text="a", response="b").alike is None
    assert AskedExplanation(text="a", units=[(0, 1)]).alike is None
    assert AskedPrediction(text="a").pair is None
    assert torch.is_grad_enabled()


def test_answers_are_sent_at_once() -> None:
    """A small answer must not wait until the client has acknowledged its head."""
    found: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def ask() -> None:
        listening = listen("127.0.0.1", 0)
        async with await asyncio.start_server(answer, sock=listening):
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            await reader.read()
            writer.close()

    asyncio.run(ask())
    assert found == [1]
