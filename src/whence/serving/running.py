"""A server on a socket: how many connections it holds, how long it waits for a slow client, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import warnings
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from whence.errors import UsageError, WhenceWarning
from whence.serving.guard import App
from whence.serving.limits import Limits

LONGEST_HEAD = 16 * 1024
"""Bytes of a request before its body."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def listen(host: str, port: int) -> socket.socket:
    """A socket there; 0 takes any port that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # of TCP by name: asyncio sends what it has at once only on such sockets; else every answer waits 40 ms
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host.strip("[]"), port))
    except OSError as error:
        found.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}", "choose another --port") from error
    return found


def server_of(app: App, limits: Limits) -> uvicorn.Server:
    """The server that `run` of a socket starts, not yet running."""
    config = uvicorn.Config(
        app,
        http=_bounded(limits),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        backlog=256,
    )
    return uvicorn.Server(config)


def _bounded(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol of connections that are counted, and closed where a client begins a request and does not go on."""

    class Bounded(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) >= limits.connections:
                transport.write(FULL)
                transport.close()
                return
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            if self.transport is not None:
                super().data_received(data)
                self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._late is not None:
                self._late.cancel()
            if self.transport is not None:
                super().connection_lost(exc)

        def _expect(self) -> None:
            """While no request is being answered, the head of one must come within the client's time."""
            answering = self.cycle is not None and not self.cycle.response_complete
            if answering and self._late is not None:
                self._late.cancel()
                self._late = None
            elif not answering and self._late is None:
                self._late = self.loop.call_later(limits.patience, self.transport.close)

    return Bounded


def serve_until(server: uvicorn.Server, listening: socket.socket, ended: Callable[[], None]) -> None:
    """Serve until Ctrl-C, then tell those that still work. Warnings travel with explanations, and are not printed: they
    begin with the text."""
    warnings.filterwarnings("ignore", category=WhenceWarning)
    try:
        server.run(sockets=[listening])
    finally:
        ended()
