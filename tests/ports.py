"""Ports for tests of addresses at which no server listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def closed_port() -> Iterator[int]:
    """Yields a port of the loopback that refuses connections. No other process can get it before the block ends. A
    server that sets ``SO_REUSEADDR``, as asyncio's do, can listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))  # and does not listen
        yield holder.getsockname()[1]
