"""Connections: how long each may take for what, and how many there may be.

uvicorn gives a client all the time that it wants, for a head, for a body, and for reading an answer. Here a client that
does not get on is dropped, and while there are too many connections, those that have waited longest for their clients.
So clients that stall take no place from others, however many they are.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from penstock.api.limits import BODY_S

LARGEST_HEAD = 384 << 10
"""Request line and headers: room for a position of 100,000 characters, percent-encoded."""
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
    """The connections that there may be: half of the files that the process may open, so that the rest has its own."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, files // 2)


class Connection(HttpToolsProtocol):
    """One client's connection."""

    most = _MOST_CONNECTIONS
    """The connections that there may be; a server sets it to :func:`most_connections`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0
        self._in_body = False
        self._since_s = self.loop.time()
        self._unread = 0
        self._unread_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            make_room(cast("set[Connection]", self.connections), self.most)

    def data_received(self, data: bytes) -> None:
        """Counts here the bytes of a head, all of which the parser keeps."""
        if not self._in_body:
            if not self._head:
                self._since_s = self.loop.time()
            self._head += len(data)
        super().data_received(data)
        if self._head > LARGEST_HEAD and not self.transport.is_closing():
            self._refuse(HTTPStatus.BAD_REQUEST, f"Request line and headers may have {LARGEST_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        """The parser has taken the head."""
        self._head, self._in_body = 0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The parser has taken the body."""
        self._in_body = False
        super().on_message_complete()

    @property
    def waits_for_client(self) -> bool:
        """True if the server has nothing to do for it: no request has arrived whole, or all are answered."""
        return self._in_body or self.cycle is None or self.cycle.response_complete

    @property
    def since_s(self) -> float:
        """Since when it has its last request, or waits for its first: a time of the event loop."""
        return self._since_s

    @property
    def unread(self) -> int:
        """Bytes of answers that its client has not read."""
        return self._unread

    def look(self, now_s: float) -> None:
        """Drop it if its client does not get on."""
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
        """End it, without regard to what its client has not read."""
        self._unread = 0
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(why)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + why.encode())
        self.transport.close()


def look_at(connections: Iterable[Connection], now_s: float) -> None:
    """Drop those of ``connections`` whose clients do not get on, and, while too much waits to be read, those that wait
    longest. To be called once a second; ``now_s`` is the event loop's time."""
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


def make_room(connections: set[Connection], most: int) -> None:
    """Drop a share of ``connections``: those that have waited longest for their clients. Those that wait for the server
    are kept."""
    waiting = sorted((each for each in connections if each.waits_for_client), key=lambda each: each.since_s)
    for connection in waiting[: len(connections) - int(most * _SPARED)]:
        connections.discard(connection)
        connection.drop()
