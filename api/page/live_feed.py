"""The source of live streams: asks for the status once a second for all clients together, if there are any."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import cast

from penstock.api.encoding import shown_json
from penstock.api.page.deltas import Delta, Document, delta_of
from penstock.api.page.live_view import VERSION, LiveView, findings_rows
from penstock.api.problems import ProblemError
from penstock.cluster.findings import Finding, Level
from penstock.cluster.read_side import ReadSide
from penstock.common.errors import StreamsError
from penstock.common.log import logger

MOST_STREAMS = 32
"""Number of live streams of one server."""
ASK_EVERY_S = 1.0
HEARTBEAT_S = 15.0
_HEARTBEAT = b": still here\n\n"
_RETRY_S = 5


class LiveFeed:
    """The live document of one application, kept up to date while there are clients. Belongs to one event loop."""

    def __init__(self, queries: ReadSide) -> None:
        self._queries = queries
        self._view = LiveView()
        self._document: Document | None = None
        self._version = 0
        self._places = 0
        self._clients = 0
        self._poller: asyncio.Task[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._ended = False
        self._silent_since_ms: int | None = None
        self._encoded: dict[tuple[int, bool], bytes] = {}
        self._log = logger(__name__)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Holds a place for one stream. Raises ProblemError if none is free."""
        if self._places >= MOST_STREAMS:
            detail = f"{MOST_STREAMS} live streams are open already: close a page of the application, or ask again"
            raise ProblemError(503, "too-many-streams", "Too many live streams", detail, retry_after_s=_RETRY_S)
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    def end(self) -> None:
        """End all streams, now and from now on: the server stops."""
        self._ended = True
        if self._poller is not None:
            self._poller.cancel()
        self._tell()

    async def events(self, may_operate: bool) -> AsyncGenerator[bytes]:
        """Yields the events of one stream, until the server stops. A client that takes its time gets the difference to
        what it has got last: nothing is queued for it."""
        self._clients += 1
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())
        sent: tuple[int, Document] | None = None
        try:
            while not self._ended:
                if self._document is None or (sent is not None and sent[0] == self._version):
                    if not await self._wait():
                        yield _HEARTBEAT
                    continue
                now = self._version, self._document
                if event := self._event(sent, now, may_operate):
                    yield event
                sent = now
        finally:
            self._clients -= 1
            if not self._clients and self._poller is not None:
                self._poller.cancel()
                # Nothing of then is of now: the next client waits for a document, whose rates begin again.
                self._poller = self._document = self._silent_since_ms = None
                self._view = LiveView()

    async def _wait(self) -> bool:
        """Returns True when there is something new, and False if there is nothing for a while."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait({self._news}, timeout=HEARTBEAT_S)
        return bool(done)

    def _event(self, sent: tuple[int, Document] | None, now: tuple[int, Document], may_operate: bool) -> bytes:
        key = 0 if sent is None else sent[0], may_operate
        if key not in self._encoded:  # clients that keep up share it
            rows: Document | Delta = now[1] if sent is None else delta_of(sent[1], now[1])
            if it := rows.get("application", {}).get("it"):
                rows = cast(Document, {**rows, "application": {"it": {**it, "may_operate": may_operate}}})
            kind = b"whole" if sent is None else b"changes"
            self._encoded[key] = b"event: %b\ndata: %b\n\n" % (kind, shown_json(rows)) if rows else b""
        return self._encoded[key]

    async def _poll(self) -> None:
        while True:
            began_s = time.monotonic()
            await self._look()
            await asyncio.sleep(max(0.0, ASK_EVERY_S - (time.monotonic() - began_s)))

    async def _look(self) -> None:
        try:
            status = await self._queries.status()
            document = self._view.document(status, time.monotonic(), _now_ms())
        except StreamsError as error:
            self._is_silent(f"The coordinator does not answer: {error}")
        except Exception as error:  # whatever Ray raises: the next look may succeed
            if self._silent_since_ms is None:
                self._log.error("the live stream has no figures", exc_info=error)
            self._is_silent(f"There are no figures ({type(error).__name__}): the log of the HTTP server explains it")
        else:
            self._silent_since_ms = None
            self._publish(document)

    def _is_silent(self, sentence: str) -> None:
        """Show that no status comes; the other rows remain as they were."""
        if self._silent_since_ms is None:
            self._silent_since_ms = _now_ms()
        before: Document = self._document or {}
        unknown = {"application_id": self._queries.application_id, "penstock_version": VERSION}
        it = {**before.get("application", {}).get("it", unknown), "silent_since_ms": self._silent_since_ms}
        found = findings_rows([Finding(Level.FAULT, sentence, "silent", since_ms=self._silent_since_ms)])
        self._publish({**before, "application": {"it": it}, "findings": found})

    def _publish(self, document: Document) -> None:
        if document != self._document:
            self._document = document
            self._version += 1
            self._encoded.clear()
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
