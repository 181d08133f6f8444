"""Who may ask, and how much: checked before a request reaches anything else.

A page of another site can send requests to a server on the reader's own machine, by its address or by a name that it
makes point there. So names of hosts are checked, and where a page came from. Bodies are read here, within bounds of
size and time, and what is sent back says what a browser may do with it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from whence.serving.limits import Limits, told

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "whence_token"
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of what is no page: a browser that shows it loads and runs nothing."""


@dataclass(frozen=True)
class Guard:
    """The server's app behind its checks. `hosts` are the names that it answers to, `token` what a client must know."""

    app: App
    hosts: Collection[str]
    limits: Limits
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        answer = _Answer(send, self.limits.patience)
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers[name] = value if name not in headers else headers[name] + b", " + value
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await answer.refuse(*refusal)
            return
        if self.token is not None and not self._knows_the_token(headers):
            given = _in_address(scope)
            if given and scope["path"] == "/" and self._is_the_token(given):
                await answer.welcome(given)
            else:
                await answer.refuse(401, "this server asks for its token", "open the address that it printed")
            return
        try:
            async with asyncio.timeout(self.limits.patience):
                body = await self._body(receive)
        except TimeoutError:
            await answer.refuse(408, "the request did not come to an end", "send it faster")
            return
        if body is None:
            await answer.refuse(413, "the request is too large", f"at most {self.limits.body:,} bytes are read")
            return
        await _while_there(receive, lambda receive: self._answered(scope, _replayed(body, receive), answer))

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            await self.app(scope, receive, answer)
        except Exception as error:  # what it says may quote a text, so it goes no further
            seen = told(error)
            if not answer.begun:
                await answer.refuse(500, seen.problem, seen.advice)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if _name_of(host) not in self.hosts:
            return 403, "this server does not go by that name", f"it answers to {', '.join(self.hosts)}"
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.decode("latin-1") not in (f"http://{host}", f"https://{host}")
        if foreign or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            if scope["method"] in ("GET", "HEAD") and scope["path"] == "/" and not foreign:
                return None  # a link to the page itself
            return 403, "another site may not ask this server", "open the server's own page"
        if scope["method"] == "POST" and not headers.get(b"content-type", b"").startswith(b"application/json"):
            return 415, "the request is not JSON", "send it as application/json"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.limits.body:
            return 413, "the request is too large", f"at most {self.limits.body:,} bytes are read"
        return None

    def _knows_the_token(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() == "bearer" and self._is_the_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._is_the_token(cookie.value)

    def _is_the_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole of it, or None if it is too large."""
        parts: list[bytes] = []
        length = 0
        while True:
            event = await receive()
            if event["type"] != "http.request":  # the client has left
                return b""
            parts.append(event.get("body", b""))
            length += len(parts[-1])
            if length > self.limits.body:
                return None
            if not event.get("more_body", False):
                return b"".join(parts)


class _Answer:
    """What is sent, with what a browser must know; a client that does not take it within its time is let go."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send, self._patience = send, patience
        self.begun = False

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self.begun = True
            own = {name.lower() for name, _ in event["headers"]}
            usual = [
                (b"content-security-policy", NOTHING.encode()),
                (b"x-content-type-options", b"nosniff"),
                (b"referrer-policy", b"no-referrer"),
                (b"cache-control", b"no-store"),
                (b"cross-origin-opener-policy", b"same-origin"),
                (b"cross-origin-resource-policy", b"same-origin"),
            ]
            more = [(name, value) for name, value in usual if name not in own]
            event = {**event, "headers": [*event["headers"], *more]}
        async with asyncio.timeout(self._patience):
            await self._send(event)

    async def refuse(self, status: int, problem: str, advice: str) -> None:
        """Say no and hang up: what the client may still send is not read."""
        body = json.dumps({"problem": problem, "advice": advice}).encode()
        await self._whole(status, body, [(b"connection", b"close")])

    async def welcome(self, token: str) -> None:
        """The token goes from the address into a cookie, so that it stands in no history and no link."""
        cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
        await self._whole(303, b"", [(b"location", b"/"), (b"set-cookie", cookie.encode())])

    async def _whole(self, status: int, body: bytes, more: list[tuple[bytes, bytes]]) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


async def _while_there(receive: Receive, work: Callable[[Receive], Awaitable[None]]) -> None:
    """Do something for a client; it ends when the client leaves, which is all that comes after a whole request."""
    mine = asyncio.current_task()
    assert mine is not None
    next_event = asyncio.ensure_future(receive())
    gone = False

    def leave(_: asyncio.Future[Event]) -> None:
        nonlocal gone
        gone = True
        mine.cancel()

    async def leaving() -> Event:
        return await asyncio.shield(next_event)

    next_event.add_done_callback(leave)
    try:
        await work(leaving)
    except asyncio.CancelledError:
        if not gone:
            raise
    finally:
        next_event.remove_done_callback(leave)
        next_event.cancel()


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _in_address(scope: Scope) -> str:
    """The token as the address holds it."""
    return str(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever the client does next."""
    read = False

    async def again() -> Event:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
