"""`whence serve`: the live page and the JSON API."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from whence.cli.arguments import Debug, HeadName, Revision, TaskName, Trust
from whence.cli.progress import load_model
from whence.cli.reporting import errors_reported, say
from whence.errors import UsageError

if TYPE_CHECKING:
    from whence.models.layered import LayeredModel

SomeModels = Annotated[
    list[str] | None, Option("--model", "-m", metavar="M", help="A folder, a hub id or an embedded name; several too.")
]
Port = Annotated[int, Option("--port", metavar="N", min=0, max=65535, help="0 takes any that is free.")]
Host = Annotated[str, Option("--host", metavar="H", help="Where to listen; elsewhere than here needs --token.")]
AllowHost = Annotated[
    list[str] | None, Option("--allow-host", metavar="NAME", help="Another name that the server is called by.")
]
Token = Annotated[
    str | None,
    Option("--token", metavar="T", envvar="WHENCE_TOKEN", show_envvar=True, help="What a client must know."),
]
Characters = Annotated[
    int, Option("--max-characters", metavar="N", min=1, help="The longest text that a request may hold.")
]
JobSeconds = Annotated[float, Option("--max-seconds", metavar="S", min=1, help="What a long job may take.")]
Log = Annotated[Literal["nothing", "texts"], Option("--log", help="Whether texts that are asked about are logged.")]


def serve(
    model: SomeModels = None, port: Port = 8765, host: Host = "127.0.0.1", allow_host: AllowHost = None,
    token: Token = None, max_characters: Characters = 20_000, max_seconds: JobSeconds = 600, log: Log = "nothing",
    task: TaskName = None, revision: Revision = None, trust: Trust = False, head: HeadName = None, debug: Debug = False,
) -> None:  # fmt: skip
    """Explain while you type: a live page and a JSON API, for this machine alone unless you say otherwise.

    Several --model give a choice; --task, --revision and --head go with every one.
    """
    with errors_reported(debug):
        _check(host, token)
        try:
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError as error:
            raise UsageError(f"the server needs {error.name}", "pip install 'whence[web]'") from error
        import logging
        import socket

        from whence.serving.app import make_app
        from whence.serving.guard import LOOPBACK, Guard
        from whence.serving.jobs import Jobs
        from whence.serving.limits import Limits
        from whence.serving.models import Models, ServedModel
        from whence.serving.running import listen, serve_until, server_of
        from whence.serving.work import apart

        logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if log == "texts" else logging.WARNING)
        limits = Limits(characters=max_characters, job_seconds=max_seconds)
        names = _names(model or ["sentiment", "topic"])
        listening = listen(host, port)  # before models are loaded, which may take long

        def loaded(source: str, name: str) -> LayeredModel:
            return _called(name, load_model(source, task, revision, head, trust=trust))

        def served(source: str, name: str) -> ServedModel:
            return ServedModel(name, loaded(source, name), loaded(source, name), limits)

        models = Models([apart(partial(served, source, name)) for source, name in names.items()])
        jobs = Jobs(limits)
        elsewhere = () if host in LOOPBACK else (host.lower(), socket.gethostname().lower())
        hosts = dict.fromkeys([*LOOPBACK, *elsewhere, *(name.lower() for name in allow_host or ())])
        app = Guard(make_app(models, jobs, limits, log_texts=log == "texts"), list(hosts), limits, token)
        listening.listen()
        address = f"http://{host}:{listening.getsockname()[1]}/"
        say(f"whence serves {', '.join(names.values())} at {address}{f'?token={token}' if token else ''}")
        say("Ctrl-C ends it")

        serve_until(server_of(app, limits), listening, jobs.close)


def _check(host: str, token: str | None) -> None:
    """Before anything is loaded: whoever can reach the server must know the token."""
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):
        raise UsageError("a token has at least 16 letters, digits, - or _", f"for instance --token {_any_token()}")
    if token is None and host not in ("127.0.0.1", "localhost", "[::1]", "::1"):
        raise UsageError(f"others can reach {host}, so they must know a token", f"for instance --token {_any_token()}")


def _any_token() -> str:
    import secrets

    return secrets.token_urlsafe(18)


def _names(sources: list[str]) -> dict[str, str]:
    """The models by what they are given as, each with the name that requests use: of a folder its own, without the
    way there."""
    found: dict[str, str] = {}
    for source in sources:
        name = Path(source).name if Path(source).exists() or source.startswith(("/", ".", "~")) else source
        if name in found.values():
            raise UsageError(f"two models are called {name!r}", "give each folder a name of its own")
        found[source] = name
    return found


def _called(name: str, model: LayeredModel) -> LayeredModel:
    """The model under that name in all that is told of it: no client learns where it lies."""
    from dataclasses import replace

    if model.record.embedded is not None:
        return model
    return replace(model, record=replace(model.record, id=name))
