"""Answers that are compressed for clients that accept it."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_LEVEL = 5
_FROM_BYTES = 2_000


class LargeJson(Response):
    """A JSON document that may have megabytes. A large one is compressed in a thread."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await GZipMiddleware(super().__call__, _FROM_BYTES, _LEVEL)(scope, receive, send)


def accepts_gzip(request: Request) -> bool:
    """True if the client can decode gzip."""
    return dict(weights(request.headers.get("accept-encoding", ""))).get("gzip", 0.0) > 0


def weights(header: str) -> Iterator[tuple[str, float]]:
    """Yields what a header such as ``Accept`` lists, with its weights. One that cannot be read is 0."""
    for each in header.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        weight = next((it.removeprefix("q=") for it in parameters if it.startswith("q=")), "1")
        try:
            yield name, float(weight)
        except ValueError:
            yield name, 0.0
