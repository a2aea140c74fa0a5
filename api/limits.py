"""Limits to what one client, or many, may take of the server."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.api.problems import ProblemError

LARGEST_BODY = 16 << 20
"""10,000 keys of 1600 bytes each."""
LARGEST_HEAD = 384 << 10
"""Request line and headers: room for a position of 100,000 characters, percent-encoded."""


class LimitedBodies:
    """A body that is larger than that is not read to its end, and answered with 413."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise HTTPException(413, f"a body may have {LARGEST_BODY} bytes: send fewer keys at once")
            return message

        await self._app(scope, limited, send)


class LimitedHeads(HttpToolsProtocol):
    """A connection whose request line and headers do not come to an end is closed, after an answer that says so."""

    _head = 0
    _in_body = False

    def data_received(self, data: bytes) -> None:
        """What has come of a head is counted here, for the parser keeps all of it."""
        if not self._in_body:
            self._head += len(data)
        super().data_received(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"Request line and headers may have {LARGEST_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        """The parser has taken the head."""
        self._head, self._in_body = 0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The parser has taken the body."""
        self._in_body = False
        super().on_message_complete()


class Rate:
    """At most ``per_second`` of something, of which a second's worth may come at once."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._at = float(per_second), clock()

    def wait_s(self) -> float:
        """Takes one and gives 0; where none is left, how long it is until there is one."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self._per_second, self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0


async def one_more_range(request: Request) -> None:
    """A dependency of the routes that scan stores, or ask every task: raises when there are too many of them."""
    wait_s = request.app.state.ranges.wait_s()
    if wait_s:
        raise ProblemError(
            429,
            "too-many-ranges",
            "Too many ranges are asked for",
            "ranges of all keys, and look-ups of many keys at once, are limited by "
            "application.server.max.ranges.per.second for all clients together: ask again a little later",
            retry_after_s=max(1, math.ceil(wait_s)),
        )


RANGES = "Too many ranges a second, of all clients together; see Retry-After"
