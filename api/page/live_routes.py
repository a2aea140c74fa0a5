"""The live stream of the page, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from penstock.api.asking import APPLICATION, INVALID, UNKNOWN_APPLICATION, App, check
from penstock.api.compression import accepts_gzip
from penstock.api.guard import may_operate
from penstock.api.page.gzip_events import gzipped
from penstock.api.page.live_bodies import LiveDocument
from penstock.api.page.live_feed import LiveFeed
from penstock.api.problems import documented
from penstock.cluster.read_side import ReadSide

_SCHEMAS = "#/components/schemas/"
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["whole", "changes"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": f"{_SCHEMAS}LiveDocument"},
        },
    },
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. `whole`: the document. `changes`: its changed rows, whole, by section and "
        "id; null for a row that is gone. A comment line each 15 s.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    }
}


class LiveResponse(StreamingResponse):
    """Events until the client or the server ends the stream."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], feed: LiveFeed, compressed: bool) -> None:
        # A proxy must neither keep it nor wait for its end.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
        if compressed:
            headers["Content-Encoding"] = "gzip"
            events = gzipped(events)
        super().__init__(events, headers=headers)
        self._events = events
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI. Raises ProblemError before it sends anything if there are too many streams."""
        # The first event comes later: requests that arrive together must not all find the same place free.
        with self._feed.place():
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Sends the events; when it ends, for whatever reason, the feed has one client less at once."""
        async with aclosing(self._events):
            await super().stream_response(send)


def add_to(app: FastAPI, queries: ReadSide, feed: LiveFeed) -> None:
    """Add the route."""
    full = documented({404: UNKNOWN_APPLICATION, 422: INVALID, 503: "Too many streams are open; see Retry-After"})

    @app.get(
        APPLICATION + "/live",
        tags=["page"],
        status_code=200,
        response_class=LiveResponse,
        responses={**_STREAM, **full},
    )
    async def live(app: App, request: Request) -> Response:
        """Everything that the page shows of the application, then its changes once a second, without an end. To be read
        by ``fetch``, which sends ``Authorization``; after a reconnect the whole document comes again."""
        check(queries, app)
        return LiveResponse(feed.events(may_operate(request)), feed, accepts_gzip(request))

    described = app.openapi

    def openapi() -> dict[str, Any]:
        schema = described()
        document = LiveDocument.model_json_schema(ref_template=_SCHEMAS + "{model}")
        rows = document.pop("$defs", {})
        schema["components"]["schemas"] |= {**rows, "LiveDocument": document}
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way: it describes no text of events
