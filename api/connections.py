"""Limits of connections: their time, their number, and the bytes and requests that the server holds for each.

uvicorn has no time limits for sending a head or a body, or for reading an answer. It also keeps every header, every
trailer and every pipelined request that arrives. Here a client that makes no progress is dropped. While there are too
many connections, those that have waited longest for their clients are dropped. While all heads together are too large,
the connections with the largest heads are dropped. So clients that stall or flood do not block others.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from penstock.api.limits import BODY_S

LARGEST_HEAD = 384 << 10
"""Request line and headers: room for a position of 100,000 characters, percent-encoded."""
LARGEST_HEADS = 128 << 20
"""Heads of all requests that arrive, wait or are being answered, in bytes received."""
MOST_HEADERS = 200
"""Headers and trailers of one request. One of 4 bytes takes about 30 times as much memory."""
MOST_PIPELINED = 16
"""Requests of one connection that wait for the answers to earlier ones."""
HEAD_S = 10.0
"""Time from the first byte of a head, or from the beginning of the connection, to the end of the head."""
READING_S = 30.0
"""Time without any progress for a client that is to read its answer."""
LARGEST_UNREAD = 256 << 20
"""Bytes of answers that wait for their clients to read them."""
_SPARED = 0.9
"""The share of the connections that are kept when there are too many."""
_MOST_CONNECTIONS = 10_000


def most_connections() -> int:
    """Returns the maximum number of connections: half of the files that the process may open, so that its other parts
    can open the rest."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, files // 2)


class Connection(HttpToolsProtocol):
    """One client's connection."""

    most = _MOST_CONNECTIONS
    """The maximum number of connections; a server sets it to :func:`most_connections`."""
    heads: ClassVar[int] = 0
    """Bytes of heads that all connections of the process hold."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0
        self._held = 0
        self._headers = 0
        self._in_body = False
        self._since_s = self.loop.time()
        self._unread = 0
        self._unread_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Called when a client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            make_room(cast("set[Connection]", self.connections), self.most)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection has ended."""
        self._hold(-self._held)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts the bytes that are not part of a body: the parser or the request keeps all of them."""
        if not self._in_body and not self._head:
            self._since_s = self.loop.time()
        self._head += len(data)
        self._hold(len(data))
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head > LARGEST_HEAD:
            self._refuse(HTTPStatus.BAD_REQUEST, f"Request line and headers may have {LARGEST_HEAD} bytes.")
        elif Connection.heads > LARGEST_HEADS:
            drop_largest_heads(cast("set[Connection]", self.connections))

    def on_message_begin(self) -> None:
        """Called at the first byte of a request. Raises ValueError if too many wait: the connection ends."""
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError(f"more than {MOST_PIPELINED} requests wait for their answers")
        self._headers = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called after each header or trailer. Raises ValueError if there are too many: the connection ends."""
        self._headers += 1
        if self._headers > MOST_HEADERS:
            raise ValueError(f"more than {MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Called after the head."""
        self._head, self._in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called after a part of the body, whose bytes ``limits.Bodies`` counts."""
        self._head = 0
        self._hold(-min(len(body), self._held))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called after the body and the trailers."""
        self._head, self._in_body = 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called when the answer is written: the server forgets the request."""
        if not self.pipeline:
            self._hold(self._head - self._held)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuses bytes that are no request. While the answer to an earlier request is under way, drops the connection
        instead."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.drop()

    @property
    def held(self) -> int:
        """Bytes of heads that its requests hold."""
        return self._held

    @property
    def waits_for_client(self) -> bool:
        """True if the server has nothing to do for it: no request has arrived completely, or all are answered."""
        return self._in_body or self.cycle is None or self.cycle.response_complete

    @property
    def since_s(self) -> float:
        """Time of the event loop at which its last request arrived, or since which it waits for its first one."""
        return self._since_s

    @property
    def unread(self) -> int:
        """Bytes of answers that its client has not read."""
        return self._unread

    def look(self, now_s: float) -> None:
        """Drop it if its client makes no progress."""
        waiting = self.transport.get_write_buffer_size()
        if waiting != self._unread:
            self._unread, self._unread_since_s = waiting, now_s
        if waiting and now_s - self._unread_since_s > READING_S:
            self.drop()
        elif self._in_body:
            # The route answers before that, if it reads the body.
            if now_s - self._since_s > HEAD_S + 2 * BODY_S:
                self.drop()
        elif self.waits_for_client and (self._head or self.cycle is None) and now_s - self._since_s > HEAD_S:
            if self._head and not self.transport.is_closing():
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"The head has not arrived within {HEAD_S:.0f} s.")
            self.drop()

    def drop(self) -> None:
        """End it, even if its client has not read everything."""
        self._unread = 0
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _hold(self, count: int) -> None:
        self._held += count
        Connection.heads += count

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(why)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + why.encode())
        self.transport.close()


def look_at(connections: Iterable[Connection], now_s: float) -> None:
    """Drop those of ``connections`` whose clients make no progress, and, while answers that wait to be read are too
    large, those that wait longest. To be called once a second; ``now_s`` is the event loop's time."""
    found = list(connections)
    for connection in found:
        connection.look(now_s)
    unread = sum(connection.unread for connection in found)
    for connection in sorted(found, key=lambda each: each.since_s):
        if unread <= LARGEST_UNREAD:
            break
        unread -= connection.unread
        if connection.unread:
            connection.drop()


def drop_largest_heads(connections: set[Connection]) -> None:
    """Drop the connections with the largest heads, until a tenth of ``LARGEST_HEADS`` is free."""
    left = Connection.heads
    for connection in sorted(connections, key=lambda each: each.held, reverse=True):
        if left <= _SPARED * LARGEST_HEADS:
            break
        left -= connection.held
        connection.drop()


def make_room(connections: set[Connection], most: int) -> None:
    """Drop a share of ``connections``: those that have waited longest for their clients. Those that wait for the server
    are kept."""
    waiting = sorted((each for each in connections if each.waits_for_client), key=lambda each: each.since_s)
    for connection in waiting[: len(connections) - int(most * _SPARED)]:
        connections.discard(connection)
        connection.drop()
