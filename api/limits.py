"""Limits of the resources that one client, or all together, may use. ``connections.py`` has those of connections."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from types import TracebackType

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from penstock.api.problems import ProblemError

LARGEST_BODY = 16 << 20
"""Largest body of a request, in bytes: 10,000 keys of 1600 bytes each."""
LARGEST_BODIES = 64 << 20
"""Largest size of all bodies that arrive or are being answered, in bytes."""
BODY_S = 30.0
"""Seconds from the end of a head to the end of its body."""


class Places:
    """The requests that wait for their answers, at most ``most``. A request takes its place when it has arrived
    completely: one whose body never comes takes none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    def refusal(self) -> ProblemError | None:
        """Returns the refusal of one more request; None while a place is free."""
        if self._taken < self._most:
            return None
        detail = f"{self._most} requests wait for their answers already (application.server.max.waiting.queries)"
        return ProblemError(503, "too-many-waiting", "Too many requests wait", detail, retry_after_s=1)

    def __enter__(self) -> None:
        """Take a place. Raises ProblemError if none is free."""
        problem = self.refusal()
        if problem is not None:
            raise problem
        self._taken += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the place back."""
        self._taken -= 1


class Bodies:
    """The bytes of all bodies that are read or answered at a time, at most ``most``."""

    def __init__(self, most: int | None = None) -> None:
        self._free = LARGEST_BODIES if most is None else most

    async def read(self, request: Request) -> Body:
        """Returns the body of ``request``, whose bytes count until it is closed. Raises ProblemError: 413 for a body
        that is too large, at once if the head shows its size; 503 if all bodies together are too large; 408 for one
        that does not arrive in time; 400 for one that the client breaks off.
        """
        given = request.headers.get("content-length", "0")
        if given.isdecimal() and int(given) > LARGEST_BODY:
            raise _too_large()
        body = Body(self)
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in request.stream():
                    body.add(chunk)
        except BaseException as error:
            body.close()
            if isinstance(error, TimeoutError):
                detail = f"the body has not arrived within {BODY_S:.0f} s of the head: send it at once"
                raise ProblemError(408, "body-too-slow", "The body does not arrive", detail) from None
            if isinstance(error, ClientDisconnect):
                detail = "the connection ended before the body did"
                raise ProblemError(400, "body-incomplete", "The body is incomplete", detail) from None
            raise
        return body

    def take(self, count: int) -> None:
        """Count ``count`` more bytes. Raises ProblemError if that is too many."""
        if count > self._free:
            detail = "the bodies that are being sent by all clients together are too large: ask again a little later"
            raise ProblemError(503, "too-many-bodies", "Too many large requests", detail, retry_after_s=1)
        self._free -= count

    def give_back(self, count: int) -> None:
        """Count ``count`` bytes no longer."""
        self._free += count


class Body:
    """One body, as far as it has arrived."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take in a part of the body. Raises ProblemError if that is too much."""
        if self._size + len(chunk) > LARGEST_BODY:
            raise _too_large()
        self._bodies.take(len(chunk))
        self._size += len(chunk)
        self._chunks.append(chunk)

    async def receive(self) -> Message:
        """Returns the body as ASGI gives it to a route, which reads it once."""
        chunks, self._chunks = self._chunks, []
        return {"type": "http.request", "body": b"".join(chunks), "more_body": False}

    def close(self) -> None:
        """Count the bytes of the body no longer. Idempotent."""
        self._bodies.give_back(self._size)
        self._size = 0


def _too_large() -> ProblemError:
    detail = f"a body may have {LARGEST_BODY} bytes: send fewer keys at once"
    return ProblemError(413, "request-entity-too-large", "Request Entity Too Large", detail)


class Rate:
    """At most ``per_second`` of something, of which a second's worth may come at once."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._at = float(per_second), clock()

    def wait_s(self) -> float:
        """Takes one and returns 0; if none is left, returns the seconds until there is one."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self._per_second, self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0


def one_more_range(ranges: Rate) -> None:
    """Count a request that scans a store, or asks every task. Raises ProblemError if there are too many of them."""
    wait_s = ranges.wait_s()
    if wait_s:
        raise ProblemError(
            429,
            "too-many-ranges",
            "Too many ranges are requested",
            "ranges of all keys, and look-ups of many keys at once, are limited by "
            "application.server.max.ranges.per.second for all clients together: ask again a little later",
            retry_after_s=max(1, math.ceil(wait_s)),
        )


RANGES = "Too many ranges a second, of all clients together; see Retry-After"
