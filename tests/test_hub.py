"""Probes on the hub: what goes up, what comes down, and that both are as safe as a folder. The hub is played by a local
server, and what would be uploaded is kept in a folder."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import tiny_models
from complaints import complaint
from huggingface_hub import HfApi
from quick_probes import quick, quick_shares, same, same_shares
from tiny_models import SHORT, tiny
from typer.testing import CliRunner

import whence
from whence.cli import app

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "somebody/some-probes"


class Hub:
    """A folder of files that is served under `NAME`, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": file.name} for file in sorted(self.folder.iterdir())]
            tree = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _digest(file)[:40]}
                for file in sorted(self.folder.iterdir())
            ]
            told: Any = tree if "/tree/" in path else {"id": NAME, "sha": COMMIT, "siblings": siblings}
            return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()
        if path.startswith(f"/{NAME}/resolve/"):
            file = self.folder / path.rsplit("/", 1)[1]
            if file.is_file():
                headers = {"ETag": f'"{_digest(file)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
                return 200, headers, file.read_bytes()
        return 404, {"X-Error-Code": "RepoNotFound"}, b"not here"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The local hub, where huggingface_hub looks for the real one."""
    served = Hub(tmp_path / "hub")
    served.folder.mkdir()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = served.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": address + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    monkeypatch.chdir(tmp_path)
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture
def uploads(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is pushed lands in the hub's folder; calls must be ones that huggingface_hub takes."""
    calls: list[dict[str, Any]] = []
    create, upload = inspect.signature(HfApi.create_repo), inspect.signature(HfApi.upload_folder)

    def create_repo(self: HfApi, *args: Any, **kwargs: Any) -> Any:
        given = create.bind(self, *args, **kwargs).arguments
        calls.append({**given, "token": self.token})
        return SimpleNamespace(repo_id=given["repo_id"])

    def upload_folder(self: HfApi, *args: Any, **kwargs: Any) -> Any:
        given = upload.bind(self, *args, **kwargs).arguments
        calls.append(dict(given))
        for file in Path(given["folder_path"]).iterdir():
            (hub.folder / file.name).write_bytes(file.read_bytes())
        return SimpleNamespace(commit_url=f"https://hub/{given['repo_id']}/commit/{COMMIT}")

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    return calls


def test_probes_go_up_and_come_down(hub: Hub, uploads: list[dict[str, Any]]) -> None:
    model = tiny("bert")
    probes = quick("input", model)
    assert probes.push_to_hub(NAME, private=True, token="secret") == f"https://hub/{NAME}/commit/{COMMIT}"
    assert uploads[0]["private"] is True
    assert uploads[0]["exist_ok"] is True
    assert uploads[0]["token"] == "secret"
    assert sorted(file.name for file in hub.folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    assert f'whence.DiffMask.load("{NAME}")' in (hub.folder / "README.md").read_text()
    for name in (NAME, f"{NAME}@main", f"{NAME}@{COMMIT}"):
        assert same(whence.DiffMask.load(name), probes)
    found = whence.explain(model, SHORT, "diffmask", probes=NAME, layers="all")
    np.testing.assert_array_equal(found.scores, probes.explain(model, SHORT, layers="all").scores)


def test_shapley_probes_go_up_and_come_down(hub: Hub, uploads: list[dict[str, Any]]) -> None:
    model = tiny("bert")
    probes = quick_shares(model)
    probes.push_to_hub(NAME)
    assert f'whence.ShapleyProbes.load("{NAME}")' in (hub.folder / "README.md").read_text()
    assert same_shares(whence.ShapleyProbes.load(NAME), probes)
    found = whence.explain(model, SHORT, "one_pass", probes=NAME)
    np.testing.assert_array_equal(found.scores, probes.explain(model, SHORT).scores)


def test_only_config_and_weights_come_down(hub: Hub) -> None:
    quick("input", tiny("bert")).save(hub.folder)
    (hub.folder / "pytorch_model.bin").write_bytes(b"a pickle, perhaps")
    (hub.folder / "theirs.py").write_text("raise SystemExit")
    whence.DiffMask.load(NAME)
    fetched = {path.rsplit("/", 1)[1] for path in hub.asked if "/resolve/" in path}
    assert fetched == {"config.json", "model.safetensors"}


def test_the_fingerprint_is_checked(hub: Hub) -> None:
    quick("input", tiny("bert")).save(hub.folder)
    other = tiny("electra")
    problem, _ = complaint(whence.ModelError, whence.explain, other, SHORT, "diffmask", probes=NAME)
    assert problem.startswith("these probes were trained for")


def test_damaged_probes_are_refused(hub: Hub) -> None:
    quick("input", tiny("bert")).save(hub.folder)
    (hub.folder / "model.safetensors").write_bytes(b"\x80\x04 no tensors")
    problem, _ = complaint(whence.FileError, whence.DiffMask.load, NAME)
    assert "are damaged" in problem


def test_a_folder_goes_before_the_hub(hub: Hub, tmp_path: Path) -> None:
    probes = quick("input", tiny("bert"))
    probes.save(tmp_path / NAME)
    assert same(whence.DiffMask.load(NAME), probes)
    assert hub.asked == []


def test_what_is_neither_here_nor_there(hub: Hub) -> None:
    problem, advice = complaint(whence.FileError, whence.DiffMask.load, "somebody/nothing")
    assert problem.startswith(
        "no probes in 'somebody/nothing': there is no such folder, and the hub does not give it ("
    )
    assert advice == "give a folder that `whence fit` or save() wrote, or a hub id"
    assert any("somebody/nothing" in path for path in hub.asked)


def test_no_hub_no_probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine without a network; `HF_HUB_OFFLINE` is set in every test."""
    monkeypatch.chdir(tmp_path)
    problem, _ = complaint(whence.FileError, whence.ShapleyProbes.load, NAME)
    assert "the hub does not give it" in problem
    probes = quick("input", tiny("bert"))
    problem, advice = complaint(whence.FileError, probes.push_to_hub, NAME)
    assert problem.startswith(f"cannot put probes on the hub as {NAME!r}: ")
    assert advice == "give an id such as user/name, and log in first: hf auth login"


def test_the_command_takes_a_hub_id(hub: Hub, tmp_path: Path) -> None:
    model = tmp_path / "model"
    tiny_models.build("bert").save_pretrained(model)
    tiny_models.wordpiece().save_pretrained(model)
    quick("input", whence.load(model)).save(hub.folder)
    result = CliRunner().invoke(app, ["explain", SHORT, "--model", str(model), "--probes", NAME, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["method"] == "diffmask"
    assert COMMIT in found["options"]["probes"], "known by what they were, whatever the hub holds tomorrow"
